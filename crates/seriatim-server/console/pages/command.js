// @ts-check
// A form that sends a command, and the log next to it, where the event appears.

import { path, send } from "../api.js";
import { h, show } from "../dom.js";
import { rowsOf } from "../event_log.js";
import { number } from "../format.js";
import { button, definitions, during, field, form, freshKey, messageOf, raw } from "../parts.js";
import { table } from "../table.js";
import { change, command, creatable, usual } from "../template.js";
import { workspaceLog } from "./workspace.js";

/** @import { Fact } from "../parts.js" */
/** @import { Column } from "../table.js" */
/** @import { Place } from "./workspace.js" */

/** @typedef {{ command?: string, args?: unknown, changes?: unknown }} Sent */

const CHANGE = "sys.Change";

/**
 * The answer: the numbers first, then the ids.
 * @param {Place} place
 * @param {Api.Answer} found
 * @param {Sent} sent
 */
function answer({ app, workspace }, found, sent) {
  /** @type {Map<string, string | undefined>} */
  const named = new Map();
  for (const row of [sent.args, ...(Array.isArray(sent.changes) ? sent.changes : [])].flatMap(rowsOf)) {
    const type = row.create ?? (row === sent.args ? sent.command : undefined);
    if (row.id !== undefined) named.set(String(row.id), type);
  }
  const numbers = Object.entries(found.numbers).flatMap(([rawId, fields]) =>
    Object.entries(fields).map(([name, value]) =>
      h(
        "div",
        { class: "answer-number" },
        h("b", null, number(value)),
        h("span", { class: "quiet" }, `${named.get(rawId) ?? rawId}.${name}`),
      ),
    ),
  );
  /** @type {Column<[string, number]>[]} */
  const columns = [
    { label: "Sent as", cell: ([rawId]) => rawId },
    { label: "Document", cell: ([rawId]) => named.get(rawId) ?? "–" },
    {
      label: "Id",
      kind: "num",
      cell: ([, id]) => h("a", { href: path`#/apps/${app}/workspaces/${workspace}/records/${id}` }, number(id)),
    },
  ];
  const ids = Object.entries(found.ids);
  /** @type {Fact[]} */
  const result = found.result === null ? [] : [["result", h("code", null, JSON.stringify(found.result))]];
  return h(
    "div",
    { class: "stack answer" },
    h(
      "div",
      { class: "result", role: "status" },
      h("strong", null, found.repeated ? "Done before with this key: the answer is the same" : "Committed"),
      numbers,
      definitions([
        ["event", ["number ", number(found.workspace_offset), " of the workspace"]],
        ["partition", [String(found.partition), ", offset ", number(found.partition_offset)]],
        ...result,
      ]),
    ),
    ids.length > 0 ? h("div", { class: "card flush" }, table("Ids", columns, ids).node) : null,
    raw("The whole answer", found),
  );
}

/** @param {Place} place */
export function commandTab(place) {
  const { app, workspace, definition } = place;
  const names = [...definition.commands].sort((one, other) => Number(other === CHANGE) - Number(one === CHANGE));
  const which = h(
    "select",
    { name: "command" },
    names.map((name) => h("option", null, name)),
  );
  const documents = creatable(definition);
  const what = h(
    "select",
    { name: "document" },
    documents.map((document) => h("option", null, document.name)),
  );
  const whatField = field("Creates", what);
  const body = h("textarea", {
    name: "body",
    rows: 16,
    spellcheck: "false",
    autocapitalize: "off",
    "aria-describedby": "body-state",
  });
  const fault = h("small", { id: "body-state", role: "status" }, "\u00a0");
  const key = h("input", { name: "key", autocomplete: "off", placeholder: "optional", maxlength: 200 });
  const expected = h("input", {
    name: "expected",
    inputmode: "numeric",
    pattern: "\\d*",
    autocomplete: "off",
    placeholder: "optional",
  });
  const output = h("div", { class: "stack", "aria-live": "polite" });
  const submit = button("Send command", { primary: true, type: "submit" });

  /**
   * The value of the body; undefined if it is not JSON.
   * @returns {Sent | undefined}
   */
  function check() {
    try {
      const parsed = JSON.parse(body.value);
      body.removeAttribute("aria-invalid");
      show(fault, "\u00a0");
      return parsed;
    } catch (error) {
      body.setAttribute("aria-invalid", "true");
      show(fault, `Not JSON yet: ${messageOf(error)}`);
      return undefined;
    }
  }

  function fill() {
    whatField.hidden = which.value !== CHANGE || documents.length === 0;
    const sample = which.value === CHANGE ? change(definition, what.value) : command(definition, which.value);
    body.value = JSON.stringify(sample, null, 2);
    body.rows = Math.min(26, Math.max(14, body.value.split("\n").length + 1));
    check();
  }

  const work = async () => {
    const sent = check();
    if (sent === undefined) {
      body.focus();
      return;
    }
    const options = { key: key.value.trim(), expected: expected.value.trim() };
    /** @type {Api.Answer} */
    const found = await send("POST", path`/v1/apps/${app}/workspaces/${workspace}/commands`, body.value, options);
    show(output, answer(place, found, sent));
    output.scrollIntoView({ block: "nearest" });
  };

  const make = button("New key", {
    onclick: () => {
      key.value = freshKey();
    },
  });
  body.addEventListener("input", check);
  body.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    during(submit, work, output);
  });
  which.addEventListener("change", fill);
  what.addEventListener("change", fill);
  what.value = usual(definition)?.name ?? "";
  fill();

  const children = [
    h("div", { class: "form-row" }, field("Command", which), whatField),
    h("div", null, field("Body", body), fault),
    h(
      "div",
      { class: "form-row keyed" },
      h("div", { class: "inline-form" }, field("Idempotency key", key), make),
      field("Expected offset", expected),
    ),
    h(
      "p",
      { class: "small faint" },
      "A command that is sent again with the same key gets the same answer, and nothing more happens. ",
      "With an expected offset, the command is refused unless the workspace's last event has that offset.",
    ),
    h(
      "div",
      { class: "send" },
      submit,
      h("span", { class: "small faint wide" }, h("kbd", null, "Ctrl"), " ", h("kbd", null, "Enter")),
    ),
  ];
  const log = workspaceLog({ ...place, compact: true, rowsMax: 8 });
  const node = h(
    "div",
    { class: "split" },
    h(
      "section",
      { class: "card" },
      h("h2", null, "Command"),
      form({ class: "form", id: "send-command" }, children, submit, work, output),
    ),
    h("div", { class: "stack beside" }, output, log.node),
  );
  return { node, stop: log.stop, keys: { p: log.toggle } };
}
