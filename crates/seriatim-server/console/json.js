// @ts-check
// JSON, indented and coloured, as nodes.

import { h } from "./dom.js";

/** @import { Child } from "./dom.js" */

/**
 * @param {unknown} value
 * @param {string} indent
 * @returns {Child}
 */
function node(value, indent) {
  if (value === null || typeof value === "boolean") return h("span", { class: "word" }, String(value));
  if (typeof value === "number") return h("span", { class: "number-value" }, String(value));
  if (typeof value === "string") return h("span", { class: "string" }, JSON.stringify(value));
  const isList = Array.isArray(value);
  /** @type {[string | null, unknown][]} */
  const entries = Array.isArray(value) ? value.map((item) => [null, item]) : Object.entries(value ?? {});
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
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

/**
 * A value, indented and coloured.
 * @param {unknown} value
 */
export function json(value) {
  return h("pre", { class: "json", tabindex: "0" }, node(value, ""));
}
