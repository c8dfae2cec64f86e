// @ts-check
// Numbers and times, formatted for reading.

import { h } from "./dom.js";

/**
 * A whole number, in groups of three that only space separates: copying it gives the plain digits.
 * @param {unknown} value
 */
export function number(value) {
  if (value === null || value === undefined) return h("span", { class: "number faint" }, "–");
  const text = String(value);
  const [, sign, digits] = /^(-?)(\d+)$/.exec(text) ?? [];
  if (digits === undefined || digits.length < 4) return h("span", { class: "number" }, text);
  const groups = digits.match(/\d{1,3}(?=(\d{3})*$)/g) ?? [];
  groups[0] = sign + groups[0];
  return h(
    "span",
    { class: "number" },
    groups.map((group) => h("span", null, group)),
  );
}

/**
 * The same as text, for titles and labels, which hold no elements.
 * @param {number} value
 */
export function digits(value) {
  return String(value).replace(/\d(?=(\d{3})+$)/g, "$&\u202f");
}

/**
 * A message with a capital letter.
 * @param {string} text
 */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * A rate per second.
 * @param {number} value
 */
export function rate(value) {
  if (!Number.isFinite(value)) return "–";
  return value !== 0 && value < 10 ? value.toFixed(1) : digits(Math.round(value));
}

/**
 * A length of time in its own unit: `["1.4", "ms"]`.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return ["–", "ms"];
  if (seconds < 0.001) return [String(Math.round(seconds * 1e6)), "µs"];
  if (seconds < 1) return [(seconds * 1e3).toFixed(seconds < 0.01 ? 2 : seconds < 0.1 ? 1 : 0), "ms"];
  if (seconds < 120) return [seconds.toFixed(2), "s"];
  return seconds < 7200 ? [(seconds / 60).toFixed(1), "min"] : [(seconds / 3600).toFixed(1), "h"];
}

const DAY = 86_400;
// For each unit: up to how many seconds it is used, and how many seconds it has.
const UNITS = [
  { below: 60, seconds: 1, name: "s" },
  { below: 3600, seconds: 60, name: "min" },
  { below: DAY, seconds: 3600, name: "h" },
  { below: DAY * 730, seconds: DAY, name: "days" },
];
const YEARS = { seconds: DAY * 365.25, name: "years" };

/** @param {number} moment */
function relative(moment) {
  const passed = (Date.now() - moment) / 1000;
  const away = Math.abs(passed);
  if (away < 1) return "just now";
  const unit = UNITS.find(({ below }) => away < below) ?? YEARS;
  const text = `${digits(Math.floor(away / unit.seconds))} ${unit.name}`;
  return passed < 0 ? `in ${text}` : `${text} ago`;
}

/**
 * A moment: how long ago, and exactly when on hover.
 * @param {string | null | undefined} text
 */
export function ago(text) {
  const moment = Date.parse(text ?? "");
  if (!text || Number.isNaN(moment)) return h("span", { class: "faint" }, "–");
  const exact = new Date(moment).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
  return h("time", { datetime: text, title: `${exact}\n${text}` }, relative(moment));
}

/** Keeps every moment on the page up to date. */
export function keepTime() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time")) {
      const text = relative(Date.parse(element.dateTime));
      if (element.textContent !== text) element.textContent = text;
    }
  }, 1000);
}
