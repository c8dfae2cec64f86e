// A run as a timeline: each command by kind and number, with a bar from when it was asked for to when it was answered.

import { path } from "./api.js";
import { h } from "./dom.js";
import { duration, number } from "./format.js";
import { raw } from "./parts.js";

/** What a run is told for its own sake, and what the code says to itself. */
const UNSEEN = ["random_seed", "evict", "patch"];
/** What ends with the command that cancels it; everything else is only asked to stop. */
const CANCELLED_AT_ONCE = ["cancel_timer", "cancel_signal"];
const ENDS = { complete: "completed", fail: "failed", cancelled: "cancelled", continue_as_new: "continued as new" };
const TOLD = { start: "started", cancel: "asked to stop" };
const BAD = ["failed", "timed out", "terminated"];

/** A word of the server's as people write it. */
export function plainWord(word) {
  return String(word).replaceAll("_", " ");
}

/** A payload, or several, as the value that people sent. */
export function value(payload) {
  if (Array.isArray(payload))
    return payload.length === 1 ? value(payload[0]) : payload.length === 0 ? null : payload.map(value);
  if (typeof payload?.text !== "string") return payload?.encoding === "binary/null" ? null : (payload ?? null);
  try {
    return JSON.parse(payload.text);
  } catch {
    return payload.text;
  }
}

/** Why something failed: the failure, and those that led to it. */
export function why(failure) {
  return failure?.cause ? `${failure.message}: ${why(failure.cause)}` : failure?.message;
}

function text(found) {
  return found === null || found === undefined ? null : typeof found === "string" ? found : JSON.stringify(found);
}

/** A length of time in words: whole numbers stay whole. */
function length(ms) {
  return ms < 1
    ? "0 ms"
    : duration(ms / 1000)
        .join(" ")
        .replace(/\.0+ /, " ");
}

/** When something happened: how long after the run's begin, and exactly when on hover. */
function moment(row) {
  return h("span", { class: "small faint", title: row.at }, `+${length(row.after)}`);
}

/** Which operation an entry belongs to: its own, or the one that it cancels, tries again or says has begun. */
function operationKey({ what, kind, number: place, details }) {
  if (what === "resolve_child_start") return `child_workflow ${details.seq}`;
  return kind === undefined ? null : `${kind} ${place}`;
}

function operation(entry) {
  const { what, kind, name, path: place, at, details, answered_at: answeredAt = null, answer } = entry;
  const target = details.options?.workflow_id ?? details.target?.workflow_id ?? null;
  const title =
    what === "start_timer"
      ? `wait ${length(details.duration.secs * 1e3 + details.duration.nanos / 1e6)}`
      : name || target || plainWord(what);
  const found = {
    kind,
    number: entry.number,
    title,
    path: place,
    at,
    target,
    endedAt: answeredAt,
    outcome: null,
    detail: null,
    notes: [],
    entry,
  };
  if (answeredAt === null) return found;
  const { resolution, failure } = answer;
  const outcome = resolution?.outcome ?? (failure ? "failed" : kind === "timer" ? "fired" : "delivered");
  const detail = text(why(resolution?.failure ?? failure) ?? resolution?.cause ?? value(resolution?.result));
  return { ...found, outcome: plainWord(outcome), detail };
}

/** Adds to an operation what was said about it later. */
function note(found, { what, at, details }) {
  if (CANCELLED_AT_ONCE.includes(what)) Object.assign(found, { endedAt: at, outcome: "cancelled" });
  else if (what.startsWith("cancel_")) found.notes.push("asked to stop");
  else if (what === "retry_activity")
    found.notes.push(`attempt ${details.attempt - 1} failed: ${why(details.failure)}`);
  else if (details.resolution?.outcome !== "started") {
    const { outcome, cause, failure } = details.resolution;
    Object.assign(found, { endedAt: at, outcome: plainWord(outcome), detail: text(why(failure) ?? cause) });
  }
}

function mark({ what, name, at, details }) {
  const word = ENDS[what] ?? TOLD[what] ?? plainWord(what);
  const detail = why(details.failure) ?? details.reason ?? text(value(details.result ?? details.input ?? null));
  return { mark: word, title: what === "start" || what in ENDS ? null : name, at, detail: detail || null };
}

/** The rows of a run: its operations, and between them what it was told and how it ended. */
export function rows(entries) {
  const operations = new Map();
  const found = [];
  for (const entry of entries.filter(({ what }) => !UNSEEN.includes(what))) {
    const key = operationKey(entry);
    const known = operations.get(key);
    if (known !== undefined) {
      note(known, entry);
      continue;
    }
    const row = key !== null && entry.path !== undefined ? operation(entry) : mark(entry);
    row.after = Date.parse(row.at) - Date.parse(entries[0].at);
    if (row.kind !== undefined) operations.set(key, row);
    found.push(row);
  }
  return found;
}

/** A link to a workflow. */
export function workflowLink(id) {
  return h("a", { class: "wrap", href: path`#/workflows/${id}` }, id);
}

function operationRow(row, isRunning) {
  const isOpen = row.endedAt === null;
  const look = isOpen
    ? "waiting"
    : BAD.includes(row.outcome)
      ? "bad"
      : row.outcome === "cancelled"
        ? "done stopped"
        : "done";
  const took = isOpen ? null : length(Date.parse(row.endedAt) - Date.parse(row.at));
  const response = isOpen
    ? isRunning
      ? "no response yet"
      : "no response: the run has ended"
    : `${row.outcome} after ${took}`;
  const bar = h("span", { class: "bar" });
  const item = h(
    "li",
    { class: look, "data-operation": `${row.kind} ${row.number}` },
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
        response,
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

/** A timeline. `draw(entries, isRunning)` shows them; `stretch(until)` gives its bars their places up to then. */
export function timeline() {
  const node = h("ol", { class: "timeline", "aria-label": "Commands and responses" });
  // Rows that stay as they are stay what they are, so that what the reader has opened is not closed.
  let made = new Map();
  let drawn = [];
  const draw = (entries, isRunning) => {
    drawn = rows(entries).map((row) => {
      const key = JSON.stringify([row, isRunning && row.endedAt === null]);
      return { key, row, ...(made.get(key) ?? (row.mark === undefined ? operationRow(row, isRunning) : markRow(row))) };
    });
    made = new Map(drawn.map((one) => [one.key, one]));
    node.replaceChildren(...drawn.map(({ item }) => item));
  };
  const stretch = (until) => {
    const from = Math.min(...drawn.map(({ row }) => Date.parse(row.at)));
    const all = Math.max(1, until - from);
    for (const { row, bar } of drawn.filter((one) => one.bar !== null)) {
      const begun = Math.min(Date.parse(row.at) - from, all);
      const ended = row.endedAt === null ? all : Math.min(Date.parse(row.endedAt) - from, all);
      // What is over in no time is seen too, also at the end.
      bar.style.left = `min(${(begun / all) * 100}%, 100% - 6px)`;
      bar.style.width = `${((ended - begun) / all) * 100}%`;
    }
  };
  return { node, draw, stretch };
}
