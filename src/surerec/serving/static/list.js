// The set as a list: title, probability or entry confidence, and explanation of each item.

import { byId, count, make, named, percent, show } from "./dom.js";
import * as api from "./api.js";
import { LOWEST } from "./state.js";

const STEP = 50;
const LONGEST = 20_000; // timeout of an explanation, in milliseconds

function bar(share, className, label) {
  const inner = make("span", { className: "fill" });
  inner.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  return make("span", { className: `bar ${className}`, role: "img", "aria-label": label }, inner);
}

// Items below the lowest confidence of the slider are in every set that can be selected.
const entryText = (entry) => (entry < LOWEST ? "in every set" : `above ${percent(entry)}`);

// Probability, p-value or entry confidence of an item; null if it has only a rank.
function measure(items, place) {
  const p = items.p_value?.[place] ?? null; // some recommenders have none
  const entry = items.entry_confidence[place];
  const probability = items.probability[place];
  if (probability !== null) {
    const text = percent(probability);
    return { share: probability, text, label: `consumed with a probability of ${text}` };
  }
  if (entry === null) return null;
  const value = p === null ? "" : `, p-value ${p.toFixed(3)}`;
  const label = `in the set above a confidence of ${percent(entry)}${value}`;
  return { share: p ?? 1 - entry, text: entryText(entry), label, enters: true };
}

// Rank of an item for each member of a group, as bars.
function worth(values, members) {
  const rows = values.map((value, place) => {
    const name = String(members[place]);
    return make("span", { className: "worth" }, make("span", { className: "name", text: name, title: name, "aria-hidden": "true" }),
      bar(value, "m", `${name}: ${percent(value, 0)} on a scale where the best item has 100%`));
  });
  return make("span", { className: "members-worth" }, ...rows);
}

export function genres(text) {
  return text ? [make("span", { className: "genres", text })] : [];
}

function reasonsByMember(why) {
  return why.members.map((each) =>
    make("section", { className: "by-member" },
      make("h4", { text: `${each.member}: ${count(each.rank)} of ${count(why.n_candidates)}` }), ...reasons(each)),
  );
}

function reasons(why) {
  if (!why.because.length) return [make("p", { text: "No earlier item supports it." })];
  const names = named(why.because.map((row) => row.item_id), why.because.map((row) => row.title));
  const rows = why.because.map((row, place) => {
    const support = Math.max(1, row.support);
    const before = make("span", { className: "fill before" });
    before.style.width = `${(100 * row.earlier) / support}%`;
    const after = make("span", { className: "fill" });
    after.style.width = `${(100 * row.later) / support}%`;
    return make(
      "li",
      {},
      make("p", {}, make("strong", { text: `${count(row.later)} of ${count(row.support)}` }),
           ` users who consumed `, make("cite", { text: names[place] }),
           ` consumed this later; ${count(row.earlier)} consumed it earlier.`),
      make("span", { className: "bar two", role: "img",
                     "aria-label": `${percent(row.later / support)} later, ${percent(row.earlier / support)} before` },
           after, before),
    );
  });
  const legend = make("p", { className: "legend", "aria-hidden": "true" },
    make("span", { className: "swatch" }), "consumed it later",
    make("span", { className: "swatch before" }), "consumed it earlier");
  return [legend, make("ul", { className: "reasons" }, ...rows)];
}

// Explanation of the probabilities.
export function explainProbability(place, text, words) {
  byId(text).textContent = words;
  show(byId(place), words !== "");
}

export function itemList({ id: name, more: moreId, onMore, onError }) {
  const list = byId(name);
  const more = byId(moreId);
  let answer;
  let names = [];
  let limit = STEP;
  let placesShown = [];

  async function toggle(button, panel, id) {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    show(panel, !open);
    if (open || panel.childElementCount) return;
    panel.append(make("p", { className: "hint", text: "Counting …" }));
    const { query } = answer;
    const patience = AbortSignal.timeout(LONGEST); 
    try {
      const about = { ...query, item_list: undefined, item: id, limit: query.group ? 3 : 6 };
      const why = await api.explanation(about, patience);
      panel.replaceChildren(...(why.members ? reasonsByMember(why) : reasons(why)));
    } catch (error) {
      panel.replaceChildren();
      button.setAttribute("aria-expanded", "false");
      show(panel, false);
      onError(error);
    }
  }

  function row(place) {
    const { items } = answer;
    const id = items.item_id[place];
    const title = names[place];
    const known = measure(items, place);
    const panel = make("div", { className: "why", id: `${name}-why-${place}`, hidden: "" });
    const button = make("button", { type: "button", className: "quiet ask", text: "Why?",
                                    "aria-expanded": "false", "aria-controls": `${name}-why-${place}`,
                                    "aria-label": `Why ${title}?` });
    button.addEventListener("click", () => toggle(button, panel, id));
    const parts = [make("span", { className: "rank", text: place + 1, "aria-hidden": "true" }),
                   make("span", { className: "named" }, make("span", { className: "title", text: title }), ...genres(items.genres[place]))];
    if (items.member_values) {
      const words = known ? make("span", { className: "number", text: known.text, title: known.label, "aria-label": known.label }) : "";
      parts.push(worth(items.member_values[place], answer.members), words);
    } else if (known) {
      parts.push(bar(known.share, "p", known.label),
                 make("span", { className: "number", text: known.text, title: known.label, "aria-hidden": "true" }));
    }
    let className = known || items.member_values ? "item" : "item plain";
    if (known?.enters) className += " enters";
    const item = make("li", {}, make("div", { className }, ...parts, button), panel);
    item.dataset.id = id;
    return item;
  }

  // Sets are nested, so a change of the confidence adds or removes items at the end.
  function draw(places, size) {
    const visible = places.slice(0, limit);
    let same = 0;
    while (same < visible.length && same < placesShown.length && visible[same] === placesShown[same]) {
      same += 1;
    }
    while (list.childElementCount > same) list.lastElementChild.remove();
    list.append(...visible.slice(same).map(row));
    placesShown = visible;
    const left = size - visible.length;
    show(more, left > 0);
    more.textContent = `Show ${count(Math.min(STEP, left))} more of ${count(left)}`;
  }

  more.addEventListener("click", () => {
    limit += STEP;
    const first = list.childElementCount;
    onMore(limit, () => list.children[first]?.querySelector("button")?.focus());
  });

  return {
    draw,
    // Marks the items that the other set does not contain.
    mark(elsewhere) {
      for (const item of list.children) {
        item.classList.toggle("only", Boolean(elsewhere) && !elsewhere.has(item.dataset.id));
      }
    },
    load(newAnswer) {
      answer = newAnswer;
      names = named(answer.items.item_id, answer.items.title);
      placesShown = [];
      list.replaceChildren();
    },
    restart() {
      limit = STEP;
    },
    clear() {
      placesShown = [];
      list.replaceChildren();
      show(more, false);
    },
  };
}
