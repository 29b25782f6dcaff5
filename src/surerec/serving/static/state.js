// State of the page, kept in the fragment of the address. It can be shared, and browsers do not send
// fragments, so that no user id gets into a server log.

export const LOWEST = 0.5;
export const HIGHEST = 0.99;

export function read() {
  const query = new URLSearchParams(location.hash.slice(1));
  const user = query.get("user");
  const confidence = Number(query.get("confidence"));
  const members = query.getAll("member").map(readMember).filter(Boolean);
  let mode = user === null ? "history" : "user";
  if (members.length) mode = "group";
  return {
    mode,
    members,
    group_guarantee: query.get("group_guarantee") ?? "",
    user: user ?? "",
    history: query.getAll("item"),
    recommender: query.get("recommender"),
    compare: query.get("compare") ?? "",
    itemList: query.get("item_list") ?? "",
    precision: Number(query.get("precision")) || 0.3,
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

// A truncated or edited link may contain an invalid "%" sequence, which is kept as it is.
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
  const params = new URLSearchParams();
  if (state.mode === "group") {
    for (const member of state.members) params.append("member", writeMember(member));
    if (state.group_guarantee) params.set("group_guarantee", state.group_guarantee);
  } else if (state.mode === "user") {
    if (state.user) params.set("user", state.user);
  } else {
    for (const item of state.history) params.append("item", item);
  }
  if (state.recommender) params.set("recommender", state.recommender);
  if (state.compare) params.set("compare", state.compare);
  if (state.itemList) params.set("item_list", state.itemList);
  params.set("precision", String(state.precision));
  params.set("confidence", String(state.confidence));
  history.replaceState(null, "", `#${params}`);
}

export function isAbout(state) {
  if (state.mode === "group") {
    return state.members.length > 1 && state.members.every((member) => member.history?.length !== 0);
  }
  return state.mode === "user" ? state.user !== "" : state.history.length > 0;
}

// User and recommender of the state as fields of an API request; a copy.
export function query(state) {
  if (state.mode === "group") {
    const kind = state.group_guarantee ? { group_guarantee: state.group_guarantee } : {};
    return { group: structuredClone(state.members), recommender: state.recommender, ...kind };
  }
  const user = state.mode === "user" ? { user: state.user } : { history: [...state.history] };
  const list = state.itemList ? { item_list: state.itemList } : {};
  return { ...user, recommender: state.recommender, ...list };
}
