// One workflow: how a run of it stands, what it waits for, what it can be told, and its timeline.

import { get, path, send } from "../api.js";
import { h, show } from "../dom.js";
import { ago, sentence } from "../format.js";
import { json } from "../json.js";
import { button, during, field, figures, head, raw, status } from "../parts.js";
import { plainWord, timeline, value, why, workflowLink } from "../timeline.js";
import { tools } from "./workflow_tools.js";

const PERIOD_MS = 1000;
const RUNS_MAX = 100;
const PARTS_MAX = 10;
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
  if (["mutex", "semaphore", "channel"].includes(one.for)) return `a ${one.for} of the workflow's own`;
  if (one.for === "cancellation") return "being asked to stop";
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
    attempt > 1 ? [`, attempt ${attempt} `, ago(due)] : null,
    failure ? `: ${why(failure)}` : null,
  ];
}

/** What each branch of the code waits for; any of a branch's waits lets it go on. That all of them can be asked to stop is left out. */
function waits({ blocked, pending }) {
  const notable = (all) => (all.length === 1 ? all : all.filter((one) => one.for !== "cancellation"));
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

/** A stuck run is tried again; what comes of it is shown by the next look. */
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

function summary(found, parent, base, refresh) {
  return [
    figures(
      [
        ["status", runStatus(found.status)],
        ["type", found.type],
        ["started", ago(found.started)],
        found.ended ? ["ended", ago(found.ended)] : null,
        parent ? ["child of", workflowLink(parent)] : null,
      ].filter(Boolean),
    ),
    found.stuck
      ? h(
          "div",
          { class: "problem", role: "alert" },
          h("strong", null, "Its code cannot continue"),
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

/** The history in its parts, one after the other; of a very long one the first. */
async function wholeHistory(address) {
  const history = await get(address);
  for (let parts = 1; history.next && parts < PARTS_MAX; parts++) {
    const { entries, steps, next } = await get(`${address}&after=${history.next}`);
    history.entries.push(...entries);
    history.steps.push(...steps);
    history.next = next;
  }
  return history;
}

/** A chooser among the runs of a workflow, the newest first; nothing where there is only one. */
async function chooser(base, workflow, chosen) {
  const { runs } = await get(`${base}/runs?limit=${RUNS_MAX}`);
  if (runs.length < 2) return null;
  const when = (started) => new Date(started).toLocaleString();
  const options = runs.map(({ run, status: word, started }) =>
    h("option", { value: run, selected: run === chosen }, `${run}, ${plainWord(word)}, ${when(started)}`),
  );
  const select = h("select", { name: "run" }, options);
  select.addEventListener("change", () => {
    const isNewest = select.value === String(runs[0].run);
    location.hash = isNewest ? path`#/workflows/${workflow}` : path`#/workflows/${workflow}/runs/${select.value}`;
  });
  return h("div", { class: "chooser" }, field("Run", select));
}

/** How an earlier run ended, by its history. */
function described({ entries, ...summary }) {
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

export async function open({ workflow, run = null }) {
  const base = path`/v1/workflows/${workflow}`;
  const about = h("section", { class: "card run", "aria-label": "How it stands" });
  const waiting = h("section", { class: "card" });
  const whole = h("div", { class: "past" });
  const runs = h("div");
  const drawn = timeline();
  const side = h("div");
  const layout = h("div", { class: "with-aside run-page" });
  const isEarlier = run !== null;
  let [before, chosen] = ["", ""];
  let [asked, shown] = [0, 0];
  let timer = null;

  async function refresh() {
    const turn = ++asked;
    // The history after the state: one that was read first may lack the end that the state tells of, and nothing asks again after an end.
    const newest = isEarlier ? null : await get(base);
    const history = await wholeHistory(`${base}/history?run=${encodeURIComponent(newest?.run ?? run)}`);
    // An answer that a later one has overtaken.
    if (turn < shown) return;
    shown = turn;
    const found = newest ?? described(history);
    const isOpen = found.status === "running";
    const key = JSON.stringify([found, history.entries]);
    const standing = `${found.run} ${found.status}`;
    if (standing !== chosen) {
      chosen = standing;
      show(runs, await chooser(base, workflow, found.run));
    }
    if (key !== before) {
      before = key;
      const parent = history.entries.find(({ what }) => what === "start")?.details.parent?.workflow_id;
      show(about, summary(found, parent, base, refresh));
      show(waiting, h("h2", null, "What it waits for"), waits(found));
      waiting.hidden = found.blocked.length === 0;
      drawn.draw(history.entries, isOpen);
      show(whole, raw("The history that replay reads", history.steps));
      talk.follow(isOpen, found.blocked.flatMap(({ waits: all }) => all).find((one) => one.for === "signal")?.name);
    }
    drawn.stretch(isOpen ? Date.now() : Date.parse(found.ended));
    if (!isOpen) clearInterval(timer);
  }

  const talk = tools(base, refresh);
  show(side, talk.node);
  // What is said goes to the newest run.
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
  const crumbs = [["Workflows", "#/workflows"], ...(isEarlier ? [[workflow, path`#/workflows/${workflow}`]] : [])];
  const title = isEarlier ? `${workflow}, run ${run}` : workflow;
  return {
    title,
    node: h("div", null, head(title, { crumbs, actions: [runs] }), layout),
    stop: () => clearInterval(timer),
  };
}
