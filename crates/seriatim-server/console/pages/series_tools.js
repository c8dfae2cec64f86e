// @ts-check
// Forms for the numbers of a series: look up, mark void, raise.

import { get, send } from "../api.js";
import { h, show } from "../dom.js";
import { ago, number } from "../format.js";
import { button, definitions, field, form } from "../parts.js";
import { inFormat } from "./series.js";

/** @import { Child } from "../dom.js" */
/** @import { Fact } from "../parts.js" */

/**
 * The series that the page shows, as it was last read.
 * @typedef {{ state: Api.Series, refresh: (options?: { quietly?: boolean }) => Promise<void> }} ShownSeries
 */

/**
 * @param {Api.Issued} issued
 * @param {string} format
 */
function issuedCard(issued, format) {
  const mark = issued.void ? h("span", { class: "status bad" }, `void: ${issued.void.reason}`) : null;
  const none = h("span", { class: "faint" }, "none");
  /** @type {Fact[]} */
  const facts = [["taken", ago(issued.at)]];
  if (issued.count > 1) {
    facts.push(["together with", [number(issued.first), " – ", number(issued.first + issued.count - 1)]]);
  }
  return h(
    "div",
    { class: "result plain", role: "status" },
    h("strong", null, inFormat(format, issued.number), " ", mark),
    definitions([
      ...facts,
      ["note", issued.note ?? none.cloneNode(true)],
      ["idempotency key", issued.idempotency_key ? h("code", null, issued.idempotency_key) : none],
      [
        "event",
        [number(issued.workspace_offset), " of the series, ", number(issued.partition_offset), " of its partition"],
      ],
    ]),
  );
}

/**
 * A form of a few fields that shows its result below it.
 * @param {string} title
 * @param {string | null} text
 * @param {Child[]} fields
 * @param {string} label
 * @param {(output: Element, submit: HTMLButtonElement) => Promise<void>} work
 * @param {string | null} [id]
 */
function smallForm(title, text, fields, label, work, id = null) {
  const output = h("div", { "aria-live": "polite" });
  const submit = button(label, { type: "submit" });
  const children = [h("div", { class: "form-row" }, fields), h("div", null, submit)];
  const inner = form({ class: "form" }, children, submit, () => work(output, submit), output);
  return h(
    "section",
    { class: "card", id },
    h("h2", null, title),
    h("div", { class: "stack" }, text ? h("p", { class: "small quiet" }, text) : null, inner, output),
  );
}

/** Attributes of an input for a whole number. */
export const DIGITS = { inputmode: "numeric", pattern: "\\d+", required: true, autocomplete: "off" };

/**
 * @param {string} base
 * @param {ShownSeries} series
 */
export function lookUpCard(base, series) {
  const found = h("input", { name: "number", ...DIGITS, placeholder: String(series.state.first) });
  return smallForm("Who got a number", null, [field("Number", found)], "Look up", async (output) => {
    show(output, issuedCard(await get(`${base}/numbers/${encodeURIComponent(found.value)}`), series.state.format));
  });
}

/**
 * @param {string} base
 * @param {ShownSeries} series
 */
export function voidCard(base, series) {
  const which = h("input", { name: "void", ...DIGITS });
  const reason = h("input", { name: "reason", required: true, autocomplete: "off", placeholder: "misprint" });
  const text = "The number stays taken. An event keeps the reason, and the audit lists it.";
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

/**
 * @param {string} base
 * @param {ShownSeries} series
 */
export function raiseCard(base, series) {
  const next = h("input", { name: "next", ...DIGITS });
  const reason = h("input", {
    name: "cause",
    required: true,
    autocomplete: "off",
    placeholder: "old system",
  });
  const text =
    "For a series that continues the numbers of another system. A raise cannot be undone: " +
    "the numbers in between are never given out.";
  /**
   * The number that the reader was asked to confirm; another number needs another confirmation.
   * @type {string | null}
   */
  let sure = null;
  /** @type {HTMLButtonElement | null} */
  let raise = null;
  const card = smallForm(
    "Continue from a later number",
    text,
    [field("Next number", next), field("Reason", reason)],
    "Raise",
    async (output, submit) => {
      raise = submit;
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
        show(submit, "Yes, raise");
        return;
      }
      await send("POST", `${base}/raise`, { next: Number(next.value), reason: reason.value });
      forget();
      show(output, h("div", { class: "result", role: "status" }, "The series was raised."));
      await series.refresh();
    },
    "raise",
  );
  const forget = () => {
    sure = null;
    if (raise !== null) show(raise, "Raise");
  };
  next.addEventListener("input", forget);
  return card;
}
