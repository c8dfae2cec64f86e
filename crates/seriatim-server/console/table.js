// @ts-check
// Tables: of rows that are given, and of rows that are read page by page and stay live.

import { h, show } from "./dom.js";
import { during } from "./parts.js";

/** @import { Options } from "./api.js" */
/** @import { Child } from "./dom.js" */

/**
 * A column. Kind `num` is aligned to the right, `time` does not wrap, `head` names the row. A phone does not show wide
 * columns.
 * @template Row
 * @typedef {{ label: string, cell: (row: Row) => Child, kind?: "num" | "time" | "head", wide?: boolean }} Column
 */

/**
 * @template Row
 * @param {Column<Row>} column
 */
function look({ kind, wide }) {
  const words = [kind === "num" || kind === "time" ? kind : null, wide ? "wide" : null];
  return words.filter(Boolean).join(" ") || null;
}

/**
 * A table. `draw` shows other rows in it.
 * @template Row
 * @param {string} label
 * @param {Column<Row>[]} columns
 * @param {Row[]} rows
 */
export function table(label, columns, rows) {
  /**
   * The data of each row.
   * @type {WeakMap<HTMLTableRowElement, string>}
   */
  const texts = new WeakMap();
  /**
   * @param {Column<Row>} column
   * @param {Row} row
   */
  const cell = (column, row) =>
    column.kind === "head"
      ? h("th", { class: look(column), scope: "row" }, column.cell(row))
      : h("td", { class: look(column) }, column.cell(row));
  const body = h("tbody");
  /**
   * @param {Row} row
   * @param {string} text
   */
  const make = (row, text) => {
    const made = h(
      "tr",
      null,
      columns.map((column) => cell(column, row)),
    );
    texts.set(made, text);
    return made;
  };
  /**
   * Replaces the cells of an old row that differ from those of the new one.
   * @param {HTMLTableRowElement} old
   * @param {HTMLTableRowElement} made
   */
  const change = (old, made) => {
    [...made.cells].forEach((cell, index) => !cell.isEqualNode(old.cells[index]) && old.cells[index].replaceWith(cell));
    texts.set(old, texts.get(made) ?? "");
    return old;
  };
  /**
   * Rows keep their nodes, and only changed cells are replaced, so that the focus is kept.
   * @param {Row[]} all
   */
  const draw = (all) => {
    const wanted = all.map((row) => JSON.stringify(row));
    const known = new Set(wanted);
    /** @type {Map<string, HTMLTableRowElement>} */
    const kept = new Map();
    /** @type {HTMLTableRowElement[]} */
    const changed = [];
    for (const row of body.rows) {
      const text = texts.get(row) ?? "";
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

/**
 * @template Row
 * @typedef {{ rows: Row[], next: string | number | null }} Page
 */

const LIST_PERIOD_MS = 2000;
const LIST_PAGE = 50;
// The longest page of the server: later rows are not kept up to date.
const LIST_LIVE_MAX = 1000;

/**
 * A table that is read page by page, and is live: it is read again while the page is open. `read` gives a page of rows
 * and, as `next`, the cursor of the following page, null at the end; `none` is shown while there are no rows.
 * @template Row
 * @param {string} label
 * @param {Column<Row>[]} columns
 * @param {(query: Record<string, string>, options?: Options) => Promise<Page<Row>>} read
 * @param {Child} none
 */
export async function pagedTable(label, columns, read, none) {
  const place = h("div");
  const { node, draw } = table(label, columns, []);
  const count = h("span", null);
  const more = h("button", { class: "button slight", type: "button" }, "Show more");
  const filled = h("div", { class: "card flush" }, node, h("div", { class: "table-foot" }, count, more));
  const unfilled = h("div", { class: "card" }, none);
  let asked = 0;

  /**
   * @param {Page<Row>["next"]} after
   * @param {number} limit
   * @param {Options} [options]
   */
  const readPage = (after, limit, options) =>
    read({ limit: String(limit), ...(after === null ? {} : { after: String(after) }) }, options);
  let { rows, next } = await readPage(null, LIST_PAGE);
  const redraw = () => {
    draw(rows);
    show(count, next === null ? `${rows.length} in all` : `${rows.length} shown`);
    more.hidden = next === null;
    const wanted = rows.length === 0 ? unfilled : filled;
    if (place.firstChild !== wanted) show(place, wanted);
  };
  async function refresh() {
    const turn = ++asked;
    // A list that is shown completely is still shown completely when it grows.
    const wanted = next === null ? rows.length + LIST_PAGE : rows.length;
    const limit = Math.min(Math.max(wanted, LIST_PAGE), LIST_LIVE_MAX);
    const page = await readPage(null, limit, { ask: false });
    // Ignore this answer: the answer to a later request is newer.
    if (turn !== asked) return;
    const rest = rows.slice(limit);
    rows = [...page.rows, ...rest];
    if (rest.length === 0) next = page.next;
    redraw();
  }
  more.addEventListener("click", () =>
    during(
      more,
      async () => {
        asked += 1;
        const page = await readPage(next, LIST_PAGE);
        rows = [...rows, ...page.rows];
        next = page.next;
        redraw();
      },
      count,
    ),
  );
  redraw();
  // If the server does not answer, the navigation says so; the list is read again later.
  const timer = setInterval(() => !document.hidden && !more.disabled && refresh().catch(() => {}), LIST_PERIOD_MS);
  return { node: place, stop: () => clearInterval(timer) };
}
