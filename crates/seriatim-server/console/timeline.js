// @ts-check
// A run as a timeline: each command by kind and number, with a bar from the command to its response.

import { path } from "./api.js";
import { h } from "./dom.js";
import { duration, number } from "./format.js";
import { raw } from "./parts.js";

/**
 * An operation of a run, from its command to its response.
 * @typedef {{
 *   kind: string,
 *   number: number | undefined,
 *   title: string,
 *   path: string | undefined,
 *   at: string,
 *   after: number,
 *   target: string | null,
 *   endedAt: string | null,
 *   outcome: string,
 *   detail: string | null,
 *   notes: string[],
 *   entry: Api.HistoryEntry,
 * }} Operation
 */

/**
 * A moment of a run: what it received, or how it ended.
 * @typedef {{ mark: string, title: string | null, at: string, after: number, detail: string | null }} Mark
 */

/** Entries that say nothing to a reader. */
const UNSEEN = ["random_seed", "evict", "patch"];
/** Commands that end an operation at once; the other cancellations only ask it to stop. */
const CANCELLED_AT_ONCE = ["cancel_timer", "cancel_signal"];
/** @type {Record<string, string>} */
const ENDS = { complete: "completed", fail: "failed", cancelled: "cancelled", continue_as_new: "continued as new" };
/** @type {Record<string, string>} */
const RECEIVED = { start: "started", cancel: "asked to stop" };
const BAD = ["failed", "timed out", "terminated"];

/**
 * A word of the API without underscores.
 * @param {string} word
 */
export function plainWord(word) {
  return word.replaceAll("_", " ");
}

/**
 * A payload, or several, as the value that was sent.
 * @param {History.Payload | History.Payload[] | null | undefined} payload
 * @returns {unknown}
 */
export function value(payload) {
  if (Array.isArray(payload)) return payload.length > 1 ? payload.map(value) : value(payload[0]);
  if (typeof payload?.text !== "string") return payload?.encoding === "binary/null" ? null : (payload ?? null);
  try {
    return JSON.parse(payload.text);
  } catch {
    return payload.text;
  }
}

/**
 * Why something failed: the failure, and those that led to it.
 * @param {History.Failure | null | undefined} failure
 * @returns {string | undefined}
 */
export function why(failure) {
  return failure?.cause ? `${failure.message}: ${why(failure.cause)}` : failure?.message;
}

/** @param {unknown} found */
function text(found) {
  return found === null || found === undefined ? null : typeof found === "string" ? found : JSON.stringify(found);
}

/**
 * A length of time in words: whole numbers stay whole.
 * @param {number} ms
 */
function length(ms) {
  if (ms < 1) return "0 ms";
  const [amount, unit] = duration(ms / 1000);
  return `${amount.replace(/\.0+$/, "")} ${unit}`;
}

/**
 * When something happened: how long after the run began, and exactly when on hover.
 * @param {Operation | Mark} row
 */
function moment(row) {
  return h("span", { class: "small faint", title: row.at }, `+${length(row.after)}`);
}

/**
 * Which operation an entry belongs to: its own, or the one that it cancels, retries or reports as started.
 * @param {Api.HistoryEntry} entry
 */
function operationKey({ what, kind, number: place, details }) {
  if (what === "resolve_child_start") return `child_workflow ${details.seq}`;
  return kind === undefined ? null : `${kind} ${place}`;
}

/**
 * @param {Api.HistoryEntry} entry
 * @param {string} kind
 * @param {number} after
 * @returns {Operation}
 */
function operation(entry, kind, after) {
  const { what, name, at, details, answered_at: endedAt = null, answer } = entry;
  const target = details.options?.workflow_id ?? details.target?.workflow_id ?? null;
  const { secs, nanos } = details.duration ?? { secs: 0, nanos: 0 };
  const title = what === "start_timer" ? `wait ${length(secs * 1e3 + nanos / 1e6)}` : name || target || plainWord(what);
  const { number: place, path: source } = entry;
  const found = { kind, number: place, title, path: source, at, after, target, endedAt, notes: [], entry };
  if (answer === undefined) return { ...found, outcome: "", detail: null };
  const { resolution, failure } = answer;
  const outcome = resolution?.outcome ?? (failure ? "failed" : kind === "timer" ? "fired" : "delivered");
  const detail = text(why(resolution?.failure ?? failure) ?? resolution?.cause ?? value(resolution?.result));
  return { ...found, outcome: plainWord(outcome), detail };
}

/**
 * Adds the content of a later entry to its operation.
 * @param {Operation} found
 * @param {Api.HistoryEntry} entry
 */
function note(found, { what, at, details }) {
  if (CANCELLED_AT_ONCE.includes(what)) Object.assign(found, { endedAt: at, outcome: "cancelled" });
  else if (what.startsWith("cancel_")) found.notes.push("asked to stop");
  else if (what === "retry_activity")
    found.notes.push(`attempt ${(details.attempt ?? 1) - 1} failed: ${why(details.failure)}`);
  else if (details.resolution && details.resolution.outcome !== "started") {
    const { outcome, cause, failure } = details.resolution;
    Object.assign(found, { endedAt: at, outcome: plainWord(outcome), detail: text(why(failure) ?? cause) });
  }
}

/**
 * @param {Api.HistoryEntry} entry
 * @param {number} after
 * @returns {Mark}
 */
function mark({ what, name, at, details }, after) {
  const word = ENDS[what] ?? RECEIVED[what] ?? plainWord(what);
  const detail = why(details.failure) ?? details.reason ?? text(value(details.result ?? details.input ?? null));
  return { mark: word, title: what === "start" || what in ENDS ? null : name, at, after, detail: detail || null };
}

/**
 * The rows of a run: its operations, and between them what it received and how it ended.
 * @param {Api.HistoryEntry[]} entries
 */
function rows(entries) {
  /** @type {Map<string, Operation>} */
  const operations = new Map();
  /** @type {(Operation | Mark)[]} */
  const found = [];
  for (const entry of entries.filter(({ what }) => !UNSEEN.includes(what))) {
    const key = operationKey(entry);
    const known = key === null ? undefined : operations.get(key);
    const after = Date.parse(entry.at) - Date.parse(entries[0].at);
    if (known !== undefined) {
      note(known, entry);
    } else if (key === null || entry.kind === undefined || entry.path === undefined) {
      found.push(mark(entry, after));
    } else {
      const begun = operation(entry, entry.kind, after);
      operations.set(key, begun);
      found.push(begun);
    }
  }
  return found;
}

/**
 * A link to a workflow.
 * @param {string} id
 */
export function workflowLink(id) {
  return h("a", { class: "wrap", href: path`#/workflows/${id}` }, id);
}

/** @param {Operation} row */
function lookOf({ endedAt, outcome }) {
  if (endedAt === null) return "waiting";
  if (BAD.includes(outcome)) return "bad";
  return outcome === "cancelled" ? "done stopped" : "done";
}

/**
 * @param {Operation} row
 * @param {boolean} isRunning
 */
function responseOf({ at, endedAt, outcome }, isRunning) {
  if (endedAt !== null) return `${outcome} after ${length(Date.parse(endedAt) - Date.parse(at))}`;
  return isRunning ? "no response yet" : "no response: the run has ended";
}

/**
 * @param {Operation} row
 * @param {boolean} isRunning
 */
function operationRow(row, isRunning) {
  const bar = h("span", { class: "bar" });
  const item = h(
    "li",
    { class: lookOf(row), "data-operation": `${row.kind} ${row.number}` },
    h(
      "div",
      { class: "timeline-body" },
      h(
        "div",
        { class: "timeline-title" },
        h("b", null, row.title),
        h("span", { class: "chip" }, `${plainWord(row.kind)} `, number(row.number)),
        h("code", { class: "faint", title: "Where in the code it comes from" }, row.path),
      ),
      h("div", { class: "track" }, bar),
      h(
        "p",
        { class: "small quiet wrap" },
        responseOf(row, isRunning),
        row.detail === null ? null : [": ", row.detail],
        row.target === null ? null : [" · ", workflowLink(row.target)],
      ),
      row.notes.map((line) => h("p", { class: "small quiet wrap" }, line)),
      raw("Command and response", { command: row.entry.details, response: row.entry.answer ?? null }),
    ),
    moment(row),
  );
  return { item, bar };
}

/** @param {Mark} row */
function markRow(row) {
  const look = BAD.includes(row.mark) ? "bad" : "done";
  const item = h(
    "li",
    { class: `${look} mark` },
    h(
      "div",
      { class: "timeline-body" },
      h("p", null, h("b", null, row.mark), row.title ? ` ${row.title}` : null),
      row.detail === null ? null : h("p", { class: "small quiet wrap" }, row.detail),
    ),
    moment(row),
  );
  return { item, bar: null };
}

/**
 * A timeline. `draw` shows the entries of a run; `stretch` scales the bars to the time from its beginning to `until`.
 */
export function timeline() {
  const node = h("ol", { class: "timeline", "aria-label": "Commands and responses" });
  /** @typedef {{ key: string, row: Operation | Mark, item: HTMLElement, bar: HTMLElement | null }} Drawn */
  /**
   * Unchanged rows keep their nodes, so that details that the reader has opened stay open.
   * @type {Map<string, Drawn>}
   */
  let made = new Map();
  /** @type {Drawn[]} */
  let drawn = [];
  /**
   * @param {Api.HistoryEntry[]} entries
   * @param {boolean} isRunning
   */
  const draw = (entries, isRunning) => {
    drawn = rows(entries).map((row) => {
      const key = JSON.stringify([row, isRunning && "endedAt" in row && row.endedAt === null]);
      return made.get(key) ?? { key, row, ...("mark" in row ? markRow(row) : operationRow(row, isRunning)) };
    });
    made = new Map(drawn.map((one) => [one.key, one]));
    node.replaceChildren(...drawn.map(({ item }) => item));
  };
  /** @param {number} until */
  const stretch = (until) => {
    const from = Math.min(...drawn.map(({ row }) => Date.parse(row.at)));
    const all = Math.max(1, until - from);
    for (const { row, bar } of drawn) {
      if (bar === null || "mark" in row) continue;
      const begun = Math.min(Date.parse(row.at) - from, all);
      const ended = row.endedAt === null ? all : Math.min(Date.parse(row.endedAt) - from, all);
      // A bar without length is visible too, also at the end.
      bar.style.left = `min(${(begun / all) * 100}%, 100% - 6px)`;
      bar.style.width = `${((ended - begun) / all) * 100}%`;
    }
  };
  return { node, draw, stretch };
}
