// A second recommender beside the first: what it promises the same person, and what only one has.

import { byId, count, items, later, make, sentence, show } from "./dom.js";
import * as api from "./api.js";
import * as cut from "./cut.js";
import * as url from "./state.js";
import { explainProbability, itemList } from "./list.js";

const MOST_ROWS = 10_000; // as many as the server gives: two sets are compared item by item

export function comparison({ state, headlineOf, onChange, onReady, onError }) {
  let answer = null;
  let request;
  let promiseRequest;
  let wanted = 0;
  const list = itemList({ id: "beside-items", more: "beside-more", onError, onMore: (_, then) => {
    onReady();
    then();
  } });

  const isOn = () => state.beside !== "" && state.mode !== "group";
  const ids = (some) =>
    new Set(cut.places(some, state.confidence).map((place) => String(some.items.item_id[place])));

  function lay() {
    document.body.classList.toggle("comparing", answer !== null);
    show(byId("beside-card"), answer !== null);
    show(byId("set-head"), answer !== null);
    show(byId("overlap"), answer !== null);
  }

  function head(place, some) {
    const name = some.asked.recommender;
    const nothing = some.guarantee?.holds === false;
    const size = cut.size(some, state.confidence);
    byId(place).classList.toggle("nothing-promised", nothing);
    byId(place).replaceChildren(
      make("p", { className: "headline", text: sentence(headlineOf(name)) }),
      make("p", { className: "hint", text: name }),
      make("p", { className: "size" }, make("strong", { className: "big", text: count(size) }),
           make("span", { text: `of ${items(some.n_candidates)}` })),
      make("p", { className: "guarantee", text: some.guarantee?.sentence ?? "…" }),
    );
  }

  // What it says at this confidence; the same question as the page asks of the first. It goes to who gave
  // the answer: by the time it is sent, another recommender may have been chosen.
  const askPromise = later(180, async () => {
    const about = answer;
    if (!about) return;
    promiseRequest?.abort();
    promiseRequest = new AbortController();
    let level = about.gives_confidence ? { confidence: state.confidence } : {};
    if (about.guarantees_precision) level = { precision: state.precision };
    try {
      const told = await api.guarantee({ ...about.asked, ...level }, promiseRequest.signal);
      about.guarantee = told.guarantee;
      about.shown = told.full_size;
    } catch (error) {
      if (error.name === "AbortError") return;
      about.shown = 0;
      if (error.status !== 422) {
        onError(error);
        return;
      }
      about.guarantee = { sentence: error.message };
    }
    wanted = levelNow();
    if (about === answer) onReady();
  });
  const levelNow = () => `${state.confidence} ${state.precision}`;

  byId("beside").addEventListener("change", (event) => {
    state.beside = event.target.value;
    onChange();
  });

  function clear() {
    request?.abort();
    promiseRequest?.abort();
    answer = null;
    list.clear();
    lay();
  }

  return {
    clear,
    // How many items of the first to ask for, so that both can be compared.
    rows: (usual) => (isOn() ? MOST_ROWS : usual),
    offer(card) {
      const others = card.recommenders.map(({ name }) => name).filter((name) => name !== state.recommender);
      if (!others.includes(state.beside)) state.beside = "";
      byId("beside").replaceChildren(
        make("option", { value: "", text: "nothing" }),
        ...others.map((name) => make("option", { value: name, "data-recommender": name })),
      );
      byId("beside").value = state.beside;
    },
    async assess() {
      if (!isOn()) {
        clear();
        return;
      }
      request?.abort();
      request = new AbortController();
      answer = null; // what is shown may be about somebody else: nothing is compared until this is answered
      try {
        const asked = { ...url.asked(state), recommender: state.beside };
        const found = await api.entryConfidences({ ...asked, limit: MOST_ROWS }, request.signal);
        found.asked = asked;
        list.take(found);
        list.restart();
        answer = found;
        lay();
        if (found.gives_confidence) byId("confidence").disabled = false;
        if (found.guarantees_precision) show(byId("precision-row"), true);
        explainProbability("beside-about", "beside-probability", found.about_probability);
        onReady();
      } catch (error) {
        if (error.name === "AbortError") return;
        clear();
        onError(error);
      }
    },
    // Draws the second set, and gives the ids in it: null where there is none.
    draw(first) {
      if (!answer) return null;
      if (wanted !== levelNow() || answer.guarantee === undefined) askPromise();
      head("set-head", first);
      head("beside-head", answer);
      list.draw(cut.places(answer, state.confidence), cut.size(answer, state.confidence));
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
