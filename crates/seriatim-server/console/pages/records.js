// @ts-check
// The records of a workspace, by type and by id.

import { get, path } from "../api.js";
import { h, show } from "../dom.js";
import { number } from "../format.js";
import { button, definitions, empty, field, form, head, problem, raw } from "../parts.js";
import { pagedTable } from "../table.js";

/** @import { Options } from "../api.js" */
/** @import { Fact } from "../parts.js" */
/** @import { Column } from "../table.js" */
/** @import { Place } from "./workspace.js" */

// Types whose values are aligned to the left.
const TEXTS = ["text", "json", "bool", "timestamp"];

/**
 * A field's value: numbers that were drawn are highlighted.
 * @param {unknown} found
 * @param {Api.Field | undefined} one
 */
function value(found, one) {
  if (found === undefined || found === null) return h("span", { class: "faint" }, "–");
  if (one?.draw) return h("span", { class: "chip drawn" }, number(found));
  if (typeof found === "number") return number(found);
  return typeof found === "string" ? h("span", { class: "wrap" }, found) : h("code", null, JSON.stringify(found));
}

/** @param {Place} place */
function findForm({ app, workspace }) {
  const input = h("input", {
    name: "id",
    inputmode: "numeric",
    pattern: "\\d+",
    required: true,
    placeholder: "322680000131072",
    autocomplete: "off",
  });
  const submit = button("Open", { type: "submit" });
  const work = async () => {
    location.hash = path`#/apps/${app}/workspaces/${workspace}/records/${input.value.trim()}`;
  };
  return form({ class: "inline-form" }, [field("Open a record by its id", input), submit], submit, work, h("div"));
}

/** @param {Place} place */
export async function recordsTab(place) {
  const { app, workspace, definition } = place;
  const types = definition.documents.filter((document) => document.kind !== "O");
  if (types.length === 0)
    return {
      node: h(
        "div",
        { class: "card" },
        empty("No records", "This application has no record types. Its data is in its events."),
      ),
    };
  const select = h(
    "select",
    { name: "type" },
    types.map((document) =>
      h("option", { value: document.name }, document.parent ? `${document.parent} › ` : null, document.name),
    ),
  );
  const output = h("div");
  const base = path`/v1/apps/${app}/workspaces/${workspace}`;
  /** @type {{ stop: () => void } | null} */
  let shown = null;
  let isLeft = false;

  async function list() {
    const document = types.find((one) => one.name === select.value) ?? types[0];
    /** @param {Api.Record} record */
    const link = (record) => h("a", { href: `#${base.slice(3)}/records/${record.id}` }, number(record.id));
    /** @type {Column<Api.Record>[]} */
    const columns = [{ label: "id", kind: "head", cell: link }];
    for (const one of document.fields) {
      columns.push({
        label: one.name,
        kind: TEXTS.includes(one.type) ? undefined : "num",
        wide: one.type === "reference",
        cell: (record) => value(record.fields[one.name], one),
      });
    }
    if (document.parent) {
      columns.push({ label: "parent", kind: "num", wide: true, cell: (record) => number(record.parent) });
    }
    /**
     * @param {Record<string, string>} query
     * @param {Options} [options]
     */
    const read = async (query, options) => {
      const whole = new URLSearchParams({ type: document.name, ...query });
      /** @type {Api.Records} */
      const { records, next } = await get(`${base}/records?${whole}`, options);
      return { rows: records, next };
    };
    const none = empty(
      `No ${document.name} yet`,
      "Create one with a command; it appears here as soon as it is committed.",
    );
    const found = await pagedTable(`Records of type ${document.name}`, columns, read, none);
    // Another type was chosen meanwhile, or the page was left.
    if (document.name !== select.value || isLeft) return found.stop();
    shown?.stop();
    shown = found;
    show(output, found.node);
  }
  select.addEventListener("change", () => list().catch((error) => show(output, problem(error))));
  const drawing = types.find((document) => document.fields.some((one) => one.draw));
  select.value = (drawing ?? types[0]).name;
  await list();
  const node = h(
    "div",
    { class: "stack" },
    h("section", { class: "card record-tools" }, field("Type", select), findForm(place)),
    output,
  );
  const stop = () => {
    isLeft = true;
    shown?.stop();
  };
  return { node, stop };
}

/** @param {Record<string, string>} found */
export async function openOne({ app, workspace, record }) {
  /** @type {[Api.Application, Api.Record]} */
  const [definition, found] = await Promise.all([
    get(path`/v1/apps/${app}`),
    get(path`/v1/apps/${app}/workspaces/${workspace}/records/${record}`),
  ]);
  const document = definition.documents.find((one) => one.name === found.type);
  /** @param {string} name */
  const of = (name) => document?.fields.find((one) => one.name === name);
  const base = path`#/apps/${app}/workspaces/${workspace}`;
  /** @param {number} id */
  const link = (id) => h("a", { href: `${base}/records/${id}` }, number(id));
  /** @type {Fact[]} */
  const facts = Object.entries(found.fields).map(([name, one]) => [
    name,
    of(name)?.type === "reference" && typeof one === "number" ? link(one) : value(one, of(name)),
  ]);
  /** @type {Fact[]} */
  const about = [["id", number(found.id)]];
  // A definition that no longer has the document leaves its records without a type.
  if (found.type) about.push(["type", found.type]);
  if (found.parent) about.push(["parent", link(found.parent)]);
  if (found.workspace_offset) about.push(["part of event", number(found.workspace_offset)]);
  const type = found.type ?? "Record";
  const node = h(
    "div",
    null,
    head([type, " ", number(found.id)], {
      crumbs: [
        ["Applications", "#/apps"],
        [app, path`#/apps/${app}`],
        [workspace, `${base}/events`],
        ["Records", `${base}/records`],
      ],
    }),
    h(
      "div",
      { class: "split" },
      h(
        "section",
        { class: "card" },
        h("h2", null, "Fields"),
        facts.length > 0 ? definitions(facts) : h("p", { class: "quiet" }, "No field is set."),
      ),
      h("section", { class: "card" }, h("h2", null, "Record"), definitions(about), raw("As JSON", found)),
    ),
  );
  return { title: `${type} ${found.id}`, node };
}
