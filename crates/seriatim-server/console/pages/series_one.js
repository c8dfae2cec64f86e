// One series: take the next number, see who got which, mark one void, check that it is complete.

import { get, path, Problem, send } from "../api.js";
import { auditResult } from "../audit.js";
import { h, show } from "../dom.js";
import { findNext } from "../event_log.js";
import { ago, number } from "../format.js";
import {
  button,
  codeLine,
  definitions,
  during,
  empty,
  field,
  figures,
  form,
  freshKey,
  head,
  server,
  table,
} from "../parts.js";
import { inFormat } from "./series.js";

const SHOWN = 12;
// Events of a log that are read at once.
const EVENTS = 100;
const PERIOD_MS = 2000;

/** The last number that was taken before an event of the series; null if there is none. Its log is read backwards. */
async function takenBefore(name, offset) {
  const {
    workspaces: [workspace],
  } = await get(`/v1/apps/series/workspaces?${new URLSearchParams({ name })}`);
  if (workspace === undefined) return null;
  const address = path`/v1/apps/series/workspaces/${workspace.id}/events`;
  for (let end = offset ?? (await findNext(address)); end > 1;) {
    const from = Math.max(1, end - EVENTS);
    const { events } = await get(`${address}?from=${from}&limit=${end - from}`);
    const taking = events.findLast(({ result }) => result?.count > 0);
    if (taking !== undefined) return taking.result.number + taking.result.count - 1;
    end = from;
  }
  return null;
}

/**
 * The runs that were taken last, newest first: each says where it begins, so the next one ends before that. Numbers that a raise
 * has skipped belong to no one; what was taken before them is in the log.
 */
async function lastRuns(base, name, { next, first }) {
  const runs = [];
  let at = next === null ? await takenBefore(name, null) : next - 1;
  while (at !== null && at >= first && runs.length < SHOWN) {
    try {
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

function issuedCard(issued, format) {
  const mark = issued.void ? h("span", { class: "status bad" }, `void: ${issued.void.reason}`) : null;
  return h(
    "div",
    { class: "result plain", role: "status" },
    h("strong", null, inFormat(format, issued.number), " ", mark),
    definitions([
      ["taken", ago(issued.at)],
      ...(issued.count > 1
        ? [["together with", [number(issued.first), " – ", number(issued.first + issued.count - 1)]]]
        : []),
      ["note", issued.note ?? h("span", { class: "faint" }, "none")],
      [
        "idempotency key",
        issued.idempotency_key ? h("code", null, issued.idempotency_key) : h("span", { class: "faint" }, "none"),
      ],
      [
        "event",
        [number(issued.workspace_offset), " of the series, ", number(issued.partition_offset), " of its partition"],
      ],
    ]),
  );
}

/** A form of a few fields that tells its result in a place of its own. */
function smallForm(title, text, fields, label, work, id = null) {
  const output = h("div", { "aria-live": "polite" });
  const submit = button(label, { type: "submit" });
  const inner = form(
    { class: "form", children: [h("div", { class: "form-row" }, fields), h("div", null, submit)] },
    submit,
    () => work(output, submit),
    output,
  );
  return h(
    "section",
    { class: "card", id },
    h("h2", null, title),
    h("div", { class: "stack" }, text ? h("p", { class: "small quiet" }, text) : null, inner, output),
  );
}

const DIGITS = { inputmode: "numeric", pattern: "\\d+", required: true, autocomplete: "off" };

function lookUpCard(base, series) {
  const found = h("input", { name: "number", ...DIGITS, placeholder: String(series.state.first) });
  return smallForm("Who got a number", null, [field("Number", found)], "Look up", async (output) => {
    show(output, issuedCard(await get(`${base}/numbers/${encodeURIComponent(found.value)}`), series.state.format));
  });
}

function voidCard(base, series) {
  const which = h("input", { name: "void", ...DIGITS });
  const reason = h("input", { name: "reason", required: true, autocomplete: "off", placeholder: "misprint" });
  const text = "It stays taken. The hole is explained by an event, and the audit lists it.";
  return smallForm(
    "Mark a number void",
    text,
    [field("Number", which), field("Reason", reason)],
    "Mark void",
    async (output) => {
      await send("POST", `${base}/numbers/${encodeURIComponent(which.value)}/void`, { reason: reason.value });
      show(
        output,
        h("div", { class: "result", role: "status" }, `${inFormat(series.state.format, which.value)} is void.`),
      );
      await series.refresh();
    },
  );
}

function raiseCard(base, series) {
  const next = h("input", { name: "next", ...DIGITS });
  const reason = h("input", {
    name: "cause",
    required: true,
    autocomplete: "off",
    placeholder: "moved in from the old system",
  });
  const text =
    "For moving in from elsewhere. Never downwards, and it cannot be undone: the numbers in between are never given out.";
  // What the reader was asked about; another number is another question.
  let sure = null;
  const card = smallForm(
    "Continue from a later number",
    text,
    [field("Next number", next), field("Reason", reason)],
    "Raise",
    async (output, submit) => {
      const { next: from } = series.state;
      if (from !== null && sure !== next.value && Number(next.value) > from) {
        sure = next.value;
        const last = Number(next.value) - 1;
        show(
          output,
          h(
            "div",
            { class: "problem", role: "alert" },
            h("strong", null, "This cannot be undone"),
            h(
              "p",
              null,
              number(last - from + 1),
              " numbers, from ",
              number(from),
              " to ",
              number(last),
              ", will never be given out.",
            ),
          ),
        );
        show(submit, "Really raise");
        return;
      }
      await send("POST", `${base}/raise`, { next: Number(next.value), reason: reason.value });
      forget();
      show(output, h("div", { class: "result", role: "status" }, "Raised."));
      await series.refresh();
    },
    "raise",
  );
  const forget = () => {
    sure = null;
    show(card.querySelector("button"), "Raise");
  };
  next.addEventListener("input", forget);
  return card;
}

/** The large number, what the series stands at, and the form that takes the next one. */
function nextCard(base, series) {
  const display = h("output", { class: "display", "aria-live": "polite" });
  const caption = h("p", { class: "label" }, "Comes next");
  const facts = { next: h("span"), remaining: h("span"), voids: h("span"), raises: h("span") };
  const output = h("div", { "aria-live": "polite" });
  const count = h("input", { name: "count", ...DIGITS, value: "1" });
  const note = h("input", { name: "note", placeholder: "what it is for", autocomplete: "off" });
  const key = h("input", { name: "key", placeholder: "optional", autocomplete: "off", maxlength: 200 });
  const make = button("Make one", {
    onclick: () => {
      key.value = freshKey();
    },
  });
  const take = button("Take next number", { primary: true, type: "submit" });
  let taken = null;

  const work = async () => {
    const body = { count: Number(count.value), ...(note.value === "" ? {} : { note: note.value }) };
    ({ body: taken } = await send("POST", `${base}/next`, body, { key: key.value.trim() }));
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
      field("How many in a row", count),
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
    form({ class: "form", id: "take-next", children }, take, work, output),
    output,
    codeLine(`curl -X POST ${server}${base}/next -H 'Idempotency-Key: order-1'`),
  );

  function update(state) {
    // Until something is taken here, the large number is the one that comes next, whoever takes it.
    if (taken === null) show(display, state.next === null ? "used up" : inFormat(state.format, state.next));
    for (const [name, place] of Object.entries(facts)) show(place, number(state[name]));
  }
  return { node, update, take: () => take.click() };
}

/** The numbers that were taken last. */
function recentCard(base, name) {
  const place = h("div");
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
  async function update(state) {
    const runs = await lastRuns(base, name, state);
    show(
      place,
      runs.length > 0
        ? table("Numbers, newest first", columns(state), runs).node
        : empty(
            "Nothing taken yet",
            "The button takes the first number. So does this line:",
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

export async function open({ series: name }) {
  const base = path`/v1/series/${name}`;
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
