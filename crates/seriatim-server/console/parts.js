// Parts that pages are made of.

import { Problem } from "./api.js";
import { h, show } from "./dom.js";
import { sentence } from "./format.js";
import { json } from "./json.js";

/** The head of a page; its title takes the focus when the page opens. */
export function head(title, { crumbs = [], lead = null, actions = [] } = {}) {
  const trail = crumbs.map(([label, address]) => h("li", null, h("a", { href: address }, label)));
  return h("div", { class: "page-head" },
    h("div", null,
      trail.length > 0 ? h("nav", { "aria-label": "Where you are" }, h("ol", { class: "crumbs" }, trail)) : null,
      h("h1", { tabindex: "-1" }, title),
      lead ? h("p", { class: "lead" }, lead) : null),
    actions.length > 0 ? h("div", { class: "actions" }, actions) : null);
}

/** A table. A column is `{label, cell, kind?, wide?}`; kind `num` stands right, `head` names the row; wide ones leave a phone. */
export function table(label, columns, rows) {
  const look = ({ kind, wide }) => [kind === "num" ? "num" : null, kind === "time" ? "time" : null, wide ? "wide" : null].filter(Boolean).join(" ") || null;
  const cell = (column, row) =>
    h(column.kind === "head" ? "th" : "td", { class: look(column), scope: column.kind === "head" ? "row" : null }, column.cell(row));
  const body = h("tbody");
  const append = (more) => body.append(...more.map((row) => h("tr", null, columns.map((column) => cell(column, row)))));
  append(rows);
  const whole = h("table", { "aria-label": label },
    h("thead", null, h("tr", null, columns.map((column) => h("th", { class: look(column), scope: "col" }, column.label)))), body);
  return { node: h("div", { class: "scroll" }, whole), body, append };
}

/**
 * A table that is read page by page. `read(after)` gives `{rows, next}` with next null at the end; `none` is shown if there is
 * nothing at all.
 */
export async function pagedTable(label, columns, read, none) {
  const first = await read(null);
  if (first.rows.length === 0) return h("div", { class: "card" }, none);
  const { node, append } = table(label, columns, first.rows);
  let [next, shown] = [first.next, first.rows.length];
  const count = h("span", null);
  const more = h("button", { class: "button slight", type: "button" }, "Show more");
  const tell = () => {
    show(count, next === null ? `${shown} in all` : `${shown} shown`);
    more.hidden = next === null;
  };
  more.addEventListener("click", () => during(more, async () => {
    const page = await read(next);
    append(page.rows);
    [next, shown] = [page.next, shown + page.rows.length];
    tell();
  }, count));
  tell();
  return h("div", { class: "card flush" }, node, h("div", { class: "table-foot" }, count, more));
}

/** A page of a list that answers `next`: the last one is known by being short. */
export function page(rows, next, limit) {
  return { rows, next: rows.length < limit ? null : next };
}

/** What stands where nothing is yet: what it is, what to do, and the line to paste. */
export function empty(title, text, line = null) {
  return h("div", { class: "empty" }, h("h2", null, title), h("p", null, text), line ? codeLine(line) : null);
}

/** A line to paste into a terminal. */
export function codeLine(line) {
  const copy = h("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(line).catch(() => {});
    show(copy, "Copied");
    setTimeout(() => show(copy, "Copy"), 1500);
  });
  return h("div", { class: "code-line" }, h("code", { tabindex: "0" }, line), copy);
}

/** The address of this server, for lines to paste. */
export const server = location.origin;

/** A problem, readable. */
export function problem(error) {
  if (!(error instanceof Problem)) throw error;
  const facts = [
    error.code ? ["code", h("code", null, error.code)] : null,
    error.expected !== undefined ? ["expected", String(error.expected)] : null,
    error.found !== undefined ? ["found", String(error.found)] : null,
    error.code === "in_doubt" ? ["what to do", "send it again with the same idempotency key"]
      : error.retryable ? ["what to do", "send it again in a moment"] : null,
  ].filter(Boolean);
  return h("div", { class: "problem", role: "alert" }, h("strong", null, error.title), h("p", null, sentence(error.message)),
    facts.length > 0 ? definitions(facts) : null);
}

/** Names and values. */
export function definitions(facts) {
  return h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

/** Names and values side by side, the values large. */
export function figures(facts) {
  return h("dl", { class: "figures" }, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** An input with its label. */
export function field(label, input, hint = null) {
  return h("label", { class: "field" }, h("span", null, label), input, hint ? h("small", null, hint) : null);
}

/** A button. */
export function button(label, { primary = false, slight = false, onclick = null, type = "button" } = {}) {
  return h("button", { class: ["button", primary ? "primary" : null, slight ? "slight" : null].filter(Boolean).join(" "), type, onclick }, label);
}

/** A form that does something: the button rests meanwhile, and a problem is shown in `output`. */
export function form(properties, submit, work, output) {
  const { children, ...rest } = properties;
  const onsubmit = (event) => {
    event.preventDefault();
    during(submit, work, output);
  };
  return h("form", { ...rest, onsubmit }, children);
}

/** What an input holds as JSON; undefined if it is empty. What is not JSON is a problem like the server's. */
export function parseInput({ value }) {
  if (value.trim() === "") return undefined;
  try {
    return JSON.parse(value);
  } catch (error) {
    throw new Problem(0, { title: "The input is not JSON", detail: `${error.message}: text stands in quotes` });
  }
}

/** Runs something while its button rests; a problem is shown in `output`. */
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

const LOOKS = { ready: "good", recovering: "warn", stopped: "bad", fenced: "bad", completed: "good", failed: "bad" };

/** A state, by dot and word. */
export function status(word, look = LOOKS[word] ?? "") {
  return h("span", { class: `status ${look}` }, word);
}

/** JSON behind a line that opens. */
export function raw(label, value) {
  const details = h("details", { class: "raw" }, h("summary", null, label));
  details.addEventListener("toggle", () => details.open && details.childElementCount === 1 && details.append(json(value)));
  return details;
}

/** A key that no other request has. */
export function freshKey() {
  return crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Says something in passing. */
export function notify(text) {
  const notice = document.querySelector(".notice");
  show(notice, text);
  setTimeout(() => notice.textContent === text && show(notice, ""), 4000);
}
