// JSON, indented and coloured, as nodes.

import { h } from "./dom.js";

function node(value, indent) {
  if (value === null || typeof value === "boolean") return h("span", { class: "word" }, String(value));
  if (typeof value === "number") return h("span", { class: "number-value" }, String(value));
  if (typeof value === "string") return h("span", { class: "string" }, JSON.stringify(value));
  const isList = Array.isArray(value);
  const entries = isList ? value.map((item) => [null, item]) : Object.entries(value);
  const [open, close] = isList ? "[]" : "{}";
  if (entries.length === 0) return open + close;
  const inner = `${indent}  `;
  const lines = entries.map(([key, item], index) => [
    index === 0 ? "\n" : ",\n",
    inner,
    key === null ? null : [h("span", { class: "key" }, JSON.stringify(key)), ": "],
    node(item, inner),
  ]);
  return [open, lines, "\n", indent, close];
}

/** A value, laid out. */
export function json(value) {
  return h("pre", { class: "json", tabindex: "0" }, node(value, ""));
}
