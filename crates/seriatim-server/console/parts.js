// @ts-check
// Parts that pages are made of.

import { Problem } from "./api.js";
import { fixed, h, show } from "./dom.js";
import { sentence } from "./format.js";
import { json } from "./json.js";

/** @import { Child, Properties } from "./dom.js" */

/**
 * A name and its value.
 * @typedef {[string, Child]} Fact
 */

/**
 * The head of a page; its title takes the focus when the page opens. `crumbs` are labels and addresses.
 * @param {Child} title
 * @param {{ crumbs?: [string, string][], lead?: Child, actions?: Child[] }} [options]
 */
export function head(title, { crumbs = [], lead = null, actions = [] } = {}) {
  const trail = crumbs.map(([label, address]) => h("li", null, h("a", { href: address }, label)));
  return h(
    "div",
    { class: "page-head" },
    h(
      "div",
      null,
      trail.length > 0 ? h("nav", { "aria-label": "Breadcrumb" }, h("ol", { class: "crumbs" }, trail)) : null,
      h("h1", { tabindex: "-1" }, title),
      lead ? h("p", { class: "lead" }, lead) : null,
    ),
    actions.length > 0 ? h("div", { class: "actions" }, actions) : null,
  );
}

/**
 * The content of an empty list: what is missing, what to do, and a command to paste.
 * @param {string} title
 * @param {string} text
 * @param {string | null} [line]
 */
export function empty(title, text, line = null) {
  return h("div", { class: "empty" }, h("h2", null, title), h("p", null, text), line ? codeLine(line) : null);
}

/**
 * Copies a text; returns whether that worked. Browsers give pages over plain HTTP no clipboard, except on loopback.
 * @param {string} text
 */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * A line to paste into a terminal.
 * @param {string} line
 */
export function codeLine(line) {
  const copy = h("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    show(copy, (await copied(line)) ? "Copied" : "Not allowed");
    setTimeout(() => show(copy, "Copy"), 1500);
  });
  return h("div", { class: "code-line" }, h("code", { tabindex: "0" }, line), copy);
}

/** The address of this server, for lines to paste. */
export const server = location.origin;

/**
 * Shows a problem. Any other error is an error of the console, and is thrown.
 * @param {unknown} error
 */
export function problem(error) {
  if (!(error instanceof Problem)) throw error;
  /** @type {Fact[]} */
  const facts = [];
  if (error.code) facts.push(["code", h("code", null, error.code)]);
  if (error.expected !== undefined) facts.push(["expected", String(error.expected)]);
  if (error.found !== undefined) facts.push(["found", String(error.found)]);
  if (error.code === "in_doubt") facts.push(["what to do", "send it again with the same idempotency key"]);
  else if (error.retryable) facts.push(["what to do", "send it again in a moment"]);
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", null, error.title),
    h("p", null, sentence(error.message)),
    facts.length > 0 ? definitions(facts) : null,
  );
}

/**
 * Names and values.
 * @param {Fact[]} facts
 */
export function definitions(facts) {
  return h(
    "dl",
    { class: "facts" },
    facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

/**
 * Names and values side by side, the values large.
 * @param {Fact[]} facts
 */
export function figures(facts) {
  return h(
    "dl",
    { class: "figures" },
    facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

/**
 * An input with its label.
 * @param {string} label
 * @param {HTMLElement} input
 * @param {string | null} [hint]
 */
export function field(label, input, hint = null) {
  return h("label", { class: "field" }, h("span", null, label), input, hint ? h("small", null, hint) : null);
}

/**
 * A button.
 * @param {string} label
 * @param {{ primary?: boolean, slight?: boolean, onclick?: () => unknown, type?: "button" | "submit" }} [options]
 */
export function button(label, { primary = false, slight = false, onclick, type = "button" } = {}) {
  const look = primary ? "button primary" : slight ? "button slight" : "button";
  return h("button", { class: look, type, onclick }, label);
}

/**
 * A form that does something: its button is disabled meanwhile, and a problem is shown in `output`.
 * @param {Properties} properties
 * @param {Child[]} children
 * @param {HTMLButtonElement} submit
 * @param {() => Promise<void>} work
 * @param {Element} output
 */
export function form(properties, children, submit, work, output) {
  /** @param {Event} event */
  const onsubmit = (event) => {
    event.preventDefault();
    during(submit, work, output);
  };
  return h("form", { ...properties, onsubmit }, children);
}

/**
 * The value of an input as JSON; undefined if it is empty. An input that is not JSON is a problem like the server's.
 * @param {HTMLTextAreaElement} input
 * @returns {unknown}
 */
export function parseInput({ value }) {
  if (value.trim() === "") return undefined;
  try {
    return JSON.parse(value);
  } catch (error) {
    throw new Problem(0, { title: "The input is not JSON", detail: `${messageOf(error)}: text needs double quotes` });
  }
}

/**
 * The message of an error.
 * @param {unknown} error
 */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Runs something while its button is disabled; a problem is shown in `output`.
 * @param {HTMLButtonElement} submit
 * @param {() => Promise<void>} work
 * @param {Element} output
 */
export async function during(submit, work, output) {
  if (submit.disabled) return;
  submit.disabled = true;
  try {
    await work();
  } catch (error) {
    show(output, problem(error));
  } finally {
    submit.disabled = false;
  }
}

/** @type {Record<string, string>} */
const LOOKS = { ready: "good", recovering: "warn", stopped: "bad", fenced: "bad", completed: "good", failed: "bad" };

/**
 * A state, by dot and word.
 * @param {string} word
 * @param {string} [look]
 */
export function status(word, look = LOOKS[word] ?? "") {
  return h("span", { class: `status ${look}` }, word);
}

/**
 * JSON that is shown when its label is opened.
 * @param {string} label
 * @param {unknown} value
 */
export function raw(label, value) {
  const details = h("details", { class: "raw" }, h("summary", null, label));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(json(value));
  });
  return details;
}

/** A key that no other request has. */
export function freshKey() {
  return (
    crypto.randomUUID?.() ??
    Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")
  );
}

/**
 * Shows a message for a few seconds.
 * @param {string} text
 */
export function notify(text) {
  const notice = fixed(".notice");
  show(notice, text);
  setTimeout(() => notice.textContent === text && show(notice, ""), 4000);
}
