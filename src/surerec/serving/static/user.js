// The user panel: a history, a user of the data, or a group.

import { byId, items, make, named, show } from "./dom.js";
import * as api from "./api.js";
import { groupPanel } from "./group.js";

const MOST_SHOWN = 12;
const narrow = window.matchMedia("(max-width: 760px)");

export function userPanel({ state, onChange }) {
  const titles = new Map(); // known titles by id
  const popular = byId("popular");
  let changing = false;
  const group = groupPanel({ state, titles, onChange });

  function setMode(mode) {
    state.mode = mode;
    for (const radio of document.getElementsByName("mode")) radio.checked = radio.value === mode;
    show(byId("mode-history"), mode === "history");
    show(byId("mode-user"), mode === "user");
    show(byId("mode-group"), mode === "group");
    if (mode === "group") group.draw();
  }

  function add(item) {
    const id = String(item.item_id);
    titles.set(id, item.title ?? id);
    if (state.mode === "group") {
      group.add(id);
      return;
    }
    if (state.history.includes(id)) return;
    state.history.push(id);
    drawHistory();
    onChange();
  }

  function remove(id) {
    state.history = state.history.filter((other) => other !== id);
    drawHistory();
    onChange();
    byId("search").focus();
  }

  function drawHistory() {
    const names = named(state.history, state.history.map((id) => titles.get(id)));
    const rows = state.history.map((id, place) => {
      const title = names[place];
      const button = make("button", { type: "button", className: "remove", text: "×",
                                      "aria-label": `Remove ${title}` });
      button.addEventListener("click", () => remove(id));
      return make("li", {}, make("span", { text: title }), button);
    });
    byId("history-list").replaceChildren(...rows);
    byId("history-title").textContent = "History";
    byId("history-hint").textContent = "In order, newest last.";
    show(byId("history"), rows.length > 0);
    byId("history").open = true; // editable
    show(byId("clear"), rows.length > 0);
    show(byId("starters"), rows.length < 3);
  }

  function drawProfile(answer) {
    const { item_id: ids, title } = answer.history;
    const latest = named(ids, title).reverse().slice(0, MOST_SHOWN);
    byId("history-list").replaceChildren(
      ...latest.map((text) => make("li", {}, make("span", { text }))),
    );
    const total = answer.history_length;
    byId("history-title").textContent = `History of ${items(total)}`;
    byId("history-hint").textContent =
      total > latest.length ? `The latest ${latest.length}, newest first.` : "Newest first.";
    show(byId("history"), true);
    byId("history").open = !narrow.matches; // on a phone the set comes first
    byId("fold").replaceChildren(
      make("span", { text: `User ${state.user}, history of ${items(total)} ` },
        make("span", { className: "hint", text: `by ${answer.recommender}` })),
    );
    if (!changing) fold(true);
    show(byId("clear"), false);
  }

  // On a phone the panel is folded to one line, so that the set is on the first screen.
  function fold(folded) {
    byId("fold").setAttribute("aria-expanded", String(!folded));
  }

  byId("fold").addEventListener("click", () => {
    changing = true; // stays open until another user is requested
    fold(false);
    byId("user").focus();
  });

  for (const radio of document.getElementsByName("mode")) {
    radio.addEventListener("change", () => {
      setMode(radio.value);
      if (radio.value === "user") byId("user").focus();
      drawHistoryOrNothing();
      onChange();
    });
  }

  function drawHistoryOrNothing() {
    if (state.mode === "history") drawHistory();
    else show(byId("history"), false);
  }

  byId("mode-user").addEventListener("submit", (event) => {
    event.preventDefault();
    state.user = byId("user").value.trim();
    changing = false;
    if (state.user) onChange();
    else complain("The user id is empty. Enter an id of the data.");
  });

  byId("clear").addEventListener("click", () => {
    state.history = [];
    drawHistory();
    onChange();
    byId("search").focus();
  });

  function complain(text) {
    const place = byId("user-error");
    place.textContent = text;
    show(place, text !== "");
    byId("user").setAttribute("aria-invalid", String(text !== "" && state.mode === "user"));
  }

  return {
    add,
    complain,
    serve: group.serve,
    // Offers the group guarantees of a recommender; without any, leaves the group mode.
    offer(recommender) {
      if (!group.offer(recommender) && state.mode === "group") setMode("history");
    },
    // Shows the history of an answer, which also has the titles for a shared link.
    show(answer) {
      show(byId("ignored"), Boolean(answer?.ignored.length));
      if (!answer) {
        fold(false);
        drawHistoryOrNothing();
        return;
      }
      if (answer.ignored.length) {
        byId("ignored").textContent = `Unknown items, ignored: ${answer.ignored.join(", ")}.`;
      }
      if (state.mode === "user") {
        drawProfile(answer);
        return;
      }
      answer.history.item_id.forEach((id, place) =>
        titles.set(String(id), answer.history.title[place] ?? String(id)),
      );
      if (state.mode === "group") group.draw();
      else drawHistory();
    },
    reset() {
      changing = false;
      fold(false);
      setMode(state.mode);
      byId("user").value = state.user;
      drawHistoryOrNothing();
    },
    async suggest() {
      if (popular.childElementCount) return;
      const found = (await api.search("", undefined, 8)).items;
      const names = named(found.map((item) => item.item_id), found.map((item) => item.title));
      popular.replaceChildren(
        ...found.map((item, place) => {
          const button = make("button", { type: "button", className: "chip",
                                          text: names[place] });
          button.addEventListener("click", () => add(item));
          return make("li", {}, button);
        }),
      );
    },
  };
}
