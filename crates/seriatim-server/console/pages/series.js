// @ts-check
// All series, and a form for a new one.

import { get, path, send } from "../api.js";
import { h, show } from "../dom.js";
import { number } from "../format.js";
import { button, empty, field, form, head, server } from "../parts.js";
import { pagedTable } from "../table.js";

/** @import { Options } from "../api.js" */
/** @import { Column } from "../table.js" */

/**
 * A number in a format such as `INV-{number:06}`: what the server will write.
 * @param {string} format
 * @param {string | number} value
 */
export function inFormat(format, value) {
  return format.replace(/\{number(?::0(\d+))?\}/, (_, width) => String(value).padStart(Number(width ?? 0), "0"));
}

function createForm() {
  const name = h("input", {
    name: "name",
    required: true,
    maxlength: 200,
    pattern: "[A-Za-z0-9._\\-]+",
    placeholder: "acme.invoices.2026",
    autocomplete: "off",
  });
  const first = h("input", {
    name: "first",
    inputmode: "numeric",
    pattern: "\\d+",
    value: "1",
    required: true,
    autocomplete: "off",
  });
  const format = h("input", {
    name: "format",
    value: "{number}",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
  });
  const preview = h("span", { class: "chip drawn" });
  const output = h("div", { "aria-live": "polite" });
  const submit = button("Create series", { primary: true, type: "submit" });
  const showPreview = () => show(preview, inFormat(format.value, first.value || "1"));
  first.addEventListener("input", showPreview);
  format.addEventListener("input", showPreview);
  showPreview();
  const work = async () => {
    await send("PUT", path`/v1/series/${name.value}`, { first: Number(first.value), format: format.value });
    location.hash = path`#/series/${name.value}`;
  };
  const children = [
    field("Name", name, "Letters, digits, dots, dashes, underscores"),
    h(
      "div",
      { class: "form-row" },
      field("First number", first),
      field("Format", format, "for example INV-{number:06}"),
    ),
    h("p", { class: "small quiet" }, "The first one is ", preview),
    submit,
  ];
  return h(
    "section",
    { class: "card" },
    h("h2", null, "New series"),
    form({ class: "form", id: "create-series" }, children, submit, work, output),
    output,
  );
}

export async function open() {
  /**
   * @param {Record<string, string>} query
   * @param {Options} [options]
   */
  const read = async (query, options) => {
    /** @type {Api.SeriesList} */
    const { series, next } = await get(`/v1/series?${new URLSearchParams(query)}`, options);
    return { rows: series, next };
  };
  /** @type {Column<Api.Series>[]} */
  const columns = [
    {
      label: "Series",
      kind: "head",
      cell: (one) => h("a", { class: "wrap", href: path`#/series/${one.series}` }, one.series),
    },
    {
      label: "Next",
      kind: "num",
      cell: (one) => (one.next === null ? h("span", { class: "status bad" }, "used up") : number(one.next)),
    },
    {
      label: "Written as",
      wide: true,
      cell: (one) => (one.next === null ? "–" : h("code", null, inFormat(one.format, one.next))),
    },
    { label: "Voids", kind: "num", cell: (one) => number(one.voids) },
  ];
  const none = empty(
    "No series yet",
    "The first use of a series creates it; there is nothing to define. Take number 1:",
    `curl -X POST ${server}/v1/series/invoices/next`,
  );
  const list = await pagedTable("Series", columns, read, none);
  const node = h(
    "div",
    null,
    head("Series", { lead: "Gap-free numbers by name. A number exists if and only if its event is in the log." }),
    h("div", { class: "with-aside" }, list.node, createForm()),
  );
  return { title: "Series", node, stop: list.stop };
}
