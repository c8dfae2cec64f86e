// Numbers and moments, as people read them.

import { h } from "./dom.js";

/** A whole number, in groups of three that stand apart by space alone: copying gives the plain digits. */
export function number(value) {
  if (value === null || value === undefined) return h("span", { class: "number faint" }, "–");
  const text = String(value);
  const [, sign, digits] = /^(-?)(\d+)$/.exec(text) ?? [];
  if (digits === undefined || digits.length < 4) return h("span", { class: "number" }, text);
  const groups = digits.match(/\d{1,3}(?=(\d{3})*$)/g);
  groups[0] = sign + groups[0];
  return h(
    "span",
    { class: "number" },
    groups.map((group) => h("span", null, group)),
  );
}

/** Thousands apart, as text: for titles and labels, which hold no elements. */
export function digits(value) {
  return String(value).replace(/\d(?=(\d{3})+$)/g, "$&\u202f");
}

/** A message as a sentence begins. */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** So many a second. */
export function rate(value) {
  if (!Number.isFinite(value)) return "–";
  return value !== 0 && value < 10 ? value.toFixed(1) : digits(Math.round(value));
}

/** A length of time in its own unit: `["1.4", "ms"]`. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return ["–", "ms"];
  if (seconds < 0.001) return [String(Math.round(seconds * 1e6)), "µs"];
  if (seconds < 1) return [(seconds * 1e3).toFixed(seconds < 0.01 ? 2 : seconds < 0.1 ? 1 : 0), "ms"];
  if (seconds < 120) return [seconds.toFixed(2), "s"];
  return seconds < 7200 ? [(seconds / 60).toFixed(1), "min"] : [(seconds / 3600).toFixed(1), "h"];
}

function words(seconds) {
  const away = Math.abs(seconds);
  const [amount, unit] =
    away < 60
      ? [away, "s"]
      : away < 3600
        ? [away / 60, "min"]
        : away < 86400
          ? [away / 3600, "h"]
          : away < 86400 * 730
            ? [away / 86400, "days"]
            : [away / 86400 / 365.25, "years"];
  const text = `${digits(Math.floor(amount))} ${unit}`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

function relative(moment) {
  const seconds = (Date.now() - moment) / 1000;
  return Math.abs(seconds) < 1 ? "just now" : words(seconds);
}

/** A moment: how long ago, and exactly when on hover. */
export function ago(text) {
  const moment = Date.parse(text);
  if (Number.isNaN(moment)) return h("span", { class: "faint" }, "–");
  const exact = new Date(moment).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
  return h("time", { datetime: text, title: `${exact}\n${text}` }, relative(moment));
}

/** Keeps every moment on the page true. */
export function keepTime() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time")) {
      const text = relative(Date.parse(element.dateTime));
      if (element.textContent !== text) element.textContent = text;
    }
  }, 1000);
}
