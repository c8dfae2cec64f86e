// One series: take the next number, see who got which, mark one void, check that it is complete.

import { get, path, Problem, send } from "../api.js";
import { auditResult } from "../audit.js";
import { h, show } from "../dom.js";
import { ago, number } from "../format.js";
import { button, codeLine, definitions, during, empty, field, figures, form, freshKey, head, server, table } from "../parts.js";
import { inFormat } from "./series.js";

const SHOWN = 12;
const PERIOD_MS = 2000;

/** The runs that were taken last, newest first: each says where it begins, so the next one ends before that. */
async function lastRuns(base, next, first) {
  const runs = [];
  for (let at = next - 1; at >= first && runs.length < SHOWN;) {
    try {
      const run = await get(`${base}/numbers/${at}`);
      runs.push(run);
      at = run.first - 1;
    } catch (error) {
      // Nobody got it: the series was raised past it, and what lies before is a look-up away.
      if (error instanceof Problem && error.status === 404) return runs;
      throw error;
    }
  }
  return runs;
}

function issuedCard(issued, format) {
  const mark = issued.void ? h("span", { class: "status bad" }, `void: ${issued.void.reason}`) : null;
  return h("div", { class: "result plain", role: "status" },
    h("strong", null, inFormat(format, issued.number), " ", mark),
    definitions([
      ["taken", ago(issued.at)],
      ...(issued.count > 1 ? [["together with", [number(issued.first), " – ", number(issued.first + issued.count - 1)]]] : []),
      ["note", issued.note ?? h("span", { class: "faint" }, "none")],
      ["idempotency key", issued.idempotency_key ? h("code", null, issued.idempotency_key) : h("span", { class: "faint" }, "none")],
      ["event", [number(issued.workspace_offset), " of the series, ", number(issued.partition_offset), " of its partition"]],
    ]));
}

/** A form of a few fields that tells its result in a place of its own. */
function smallForm(title, text, fields, label, work) {
  const output = h("div", { "aria-live": "polite" });
  const submit = button(label, { type: "submit" });
  const inner = form({ class: "form", children: [h("div", { class: "form-row" }, fields), h("div", null, submit)] }, submit, () => work(output), output);
  return h("section", { class: "card" }, h("h2", null, title), h("div", { class: "stack" }, text ? h("p", { class: "small quiet" }, text) : null, inner, output));
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
  return smallForm("Mark a number void", text, [field("Number", which), field("Reason", reason)], "Mark void", async (output) => {
    await send("POST", `${base}/numbers/${encodeURIComponent(which.value)}/void`, { reason: reason.value });
    show(output, h("div", { class: "result", role: "status" }, `${inFormat(series.state.format, which.value)} is void.`));
    await series.refresh();
  });
}

function raiseCard(base, series) {
  const next = h("input", { name: "next", ...DIGITS });
  const reason = h("input", { name: "cause", required: true, autocomplete: "off", placeholder: "moved in from the old system" });
  const text = "For moving in from elsewhere. Never downwards.";
  return smallForm("Go on from a later number", text, [field("Next number", next), field("Reason", reason)], "Raise", async (output) => {
    await send("POST", `${base}/raise`, { next: Number(next.value), reason: reason.value });
    show(output, h("div", { class: "result", role: "status" }, "Raised."));
    await series.refresh();
  });
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
  const make = button("Make one", { onclick: () => { key.value = freshKey(); } });
  const take = button("Take next number", { primary: true, type: "submit" });
  let taken = null;

  const work = async () => {
    const body = { count: Number(count.value), ...(note.value === "" ? {} : { note: note.value }) };
    ({ body: taken } = await send("POST", `${base}/next`, body, { key: key.value.trim() }));
    show(output);
    show(caption, taken.repeated ? "Taken before with this key" : taken.count > 1 ? `Taken: ${taken.count} numbers, from` : "Taken");
    show(display, taken.text);
    display.classList.remove("taken");
    requestAnimationFrame(() => display.classList.add("taken"));
    await series.refresh();
  };
  const children = [
    h("div", { class: "form-row" }, field("How many in a row", count), field("Note", note),
      h("div", { class: "inline-form" }, field("Idempotency key", key), make)),
    h("div", null, take),
  ];
  const node = h("section", { class: "card next-card" }, h("div", null, caption, display), figures(Object.entries(facts)),
    form({ class: "form", id: "take-next", children }, take, work, output), output,
    codeLine(`curl -X POST ${server}${base}/next -H 'Idempotency-Key: order-1'`));

  function update(state) {
    // Until something is taken here, the large number is the one that comes next, whoever takes it.
    if (taken === null) show(display, state.next === null ? "used up" : inFormat(state.format, state.next));
    for (const [name, place] of Object.entries(facts)) show(place, number(state[name]));
  }
  return { node, update, take: () => take.click() };
}

/** The numbers that were taken last. */
function recentCard(base) {
  const place = h("div");
  const columns = ({ format }) => [
    { label: "Number", cell: (run) => h("span", { class: "chip drawn" }, inFormat(format, run.first), run.count > 1 ? h("small", null, `+ ${run.count - 1}`) : null) },
    { label: "Taken", kind: "time", cell: (run) => ago(run.at) },
    { label: "Note", cell: (run) => [run.void ? h("span", { class: "status bad" }, "void") : null, " ", run.void?.reason ?? run.note ?? h("span", { class: "faint" }, "–")] },
    { label: "Key", wide: true, cell: (run) => (run.idempotency_key ? h("code", { class: "wrap" }, run.idempotency_key) : h("span", { class: "faint" }, "–")) },
  ];
  async function update(state) {
    const runs = state.next === null ? [] : await lastRuns(base, state.next, state.first);
    show(place, runs.length > 0 ? table("Numbers, newest first", columns(state), runs).node
      : empty("Nothing taken yet", "The button takes the first number. So does this line:", `curl -X POST ${server}${base}/next`));
  }
  const node = h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", null, "Latest numbers")), place);
  return { node, update };
}

export async function open({ series: name }) {
  const base = path`/v1/series/${name}`;
  const series = { state: await get(base), refresh };
  const next = nextCard(base, series);
  const recent = recentCard(base);

  async function refresh({ quietly = false } = {}) {
    const before = series.state;
    series.state = await get(base, { ask: !quietly });
    next.update(series.state);
    if (series.state.next !== before.next || series.state.voids !== before.voids) await recent.update(series.state);
  }

  const audit = h("div", { "aria-live": "polite" });
  const check = button("Audit", { onclick: () => during(check, async () => show(audit, auditResult(await get(`${base}/audit`))), audit) });
  next.update(series.state);
  await recent.update(series.state);
  const timer = setInterval(() => {
    if (!document.hidden) refresh({ quietly: true }).catch(() => {});
  }, PERIOD_MS);
  const { format, first } = series.state;
  const node = h("div", null,
    head(name, { crumbs: [["Series", "#/series"]], lead: ["Format ", h("code", null, format), ", first number ", number(first)], actions: [check] }),
    h("div", { class: "stack" }, audit, next.node, recent.node,
      h("div", { class: "grid" }, lookUpCard(base, series), voidCard(base, series), raiseCard(base, series))));
  return { title: name, node, stop: () => clearInterval(timer), keys: { n: next.take } };
}
