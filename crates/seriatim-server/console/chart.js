// @ts-check
// A chart of the last minutes: time runs to the right, and the newest sample is at the right edge. At first the chart
// shows one minute; it grows to five.

import { h, show, svg } from "./dom.js";

/** @import { Sample } from "./live.js" */

const WIDTH = 300;
const HEIGHT = 100;
const MINUTE_MS = 60_000;

/**
 * A round number that is not much larger than the value.
 * @param {number} value
 */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 1.5, 2, 3, 4, 5, 6, 8].find((step) => step * power >= value * 0.999) ?? 10);
}

/**
 * A chart with one line for each of `values`. `label` formats a value. The scale reaches at least up to `least`, so
 * that small changes of small values do not appear large.
 * @param {{
 *   name: string,
 *   values: ((sample: Sample) => number | null)[],
 *   label: (value: number) => string,
 *   least: number,
 * }} options
 */
export function chart({ name, values, label, least }) {
  const lines = values.map((_, index) => svg("path", { class: index === 0 ? "line" : "line second" }));
  const area = svg("path", { class: "area" });
  const cross = svg("line", { class: "cross", y1: 0, y2: HEIGHT, visibility: "hidden" });
  const rules = [0, 50, 100].map((y) => svg("line", { class: "rule", x1: 0, x2: WIDTH, y1: y, y2: y }));
  const drawing = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${name}, last minutes`,
    },
    rules,
    values.length === 1 ? area : null,
    [...lines].reverse(),
    cross,
  );
  const since = h("span");
  const top = h("span", { class: "top" });
  const readout = h("span", { class: "readout", hidden: true });
  const node = h(
    "div",
    { class: "chart" },
    drawing,
    top,
    readout,
    h("div", { class: "axis", "aria-hidden": "true" }, since, h("span", null, "now")),
  );

  /** @type {Sample[]} */
  let samples = [];
  let now = Date.now();
  let minutes = 1;
  /** @param {Sample} sample */
  const x = (sample) => WIDTH - ((now - sample.at) / (minutes * MINUTE_MS)) * WIDTH;

  node.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = now - (1 - (event.clientX - box.left) / box.width) * minutes * MINUTE_MS;
    const near = samples.reduce(
      (best, sample) => (Math.abs(sample.at - at) < Math.abs(best.at - at) ? sample : best),
      samples[0],
    );
    if (near === undefined) return;
    cross.setAttribute("x1", String(x(near)));
    cross.setAttribute("x2", String(x(near)));
    cross.setAttribute("visibility", "visible");
    const words = values
      .map((value) => value(near))
      .map((value) => (value === null ? "–" : label(value)))
      .join(" / ");
    show(readout, `${words}, ${new Date(near.at).toLocaleTimeString()}`);
    readout.hidden = false;
  });
  node.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    readout.hidden = true;
  });

  /** @param {Sample[]} fresh */
  function update(fresh) {
    samples = fresh;
    now = fresh.at(-1)?.at ?? Date.now();
    const age = now - (fresh[0]?.at ?? now);
    minutes = [1, 2, 5].find((length) => age <= length * MINUTE_MS) ?? 5;
    show(since, `${minutes} min ago`);
    const highest = Math.max(least, ...fresh.flatMap((sample) => values.map((value) => value(sample) ?? 0)));
    const scale = ceiling(highest);
    show(top, label(scale));
    values.forEach((value, index) => {
      const points = fresh.flatMap((sample) => {
        const found = value(sample);
        if (found === null) return [];
        return [{ x: x(sample).toFixed(1), y: (HEIGHT - (found / scale) * HEIGHT).toFixed(1) }];
      });
      const line = points.map((point) => `${point.x},${point.y}`).join("L");
      lines[index].setAttribute("d", points.length > 1 ? `M${line}` : "");
      if (index > 0 || points.length < 2) return;
      area.setAttribute("d", `M${points[0].x},${HEIGHT}L${line}L${points[points.length - 1].x},${HEIGHT}Z`);
    });
  }
  return { node, update };
}
