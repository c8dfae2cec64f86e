// @ts-check
// A log on the page: the newest events first, following live, with a bounded number of rows.

import { get } from "./api.js";
import { h, show } from "./dom.js";
import { follow } from "./follow.js";
import { ago, number } from "./format.js";
import { json } from "./json.js";
import { button, during, problem, raw } from "./parts.js";

/** @import { Child } from "./dom.js" */
/** @import { State } from "./follow.js" */

const ROWS_MAX = 200;
const PAGE = 50;

/**
 * The offset of the next event of a log. Offsets are dense, so a few requests find the end of any log.
 * @param {string} address
 */
export async function findNext(address) {
  /** @type {Api.Events} */
  const first = await get(`${address}?from=1&limit=${PAGE}`);
  if (first.events.length < PAGE) return first.next;
  /** @param {number} offset */
  const has = async (offset) => {
    /** @type {Api.Events} */
    const { events } = await get(`${address}?from=${offset}&limit=1`);
    return events.length > 0;
  };
  let [low, high] = [PAGE, PAGE * 16];
  while (await has(high)) [low, high] = [high, high * 16];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (await has(middle)) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * A record in a command or an event, with its child records.
 * @typedef {{ create?: string, id?: number, fields?: Record<string, unknown>, children?: unknown }} Row
 */

/**
 * All records of a tree, the root first.
 * @param {unknown} tree
 * @returns {Row[]}
 */
export function rowsOf(tree) {
  if (!tree || typeof tree !== "object") return [];
  const row = /** @type {Row} */ (tree);
  return [row, ...(Array.isArray(row.children) ? row.children.flatMap(rowsOf) : [])];
}

/**
 * The numbers of a series that an event took; null if it took none.
 * @param {Api.Event} event
 */
export function takenBy(event) {
  const result = /** @type {Api.Taken | null | undefined} */ (event.result);
  return result && result.count > 0 && result.text !== undefined ? result : null;
}

/**
 * What an event drew and changed, as chips: the numbers first.
 * @param {Api.Event} event
 * @param {Api.Application} definition
 */
function chips(event, definition) {
  const documents = new Map(definition.documents.map((document) => [document.name, document]));
  const rows = [event.args, ...event.changes].flatMap(rowsOf);
  const drawn = rows.flatMap(({ create, fields = {} }) =>
    (documents.get(create ?? "")?.fields ?? [])
      .filter(({ draw, name }) => draw && fields[name] !== undefined)
      .map(({ draw, name }) => h("span", { class: "chip drawn" }, h("small", null, draw), number(fields[name]))),
  );
  const taken = takenBy(event);
  if (taken !== null) {
    const many = taken.count > 1 ? h("small", null, `${taken.count} numbers from`) : null;
    drawn.push(h("span", { class: "chip drawn" }, many, taken.text));
  }
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { create } of rows) if (create) counts.set(create, (counts.get(create) ?? 0) + 1);
  const made = [...counts].map(([name, count]) => h("span", { class: "chip" }, name, count > 1 ? ` × ${count}` : null));
  const updates = event.changes.filter((change) => change.update !== undefined).length;
  const updated = updates > 0 ? h("span", { class: "chip" }, `${updates} updated`) : null;
  const args = /** @type {{ reason?: unknown, note?: unknown } | null} */ (event.args);
  const reason = args?.reason ?? args?.note;
  return [drawn, made, updated, typeof reason === "string" ? h("span", { class: "chip" }, reason) : null];
}

/**
 * @param {Api.Event} event
 * @param {number} offset
 * @param {Api.Application} definition
 */
function eventRow(event, offset, definition) {
  const details = h(
    "details",
    null,
    h(
      "summary",
      null,
      h("span", { class: "offset" }, number(offset)),
      ago(event.at),
      h("span", { class: "command" }, event.command),
      h("span", { class: "chips" }, chips(event, definition)),
    ),
  );
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(h("div", { class: "body" }, json(event)));
  });
  return h("li", { "data-offset": offset }, details);
}

/**
 * A log. `offsetOf` reads an event's offset in it; `next`, if known, avoids the search for the end; `none` is shown for
 * an empty log. Returns the node, `toggle` to pause or resume, and `stop`.
 * @param {{
 *   address: string,
 *   definition: Api.Application,
 *   offsetOf: (event: Api.Event) => number,
 *   next?: number | null,
 *   none: Child,
 *   compact?: boolean,
 *   rowsMax?: number,
 * }} options
 */
export function eventLog({ address, definition, offsetOf, next = null, none, compact = false, rowsMax = ROWS_MAX }) {
  const list = h("ol", { class: compact ? "log compact" : "log", "aria-label": "Events, newest first" });
  const state = h("span", { class: "status", role: "status" }, "opening");
  const pause = button("Pause", { slight: true, onclick: toggle });
  const count = h("span", { class: "small faint push" });
  const older = button("Show older events", { slight: true, onclick: () => during(older, showOlder, state) });
  const foot = h("div", { class: "table-foot", hidden: true }, h("span", null), older);
  const blank = h("div", { hidden: true }, none);
  const node = h(
    "section",
    { class: "card flush" },
    h("div", { class: "log-tools" }, state, count, pause),
    blank,
    list,
    compact ? null : foot,
  );

  let end = next ?? 1;
  /** @type {(() => void) | null} */
  let stopFollowing = null;
  let [paused, stopped] = [false, false];
  /** @type {Api.Event[]} */
  let waiting = [];

  /**
   * @param {string} word
   * @param {string} look
   */
  function setState(word, look) {
    show(state, word);
    state.className = `status ${look}`;
  }

  /** @param {unknown} error */
  function refuse(error) {
    setState("not following", "bad");
    blank.hidden = false;
    show(blank, problem(error));
  }

  function oldestOffset() {
    return Number(list.lastElementChild?.getAttribute("data-offset") ?? 1);
  }

  function updateFoot() {
    const rows = list.childElementCount;
    blank.hidden = rows > 0;
    foot.hidden = oldestOffset() <= 1 || rows >= rowsMax;
    show(count, end > 1 ? [number(end - 1), end === 2 ? " event" : " events"] : "");
  }

  function paint() {
    const events = waiting;
    waiting = [];
    for (const event of events) {
      const row = eventRow(event, offsetOf(event), definition);
      row.classList.add("fresh");
      list.prepend(row);
    }
    while (list.childElementCount > rowsMax) list.lastElementChild?.remove();
    updateFoot();
  }

  /** @param {Api.Event} event */
  function take(event) {
    end = offsetOf(event) + 1;
    if (waiting.length === 0) requestAnimationFrame(paint);
    waiting.push(event);
    // Rows that newer ones would replace immediately are not built.
    if (waiting.length > rowsMax) waiting.shift();
  }

  /** @param {State} found */
  function onState(found) {
    if (found === "following") setState("following live", "good");
    else if (found === "waiting") setState("connection lost, trying again", "warn");
    else refuse(found);
  }

  function start() {
    stopFollowing = follow(address, end, { onEvent: take, onState });
  }

  function toggle() {
    // Until the log is open there is nothing to pause.
    if (stopped || stopFollowing === null) return;
    paused = !paused;
    show(pause, paused ? "Resume" : "Pause");
    if (paused) {
      stopFollowing();
      setState("paused", "");
    } else {
      setState("opening", "");
      start();
    }
  }

  async function showOlder() {
    const oldest = oldestOffset();
    const from = Math.max(1, oldest - PAGE);
    /** @type {Api.Events} */
    const { events } = await get(`${address}?from=${from}&limit=${oldest - from}`);
    for (const event of events.reverse()) list.append(eventRow(event, offsetOf(event), definition));
    updateFoot();
  }

  async function open() {
    try {
      end = next ?? (await findNext(address));
      const first = Math.min(PAGE, rowsMax);
      const from = Math.max(1, end - first);
      /** @type {Api.Events} */
      const { events } = await get(`${address}?from=${from}&limit=${first}`);
      if (stopped) return;
      end = Math.max(end, ...events.map((event) => offsetOf(event) + 1));
      for (const event of events) list.prepend(eventRow(event, offsetOf(event), definition));
      updateFoot();
      start();
    } catch (error) {
      refuse(error);
    }
  }
  open();
  return {
    node,
    toggle,
    stop() {
      stopped = true;
      stopFollowing?.();
    },
  };
}

/**
 * The event that drew a number, with all details.
 * @param {Api.Event} event
 * @param {Api.Application} definition
 */
export function eventCard(event, definition) {
  return h(
    "div",
    { class: "result plain" },
    h("div", { class: "chips" }, h("span", { class: "chip" }, event.command), chips(event, definition)),
    h(
      "p",
      { class: "small quiet" },
      "event ",
      number(event.workspace_offset),
      " of the workspace, ",
      ago(event.at),
      event.idempotency_key ? [", key ", h("code", null, event.idempotency_key)] : null,
    ),
    raw("The whole event", event),
  );
}
