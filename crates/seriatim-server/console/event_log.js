// A log on the page: the newest events first, following live, with a bounded number of rows.

import { get } from "./api.js";
import { h, show } from "./dom.js";
import { follow } from "./follow.js";
import { ago, number } from "./format.js";
import { json } from "./json.js";
import { button, during, problem, raw } from "./parts.js";

const ROWS_MAX = 200;
const PAGE = 50;

/** Where the next event of a log will stand. Offsets are dense, so a few looks find the end of any log. */
export async function findNext(address) {
  const first = await get(`${address}?from=1&limit=${PAGE}`);
  if (first.events.length < PAGE) return first.next;
  const has = async (offset) => (await get(`${address}?from=${offset}&limit=1`)).events.length > 0;
  let [low, high] = [PAGE, PAGE * 16];
  while (await has(high)) [low, high] = [high, high * 16];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (await has(middle)) low = middle;
    else high = middle;
  }
  return high;
}

/** What an event drew and touched, as chips: the numbers first. */
function chips(event, definition) {
  const documents = new Map((definition?.documents ?? []).map((document) => [document.name, document]));
  const rows = [];
  const walk = (row) => {
    if (!row || typeof row !== "object") return;
    if (row.create) rows.push(row);
    (Array.isArray(row.children) ? row.children : []).forEach(walk);
  };
  walk(event.args);
  event.changes.forEach(walk);
  const drawn = rows.flatMap((row) =>
    (documents.get(row.create)?.fields ?? [])
      .filter((field) => field.draw && row.fields?.[field.name] !== undefined)
      .map((field) => h("span", { class: "chip drawn" }, h("small", null, field.draw), number(row.fields[field.name]))),
  );
  if (event.result?.text !== undefined && event.result.count > 0) {
    const many = event.result.count > 1 ? h("small", null, `${event.result.count} from`) : null;
    drawn.push(h("span", { class: "chip drawn" }, many, event.result.text));
  }
  const counts = new Map();
  for (const row of rows) counts.set(row.create, (counts.get(row.create) ?? 0) + 1);
  const made = [...counts].map(([name, count]) => h("span", { class: "chip" }, name, count > 1 ? ` × ${count}` : null));
  const updates = event.changes.filter((change) => change.update !== undefined).length;
  const updated = updates > 0 ? h("span", { class: "chip" }, `${updates} updated`) : null;
  const reason = event.args?.reason ?? event.args?.note;
  return [drawn, made, updated, typeof reason === "string" ? h("span", { class: "chip" }, reason) : null];
}

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
 * A log. `offsetOf` reads an event's place in it; `next`, where known, spares the search for the end; `none` is what an empty log
 * shows. Returns the node, `toggle` to pause or go on, and `stop`.
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

  let [end, stopFollowing, paused, stopped] = [next, null, false, false];
  let waiting = [];

  function setState(word, look) {
    show(state, word);
    state.className = `status ${look}`;
  }

  function tell() {
    const rows = list.childElementCount;
    blank.hidden = rows > 0;
    const oldest = Number(list.lastElementChild?.dataset.offset ?? 1);
    foot.hidden = oldest <= 1 || rows >= rowsMax;
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
    while (list.childElementCount > rowsMax) list.lastElementChild.remove();
    tell();
  }

  function take(event) {
    end = offsetOf(event) + 1;
    if (waiting.length === 0) requestAnimationFrame(paint);
    waiting.push(event);
    // A reader sees the newest; what would scroll out at once is not built.
    if (waiting.length > rowsMax) waiting.shift();
  }

  function start() {
    const told = {
      following: () => setState("following live", "good"),
      waiting: () => setState("connection lost, trying again", "warn"),
      refused: (error) => {
        setState("not following", "bad");
        blank.hidden = false;
        show(blank, problem(error));
      },
    };
    stopFollowing = follow(address, end, { onEvent: take, onState: (word, error) => told[word](error) });
  }

  function toggle() {
    if (stopped || end === null) return;
    paused = !paused;
    show(pause, paused ? "Go on" : "Pause");
    if (paused) {
      stopFollowing();
      setState("paused", "");
    } else {
      setState("opening", "");
      start();
    }
  }

  async function showOlder() {
    const oldest = Number(list.lastElementChild.dataset.offset);
    const from = Math.max(1, oldest - PAGE);
    const { events } = await get(`${address}?from=${from}&limit=${oldest - from}`);
    for (const event of events.reverse()) list.append(eventRow(event, offsetOf(event), definition));
    tell();
  }

  async function open() {
    try {
      end ??= await findNext(address);
      const first = Math.min(PAGE, rowsMax);
      const from = Math.max(1, end - first);
      const { events } = await get(`${address}?from=${from}&limit=${first}`);
      if (stopped) return;
      end = Math.max(end, ...events.map((event) => offsetOf(event) + 1));
      for (const event of events) list.prepend(eventRow(event, offsetOf(event), definition));
      tell();
      start();
    } catch (error) {
      setState("not following", "bad");
      blank.hidden = false;
      show(blank, problem(error));
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

/** The event that got a number, in full. */
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
