// The page: user, confidence and recommendation set.

import { byId, count, hoverText, items, later, make, percent, sentence, show } from "./dom.js";
import * as api from "./api.js";
import * as threshold from "./threshold.js";
import { comparison } from "./compare.js";
import * as live from "./live.js";
import * as url from "./state.js";
import { dotField } from "./field.js";
import { notices } from "./notice.js";
import { explainProbability, itemList } from "./list.js";
import { sizeCurve } from "./curve.js";
import { titleSearch } from "./search.js";
import { themeButton } from "./theme.js";
import { userPanel } from "./user.js";

const FIRST_ROWS = 500;
const MOST_ROWS = 10_000;

const slider = byId("confidence");
const state = url.read();
let card = null;
let answer = null; // entry confidences of all items for the current user
let rows = FIRST_ROWS;
let request;
let guaranteeRequest;

const { failed, noticed } = notices({ onRetry: start });
const field = dotField();
const curve = sizeCurve({ onPick: setConfidence });
const list = itemList({ id: "items", more: "more", onMore: showMore, onError: failed });
const second = comparison({ state, headlineOf, onChange: queryChanged, onReady: showConfidence, onError: failed });
const panel = userPanel({ state, onChange: queryChanged });
titleSearch({ onChoose: panel.add, onError: failed });
document.addEventListener("change", ({ target }) => {
  if (target.tagName === "SELECT") hoverText(target);
});
themeButton(() => {
  curve.restyle();
  field.restyle();
});

const say = later(500, (text) => {
  byId("announcement").textContent = text;
});

// ---- Confidence: computed locally, so that the slider never waits.

function setConfidence(confidence) {
  const near = Math.round(confidence * 200) / 200;
  state.confidence = Math.min(url.HIGHEST, Math.max(url.LOWEST, near));
  slider.value = 100 * state.confidence;
  confidenceMoved();
}

function confidenceMoved() {
  showConfidence();
  curve.move(state.confidence);
  saveSoon();
  requestGuaranteeSoon();
}

function showConfidence() {
  const at = percent(state.confidence);
  if (card) nameRecommenders();
  byId("confidence-value").textContent = at;
  slider.style.setProperty("--at", (100 * state.confidence - 50) / 49);
  if (!answer) {
    slider.setAttribute("aria-valuetext", at);
    return;
  }
  const size = threshold.size(answer, state.confidence);
  byId("size").textContent = count(size);
  byId("size-of").textContent = `of ${items(answer.n_candidates)}`;
  field.set(size, answer.n_candidates);
  list.draw(threshold.places(answer, state.confidence), size);
  list.mark(second.draw(answer));
  const words = hint(size);
  byId("set-hint").textContent = words;
  slider.setAttribute("aria-valuetext", `${at}, ${count(size)} of ${items(answer.n_candidates)}`);
  say(`${at} confidence. ${words}`);
}

function hint(size) {
  if (answer.guarantees_precision) {
    if (answer.shown === undefined) return "";
    return size === 0 ? "Empty: no item is likely enough for this user." : `${items(size)}, most likely first.`;
  }
  if (!answer.gives_confidence) return "All items, ranked; this recommender has no confidence.";
  if (threshold.everythingQualifies(answer, state.confidence)) {
    return `At this confidence every item is in the set: this history supports at most ${percent(answer.highest_confidence)}.`;
  }
  if (size === 0) return "Empty: no item conforms. Increase the confidence.";
  return `${items(size)}, best first.`;
}

const saveSoon = later(150, () => url.write(state));
const requestGuaranteeSoon = later(180, requestGuarantee);

async function requestGuarantee() {
  if (!answer) return;
  guaranteeRequest?.abort();
  guaranteeRequest = new AbortController();
  let level = answer.gives_confidence ? { confidence: state.confidence } : {};
  if (answer.guarantees_precision) level = { precision: state.precision };
  const about = answer;
  try {
    // The query of the answer, not of the page, which may already wait for another answer.
    const response = await api.guarantee({ ...about.query, ...level }, guaranteeRequest.signal);
    about.guarantee = response.guarantee;
    byId("guarantee").textContent = about.guarantee.sentence;
    if (about === answer) list.mark(second.draw(answer));
    showWhetherGuaranteed(about.guarantee.holds);
    panel.serve(response.members ? response : null);
    about.shown = response.full_size;
  } catch (error) {
    if (error.name === "AbortError") return;
    about.shown = 0;
    // The precision cannot be reached; the message says which one can.
    if (about.guarantees_precision && error.status === 422) byId("guarantee").textContent = error.message;
    else failed(error);
  }
  if (about.guarantees_precision && about === answer) showConfidence();
}

// A confidence without a guarantee is grey and marked.
function showWhetherGuaranteed(holds) {
  byId("dial").classList.toggle("no-guarantee", !holds);
  show(byId("guarantee-note"), !holds && Boolean(answer?.gives_confidence));
}

// ---- User: one request returns the data for all confidences.

function queryChanged() {
  if (card) showLists();
  rows = FIRST_ROWS;
  list.restart();
  url.write(state);
  return assess();
}

async function assess() {
  request?.abort();
  panel.complain("");
  if (!url.isAbout(state)) {
    forget();
    return;
  }
  request = new AbortController();
  document.body.classList.add("waiting");
  try {
    const query = url.query(state);
    answer = await api.entryConfidences({ ...query, limit: second.rows(rows) }, request.signal);
    answer.query = query;
    list.load(answer);
    second.assess();
    showAnswer();
    noticed("");
  } catch (error) {
    if (error.name === "AbortError") return;
    const aboutGroup = state.mode === "group" && error.status === 409; // such as a size without guarantee
    if (error.status === 404 || error.status === 422 || aboutGroup) {
      forget();
      panel.complain(error.message);
    } else {
      failed(error);
    }
  } finally {
    document.body.classList.remove("waiting");
  }
}

function showAnswer() {
  panel.show(answer);
  slider.disabled = !answer.gives_confidence;
  show(byId("precision-row"), answer.guarantees_precision);
  explainProbability("about", "about-probability", answer.about_probability);
  showConfidence();
  showSupport();
  curve.load(answer, state.confidence);
  facts();
  requestGuarantee();
}

function showSupport() {
  const highest = answer.highest_confidence;
  const within = answer.gives_confidence && highest > url.LOWEST && highest < url.HIGHEST;
  const mark = byId("support-mark");
  show(mark, within);
  mark.style.setProperty("--at", (100 * highest - 50) / 49);
  let words = "";
  if (answer.gives_confidence && highest < url.HIGHEST) {
    words = `this history supports at most ${percent(highest)}`;
  }
  byId("support-text").textContent = words;
}

function facts() {
  const entries = [
    ["History", items(answer.history_length)],
    ["Candidates", items(answer.n_candidates)],
  ];
  if (answer.gives_confidence) {
    entries.push(["Highest confidence", percent(answer.highest_confidence, 1)]);
    for (const at of [0.5, 0.8, 0.9, 0.95]) {
      entries.push([`In the set at ${percent(at)}`, count(threshold.size(answer, at))]);
    }
  }
  byId("facts").replaceChildren(
    ...entries.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]),
  );
}

function forget() {
  answer = null;
  guaranteeRequest?.abort();
  list.clear();
  second.clear();
  curve.clear();
  field.clear();
  panel.show(null);
  panel.serve(null);
  slider.disabled = false;
  byId("size").textContent = "–";
  byId("size-of").textContent = "items in the set";
  byId("set-hint").textContent = "Add items to the history or enter a user id to see the set.";
  if (card) describeRecommender();
  byId("support-text").textContent = "";
  showWhetherGuaranteed(true);
  explainProbability("about", "about-probability", "");
  show(byId("precision-row"), false);
  show(byId("support-mark"), false);
  byId("facts").replaceChildren();
  showConfidence();
}

async function showMore(limit, then) {
  if (limit > rows && rows < Math.min(MOST_ROWS, answer.n_candidates)) {
    rows = Math.min(MOST_ROWS, 4 * rows);
    await assess();
  } else {
    showConfidence();
  }
  then();
}

byId("share").addEventListener("click", async () => {
  url.write(state);
  const button = byId("share");
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "See the address bar"; // no clipboard without https
  }
  byId("announcement").textContent = "The link is copied.";
  setTimeout(() => {
    button.textContent = "Copy link";
  }, 2000);
});

// ---- Start.

function showModel() {
  byId("model").textContent =
    `${card.data ?? "Model"} · ${count(card.counts.users)} users · ${count(card.counts.items)} items`;
  const select = byId("recommender");
  select.replaceChildren(
    ...card.recommenders.map(({ name }) => make("option", { value: name, "data-recommender": name })),
  );
  const names = card.recommenders.map(({ name }) => name);
  if (!names.includes(state.recommender)) state.recommender = names[0];
  select.value = state.recommender;
  second.offer(card);
  nameRecommenders();
  showLists();
  describeRecommender();
}

// Recommenders are labelled by their guarantee at this confidence.
function headlineOf(name) {
  const { headline } = card.recommenders.find((each) => each.name === name) ?? card.recommenders[0];
  return headline.replace("90%", percent(state.confidence));
}

function nameRecommenders() {
  const words = card.recommenders.map(({ name }) => headlineOf(name));
  card.recommenders.forEach(({ name }, place) => {
    const alike = words.filter((other) => other === words[place]).length > 1;
    for (const option of document.querySelectorAll(`option[data-recommender="${CSS.escape(name)}"]`)) {
      option.textContent = (alike ? `${name}: ` : "") + words[place]; // first, as a select truncates the end
    }
  });
  document.querySelectorAll("select").forEach(hoverText);
  byId("headline").textContent = sentence(headlineOf(state.recommender));
}

function showLists() {
  const chosen = card.recommenders.find(({ name }) => name === state.recommender);
  panel.offer(chosen);
  const { item_lists: lists } = chosen;
  if (!lists.includes(state.itemList)) state.itemList = "";
  const options = [make("option", { value: "", text: "All items" })];
  options.push(...lists.map((name) => make("option", { value: name, text: name })));
  byId("item-list").replaceChildren(...options);
  byId("item-list").value = state.itemList;
  show(byId("item-list-row"), lists.length > 0 && state.mode !== "group");
  show(byId("compare-row"), card.recommenders.length > 1 && state.mode !== "group");
}

function describeRecommender() {
  const chosen = card.recommenders.find(({ name }) => name === state.recommender);
  const { measure } = chosen.params;
  byId("recommender-kind").textContent =
    `${chosen.name}: ${chosen.kind}${typeof measure === "string" ? ` with ${measure}` : ""}`;
  const { level: confidence, history_length: length, sentence } = chosen.guarantee;
  if (answer) return;
  // Without a user, an example guarantee.
  byId("guarantee").textContent =
    confidence === null ? sentence : `Example at ${percent(confidence)}, for a history of ${items(length)}: ${sentence}`;
}

byId("recommender").addEventListener("change", (event) => {
  state.recommender = event.target.value;
  second.offer(card);
  nameRecommenders();
  showLists();
  describeRecommender();
  queryChanged();
});

byId("item-list").addEventListener("change", (event) => {
  state.itemList = event.target.value;
  queryChanged();
});

byId("precision").addEventListener("input", (event) => {
  state.precision = event.target.valueAsNumber / 100;
  byId("precision-value").textContent = percent(state.precision);
  saveSoon();
  requestGuaranteeSoon();
});

slider.addEventListener("input", () => {
  state.confidence = Math.round(10 * slider.valueAsNumber) / 1000;
  confidenceMoved();
});

window.addEventListener("hashchange", () => {
  Object.assign(state, url.read());
  start();
});

async function start() {
  slider.value = 100 * state.confidence;
  byId("precision").value = 100 * state.precision;
  byId("precision-value").textContent = percent(state.precision);
  panel.reset();
  showConfidence();
  try {
    card = await api.model();
    noticed("");
    showModel();
    await Promise.all([assess(), panel.suggest(), live.follow(card)]);
  } catch (error) {
    failed(error);
  }
}

start();
