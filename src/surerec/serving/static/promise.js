// A live model says how it keeps its word: promised and delivered, alarms, the age of the counts.

import * as api from "./api.js";
import { byId, count, make, percent, show } from "./dom.js";

const EVERY = 15_000; // milliseconds
const ENOUGH = 500; // events of a window whose share is worth drawing
const SVG = "http://www.w3.org/2000/svg";
let timer;

export async function follow(card) {
  clearTimeout(timer);
  show(byId("promise"), card.live);
  if (!card.live) return;
  try {
    tell(await api.live());
  } catch (error) {
    byId("promise-hint").textContent = error.message;
  }
  timer = setTimeout(() => follow(card), EVERY);
}

function tell(told) {
  const since = told.n_since ? `, and ${count(told.n_since)} events since` : "";
  const judged = told.n_judged
    ? `Inside the sets, with each of ${count(told.n_user_days)} user days counted once; of ` +
      `all ${count(told.n_judged)} judged events on items new to the user in brackets.`
    : "No event has been judged yet.";
  byId("promise-hint").textContent = `${judged} Counted on ${told.counted.slice(0, 10)}${since}.`;
  byId("promise-facts").replaceChildren(
    ...told.nominal.flatMap((promised, place) => {
      const delivered = told.observed[place];
      const observed = told.observed_by_user_day[place];
      const value = observed === null ? "–" : `${percent(observed, 2)} (${percent(delivered, 2)})`;
      return [make("dt", { text: `${percent(promised)} promised` }), make("dd", { text: value })];
    }),
  );
  const whole = told.windows.filter((each) => each.n >= ENOUGH);
  byId("promise-lines").replaceChildren(...(whole.length > 1 ? lines(told, whole) : []));
  byId("promise-alarms").replaceChildren(
    ...told.alerts.slice(-3).map((sentence) => make("li", { text: sentence })),
  );
}

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// The highest confidence over time: as promised, as delivered, and as it were without steering.
function lines(told, windows) {
  const series = { unadapted: [], observed: [] };
  for (const each of windows) {
    for (const name of Object.keys(series)) series[name].push(each[name][0]);
  }
  const all = [told.nominal[0], ...series.unadapted, ...series.observed];
  const low = Math.min(...all) - 0.01;
  const high = Math.max(...all) + 0.01;
  const y = (share) => (100 * (high - share)) / (high - low);
  const words = `${percent(told.nominal[0])} promised; delivered window by window: ` +
    series.observed.map((share) => percent(share)).join(", ");
  const svg = shape("svg", {
    viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": words,
  });
  const at = y(told.nominal[0]);
  svg.append(shape("line", { class: "promised", x1: 0, x2: 100, y1: at, y2: at }));
  for (const [name, shares] of Object.entries(series)) {
    const points = shares.map((share, k) => `${(100 * k) / (shares.length - 1)},${y(share)}`);
    svg.append(shape("polyline", { class: name, points: points.join(" ") }));
  }
  const legend = `At ${percent(told.nominal[0])}: delivered (solid), without steering (dashed), ` +
    `promised (dotted), up to ${windows.at(-1).until}.`;
  return [svg, make("p", { className: "hint", text: legend })];
}
