// The records of a workspace, by type and by id.

import { get, path } from "../api.js";
import { h, show } from "../dom.js";
import { number } from "../format.js";
import { button, definitions, empty, field, form, head, pagedTable, problem, raw } from "../parts.js";

/** A field's value: numbers that were drawn stand out. */
function value(found, one) {
  if (found === undefined || found === null) return h("span", { class: "faint" }, "–");
  if (one?.draw) return h("span", { class: "chip drawn" }, number(found));
  if (typeof found === "number") return number(found);
  return typeof found === "string" ? h("span", { class: "wrap" }, found) : h("code", null, JSON.stringify(found));
}

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
  return form(
    { class: "inline-form", children: [field("Open a record by its id", input), submit] },
    submit,
    work,
    h("div"),
  );
}

export async function recordsTab({ app, workspace, definition }) {
  const types = definition.documents.filter((document) => document.kind !== "O");
  if (types.length === 0)
    return {
      node: h(
        "div",
        { class: "card" },
        empty("No records", "This application keeps no records: what it does stands in its events."),
      ),
    };
  const select = h(
    "select",
    { name: "type" },
    types.map((document) =>
      h("option", { value: document.name }, document.parent ? `${document.parent} › ${document.name}` : document.name),
    ),
  );
  const place = h("div");
  const base = path`/v1/apps/${app}/workspaces/${workspace}`;
  let [shown, isLeft] = [null, false];

  async function list() {
    const document = types.find((one) => one.name === select.value);
    const link = (record) => h("a", { href: `#${base.slice(3)}/records/${record.id}` }, number(record.id));
    const align = (one) =>
      one.type === "text" || one.type === "json" || one.type === "bool" || one.type === "timestamp" ? undefined : "num";
    const columns = [
      { label: "id", kind: "head", cell: link },
      ...document.fields.map((one) => ({
        label: one.name,
        kind: align(one),
        wide: one.type === "reference",
        cell: (record) => value(record.fields[one.name], one),
      })),
      ...(document.parent
        ? [{ label: "parent", kind: "num", wide: true, cell: (record) => number(record.parent) }]
        : []),
    ];
    const read = async (query, options) => {
      const { records, next } = await get(
        `${base}/records?${new URLSearchParams({ type: document.name, ...query })}`,
        options,
      );
      return { rows: records, next };
    };
    const none = empty(
      `No ${document.name} yet`,
      "Create one with a command; it shows here as soon as it is committed.",
    );
    const found = await pagedTable(`Records of type ${document.name}`, columns, read, none);
    // Another type was chosen since, or the page was left.
    if (document.name !== select.value || isLeft) return found.stop();
    shown?.stop();
    shown = found;
    show(place, found.node);
  }
  select.addEventListener("change", () => list().catch((error) => show(place, problem(error))));
  const drawing = types.find((document) => document.fields.some((one) => one.draw));
  select.value = (drawing ?? types[0]).name;
  await list();
  const node = h(
    "div",
    { class: "stack" },
    h("section", { class: "card record-tools" }, field("Type", select), findForm({ app, workspace })),
    place,
  );
  const stop = () => {
    isLeft = true;
    shown?.stop();
  };
  return { node, stop };
}

export async function openOne({ app, workspace, record }) {
  const [definition, found] = await Promise.all([
    get(path`/v1/apps/${app}`),
    get(path`/v1/apps/${app}/workspaces/${workspace}/records/${record}`),
  ]);
  const document = definition.documents.find((one) => one.name === found.type);
  const of = (name) => document?.fields.find((one) => one.name === name);
  const base = path`#/apps/${app}/workspaces/${workspace}`;
  const link = (id) => h("a", { href: `${base}/records/${id}` }, number(id));
  const facts = Object.entries(found.fields).map(([name, one]) => [
    name,
    of(name)?.type === "reference" && typeof one === "number" ? link(one) : value(one, of(name)),
  ]);
  const about = [
    ["id", number(found.id)],
    ["type", found.type],
    found.parent ? ["parent", link(found.parent)] : null,
    found.workspace_offset ? ["lives in event", number(found.workspace_offset)] : null,
  ].filter(Boolean);
  const node = h(
    "div",
    null,
    head([found.type, " ", number(found.id)], {
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
        facts.length > 0 ? definitions(facts) : h("p", { class: "quiet" }, "None is set."),
      ),
      h("section", { class: "card" }, h("h2", null, "Record"), definitions(about), raw("As JSON", found)),
    ),
  );
  return { title: `${found.type} ${found.id}`, node };
}
