// Parts that pages are made of.

import { Problem } from "./api.js";
import { h, show } from "./dom.js";
import { sentence } from "./format.js";
import { json } from "./json.js";

/** The head of a page; its title takes the focus when the page opens. */
export function head(title, { crumbs = [], lead = null, actions = [] } = {}) {
  const trail = crumbs.map(([label, address]) => h("li", null, h("a", { href: address }, label)));
  return h(
    "div",
    { class: "page-head" },
    h(
      "div",
      null,
      trail.length > 0 ? h("nav", { "aria-label": "Where you are" }, h("ol", { class: "crumbs" }, trail)) : null,
      h("h1", { tabindex: "-1" }, title),
      lead ? h("p", { class: "lead" }, lead) : null,
    ),
    actions.length > 0 ? h("div", { class: "actions" }, actions) : null,
  );
}

/** A table. A column is `{label, cell, kind?, wide?}`; kind `num` stands right, `head` names the row; wide ones leave a phone. */
export function table(label, columns, rows) {
  const texts = new WeakMap();
  const look = ({ kind, wide }) =>
    [kind === "num" ? "num" : null, kind === "time" ? "time" : null, wide ? "wide" : null].filter(Boolean).join(" ") ||
    null;
  const cell = (column, row) =>
    h(
      column.kind === "head" ? "th" : "td",
      { class: look(column), scope: column.kind === "head" ? "row" : null },
      column.cell(row),
    );
  const body = h("tbody");
  const make = (row, text) => {
    const made = h(
      "tr",
      null,
      columns.map((column) => cell(column, row)),
    );
    texts.set(made, text);
    return made;
  };
  // A row of the same thing, with the cells of another that have changed.
  const change = (old, made) => {
    [...made.cells].forEach((cell, index) => !cell.isEqualNode(old.cells[index]) && old.cells[index].replaceWith(cell));
    texts.set(old, texts.get(made));
    return old;
  };
  // Rows stay the same nodes where they are, and only cells that have changed are written anew: what has the focus keeps it.
  const draw = (all) => {
    const wanted = all.map((row) => JSON.stringify(row));
    const known = new Set(wanted);
    const [kept, changed] = [new Map(), []];
    for (const row of [...body.children]) {
      const text = texts.get(row);
      if (known.has(text)) kept.set(text, row);
      else changed.push(row);
    }
    const nodes = all.map((row, index) => {
      const same = kept.get(wanted[index]);
      if (same !== undefined) return same;
      const made = make(row, wanted[index]);
      const old = changed.findIndex((one) => one.cells[0].isEqualNode(made.cells[0]));
      return old === -1 ? made : change(changed.splice(old, 1)[0], made);
    });
    changed.forEach((row) => row.remove());
    nodes.forEach(
      (node, index) => body.children[index] !== node && body.insertBefore(node, body.children[index] ?? null),
    );
  };
  draw(rows);
  const whole = h(
    "table",
    { "aria-label": label },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        columns.map((column) => h("th", { class: look(column), scope: "col" }, column.label)),
      ),
    ),
    body,
  );
  return { node: h("div", { class: "scroll" }, whole), body, draw };
}

const LIST_PERIOD_MS = 2000;
const LIST_PAGE = 50;
// What the server gives at once; rows after these are not asked for again.
const LIST_LIVE_MAX = 1000;

/**
 * A table that is read page by page, and is live: what is shown is asked for again while the page is open. `read(query, options)`
 * gives `{rows, next}`, with `next` null at the end; `none` is shown while there is nothing at all. Gives its node, and how to stop.
 */
export async function pagedTable(label, columns, read, none) {
  const place = h("div");
  const { node, draw } = table(label, columns, []);
  const count = h("span", null);
  const more = h("button", { class: "button slight", type: "button" }, "Show more");
  const filled = h("div", { class: "card flush" }, node, h("div", { class: "table-foot" }, count, more));
  const unfilled = h("div", { class: "card" }, none);
  let [rows, next, asked] = [[], null, 0];

  const ask = (after, limit, options) => read({ limit, ...(after === null ? {} : { after }) }, options);
  const tell = () => {
    draw(rows);
    show(count, next === null ? `${rows.length} in all` : `${rows.length} shown`);
    more.hidden = next === null;
    const wanted = rows.length === 0 ? unfilled : filled;
    if (place.firstChild !== wanted) show(place, wanted);
  };
  async function refresh() {
    const turn = ++asked;
    // A list that is shown whole stays so when it grows.
    const wanted = next === null ? rows.length + LIST_PAGE : rows.length;
    const limit = Math.min(Math.max(wanted, LIST_PAGE), LIST_LIVE_MAX);
    const page = await ask(null, limit, { ask: false });
    // Something was asked for since: that answer is newer.
    if (turn !== asked) return;
    const rest = rows.slice(limit);
    rows = [...page.rows, ...rest];
    if (rest.length === 0) next = page.next;
    tell();
  }
  more.addEventListener("click", () =>
    during(
      more,
      async () => {
        asked += 1;
        const page = await ask(next, LIST_PAGE);
        rows = [...rows, ...page.rows];
        next = page.next;
        tell();
      },
      count,
    ),
  );
  ({ rows, next } = await ask(null, LIST_PAGE));
  tell();
  // Where the server is away, the readiness says so; the list is asked for again.
  const timer = setInterval(() => !document.hidden && !more.disabled && refresh().catch(() => {}), LIST_PERIOD_MS);
  return { node: place, stop: () => clearInterval(timer) };
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
    error.code === "in_doubt"
      ? ["what to do", "send it again with the same idempotency key"]
      : error.retryable
        ? ["what to do", "send it again in a moment"]
        : null,
  ].filter(Boolean);
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", null, error.title),
    h("p", null, sentence(error.message)),
    facts.length > 0 ? definitions(facts) : null,
  );
}

/** Names and values. */
export function definitions(facts) {
  return h(
    "dl",
    { class: "facts" },
    facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

/** Names and values side by side, the values large. */
export function figures(facts) {
  return h(
    "dl",
    { class: "figures" },
    facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

/** An input with its label. */
export function field(label, input, hint = null) {
  return h("label", { class: "field" }, h("span", null, label), input, hint ? h("small", null, hint) : null);
}

/** A button. */
export function button(label, { primary = false, slight = false, onclick = null, type = "button" } = {}) {
  return h(
    "button",
    {
      class: ["button", primary ? "primary" : null, slight ? "slight" : null].filter(Boolean).join(" "),
      type,
      onclick,
    },
    label,
  );
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
  details.addEventListener(
    "toggle",
    () => details.open && details.childElementCount === 1 && details.append(json(value)),
  );
  return details;
}

/** A key that no other request has. */
export function freshKey() {
  return (
    crypto.randomUUID?.() ??
    Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")
  );
}

/** Says something in passing. */
export function notify(text) {
  const notice = document.querySelector(".notice");
  show(notice, text);
  setTimeout(() => notice.textContent === text && show(notice, ""), 4000);
}
