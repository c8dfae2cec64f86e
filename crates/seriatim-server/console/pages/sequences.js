// @ts-check
// The sequences of a workspace: the next number, the forecast, the audit, and which event drew a number.

import { get, path, Problem } from "../api.js";
import { auditResult } from "../audit.js";
import { h, show } from "../dom.js";
import { eventCard } from "../event_log.js";
import { ago, digits, number } from "../format.js";
import { button, during, empty, field, figures, form } from "../parts.js";

/** @import { Child } from "../dom.js" */
/** @import { Place } from "./workspace.js" */

const PERIOD_MS = 2000;

/**
 * When it runs out of numbers, at the present rate.
 * @param {string} base
 * @returns {Promise<Child>}
 */
async function forecast(base) {
  try {
    /** @type {Api.Forecast} */
    const { per_day: perDay, runs_out: runsOut } = await get(`${base}/forecast`);
    if (!perDay) return "no number drawn recently";
    const pace = `at ${digits(perDay)} a day, `;
    return runsOut ? [pace, "it ends ", ago(runsOut)] : [pace, "it ends after the year 9000"];
  } catch (error) {
    if (error instanceof Problem) return "not available";
    throw error;
  }
}

/**
 * @param {Place} place
 * @param {Api.Sequence} sequence
 */
function sequenceCard({ app, workspace, definition }, sequence) {
  const base = path`/v1/apps/${app}/workspaces/${workspace}/sequences/${sequence.name}`;
  const [next, remaining, outlook] = [h("span"), h("span"), h("span", { class: "outlook" }, "–")];
  const output = h("div", { "aria-live": "polite" });
  const check = button("Audit", {
    onclick: () =>
      during(
        check,
        async () => {
          show(output, auditResult(await get(`${base}/audit`)));
        },
        output,
      ),
  });
  check.setAttribute("aria-label", `Audit ${sequence.name}`);
  const input = h("input", {
    name: "number",
    inputmode: "numeric",
    pattern: "\\d+",
    required: true,
    placeholder: String(sequence.first),
    autocomplete: "off",
  });
  const submit = button("Look up", { type: "submit" });
  const lookUp = async () => {
    const address = `${base}/numbers/${encodeURIComponent(input.value.trim())}`;
    show(output, eventCard(await get(address), definition));
  };
  const who = form({ class: "inline-form" }, [field("Who got this number", input), submit], submit, lookUp, output);
  const drawnBy = definition.documents.flatMap((document) =>
    document.fields.filter((one) => one.draw === sequence.name).map((one) => `${document.name}.${one.name}`),
  );
  const node = h(
    "section",
    { class: "card sequence", "data-sequence": sequence.name },
    h(
      "h2",
      null,
      sequence.name,
      drawnBy.length > 0 ? h("span", { class: "small faint" }, `fills ${drawnBy.join(", ")}`) : null,
    ),
    figures([
      ["next", next],
      ["first", number(sequence.first)],
      ["last", number(sequence.last)],
      ["remaining", remaining],
      ["forecast", outlook],
    ]),
    h("div", { class: "tools" }, check, who),
    output,
  );
  /** @type {number | null | undefined} */
  let shown;
  /** @param {Api.Sequence} state */
  function update(state) {
    if (state.next === shown) return;
    shown = state.next;
    show(next, state.next === null ? h("span", { class: "status bad" }, "used up") : number(state.next));
    show(remaining, number(state.remaining));
    forecast(base).then((words) => show(outlook, words));
  }
  update(sequence);
  return { node, update };
}

/** @param {Place} place */
export async function sequencesTab(place) {
  const base = path`/v1/apps/${place.app}/workspaces/${place.workspace}`;
  /** @type {Api.Sequence[]} */
  const states = await get(`${base}/sequences`);
  if (states.length === 0)
    return {
      node: h(
        "div",
        { class: "card" },
        empty(
          "No sequences",
          "This kind of workspace has no sequences. Define one under [sequences] in the application's definition.",
        ),
      ),
    };
  // The sequences of the application come first; those of the system follow.
  states.sort((one, other) => Number(one.name.startsWith("sys.")) - Number(other.name.startsWith("sys.")));
  const cards = new Map(states.map((state) => [state.name, sequenceCard(place, state)]));
  const timer = setInterval(async () => {
    if (document.hidden) return;
    /** @type {Api.Sequence[]} */
    const fresh = await get(`${base}/sequences`, { ask: false }).catch(() => []);
    for (const state of fresh) cards.get(state.name)?.update(state);
  }, PERIOD_MS);
  return {
    node: h(
      "div",
      { class: "stack" },
      [...cards.values()].map((card) => card.node),
    ),
    stop: () => clearInterval(timer),
  };
}
