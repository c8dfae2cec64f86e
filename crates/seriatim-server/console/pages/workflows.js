// @ts-check
// The list of workflows, and a form that starts one.

import { get, path, Problem, send } from "../api.js";
import { h, show } from "../dom.js";
import { ago, number, sentence } from "../format.js";
import { button, empty, field, form, head, parseInput, problem, server } from "../parts.js";
import { pagedTable } from "../table.js";
import { plainWord, workflowLink } from "../timeline.js";
import { runStatus } from "./workflow.js";

/** @import { Options } from "../api.js" */
/** @import { Column } from "../table.js" */

function startForm() {
  const type = h("input", { name: "type", required: true, placeholder: "greet", autocomplete: "off" });
  const id = h("input", { name: "id", maxlength: 200, placeholder: "generated if empty", autocomplete: "off" });
  const input = h("textarea", { name: "input", rows: 4, spellcheck: "false", placeholder: '"Ada"' });
  const output = h("div", { "aria-live": "polite" });
  const submit = button("Start workflow", { primary: true, type: "submit" });
  const work = async () => {
    const value = parseInput(input);
    const body = {
      type: type.value,
      ...(id.value === "" ? {} : { id: id.value }),
      ...(value === undefined ? {} : { input: value }),
    };
    /** @type {Api.StartedWorkflow} */
    const started = await send("POST", "/v1/workflows", body);
    location.hash = path`#/workflows/${started.id}`;
  };
  const children = [
    field("Type", type, "The name of the workflow's code."),
    field("Id", id, "One run with an id is open at a time."),
    field("Input, as JSON", input),
    submit,
  ];
  return h(
    "section",
    { class: "card" },
    h("h2", null, "Start a workflow"),
    form({ class: "form", id: "start-workflow" }, children, submit, work, output),
    output,
  );
}

// "stuck" is not a status of a run: the run is running, and its code cannot continue.
const STATUSES = [
  "running",
  "stuck",
  "completed",
  "failed",
  "cancelled",
  "terminated",
  "timed_out",
  "continued_as_new",
];

// Statuses that a workflow "is"; the others are what it "has" done.
const STATES = ["running", "stuck", "cancelled", "terminated"];

/** @param {string} status */
async function list(status) {
  /**
   * @param {Record<string, string>} query
   * @param {Options} [options]
   */
  const read = async (query, options) => {
    const whole = new URLSearchParams({ ...(status === "" ? {} : { status }), ...query });
    /** @type {Api.Workflows} */
    const { workflows, next } = await get(`/v1/workflows?${whole}`, options);
    return { rows: workflows, next };
  };
  /** @type {Column<Api.WorkflowSummary>[]} */
  const columns = [
    { label: "Workflow", kind: "head", cell: (one) => workflowLink(one.id) },
    { label: "Type", cell: (one) => one.type },
    { label: "Status", cell: (one) => runStatus(one.status) },
    { label: "Runs", kind: "num", wide: true, cell: (one) => number(one.run) },
    { label: "Started", kind: "time", wide: true, cell: (one) => ago(one.started) },
    { label: "Ended", kind: "time", wide: true, cell: (one) => ago(one.ended) },
  ];
  const line = `curl ${server}/v1/workflows -H 'content-type: application/json' -d '{"type": "greet", "input": "Ada"}'`;
  const none =
    status === ""
      ? empty(
          "No workflows yet",
          "A workflow is durable code: after a crash it continues. Start one with the form, or with this command:",
          line,
        )
      : empty(
          `No workflow ${STATES.includes(status) ? "is" : "has"} ${plainWord(status)}`,
          "The list has the newest run of each workflow.",
        );
  return pagedTable("Workflows", columns, read, none);
}

/** The list, and a chooser of which runs are in it. */
async function filteredList() {
  const chosen = h(
    "select",
    { name: "status" },
    h("option", { value: "" }, "All"),
    STATUSES.map((word) => h("option", { value: word }, sentence(plainWord(word)))),
  );
  const place = h("div");
  /** @type {{ stop: () => void } | null} */
  let shown = null;
  let isLeft = false;
  const draw = async () => {
    const asked = chosen.value;
    const found = await list(asked);
    // Another status was chosen meanwhile, or the page was left.
    if (asked !== chosen.value || isLeft) return found.stop();
    shown?.stop();
    shown = found;
    show(place, found.node);
  };
  chosen.addEventListener("change", () => draw().catch((error) => show(place, problem(error))));
  await draw();
  const stop = () => {
    isLeft = true;
    shown?.stop();
  };
  return {
    node: h("div", { class: "stack" }, h("div", { class: "chooser" }, field("Status", chosen)), place),
    stop,
  };
}

export async function open() {
  const place = h("div");
  /** @type {(() => void) | null} */
  let stop = null;
  const title = head("Workflows", {
    lead: "Durable code: each command of a run has a kind and a number, and so does its response.",
  });
  try {
    const found = await filteredList();
    stop = found.stop;
    show(place, h("div", { class: "with-aside" }, found.node, startForm()));
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== "unavailable") throw error;
    show(place, h("div", { class: "card" }, empty("No workflows", `${sentence(error.message)}.`)));
  }
  return { title: "Workflows", node: h("div", null, title, place), stop };
}
