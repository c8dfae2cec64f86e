// Workflows: which there are, and how one is started.

import { get, path, Problem, send } from "../api.js";
import { h, show } from "../dom.js";
import { ago, sentence } from "../format.js";
import { button, empty, field, form, head, page, pagedTable, parseInput, server } from "../parts.js";
import { workflowLink } from "../timeline.js";
import { runStatus } from "./workflow.js";

const LIMIT = 50;

function startForm() {
  const type = h("input", { name: "type", required: true, placeholder: "greet", autocomplete: "off" });
  const id = h("input", { name: "id", maxlength: 200, placeholder: "made up if empty", autocomplete: "off" });
  const input = h("textarea", { name: "input", rows: 4, spellcheck: "false", placeholder: "\"Ada\"" });
  const output = h("div", { "aria-live": "polite" });
  const submit = button("Start workflow", { primary: true, type: "submit" });
  const work = async () => {
    const value = parseInput(input);
    const body = { type: type.value, ...(id.value === "" ? {} : { id: id.value }), ...(value === undefined ? {} : { input: value }) };
    const { body: started } = await send("POST", "/v1/workflows", body);
    location.hash = path`#/workflows/${started.id}`;
  };
  const children = [field("Type", type, "The name of its code."), field("Id", id, "One of a name runs at a time."), field("Input, as JSON", input), submit];
  return h("section", { class: "card" }, h("h2", null, "Start a workflow"), form({ class: "form", id: "start-workflow", children }, submit, work, output), output);
}

async function list() {
  const read = async (after) => {
    const query = new URLSearchParams({ limit: LIMIT, ...(after === null ? {} : { after }) });
    const { workflows, next } = await get(`/v1/workflows?${query}`);
    return page(workflows, next, LIMIT);
  };
  const columns = [
    { label: "Workflow", kind: "head", cell: (one) => workflowLink(one.id) },
    { label: "Type", cell: (one) => one.type },
    { label: "Status", cell: (one) => runStatus(one.status) },
    { label: "Started", kind: "time", wide: true, cell: (one) => ago(one.started) },
    { label: "Ended", kind: "time", wide: true, cell: (one) => ago(one.ended) },
  ];
  const line = `curl ${server}/v1/workflows -H 'content-type: application/json' -d '{"type": "greet", "input": "Ada"}'`;
  const none = empty("No workflows yet", "A workflow is durable code: it goes on after a crash where it was. Start one with the form, or by hand:", line);
  return pagedTable("Workflows", columns, read, none);
}

export async function open() {
  const place = h("div");
  const title = head("Workflows", { lead: "Durable code: each command of a run has a kind and a number, and its response finds it by them." });
  try {
    show(place, h("div", { class: "with-aside" }, await list(), startForm()));
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== "unavailable") throw error;
    show(place, h("div", { class: "card" }, empty("No workflows here", `${sentence(error.message)}.`)));
  }
  return { title: "Workflows", node: h("div", null, title, place) };
}
