// @ts-check
// One application: its workspaces, a form for a new one, and what its definition says.

import { get, path, send } from "../api.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { button, empty, field, form, head, server } from "../parts.js";
import { pagedTable, table } from "../table.js";

/** @import { Options } from "../api.js" */
/** @import { Child } from "../dom.js" */
/** @import { Column } from "../table.js" */

const KINDS = { C: "configuration", O: "operation, part of its event", W: "work" };

/** @param {Api.Application} application */
function createForm(application) {
  const name = h("input", { name: "name", maxlength: 200, placeholder: "corner", autocomplete: "off" });
  const kind = h(
    "select",
    { name: "kind" },
    application.kinds.map((kind) => h("option", null, kind)),
  );
  const output = h("div", { "aria-live": "polite" });
  const submit = button("Create workspace", { primary: true, type: "submit" });
  const work = async () => {
    const body = { kind: kind.value, ...(name.value === "" ? {} : { name: name.value }) };
    /** @type {Api.Workspace} */
    const workspace = await send("POST", path`/v1/apps/${application.name}/workspaces`, body);
    location.hash = path`#/apps/${application.name}/workspaces/${workspace.id}/command`;
  };
  const children = [
    field("Kind", kind),
    field("Name", name, "Optional. The same name again gives the same workspace."),
    submit,
  ];
  return h(
    "section",
    { class: "card" },
    h("h2", null, "New workspace"),
    form({ class: "form", id: "create-workspace" }, children, submit, work, output),
    output,
  );
}

/** @param {Api.Field} field */
function fieldChip({ name, type, draw }) {
  return draw
    ? h("span", { class: "chip drawn", title: `drawn from the sequence ${draw}` }, name, h("small", null, draw))
    : h("span", { class: "chip", title: type }, name);
}

/** @param {Api.Application} application */
function definitionCard(application) {
  /** @type {Column<Api.Document>[]} */
  const columns = [
    {
      label: "Document",
      kind: "head",
      cell: (document) => [
        document.parent ? h("span", { class: "faint" }, `${document.parent} › `) : null,
        document.name,
      ],
    },
    {
      label: "Kind",
      wide: true,
      cell: (document) =>
        h(
          "span",
          { class: "quiet small" },
          `${document.kind}, ${KINDS[document.kind]}${document.singleton ? ", at most one in a workspace" : ""}`,
        ),
    },
    {
      label: "Fields",
      cell: (document) => h("div", { class: "chips" }, document.fields.map(fieldChip)),
    },
  ];
  return h(
    "section",
    { class: "card flush" },
    h(
      "div",
      { class: "card-head" },
      h("h2", null, "Documents"),
      h("span", { class: "small faint" }, "Commands: ", application.commands.join(", ")),
    ),
    table("Documents", columns, application.documents).node,
  );
}

/** @param {Record<string, string>} found */
export async function open({ app }) {
  /** @type {Api.Application} */
  const application = await get(path`/v1/apps/${app}`);
  const address = path`/v1/apps/${app}/workspaces`;
  /**
   * @param {Record<string, string>} query
   * @param {Options} [options]
   */
  const read = async (query, options) => {
    /** @type {Api.Workspaces} */
    const { workspaces, next } = await get(`${address}?${new URLSearchParams(query)}`, options);
    return { rows: workspaces, next };
  };
  /**
   * @param {Api.Workspace} workspace
   * @param {Child} label
   */
  const link = (workspace, label) => h("a", { href: path`#/apps/${app}/workspaces/${workspace.id}/events` }, label);
  /** @type {Column<Api.Workspace>[]} */
  const columns = [
    {
      label: "Name",
      kind: "head",
      cell: (workspace) => link(workspace, workspace.name ?? h("span", { class: "quiet" }, "unnamed")),
    },
    { label: "Kind", cell: (workspace) => workspace.kind },
    { label: "Partition", kind: "num", wide: true, cell: (workspace) => String(workspace.id % application.partitions) },
    { label: "Id", kind: "num", cell: (workspace) => link(workspace, number(workspace.id)) },
  ];
  const body = `'{"kind": "${application.kinds[0] ?? "kind"}", "name": "corner"}'`;
  const none = empty(
    "No workspaces yet",
    "A workspace is a tenant: it has its own log, records and numbers. Create one with the form, or with this command:",
    `curl ${server}${address} -H 'content-type: application/json' -d ${body}`,
  );
  const list = await pagedTable("Workspaces", columns, read, none);
  const node = h(
    "div",
    null,
    head(app, {
      crumbs: [["Applications", "#/apps"]],
      lead: [
        number(application.partitions),
        " partitions. A workspace belongs to partition id mod ",
        String(application.partitions),
        ".",
      ],
    }),
    h(
      "div",
      { class: "stack" },
      h("div", { class: "with-aside" }, list.node, application.kinds.length > 0 ? createForm(application) : null),
      application.documents.length > 0 ? definitionCard(application) : null,
    ),
  );
  return { title: app, node, stop: list.stop };
}
