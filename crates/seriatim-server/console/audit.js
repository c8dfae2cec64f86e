// @ts-check
// What an audit found.

import { h } from "./dom.js";
import { ago, number } from "./format.js";
import { figures, raw } from "./parts.js";

/**
 * @param {string} label
 * @param {Api.Run[]} list
 */
function runs(label, list) {
  if (list.length === 0) return null;
  const items = list
    .slice(0, 20)
    .map((run) =>
      h("span", { class: "chip" }, number(run.first), run.last > run.first ? [" – ", number(run.last)] : null),
    );
  const more = list.length > 20 ? h("span", { class: "chip" }, `and ${list.length - 20} more`) : null;
  return h("div", null, h("p", { class: "label" }, label), h("div", { class: "chips" }, items, more));
}

/** @param {Api.Raise[]} list */
function raises(list) {
  if (list.length === 0) return null;
  const items = list.map((raise) =>
    h("li", null, "from ", number(raise.from), " to ", number(raise.to), ", ", ago(raise.at)),
  );
  return h(
    "div",
    null,
    h("p", { class: "label" }, "Raises: skipped numbers that the log explains"),
    h("ul", { class: "small" }, items),
  );
}

/** @param {Api.Voided[]} list */
function voids(list) {
  if (list.length === 0) return null;
  const items = list.slice(0, 50).map((one) => h("li", null, number(one.number), ": ", one.reason, ", ", ago(one.at)));
  return h(
    "div",
    null,
    h("p", { class: "label" }, "Void numbers, with their reasons"),
    h("ul", { class: "small wrap" }, items),
  );
}

/**
 * The result of an audit. Only that of a series has voids.
 * @param {Api.Audit & { voids?: Api.Voided[] }} audit
 */
export function auditResult(audit) {
  const { complete, count, first, last, gaps, duplicates, broken, digest } = audit;
  const verdict = complete ? "Complete: no gaps, no duplicates" : "Not complete";
  const wrong = broken.map((one) => h("li", null, "event ", number(one.workspace_offset), ": ", one.problem));
  return h(
    "div",
    { class: complete ? "result audit" : "problem audit", role: "status" },
    h("strong", null, verdict),
    figures([
      ["numbers", number(count)],
      ["first", number(first)],
      ["last", number(last)],
      ["events read", number(audit.events)],
    ]),
    runs("Gaps", gaps),
    runs("Given out twice", duplicates),
    wrong.length > 0
      ? h("div", null, h("p", { class: "label" }, "Where the hash chain breaks"), h("ul", null, wrong))
      : null,
    raises(audit.raises),
    voids(audit.voids ?? []),
    h("div", null, h("p", { class: "label" }, "Head of the hash chain"), h("p", { class: "digest" }, digest)),
    raw("The whole report", audit),
  );
}
