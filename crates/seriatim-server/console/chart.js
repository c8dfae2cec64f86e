// A chart of the last minutes: time runs to the right, the newest sample stands at the right edge. The first minute fills the
// chart; it grows from there to five.

import { h, show, svg } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 100;
const MINUTE_MS = 60_000;

/** A round number that is not far above the value. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((top) => top >= value * 0.999);
}

/**
 * A chart with one line for each of `values` (functions from sample to number or null). `label` says a value in words;
 * `least` is the lowest top that the scale may have, so that silence does not look like noise.
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

  let samples = [];
  let now = Date.now();
  let minutes = 1;
  const x = (sample) => WIDTH - ((now - sample.at) / (minutes * MINUTE_MS)) * WIDTH;

  node.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = now - (1 - (event.clientX - box.left) / box.width) * minutes * MINUTE_MS;
    const near = samples.reduce(
      (best, sample) => (Math.abs(sample.at - at) < Math.abs(best.at - at) ? sample : best),
      samples[0],
    );
    if (near === undefined) return;
    cross.setAttribute("x1", x(near));
    cross.setAttribute("x2", x(near));
    cross.setAttribute("visibility", "visible");
    const told = values
      .map((value) => value(near))
      .map((value) => (value === null ? "–" : label(value)))
      .join(" / ");
    show(readout, `${told}, ${new Date(near.at).toLocaleTimeString()}`);
    readout.hidden = false;
  });
  node.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    readout.hidden = true;
  });

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
      const points = fresh
        .filter((sample) => value(sample) !== null)
        .map((sample) => `${x(sample).toFixed(1)},${(HEIGHT - (value(sample) / scale) * HEIGHT).toFixed(1)}`);
      lines[index].setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
      if (index > 0 || points.length < 2) return;
      const edge = (point) => point.split(",")[0];
      area.setAttribute("d", `M${edge(points[0])},${HEIGHT}L${points.join("L")}L${edge(points.at(-1))},${HEIGHT}Z`);
    });
  }
  return { node, update };
}
