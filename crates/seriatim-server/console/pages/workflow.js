// One workflow: how its newest run stands, what it waits for, what it can be told, and its timeline.

import { get, path, send } from "../api.js";
import { h, show } from "../dom.js";
import { ago, sentence } from "../format.js";
import { json } from "../json.js";
import { button, during, field, figures, form, head, notify, parseInput, raw, status } from "../parts.js";
import { plainWord, timeline, why, workflowLink } from "../timeline.js";

const PERIOD_MS = 1000;
const SURE_MS = 4000;
const LOOKS = { running: "under-way", completed: "good", failed: "bad", terminated: "bad", timed_out: "bad" };

/** How a run stands, by dot and word. */
export function runStatus(word) {
  return status(plainWord(word), LOOKS[word] ?? "");
}

/** What one branch waits for, in words; what is known of the operation goes with it. */
function wait(one, pending) {
  if (one.for === "signal") return ["the signal ", h("b", null, one.name)];
  if (one.for === "branch") return ["the end of branch ", h("code", null, one.branch)];
  if (one.for === "branches") return "the end of branches that it has opened";
  if (one.for === "slot" || one.for === "condition") return "a change of the workflow's own state";
  if (one.for === "cancellation") return "being asked to stop";
  const kind = one.for === "child_start" ? "child_workflow" : one.kind;
  const found = pending.find((operation) => operation.kind === kind && operation.number === one.seq);
  const label = ["the ", one.for === "child_start" ? "start of " : "response to ", h("b", null, `${plainWord(kind)} ${one.seq}`)];
  if (found === undefined) return label;
  const { name, target, due, attempt, last_failure: failure } = found;
  const isTimer = kind === "timer";
  return [label, name ? `, ${name}` : null, target ? [", ", workflowLink(target)] : null, isTimer && due ? [", due ", ago(due)] : null,
    attempt > 1 ? [`, attempt ${attempt} `, ago(due)] : null, failure ? `: ${why(failure)}` : null];
}

/** What each branch of the code waits for; any of a branch's waits lets it go on. That all of them can be asked to stop is left out. */
function waits({ blocked, pending }) {
  const notable = (all) => (all.length === 1 ? all : all.filter((one) => one.for !== "cancellation"));
  const row = ({ branch, waits: all }) => h("li", null, h("code", { class: "chip", title: "A branch of the code" }, branch),
    h("span", { class: "wrap" }, notable(all).map((one, index) => [index === 0 ? null : ", or ", wait(one, pending)])));
  return h("ul", { class: "waits" }, blocked.map(row));
}

function signalForm(base, refresh, output) {
  const name = h("input", { name: "signal", required: true, autocomplete: "off", placeholder: "approve" });
  const input = h("textarea", { name: "input", rows: 2, spellcheck: "false", placeholder: "null" });
  const submit = button("Send signal", { primary: true, type: "submit" });
  const work = async () => {
    const value = parseInput(input) ?? null;
    await send("POST", `${base}/signals/${encodeURIComponent(name.value)}`, { input: value });
    show(output);
    notify(`The signal ${name.value} is sent`);
    await refresh();
  };
  const children = [field("Signal", name), field("Input, as JSON", input), submit];
  // The name of a signal that the run waits for, unless the reader has typed another.
  const suggest = (wanted) => {
    if (name.value === "" && document.activeElement !== name) name.value = wanted ?? "";
  };
  return { node: form({ class: "form", id: "send-signal", children }, submit, work, output), suggest };
}

/** Cancelling asks the code; terminating does not, so it takes a second click. */
function stopButtons(base, refresh, output) {
  const reason = { reason: "from the console" };
  const cancel = button("Cancel", { onclick: () => during(cancel, async () => {
    await send("POST", `${base}/cancel`, reason);
    notify("It is asked to stop");
    await refresh();
  }, output) });
  let isSure = false;
  const ask = (sure) => {
    isSure = sure;
    show(terminate, sure ? "Really terminate" : "Terminate");
  };
  const terminate = button("Terminate", { onclick: () => {
    if (isSure) {
      during(terminate, async () => {
        await send("POST", `${base}/terminate`, reason);
        await refresh();
      }, output);
      return;
    }
    ask(true);
    setTimeout(() => ask(false), SURE_MS);
  } });
  terminate.classList.add("danger");
  return h("div", { class: "stops" }, cancel, terminate,
    h("p", { class: "small faint" }, "Cancelling asks its code to stop. Terminating ends the run without asking."));
}

function tools(base, refresh) {
  const output = h("div", { "aria-live": "polite" });
  const signal = signalForm(base, refresh, output);
  const node = h("section", { class: "card tools-card", "aria-label": "Tell it something" }, h("h2", null, "Tell it something"),
    signal.node, stopButtons(base, refresh, output), output);
  return { node, suggest: signal.suggest };
}

function summary(described, parent) {
  return [
    figures([["status", runStatus(described.status)], ["type", described.type], ["started", ago(described.started)],
      described.ended ? ["ended", ago(described.ended)] : null, parent ? ["child of", workflowLink(parent)] : null].filter(Boolean)),
    described.stuck ? h("div", { class: "problem", role: "alert" }, h("strong", null, "Its code does not get on"), h("p", null, described.stuck)) : null,
    described.failure ? h("div", { class: "problem" }, h("strong", null, sentence(plainWord(described.status))), h("p", null, why(described.failure)),
      raw("The whole failure", described.failure)) : null,
    h("div", { class: "values" },
      h("div", null, h("h3", null, "Input"), json(described.input)),
      described.status === "completed" ? h("div", { class: "outcome" }, h("h3", null, "Result"), json(described.result)) : null),
  ];
}

export async function open({ workflow }) {
  const base = path`/v1/workflows/${workflow}`;
  const about = h("section", { class: "card run", "aria-label": "How it stands" });
  const waiting = h("section", { class: "card" });
  const whole = h("div", { class: "past" });
  const drawn = timeline();
  const side = h("div");
  const layout = h("div", { class: "with-aside run-page" });
  let before = "";
  let timer = null;

  async function refresh() {
    const [described, history] = await Promise.all([get(base), get(`${base}/history`)]);
    const isOpen = described.status === "running";
    const key = JSON.stringify([described, history.entries]);
    if (key !== before) {
      before = key;
      const parent = history.entries.find(({ what }) => what === "start")?.details.parent?.workflow_id;
      show(about, summary(described, parent));
      show(waiting, h("h2", null, "What it waits for"), waits(described));
      waiting.hidden = described.blocked.length === 0;
      drawn.draw(history.entries, isOpen);
      show(whole, raw("The history that replay reads", history.steps));
      tell.suggest(described.blocked.flatMap(({ waits: all }) => all).find((one) => one.for === "signal")?.name);
      side.hidden = !isOpen;
      layout.classList.toggle("alone", !isOpen);
    }
    drawn.stretch(isOpen ? Date.now() : Date.parse(described.ended));
    if (!isOpen) clearInterval(timer);
  }

  const tell = tools(base, refresh);
  show(side, tell.node);
  show(layout, h("div", { class: "stack" }, about, waiting,
    h("section", { class: "card flush past" }, h("div", { class: "card-head" }, h("h2", null, "Timeline")), drawn.node), whole), side);
  timer = setInterval(() => !document.hidden && refresh().catch(() => {}), PERIOD_MS);
  try {
    await refresh();
  } catch (error) {
    clearInterval(timer);
    throw error;
  }
  return { title: workflow, node: h("div", null, head(workflow, { crumbs: [["Workflows", "#/workflows"]] }), layout), stop: () => clearInterval(timer) };
}
