// @ts-check
// One workflow: the state of a run, what it waits for, a form to send it something, and its timeline.

import { get, path, send } from "../api.js";
import { h, show } from "../dom.js";
import { ago, sentence } from "../format.js";
import { json } from "../json.js";
import { button, during, field, figures, head, raw, status } from "../parts.js";
import { plainWord, timeline, value, why, workflowLink } from "../timeline.js";
import { tools } from "./workflow_tools.js";

/** @import { Child } from "../dom.js" */
/** @import { Fact } from "../parts.js" */

const PERIOD_MS = 1000;
const RUNS_MAX = 100;
const PARTS_MAX = 10;
/** @type {Record<string, string>} */
const LOOKS = { running: "under-way", completed: "good", failed: "bad", terminated: "bad", timed_out: "bad" };

/**
 * The status of a run, by dot and word.
 * @param {string} word
 */
export function runStatus(word) {
  return status(plainWord(word), LOOKS[word] ?? "");
}

/**
 * What one branch waits for, in words, with details of the operation.
 * @param {History.Wait} one
 * @param {Api.PendingOperation[]} pending
 * @returns {Child}
 */
function wait(one, pending) {
  if (one.for === "signal") return ["the signal ", h("b", null, one.name)];
  if (one.for === "branch") return ["the end of branch ", h("code", null, one.branch)];
  if (one.for === "branches") return "the end of branches that it has started";
  if (one.for === "slot" || one.for === "condition") return "a change of the workflow's own state";
  if (one.for === "cancellation") return "a request to stop";
  if (one.for !== "response" && one.for !== "child_start") return `a ${one.for} of the workflow`;
  const kind = one.for === "child_start" ? "child_workflow" : one.kind;
  const found = pending.find((operation) => operation.kind === kind && operation.number === one.seq);
  const label = [
    "the ",
    one.for === "child_start" ? "start of " : "response to ",
    h("b", null, `${plainWord(kind)} ${one.seq}`),
  ];
  if (found === undefined) return label;
  const { name, target, due, attempt, last_failure: failure } = found;
  const isTimer = kind === "timer";
  return [
    label,
    name ? `, ${name}` : null,
    target ? [", ", workflowLink(target)] : null,
    isTimer && due ? [", due ", ago(due)] : null,
    attempt && attempt > 1 ? [`, attempt ${attempt} `, ago(due)] : null,
    failure ? `: ${why(failure)}` : null,
  ];
}

/**
 * What each branch of the code waits for: any one of these makes it continue. A cancellation is shown only if there is
 * nothing else.
 * @param {Api.Workflow} workflow
 */
function waits({ blocked, pending }) {
  /** @param {History.Wait[]} all */
  const notable = (all) => (all.length === 1 ? all : all.filter((one) => one.for !== "cancellation"));
  /** @param {Api.BlockedBranch} blocked */
  const row = ({ branch, waits: all }) =>
    h(
      "li",
      null,
      h("code", { class: "chip", title: "A branch of the code" }, branch),
      h(
        "span",
        { class: "wrap" },
        notable(all).map((one, index) => [index === 0 ? null : ", or ", wait(one, pending)]),
      ),
    );
  return h("ul", { class: "waits" }, blocked.map(row));
}

/**
 * Retries a stuck run; the next refresh shows the result.
 * @param {string} base
 * @param {() => Promise<void>} refresh
 */
function retryButton(base, refresh) {
  const output = h("p", { class: "small" });
  const retry = button("Retry", {
    onclick: () =>
      during(
        retry,
        async () => {
          await send("POST", `${base}/retry`);
          await refresh();
        },
        output,
      ),
  });
  return [retry, output];
}

/**
 * @param {Api.Workflow} found
 * @param {string | undefined} parent
 * @param {string} base
 * @param {() => Promise<void>} refresh
 * @returns {Child}
 */
function summary(found, parent, base, refresh) {
  /** @type {Fact[]} */
  const facts = [
    ["status", runStatus(found.status)],
    ["type", found.type],
    ["started", ago(found.started)],
  ];
  if (found.ended) facts.push(["ended", ago(found.ended)]);
  if (parent) facts.push(["child of", workflowLink(parent)]);
  return [
    figures(facts),
    found.stuck
      ? h(
          "div",
          { class: "problem", role: "alert" },
          h("strong", null, "The code of this run cannot continue"),
          h("p", null, found.stuck),
          retryButton(base, refresh),
        )
      : null,
    found.warnings?.length
      ? h(
          "div",
          { class: "problem" },
          h("strong", null, "Warnings"),
          found.warnings.map((one) => h("p", null, one)),
        )
      : null,
    found.failure
      ? h(
          "div",
          { class: "problem" },
          h("strong", null, sentence(plainWord(found.status))),
          h("p", null, why(found.failure)),
          raw("The whole failure", found.failure),
        )
      : null,
    h(
      "div",
      { class: "values" },
      h("div", null, h("h2", null, "Input"), json(found.input)),
      Object.keys(found.memo ?? {}).length
        ? h("div", { class: "memo" }, h("h2", null, "Memo"), json(found.memo))
        : null,
      found.status === "completed" ? h("div", { class: "outcome" }, h("h2", null, "Result"), json(found.result)) : null,
    ),
  ];
}

/**
 * The history, read part after part; of a very long one, the first parts.
 * @param {string} address
 */
async function wholeHistory(address) {
  /** @type {Api.WorkflowHistory} */
  const history = await get(address);
  for (let parts = 1; history.next && parts < PARTS_MAX; parts++) {
    /** @type {Api.WorkflowHistory} */
    const { entries, steps, next } = await get(`${address}&after=${history.next}`);
    history.entries.push(...entries);
    history.steps.push(...steps);
    history.next = next;
  }
  return history;
}

/**
 * A menu with the runs of a workflow, the newest first; nothing if there is only one.
 * @param {string} base
 * @param {string} workflow
 * @param {number} chosen
 */
async function chooser(base, workflow, chosen) {
  /** @type {Api.WorkflowRuns} */
  const { runs } = await get(`${base}/runs?limit=${RUNS_MAX}`);
  if (runs.length < 2) return null;
  const options = runs.map(({ run, status: word, started }) =>
    h(
      "option",
      { value: run, selected: run === chosen },
      `${run}, ${plainWord(word)}, ${new Date(started).toLocaleString()}`,
    ),
  );
  const select = h("select", { name: "run" }, options);
  select.addEventListener("change", () => {
    const isNewest = select.value === String(runs[0].run);
    location.hash = isNewest ? path`#/workflows/${workflow}` : path`#/workflows/${workflow}/runs/${select.value}`;
  });
  return h("div", { class: "chooser" }, field("Run", select));
}

/**
 * How an earlier run ended, by its history.
 * @param {Api.WorkflowHistory} history
 * @returns {Api.Workflow}
 */
function described({ entries, ...summary }) {
  /** @param {string} what */
  const of = (what) => entries.find((entry) => entry.what === what)?.details;
  const failure = entries.at(-1)?.details.failure ?? null;
  return {
    ...summary,
    input: value(of("start")?.input ?? null),
    result: value(of("complete")?.result ?? null),
    failure,
    stuck: null,
    pending: [],
    blocked: [],
  };
}

/** @param {Record<string, string>} found Without a run it is the newest. */
export async function open({ workflow, run }) {
  const base = path`/v1/workflows/${workflow}`;
  const about = h("section", { class: "card run", "aria-label": "State of the run" });
  const waiting = h("section", { class: "card" });
  const whole = h("div", { class: "past" });
  const runs = h("div");
  const drawn = timeline();
  const side = h("div");
  const layout = h("div", { class: "with-aside run-page" });
  const isEarlier = run !== undefined;
  let [before, chosen] = ["", ""];
  let [asked, shown] = [0, 0];
  /** @type {number | undefined} */
  let timer;

  async function refresh() {
    const turn = ++asked;
    // The state is read before the history: otherwise the history may lack the end that the state has, and after an end
    // nothing is read again.
    /** @type {Api.Workflow | null} */
    const newest = isEarlier ? null : await get(base);
    const history = await wholeHistory(`${base}/history?run=${encodeURIComponent(newest?.run ?? run)}`);
    // Ignore this answer: a later one has already arrived.
    if (turn < shown) return;
    shown = turn;
    const found = newest ?? described(history);
    const isOpen = found.status === "running";
    const key = JSON.stringify([found, history.entries]);
    const state = `${found.run} ${found.status}`;
    if (state !== chosen) {
      chosen = state;
      show(runs, await chooser(base, workflow, found.run));
    }
    if (key !== before) {
      before = key;
      const parent = history.entries.find(({ what }) => what === "start")?.details.parent?.workflow_id;
      show(about, summary(found, parent, base, refresh));
      show(waiting, h("h2", null, "What it waits for"), waits(found));
      waiting.hidden = found.blocked.length === 0;
      drawn.draw(history.entries, isOpen);
      show(whole, raw("The history in the form that replay reads", history.steps));
      const signal = found.blocked.flatMap(({ waits: all }) => all).find((one) => one.for === "signal");
      talk.follow(isOpen, signal?.name);
    }
    drawn.stretch(isOpen ? Date.now() : Date.parse(found.ended ?? ""));
    if (!isOpen) clearInterval(timer);
  }

  const talk = tools(base, refresh);
  show(side, talk.node);
  // Signals, updates and queries go to the newest run.
  side.hidden = isEarlier;
  layout.classList.toggle("alone", isEarlier);
  show(
    layout,
    h(
      "div",
      { class: "stack" },
      about,
      waiting,
      h(
        "section",
        { class: "card flush past" },
        h("div", { class: "card-head" }, h("h2", null, "Timeline")),
        drawn.node,
      ),
      whole,
    ),
    side,
  );
  timer = setInterval(() => !document.hidden && refresh().catch(() => {}), PERIOD_MS);
  try {
    await refresh();
  } catch (error) {
    clearInterval(timer);
    throw error;
  }
  /** @type {[string, string][]} */
  const crumbs = [["Workflows", "#/workflows"]];
  if (isEarlier) crumbs.push([workflow, path`#/workflows/${workflow}`]);
  const title = isEarlier ? `${workflow}, run ${run}` : workflow;
  return {
    title,
    node: h("div", null, head(title, { crumbs, actions: [runs] }), layout),
    stop: () => clearInterval(timer),
  };
}
