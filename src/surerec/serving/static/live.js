// Nominal and observed coverage of a live model, its alerts and the time of the last fit.

import * as api from "./api.js";
import { byId, count, make, percent, show } from "./dom.js";

const EVERY = 15_000; // milliseconds
const ENOUGH = 500; // events of a window that is drawn
const SVG = "http://www.w3.org/2000/svg";
let timer;

export async function follow(card) {
  clearTimeout(timer);
  show(byId("live"), card.live);
  if (!card.live) return;
  try {
    draw(await api.live());
  } catch (error) {
    byId("live-hint").textContent = error.message;
  }
  timer = setTimeout(() => follow(card), EVERY);
}

function draw(status) {
  const since = status.n_since_fit ? `, and ${count(status.n_since_fit)} events since` : "";
  const evaluated = status.n_evaluated
    ? `Observed coverage over ${count(status.n_user_days)} user days, each counted once; ` +
      `of all ${count(status.n_evaluated)} evaluated events in brackets.`
    : "No event has been evaluated yet.";
  byId("live-hint").textContent = `${evaluated} Fitted on ${status.fitted_at.slice(0, 10)}${since}.`;
  byId("live-facts").replaceChildren(
    ...status.nominal.flatMap((nominal, place) => {
      const ofEvents = status.observed[place];
      const observed = status.observed_by_user_day[place];
      const value = observed === null ? "–" : `${percent(observed, 2)} (${percent(ofEvents, 2)})`;
      return [make("dt", { text: `Nominal ${percent(nominal)}` }), make("dd", { text: value })];
    }),
  );
  const whole = status.windows.filter((each) => each.n >= ENOUGH);
  byId("live-lines").replaceChildren(...(whole.length > 1 ? lines(status, whole) : []));
  byId("live-alerts").replaceChildren(
    ...status.alerts.slice(-3).map((text) => make("li", { text })),
  );
}

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Coverage over time at the highest confidence: nominal, observed and without adaptation.
function lines(status, windows) {
  const series = { unadapted: [], observed: [] };
  for (const each of windows) {
    for (const name of Object.keys(series)) series[name].push(each[name][0]);
  }
  const all = [status.nominal[0], ...series.unadapted, ...series.observed];
  const low = Math.min(...all) - 0.01;
  const high = Math.max(...all) + 0.01;
  const y = (share) => (100 * (high - share)) / (high - low);
  const words = `${percent(status.nominal[0])} nominal; observed by window: ` +
    series.observed.map((share) => percent(share)).join(", ");
  const svg = shape("svg", {
    viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": words,
  });
  const at = y(status.nominal[0]);
  svg.append(shape("line", { class: "nominal", x1: 0, x2: 100, y1: at, y2: at }));
  for (const [name, shares] of Object.entries(series)) {
    const points = shares.map((share, k) => `${(100 * k) / (shares.length - 1)},${y(share)}`);
    svg.append(shape("polyline", { class: name, points: points.join(" ") }));
  }
  const legend = `At ${percent(status.nominal[0])}: observed (solid), without adaptation (dashed), ` +
    `nominal (dotted), up to ${windows.at(-1).until}.`;
  return [svg, make("p", { className: "hint", text: legend })];
}
