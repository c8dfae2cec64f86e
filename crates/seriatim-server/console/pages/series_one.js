// @ts-check
// One series: takes the next number, shows how numbers were taken, marks one void, audits the series.

import { get, path, Problem, send } from "../api.js";
import { auditResult } from "../audit.js";
import { h, show } from "../dom.js";
import { findNext, takenBy } from "../event_log.js";
import { ago, number } from "../format.js";
import { button, codeLine, during, empty, field, figures, form, freshKey, head, server } from "../parts.js";
import { table } from "../table.js";
import { inFormat } from "./series.js";
import { DIGITS, lookUpCard, raiseCard, voidCard } from "./series_tools.js";

/** @import { Column } from "../table.js" */
/** @import { ShownSeries } from "./series_tools.js" */

const SHOWN = 12;
// Events per request.
const EVENTS = 100;
const PERIOD_MS = 2000;

/**
 * The last number that was taken before an event of the series; null if there is none. Its log is read backwards.
 * @param {string} name
 * @param {number | null} offset
 */
async function takenBefore(name, offset) {
  /** @type {Api.Workspaces} */
  const { workspaces } = await get(`/v1/apps/series/workspaces?${new URLSearchParams({ name })}`);
  if (workspaces.length === 0) return null;
  const address = path`/v1/apps/series/workspaces/${workspaces[0].id}/events`;
  for (let end = offset ?? (await findNext(address)); end > 1;) {
    const from = Math.max(1, end - EVENTS);
    /** @type {Api.Events} */
    const { events } = await get(`${address}?from=${from}&limit=${end - from}`);
    const taken = events.map(takenBy).findLast((one) => one !== null);
    if (taken) return taken.number + taken.count - 1;
    end = from;
  }
  return null;
}

/**
 * The runs that were taken last, newest first. Each has its first number, and the run before it ends there. The numbers
 * that a raise has skipped were not taken; runs before them are found in the log.
 * @param {string} base
 * @param {string} name
 * @param {Api.Series} state
 */
async function lastRuns(base, name, { next, first }) {
  /** @type {Api.Issued[]} */
  const runs = [];
  let at = next === null ? await takenBefore(name, null) : next - 1;
  while (at !== null && at >= first && runs.length < SHOWN) {
    try {
      /** @type {Api.Issued} */
      const run = await get(`${base}/numbers/${at}`);
      runs.push(run);
      at = run.first - 1;
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) throw error;
      at = await takenBefore(name, runs.at(-1)?.workspace_offset ?? null);
    }
  }
  return runs;
}

/**
 * The large number, the state of the series, and the form that takes the next number.
 * @param {string} base
 * @param {ShownSeries} series
 */
function nextCard(base, series) {
  const display = h("output", { class: "display", "aria-live": "polite" });
  const caption = h("p", { class: "label" }, "Next number");
  /** @type {{ [name in "next" | "remaining" | "voids" | "raises"]: HTMLElement }} */
  const facts = { next: h("span"), remaining: h("span"), voids: h("span"), raises: h("span") };
  const output = h("div", { "aria-live": "polite" });
  const count = h("input", { name: "count", ...DIGITS, value: "1" });
  const note = h("input", { name: "note", placeholder: "what it is for", autocomplete: "off" });
  const key = h("input", { name: "key", placeholder: "optional", autocomplete: "off", maxlength: 200 });
  const make = button("New key", {
    onclick: () => {
      key.value = freshKey();
    },
  });
  const take = button("Take next number", { primary: true, type: "submit" });
  let hasTaken = false;

  const work = async () => {
    const body = { count: Number(count.value), ...(note.value === "" ? {} : { note: note.value }) };
    /** @type {Api.Taken} */
    const taken = await send("POST", `${base}/next`, body, { key: key.value.trim() });
    hasTaken = true;
    show(output);
    show(
      caption,
      taken.repeated ? "Taken before with this key" : taken.count > 1 ? `Taken: ${taken.count} numbers, from` : "Taken",
    );
    show(display, taken.text);
    display.classList.remove("taken");
    requestAnimationFrame(() => display.classList.add("taken"));
    await series.refresh();
  };
  const children = [
    h(
      "div",
      { class: "form-row" },
      field("How many numbers", count),
      field("Note", note),
      h("div", { class: "inline-form" }, field("Idempotency key", key), make),
    ),
    h("div", null, take),
  ];
  const node = h(
    "section",
    { class: "card next-card" },
    h("div", null, caption, display),
    figures(Object.entries(facts)),
    form({ class: "form", id: "take-next" }, children, take, work, output),
    output,
    codeLine(`curl -X POST ${server}${base}/next -H 'Idempotency-Key: order-1'`),
  );

  /** @param {Api.Series} state */
  function update(state) {
    // Until the reader takes a number, the large number is the next one.
    if (!hasTaken) show(display, state.next === null ? "used up" : inFormat(state.format, state.next));
    show(facts.next, number(state.next));
    show(facts.remaining, number(state.remaining));
    show(facts.voids, number(state.voids));
    show(facts.raises, number(state.raises));
  }
  return { node, update, take: () => take.click() };
}

/**
 * The numbers that were taken last.
 * @param {string} base
 * @param {string} name
 */
function recentCard(base, name) {
  const place = h("div");
  /**
   * @param {Api.Series} state
   * @returns {Column<Api.Issued>[]}
   */
  const columns = ({ format }) => [
    {
      label: "Number",
      cell: (run) =>
        h(
          "span",
          { class: "chip drawn" },
          inFormat(format, run.first),
          run.count > 1 ? h("small", null, `+ ${run.count - 1}`) : null,
        ),
    },
    { label: "Taken", kind: "time", cell: (run) => ago(run.at) },
    {
      label: "Note",
      cell: (run) => [
        run.void ? h("span", { class: "status bad" }, "void") : null,
        " ",
        run.void?.reason ?? run.note ?? h("span", { class: "faint" }, "–"),
      ],
    },
    {
      label: "Key",
      wide: true,
      cell: (run) =>
        run.idempotency_key ? h("code", { class: "wrap" }, run.idempotency_key) : h("span", { class: "faint" }, "–"),
    },
  ];
  /** @param {Api.Series} state */
  async function update(state) {
    const runs = await lastRuns(base, name, state);
    show(
      place,
      runs.length > 0
        ? table("Numbers, newest first", columns(state), runs).node
        : empty(
            "No number has been taken yet",
            "The button takes the first number, and so does this command:",
            `curl -X POST ${server}${base}/next`,
          ),
    );
  }
  const node = h(
    "section",
    { class: "card flush" },
    h("div", { class: "card-head" }, h("h2", null, "Latest numbers")),
    place,
  );
  return { node, update };
}

/** @param {Record<string, string>} found */
export async function open({ series: name }) {
  const base = path`/v1/series/${name}`;
  /** @type {ShownSeries} */
  const series = { state: await get(base), refresh };
  const next = nextCard(base, series);
  const recent = recentCard(base, name);

  async function refresh({ quietly = false } = {}) {
    const before = series.state;
    series.state = await get(base, { ask: !quietly });
    next.update(series.state);
    if (series.state.next !== before.next || series.state.voids !== before.voids) await recent.update(series.state);
  }

  const audit = h("div", { "aria-live": "polite" });
  const check = button("Audit", {
    onclick: () => during(check, async () => show(audit, auditResult(await get(`${base}/audit`))), audit),
  });
  next.update(series.state);
  await recent.update(series.state);
  const timer = setInterval(() => {
    if (!document.hidden) refresh({ quietly: true }).catch(() => {});
  }, PERIOD_MS);
  const { format, first } = series.state;
  const node = h(
    "div",
    null,
    head(name, {
      crumbs: [["Series", "#/series"]],
      lead: ["Format ", h("code", null, format), ", first number ", number(first)],
      actions: [check],
    }),
    h(
      "div",
      { class: "stack" },
      audit,
      next.node,
      recent.node,
      h("div", { class: "grid" }, lookUpCard(base, series), voidCard(base, series), raiseCard(base, series)),
    ),
  );
  return { title: name, node, stop: () => clearInterval(timer), keys: { n: next.take } };
}
