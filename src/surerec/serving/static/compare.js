// Comparison with a second recommender for the same user.

import { byId, count, items, later, make, sentence, show } from "./dom.js";
import * as api from "./api.js";
import * as threshold from "./threshold.js";
import * as url from "./state.js";
import { explainProbability, itemList } from "./list.js";

const MOST_ROWS = 10_000; // limit of the server; sets are compared item by item

export function comparison({ state, headlineOf, onChange, onReady, onError }) {
  let answer = null;
  let request;
  let guaranteeRequest;
  let requestedLevel = "";
  const list = itemList({ id: "second-items", more: "second-more", onError, onMore: (_, then) => {
    onReady();
    then();
  } });

  const isOn = () => state.compare !== "" && state.mode !== "group";
  const ids = (some) =>
    new Set(threshold.places(some, state.confidence).map((place) => String(some.items.item_id[place])));

  function lay() {
    document.body.classList.toggle("comparing", answer !== null);
    show(byId("second-card"), answer !== null);
    show(byId("set-head"), answer !== null);
    show(byId("overlap"), answer !== null);
  }

  function head(place, some) {
    const name = some.query.recommender;
    const nothing = some.guarantee?.holds === false;
    const size = threshold.size(some, state.confidence);
    byId(place).classList.toggle("no-guarantee", nothing);
    byId(place).replaceChildren(
      make("p", { className: "headline", text: sentence(headlineOf(name)) }),
      make("p", { className: "hint", text: name }),
      make("p", { className: "size" }, make("strong", { className: "big", text: count(size) }),
           make("span", { text: `of ${items(some.n_candidates)}` })),
      make("p", { className: "guarantee", text: some.guarantee?.sentence ?? "…" }),
    );
  }

  // Requests the guarantee at this confidence from the recommender of the answer, as another one may be
  // selected by then.
  const requestGuarantee = later(180, async () => {
    const about = answer;
    if (!about) return;
    guaranteeRequest?.abort();
    guaranteeRequest = new AbortController();
    let level = about.gives_confidence ? { confidence: state.confidence } : {};
    if (about.guarantees_precision) level = { precision: state.precision };
    try {
      const response = await api.guarantee({ ...about.query, ...level }, guaranteeRequest.signal);
      about.guarantee = response.guarantee;
      about.shown = response.full_size;
    } catch (error) {
      if (error.name === "AbortError") return;
      about.shown = 0;
      if (error.status !== 422) {
        onError(error);
        return;
      }
      about.guarantee = { sentence: error.message };
    }
    requestedLevel = levelNow();
    if (about === answer) onReady();
  });
  const levelNow = () => `${state.confidence} ${state.precision}`;

  byId("compare").addEventListener("change", (event) => {
    state.compare = event.target.value;
    onChange();
  });

  function clear() {
    request?.abort();
    guaranteeRequest?.abort();
    answer = null;
    list.clear();
    lay();
  }

  return {
    clear,
    // Number of items of the first set to request for a comparison.
    rows: (usual) => (isOn() ? MOST_ROWS : usual),
    offer(card) {
      const others = card.recommenders.map(({ name }) => name).filter((name) => name !== state.recommender);
      if (!others.includes(state.compare)) state.compare = "";
      byId("compare").replaceChildren(
        make("option", { value: "", text: "None" }),
        ...others.map((name) => make("option", { value: name, "data-recommender": name })),
      );
      byId("compare").value = state.compare;
    },
    async assess() {
      if (!isOn()) {
        clear();
        return;
      }
      request?.abort();
      request = new AbortController();
      answer = null; // no comparison until the answer for the current user arrives
      try {
        const query = { ...url.query(state), recommender: state.compare };
        const found = await api.entryConfidences({ ...query, limit: MOST_ROWS }, request.signal);
        found.query = query;
        list.load(found);
        list.restart();
        answer = found;
        lay();
        if (found.gives_confidence) byId("confidence").disabled = false;
        if (found.guarantees_precision) show(byId("precision-row"), true);
        explainProbability("second-about", "second-probability", found.about_probability);
        onReady();
      } catch (error) {
        if (error.name === "AbortError") return;
        clear();
        onError(error);
      }
    },
    // Draws the second set and returns its ids; null without a second set.
    draw(first) {
      if (!answer) return null;
      if (requestedLevel !== levelNow() || answer.guarantee === undefined) requestGuarantee();
      head("set-head", first);
      head("second-head", answer);
      list.draw(threshold.places(answer, state.confidence), threshold.size(answer, state.confidence));
      const mine = ids(first);
      const theirs = ids(answer);
      list.mark(mine);
      const both = [...mine].filter((id) => theirs.has(id)).length;
      byId("overlap").textContent =
        `${items(both)} in both sets, ${count(mine.size - both)} only in the first, ` +
        `${count(theirs.size - both)} only in the second.`;
      return theirs;
    },
  };
}
