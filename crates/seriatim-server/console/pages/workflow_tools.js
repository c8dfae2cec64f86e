// @ts-check
// What can be sent to a workflow: signals, updates, queries, cancellation and termination.

import { send } from "../api.js";
import { h, show } from "../dom.js";
import { json } from "../json.js";
import { button, during, field, form, notify, parseInput } from "../parts.js";

const SURE_MS = 4000;

/**
 * The ways to send something to a run. A signal has no answer; the others have one.
 * @type {Record<string, { word: string, submit: string, hint: string, done?: (name: string) => string }>}
 */
const WAYS = {
  signals: {
    word: "Signal",
    submit: "Send signal",
    hint: "A signal is durable once it is sent. The code receives it when it next reads signals.",
    done: (name) => `The signal ${name} was sent`,
  },
  updates: {
    word: "Update",
    submit: "Send update",
    hint: "An update changes the state of the run, and the code answers.",
  },
  queries: { word: "Query", submit: "Send query", hint: "A query asks the code about its state. Nothing is written." },
};

/**
 * One form for the three ways, as all of them are a name and an input.
 * @param {string} base
 * @param {() => Promise<void>} refresh
 * @param {Element} output
 */
function messageForm(base, refresh, output) {
  const options = Object.entries(WAYS).map(([value, { word }]) => h("option", { value }, word));
  const way = h("select", { name: "way" }, options);
  const name = h("input", { name: "name", required: true, autocomplete: "off" });
  const input = h("textarea", { name: "input", rows: 2, spellcheck: "false", placeholder: "null" });
  const submit = button("", { primary: true, type: "submit" });
  const hint = h("small", { class: "small faint" });
  const showWay = () => {
    show(submit, WAYS[way.value].submit);
    show(hint, WAYS[way.value].hint);
  };
  way.addEventListener("change", () => {
    showWay();
    show(output);
  });
  const work = async () => {
    /** @type {Partial<Api.WorkflowAnswer>} */
    const answer = await send("POST", `${base}/${way.value}/${encodeURIComponent(name.value)}`, {
      input: parseInput(input) ?? null,
    });
    const { done } = WAYS[way.value];
    if (done) notify(done(name.value));
    show(
      output,
      done
        ? null
        : h("div", { class: "answered", role: "status" }, h("h3", null, `${name.value} answers`), json(answer.result)),
    );
    await refresh();
  };
  /**
   * Offers the name of a signal that the run waits for, unless the reader has typed another. A run that has ended can
   * only be queried.
   * @param {boolean} isOpen
   * @param {string} [wanted]
   */
  const follow = (isOpen, wanted) => {
    for (const option of options) option.disabled = !isOpen && option.value !== "queries";
    if (!isOpen && way.value !== "queries") way.value = "queries";
    if (isOpen && way.value === "signals" && name.value === "" && document.activeElement !== name)
      name.value = wanted ?? "";
    showWay();
  };
  showWay();
  const children = [
    h("div", { class: "form-row" }, field("Kind", way), field("Name", name)),
    field("Input, as JSON", input),
    hint,
    submit,
  ];
  return { node: form({ class: "form", id: "tell" }, children, submit, work, output), follow };
}

/**
 * Cancelling asks the code; terminating does not, so it needs a second click.
 * @param {string} base
 * @param {() => Promise<void>} refresh
 * @param {Element} output
 */
function stopButtons(base, refresh, output) {
  const reason = { reason: "from the console" };
  const cancel = button("Cancel", {
    onclick: () =>
      during(
        cancel,
        async () => {
          await send("POST", `${base}/cancel`, reason);
          notify("The run received the request to cancel");
          await refresh();
        },
        output,
      ),
  });
  let isSure = false;
  /** @param {boolean} sure */
  const setSure = (sure) => {
    isSure = sure;
    show(terminate, sure ? "Yes, terminate" : "Terminate");
  };
  const terminate = button("Terminate", {
    onclick: () => {
      if (isSure) {
        during(
          terminate,
          async () => {
            await send("POST", `${base}/terminate`, reason);
            await refresh();
          },
          output,
        );
        return;
      }
      setSure(true);
      setTimeout(() => setSure(false), SURE_MS);
    },
  });
  terminate.classList.add("danger");
  return h(
    "div",
    { class: "stops" },
    cancel,
    terminate,
    h(
      "p",
      { class: "small faint" },
      "Cancelling asks the code to stop. Terminating ends the run without asking the code.",
    ),
  );
}

/**
 * All forms as a card. `follow` adapts them to the state of the run and to the signal that it waits for.
 * @param {string} base
 * @param {() => Promise<void>} refresh
 */
export function tools(base, refresh) {
  const output = h("div", { "aria-live": "polite" });
  const message = messageForm(base, refresh, output);
  const stops = stopButtons(base, refresh, output);
  const title = h("h2");
  const node = h(
    "section",
    { class: "card tools-card", "aria-label": "Signals, updates and queries" },
    title,
    message.node,
    output,
    stops,
  );
  /**
   * @param {boolean} isOpen
   * @param {string} [signal]
   */
  const follow = (isOpen, signal) => {
    show(title, isOpen ? "Send to this run" : "Query this run");
    stops.hidden = !isOpen;
    message.follow(isOpen, signal);
  };
  return { node, follow };
}
