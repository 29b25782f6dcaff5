// The page: who, how sure, and what then is in the set.

import { byId, count, hoverText, items, later, make, percent, sentence, show } from "./dom.js";
import * as api from "./api.js";
import * as cut from "./cut.js";
import { comparison } from "./compare.js";
import * as promise from "./promise.js";
import * as url from "./state.js";
import { dotField } from "./field.js";
import { failing } from "./failing.js";
import { explainProbability, itemList } from "./list.js";
import { sizeCurve } from "./curve.js";
import { titleSearch } from "./search.js";
import { themeButton } from "./theme.js";
import { whoPanel } from "./who.js";

const FIRST_ROWS = 500;
const MOST_ROWS = 10_000;

const slider = byId("confidence");
const state = url.read();
let card = null;
let answer = null; // entry confidences of everything, for the present person
let rows = FIRST_ROWS;
let request;
let guaranteeRequest;

const { failed, noticed } = failing({ onRetry: start });
const field = dotField();
const curve = sizeCurve({ onPick: setConfidence });
const list = itemList({ id: "items", more: "more", onMore: showMore, onError: failed });
const beside = comparison({ state, headlineOf, onChange: personChanged, onReady: showConfidence, onError: failed });
const who = whoPanel({ state, onChange: personChanged });
titleSearch({ onChoose: who.add, onError: failed });
document.addEventListener("change", ({ target }) => {
  if (target.tagName === "SELECT") hoverText(target);
});
themeButton(() => {
  curve.restyle();
  field.restyle();
});

const say = later(500, (text) => {
  byId("said").textContent = text;
});

// ---- Confidence: everything here is local, so that the slider never waits.

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
  askGuaranteeSoon();
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
  const size = cut.size(answer, state.confidence);
  byId("size").textContent = count(size);
  byId("size-of").textContent = `of ${items(answer.n_candidates)}`;
  field.set(size, answer.n_candidates);
  list.draw(cut.places(answer, state.confidence), size);
  list.mark(beside.draw(answer));
  const words = hint(size);
  byId("set-hint").textContent = words;
  slider.setAttribute("aria-valuetext", `${at}, ${count(size)} of ${items(answer.n_candidates)}`);
  say(`${at} confidence. ${words}`);
}

function hint(size) {
  if (answer.guarantees_precision) {
    if (answer.shown === undefined) return "";
    return size === 0 ? "Empty: nothing is likely enough to be shown to this person." : `${items(size)}, the likeliest first.`;
  }
  if (!answer.gives_confidence) return "All items, ranked; this recommender knows no confidence.";
  if (cut.everythingQualifies(answer, state.confidence)) {
    return `At this confidence nothing can be left out: this profile supports ${percent(answer.highest_confidence)} at most.`;
  }
  if (size === 0) return "Empty: nothing conforms well enough. Move the confidence up.";
  return `${items(size)}, the best matches first.`;
}

const saveSoon = later(150, () => url.write(state));
const askGuaranteeSoon = later(180, askGuarantee);

async function askGuarantee() {
  if (!answer) return;
  guaranteeRequest?.abort();
  guaranteeRequest = new AbortController();
  let level = answer.gives_confidence ? { confidence: state.confidence } : {};
  if (answer.guarantees_precision) level = { precision: state.precision };
  const about = answer;
  try {
    // As the answer was asked for, not as the page stands by now: another answer may be on its way.
    const told = await api.guarantee({ ...about.asked, ...level }, guaranteeRequest.signal);
    about.guarantee = told.guarantee;
    byId("guarantee").textContent = about.guarantee.sentence;
    if (about === answer) list.mark(beside.draw(answer));
    showWhetherPromised(about.guarantee.holds);
    who.serve(told.members ? told : null);
    about.shown = told.full_size;
  } catch (error) {
    if (error.name === "AbortError") return;
    about.shown = 0;
    // A precision that cannot be reached: the sentence says what can.
    if (about.guarantees_precision && error.status === 422) byId("guarantee").textContent = error.message;
    else failed(error);
  }
  if (about.guarantees_precision && about === answer) showConfidence();
}

// A number that nothing stands behind is grey, and says so.
function showWhetherPromised(holds) {
  byId("dial").classList.toggle("nothing-promised", !holds);
  show(byId("unpromised"), !holds && Boolean(answer?.gives_confidence));
}

// ---- The person: one request brings all that every confidence needs.

function personChanged() {
  if (card) showLists();
  rows = FIRST_ROWS;
  list.restart();
  url.write(state);
  return assess();
}

async function assess() {
  request?.abort();
  who.complain("");
  if (!url.isAbout(state)) {
    forget();
    return;
  }
  request = new AbortController();
  document.body.classList.add("waiting");
  try {
    const asked = url.asked(state);
    answer = await api.entryConfidences({ ...asked, limit: beside.rows(rows) }, request.signal);
    answer.asked = asked;
    list.take(answer);
    beside.assess();
    showAnswer();
    noticed("");
  } catch (error) {
    if (error.name === "AbortError") return;
    const aboutThem = state.mode === "group" && error.status === 409; // such as a size without promise
    if (error.status === 404 || error.status === 422 || aboutThem) {
      forget();
      who.complain(error.message);
    } else {
      failed(error);
    }
  } finally {
    document.body.classList.remove("waiting");
  }
}

function showAnswer() {
  who.show(answer);
  slider.disabled = !answer.gives_confidence;
  show(byId("precision-row"), answer.guarantees_precision);
  explainProbability("about", "about-probability", answer.about_probability);
  showConfidence();
  showSupport();
  curve.take(answer, state.confidence);
  facts();
  askGuarantee();
}

function showSupport() {
  const highest = answer.highest_confidence;
  const within = answer.gives_confidence && highest > url.LOWEST && highest < url.HIGHEST;
  const mark = byId("support-mark");
  show(mark, within);
  mark.style.setProperty("--at", (100 * highest - 50) / 49);
  let words = "";
  if (answer.gives_confidence && highest < url.HIGHEST) {
    words = `this profile supports ${percent(highest)} at most`;
  }
  byId("support-text").textContent = words;
}

function facts() {
  const told = [
    ["Taken", items(answer.history_length)],
    ["Candidates", items(answer.n_candidates)],
  ];
  if (answer.gives_confidence) {
    told.push(["Highest confidence", percent(answer.highest_confidence, 1)]);
    for (const at of [0.5, 0.8, 0.9, 0.95]) {
      told.push([`In the set at ${percent(at)}`, count(cut.size(answer, at))]);
    }
  }
  byId("facts").replaceChildren(
    ...told.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]),
  );
}

function forget() {
  answer = null;
  guaranteeRequest?.abort();
  list.clear();
  beside.clear();
  curve.clear();
  field.clear();
  who.show(null);
  who.serve(null);
  slider.disabled = false;
  byId("size").textContent = "–";
  byId("size-of").textContent = "items in the set";
  byId("set-hint").textContent = "Add something that was taken, or name a user, and the set appears here.";
  if (card) describeRecommender();
  byId("support-text").textContent = "";
  showWhetherPromised(true);
  explainProbability("about", "about-probability", "");
  show(byId("precision-row"), false);
  show(byId("support-mark"), false);
  byId("facts").replaceChildren();
  showConfidence();
}

async function showMore(wanted, then) {
  if (wanted > rows && rows < Math.min(MOST_ROWS, answer.n_candidates)) {
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
  byId("said").textContent = "The link is ready to be shared.";
  setTimeout(() => {
    button.textContent = "Copy link";
  }, 2000);
});

// ---- The beginning.

function showModel() {
  byId("model").textContent =
    `${card.data ?? "A model"} · ${count(card.counts.users)} users · ${count(card.counts.items)} items`;
  const select = byId("recommender");
  select.replaceChildren(
    ...card.recommenders.map(({ name }) => make("option", { value: name, "data-recommender": name })),
  );
  const names = card.recommenders.map(({ name }) => name);
  if (!names.includes(state.recommender)) state.recommender = names[0];
  select.value = state.recommender;
  beside.offer(card);
  nameRecommenders();
  showLists();
  describeRecommender();
}

// By what they promise at this confidence; who gives it stands below, in small print.
function headlineOf(name) {
  const { headline } = card.recommenders.find((each) => each.name === name) ?? card.recommenders[0];
  return headline.replace("90%", percent(state.confidence));
}

function nameRecommenders() {
  const words = card.recommenders.map(({ name }) => headlineOf(name));
  card.recommenders.forEach(({ name }, place) => {
    const alike = words.filter((other) => other === words[place]).length > 1;
    for (const option of document.querySelectorAll(`option[data-recommender="${CSS.escape(name)}"]`)) {
      option.textContent = (alike ? `${name}: ` : "") + words[place]; // first, as a selector cuts the end
    }
  });
  document.querySelectorAll("select").forEach(hoverText);
  byId("headline").textContent = sentence(headlineOf(state.recommender));
}

function showLists() {
  const chosen = card.recommenders.find(({ name }) => name === state.recommender);
  who.offer(chosen);
  const { lists } = chosen;
  if (!lists.includes(state.among)) state.among = "";
  const options = [make("option", { value: "", text: "all items" })];
  options.push(...lists.map((name) => make("option", { value: name, text: name })));
  byId("among").replaceChildren(...options);
  byId("among").value = state.among;
  show(byId("among-row"), lists.length > 0 && state.mode !== "group");
  show(byId("beside-row"), card.recommenders.length > 1 && state.mode !== "group");
}

function describeRecommender() {
  const chosen = card.recommenders.find(({ name }) => name === state.recommender);
  const { measure } = chosen.params;
  byId("recommender-kind").textContent =
    `${chosen.name}: ${chosen.kind}${typeof measure === "string" ? ` with ${measure}` : ""}`;
  const { level: confidence, history_length: length, sentence } = chosen.guarantee;
  if (answer) return;
  // Until somebody is chosen, what is promised to somebody who took popular items.
  byId("guarantee").textContent =
    confidence === null ? sentence : `For example, at ${percent(confidence)}, to somebody who took ${items(length)}: ${sentence}`;
}

byId("recommender").addEventListener("change", (event) => {
  state.recommender = event.target.value;
  beside.offer(card);
  nameRecommenders();
  showLists();
  describeRecommender();
  personChanged();
});

byId("among").addEventListener("change", (event) => {
  state.among = event.target.value;
  personChanged();
});

byId("precision").addEventListener("input", (event) => {
  state.precision = event.target.valueAsNumber / 100;
  byId("precision-value").textContent = percent(state.precision);
  saveSoon();
  askGuaranteeSoon();
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
  who.reset();
  showConfidence();
  try {
    card = await api.model();
    noticed("");
    showModel();
    await Promise.all([assess(), who.suggest(), promise.follow(card)]);
  } catch (error) {
    failed(error);
  }
}

start();
