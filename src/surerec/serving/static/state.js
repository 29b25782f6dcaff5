// What the page shows, kept in the address behind "#": it can be shared, and as browsers never send
// that part, no id of a person gets into a server's log.

export const LOWEST = 0.5;
export const HIGHEST = 0.99;

export function read() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const user = asked.get("user");
  const confidence = Number(asked.get("confidence"));
  return {
    mode: user === null ? "history" : "user",
    user: user ?? "",
    history: asked.getAll("item"),
    recommender: asked.get("recommender"),
    among: asked.get("among") ?? "",
    precision: Number(asked.get("precision")) || 0.3,
    confidence:
      confidence > 0 && confidence < 1 ? Math.min(HIGHEST, Math.max(LOWEST, confidence)) : 0.9,
  };
}

export function write(state) {
  const told = new URLSearchParams();
  if (state.mode === "user") {
    if (state.user) told.set("user", state.user);
  } else {
    for (const item of state.history) told.append("item", item);
  }
  if (state.recommender) told.set("recommender", state.recommender);
  if (state.among) told.set("among", state.among);
  told.set("precision", String(state.precision));
  told.set("confidence", String(state.confidence));
  history.replaceState(null, "", `#${told}`);
}

export const isAbout = (state) =>
  state.mode === "user" ? state.user !== "" : state.history.length > 0;

// The person and the recommender, as the API takes them.
export function asked(state) {
  const who = state.mode === "user" ? { user: state.user } : { history: state.history };
  const among = state.among ? { among: state.among } : {};
  return { ...who, recommender: state.recommender, ...among };
}
