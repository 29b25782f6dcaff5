// What the page shows, kept in the address behind "#": it can be shared, and as browsers never send
// that part, no id of a person gets into a server's log.

export const LOWEST = 0.5;
export const HIGHEST = 0.99;

export function read() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const user = asked.get("user");
  const confidence = Number(asked.get("confidence"));
  const members = asked.getAll("member").map(readMember).filter(Boolean);
  let mode = user === null ? "history" : "user";
  if (members.length) mode = "group";
  return {
    mode,
    members,
    group_guarantee: asked.get("group_guarantee") ?? "",
    user: user ?? "",
    history: asked.getAll("item"),
    recommender: asked.get("recommender"),
    beside: asked.get("beside") ?? "",
    among: asked.get("among") ?? "",
    precision: Number(asked.get("precision")) || 0.3,
    confidence:
      confidence > 0 && confidence < 1 ? Math.min(HIGHEST, Math.max(LOWEST, confidence)) : 0.9,
  };
}

// "user:196", or "items:50,172" with each id encoded, as ids may hold commas.
function readMember(text) {
  const [kind, rest] = [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)];
  if (kind === "user" && rest) return { user: rest };
  if (kind === "items") return { history: rest.split(",").filter(Boolean).map(decoded) };
  return null;
}

// A link that was cut or typed may hold a "%" that encodes nothing: then it stands for itself.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const writeMember = (member) =>
  member.user === undefined ? `items:${member.history.map(encodeURIComponent).join(",")}` : `user:${member.user}`;

export function write(state) {
  const told = new URLSearchParams();
  if (state.mode === "group") {
    for (const member of state.members) told.append("member", writeMember(member));
    if (state.group_guarantee) told.set("group_guarantee", state.group_guarantee);
  } else if (state.mode === "user") {
    if (state.user) told.set("user", state.user);
  } else {
    for (const item of state.history) told.append("item", item);
  }
  if (state.recommender) told.set("recommender", state.recommender);
  if (state.beside) told.set("beside", state.beside);
  if (state.among) told.set("among", state.among);
  told.set("precision", String(state.precision));
  told.set("confidence", String(state.confidence));
  history.replaceState(null, "", `#${told}`);
}

export function isAbout(state) {
  if (state.mode === "group") {
    return state.members.length > 1 && state.members.every((member) => member.history?.length !== 0);
  }
  return state.mode === "user" ? state.user !== "" : state.history.length > 0;
}

// The person and the recommender, as the API takes them: a copy, which stays as it was asked.
export function asked(state) {
  if (state.mode === "group") {
    const promised = state.group_guarantee ? { group_guarantee: state.group_guarantee } : {};
    return { group: structuredClone(state.members), recommender: state.recommender, ...promised };
  }
  const who = state.mode === "user" ? { user: state.user } : { history: [...state.history] };
  const among = state.among ? { item_list: state.among } : {};
  return { ...who, recommender: state.recommender, ...among };
}
