// The curve of set size by confidence, drawn by plotly, which is loaded at its first use.

import { byId, count, eachFrame, percent } from "./dom.js";
import { HIGHEST, LOWEST } from "./state.js";
import { size } from "./threshold.js";

let plotly;

// While loading, plotly adds a style element for maps, which the content security policy refuses with a
// console error. The page has no maps, so plotly gets an element without effect.
function withoutStyleElements() {
  const create = document.createElement;
  document.createElement = function createElement(tag, ...rest) {
    return create.call(document, tag === "style" ? "template" : tag, ...rest);
  };
  return () => delete document.createElement;
}

function fetchPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "static/plotly.min.js";
    const restore = withoutStyleElements();
    script.addEventListener("load", () => {
      restore();
      resolve(window.Plotly);
    });
    script.addEventListener("error", () => {
      restore();
      plotly = undefined;
      reject(new Error("The chart cannot be loaded. Reload the page."));
    });
    document.head.append(script);
  });
  return plotly;
}

// The steps of the curve within the slider's range.
function steps(answer) {
  const inside = answer.curve.entry_confidence.filter((at) => at > LOWEST && at < HIGHEST);
  const x = [LOWEST, ...inside, HIGHEST];
  // At an entry confidence itself the set has not grown yet; just above, it has.
  const y = x.map((at) => size(answer, Math.min(at + 1e-6, HIGHEST)));
  return { x: x.map((at) => 100 * at), y };
}

export function sizeCurve({ onPick }) {
  const place = byId("curve");
  let current;
  let drawn = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function figure(answer, confidence) {
    const { x, y } = steps(answer);
    const accent = colour("--accent");
    const text = colour("--faint");
    const axis = { color: text, gridcolor: colour("--line"), zeroline: false, fixedrange: true,
                   tickfont: { size: 11 } };
    const highest = 100 * answer.highest_confidence;
    const limit = highest > 100 * LOWEST && highest < 100 * HIGHEST;
    return {
      data: [
        { x, y, mode: "lines", line: { shape: "hv", color: accent, width: 2.5 }, fill: "tozeroy",
          fillcolor: colour("--accent-wash"), hovertemplate: "%{x:.1f}%: %{y:,} items<extra></extra>" },
        { x: [100 * confidence], y: [size(answer, confidence)], mode: "markers", hoverinfo: "skip",
          marker: { color: accent, size: 13, line: { color: colour("--card"), width: 3 } } },
      ],
      layout: {
        margin: { l: 44, r: 10, t: 8, b: 34 }, height: 260, showlegend: false, hovermode: "x", hoverdistance: -1,
        paper_bgcolor: "transparent", plot_bgcolor: "transparent",
        font: { family: "inherit", color: text },
        xaxis: { ...axis, range: [100 * LOWEST - 1, 100 * HIGHEST + 1], ticksuffix: "%", nticks: 6,
                 ticks: "outside", ticklen: 6, tickcolor: "transparent" },
        yaxis: { ...axis, rangemode: "tozero", nticks: 5, separatethousands: true },
        hoverlabel: { bgcolor: colour("--ink"), bordercolor: colour("--ink"),
                      font: { color: colour("--card") } },
        shapes: limit ? [{ type: "line", x0: highest, x1: highest, yref: "paper", y0: 0, y1: 1,
                           line: { color: text, width: 1.5, dash: "dot" } }] : [],
      },
    };
  }

  async function draw() {
    const { answer } = current;
    try {
      const Plotly = await fetchPlotly();
      if (current?.answer !== answer || !answer.gives_confidence) return;  // cleared or replaced meanwhile
      const { data, layout } = figure(answer, current.confidence);
      await Plotly.react(place, data, layout, { displayModeBar: false, responsive: true });
      if (!drawn) {
        drawn = true;
        place.on("plotly_click", (event) => onPick(event.points[0].x / 100));
      }
    } catch (error) {
      place.textContent = error.message;
    }
  }

  function erase() {
    window.Plotly.purge(place);
    place.replaceChildren();
    drawn = false;
  }

  const movePoint = eachFrame(() => {
    if (!drawn || !current?.answer.gives_confidence) return;
    const { answer, confidence } = current;
    window.Plotly.restyle(place, { x: [[100 * confidence]], y: [[size(answer, confidence)]] }, [1]);
  });

  function describe() {
    const { answer, confidence } = current;
    const inSet = size(answer, confidence);
    place.setAttribute("aria-label", answer.gives_confidence
      ? `A curve from ${count(size(answer, LOWEST))} items at ${percent(LOWEST)} to ` +
        `${count(size(answer, HIGHEST))} at ${percent(HIGHEST)}; now ${count(inSet)} at ${percent(confidence)}.`
      : "This recommender only ranks items, without a curve.");
  }

  return {
    load(answer, confidence) {
      current = { answer, confidence };
      describe();
      if (answer.gives_confidence) draw();
      else if (drawn) {
        erase();
      }
    },
    move(confidence) {
      if (!current) return;
      current.confidence = confidence;
      describe();
      movePoint();
    },
    restyle() {
      if (current && drawn) draw();
    },
    clear() {
      if (drawn) erase();
      current = undefined;
      place.setAttribute("aria-label", "No curve yet");
    },
  };
}
