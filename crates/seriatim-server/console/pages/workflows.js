// Workflows: which there are, how one is started, and a run as a timeline of commands and responses.

import { get, path, Problem, send } from "../api.js";
import { h, show } from "../dom.js";
import { ago, duration, number } from "../format.js";
import { fold } from "../history.js";
import { button, empty, field, figures, form, head, notify, page, pagedTable, raw, server, status } from "../parts.js";

const LIMIT = 50;
const PERIOD_MS = 2000;
const LOOKS = { completed: "good", failed: "bad", terminated: "bad", timed_out: "bad" };

/** A moment of a run or a description: text, or milliseconds. */
function moment(found) {
  return found === null || found === undefined ? h("span", { class: "faint" }, "–") : ago(typeof found === "number" ? new Date(found).toISOString() : found);
}

function state(word) {
  return status(String(word).replaceAll("_", " "), LOOKS[word] ?? "");
}

function parsed(text) {
  return text.trim() === "" ? undefined : JSON.parse(text);
}

function startForm() {
  const type = h("input", { name: "type", required: true, placeholder: "greet", autocomplete: "off" });
  const id = h("input", { name: "id", placeholder: "optional", autocomplete: "off" });
  const input = h("textarea", { name: "input", rows: 4, spellcheck: "false", placeholder: "\"Ada\"" });
  const output = h("div", { "aria-live": "polite" });
  const submit = button("Start workflow", { primary: true, type: "submit" });
  const work = async () => {
    let value;
    try {
      value = parsed(input.value);
    } catch (error) {
      show(output, h("div", { class: "problem", role: "alert" }, `The input is not JSON: ${error.message}`));
      return;
    }
    const body = { type: type.value, ...(id.value === "" ? {} : { id: id.value }), ...(value === undefined ? {} : { input: value }) };
    const { body: started } = await send("POST", "/v1/workflows", body);
    location.hash = path`#/workflows/${started.id}`;
  };
  const children = [field("Type", type), field("Id", id, "Names the workflow; one of a name runs at a time."), field("Input, as JSON", input), submit];
  return h("section", { class: "card" }, h("h2", null, "Start a workflow"), form({ class: "form", id: "start-workflow", children }, submit, work, output), output);
}

export async function open() {
  const read = async (after) => {
    const query = new URLSearchParams({ limit: LIMIT, ...(after === null ? {} : { after }) });
    const { workflows, next } = await get(`/v1/workflows?${query}`);
    return page(workflows, next, LIMIT);
  };
  const columns = [
    { label: "Workflow", kind: "head", cell: (one) => h("a", { class: "wrap", href: path`#/workflows/${one.id}` }, one.id) },
    { label: "Type", cell: (one) => one.type },
    { label: "State", cell: (one) => state(one.status) },
    { label: "Started", kind: "time", wide: true, cell: (one) => moment(one.started) },
    { label: "Ended", kind: "time", wide: true, cell: (one) => moment(one.ended) },
  ];
  const line = `curl ${server}/v1/workflows -H 'content-type: application/json' -d '{"type": "greet", "input": "Ada"}'`;
  const none = empty("No workflows yet", "A workflow is durable code: it goes on after a crash where it was. Start one with the form, or by hand:", line);
  const title = head("Workflows", { lead: "Each command of a run has a kind and a number, and its response finds it by them." });
  try {
    return { title: "Workflows", node: h("div", null, title, h("div", { class: "with-aside" }, await pagedTable("Workflows", columns, read, none), startForm())) };
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
    return { title: "Workflows", node: h("div", null, title, h("div", { class: "card" }, empty("No workflows here", "This server does not run workflows."))) };
  }
}

/** One row for each operation: command on the left, its bar in time, its response beneath. */
function operationRow(operation, from, until) {
  const end = operation.ended ?? until;
  const bar = h("span", { class: "bar" });
  const all = Math.max(1, until - from);
  bar.style.left = `${((operation.begun - from) / all) * 100}%`;
  bar.style.width = `${Math.max(0.8, ((end - operation.begun) / all) * 100)}%`;
  const took = duration((end - operation.begun) / 1000).join(" ");
  const isBad = ["failed", "timed_out"].includes(operation.outcome);
  const look = operation.ended === null ? "waiting" : isBad ? "bad" : "done";
  const response = operation.ended === null ? "no response yet" : `${operation.outcome} after ${took}`;
  const detail = operation.detail === null ? null : typeof operation.detail === "string" ? operation.detail : JSON.stringify(operation.detail);
  return h("li", { class: look, "data-operation": `${operation.kind} ${operation.number}` },
    h("div", { class: "timeline-body" },
      h("div", { class: "timeline-title" }, h("b", null, operation.name), h("span", { class: "chip" }, `${operation.kind} `, number(operation.number)),
        operation.attempt > 1 ? h("span", { class: "chip" }, `attempt ${operation.attempt}`) : null),
      h("div", { class: "track" }, bar),
      h("p", { class: "small quiet wrap" }, response, detail === null ? null : [": ", detail])),
    h("span", { class: "small faint" }, moment(operation.begun)));
}

function markRow(mark) {
  const detail = mark.detail === null ? null : typeof mark.detail === "string" ? mark.detail : JSON.stringify(mark.detail);
  const look = mark.word === "failed" ? "bad" : "done";
  return h("li", { class: look }, h("div", { class: "timeline-body" }, h("b", null, mark.word), detail === null ? null : h("p", { class: "small quiet wrap" }, detail)),
    h("span", { class: "small faint" }, moment(mark.at)));
}

function timeline({ operations, marks }) {
  const moments = [...operations.flatMap((one) => [one.begun, one.ended ?? Date.now()]), ...marks.map((mark) => mark.at)];
  const [from, until] = [Math.min(...moments), Math.max(...moments)];
  const rows = [...marks.map((mark) => [mark.at, mark.isEnd ? 2 : 0, markRow(mark)]), ...operations.map((one) => [one.begun, 1, operationRow(one, from, until)])];
  rows.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  return h("ol", { class: "timeline", "aria-label": "Commands and responses" }, rows.map(([, , row]) => row));
}

/** What each branch of the run waits for. */
function waits({ operations }) {
  const open = operations.filter((operation) => operation.ended === null);
  if (open.length === 0) return null;
  const row = (one) => h("li", null, h("code", null, one.path ?? "/"), ` waits for ${one.kind} `, number(one.number), `, ${one.name}`,
    one.due === null ? null : [", due ", moment(one.due)], one.attempt > 1 ? `, attempt ${one.attempt}` : null);
  return h("section", { class: "card" }, h("h2", null, "Waits for"), h("ul", { class: "small" }, open.map(row)));
}

/** The entries of a history, wherever the answer keeps them. */
async function readHistory(base) {
  const answer = await get(`${base}/history`);
  return (Array.isArray(answer) ? answer : answer.events).map((event) => event.body ?? event.args?.body ?? event);
}

function tools(base, refresh) {
  const name = h("input", { name: "signal", required: true, autocomplete: "off", placeholder: "approve" });
  const output = h("div", { "aria-live": "polite" });
  const submit = button("Send signal", { type: "submit" });
  const signal = form({ class: "inline-form", children: [field("Signal", name), submit] }, submit, async () => {
    await send("POST", `${base}/signals/${encodeURIComponent(name.value)}`, {});
    show(output);
    notify(`${name.value} is sent`);
    await refresh();
  }, output);
  const cancel = button("Cancel the workflow", { type: "submit" });
  const stop = form({ class: "inline-form", children: [cancel] }, cancel, async () => {
    await send("POST", `${base}/cancel`, {});
    await refresh();
  }, output);
  return h("section", { class: "card" }, h("h2", null, "Tell it something"), h("div", { class: "inline-form" }, signal, stop), output);
}

export async function openOne({ workflow }) {
  const base = path`/v1/workflows/${workflow}`;
  const about = h("section", { class: "card" });
  const waiting = h("div");
  const place = h("div");
  const whole = h("div");
  let before = "";
  async function refresh() {
    const [described, entries] = await Promise.all([get(base), readHistory(base)]);
    const key = JSON.stringify([described, entries.length]);
    if (key === before) return;
    before = key;
    const folded = fold(entries);
    show(about, figures([["state", state(described.status)], ["type", described.type], ["run", number(folded.run ?? null)],
      ["started", moment(described.started)], ["ended", moment(described.ended)]]),
    described.result === undefined || described.result === null ? null : raw("Result", described.result));
    show(waiting, waits(folded));
    show(place, folded.operations.length + folded.marks.length > 0 ? timeline(folded) : empty("Nothing has happened yet", "Its first activation is due."));
    show(whole, raw("The whole history", entries));
  }
  await refresh();
  const timer = setInterval(() => !document.hidden && refresh().catch(() => {}), PERIOD_MS);
  const node = h("div", null, head(workflow, { crumbs: [["Workflows", "#/workflows"]] }),
    h("div", { class: "stack" }, about, waiting,
      h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", null, "Timeline")), place), tools(base, refresh), whole));
  return { title: workflow, node, stop: () => clearInterval(timer) };
}
