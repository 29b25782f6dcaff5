// All candidates as dots, best first; those in the set are highlighted. Decoration only.

import { byId, eachFrame } from "./dom.js";

const GAP = 7;

export function dotField() {
  const canvas = byId("field");
  let latest = null;

  const draw = eachFrame(() => {
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    const rows = Math.max(1, Math.floor(height / GAP));
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    if (!latest || !width) return;
    const columns = Math.floor(width / GAP);
    const dots = Math.min(latest.total, columns * rows);
    const lit = latest.total ? (dots * latest.inside) / latest.total : 0;
    const style = getComputedStyle(document.documentElement);
    const [on, off] = ["--accent", "--line"].map((name) => style.getPropertyValue(name).trim());
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    for (let dot = 0; dot < dots; dot += 1) {
      // Column by column, so that the highlighted part grows from left to right.
      const x = Math.floor(dot / rows) * GAP + GAP / 2;
      const y = (dot % rows) * GAP + GAP / 2;
      pen.fillStyle = dot < lit ? on : off;
      pen.beginPath();
      pen.arc(x, y, 2.1, 0, 2 * Math.PI);
      pen.fill();
    }
  });

  new ResizeObserver(() => draw()).observe(canvas);
  return {
    set(inside, total) {
      latest = { inside, total };
      draw();
    },
    clear() {
      latest = null;
      draw();
    },
    restyle: draw,
  };
}
