// The title search, a combobox for keyboards and screen readers.

import { byId, count, later, make, named, show } from "./dom.js";
import * as api from "./api.js";
import { genres } from "./list.js";

export function titleSearch({ onChoose, onError }) {
  const input = byId("search");
  const list = byId("found");
  let found = [];
  let active = -1;
  let request;

  function close() {
    found = [];
    active = -1;
    list.replaceChildren();
    show(list, false);
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(place) {
    const item = found[place];
    if (!item) return;
    input.value = "";
    close();
    onChoose(item);
    input.focus();
  }

  function mark(place) {
    active = place;
    [...list.children].forEach((option, number) =>
      option.setAttribute("aria-selected", String(number === place)),
    );
    const option = list.children[place];
    if (option) {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    }
  }

  function render() {
    const names = named(found.map((item) => item.item_id), found.map((item) => item.title));
    const options = found.map((item, place) => {
      const option = make(
        "li",
        { role: "option", id: `found-${place}`, "aria-selected": "false" },
        make("span", {}, make("span", { text: names[place] }), ...genres(item.genres)),
        make("span", { className: "faint", text: `${count(item.support)} users` }),
      );
      // Before the field loses its focus, which would close the list.
      option.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        choose(place);
      });
      return option;
    });
    if (!options.length) {
      options.push(make("li", { className: "none", role: "option", "aria-disabled": "true",
                                text: "No title contains these words." }));
    }
    list.replaceChildren(...options);
    show(list, true);
    input.setAttribute("aria-expanded", "true");
    mark(found.length ? 0 : -1);
  }

  const look = later(120, async () => {
    const words = input.value.trim();
    request?.abort();
    if (!words) {
      close();
      return;
    }
    request = new AbortController();
    try {
      found = (await api.search(words, request.signal)).items;
      if (input.value.trim()) render();
    } catch (error) {
      if (error.name !== "AbortError") onError(error);
    }
  });

  input.addEventListener("input", look);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      close();
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(active);
    } else if (found.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark((active + step + found.length) % found.length);
    }
  });
}
