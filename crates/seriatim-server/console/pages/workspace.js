// @ts-check
// One workspace, in four tabs.

import { get, path } from "../api.js";
import { h } from "../dom.js";
import { eventLog } from "../event_log.js";
import { number } from "../format.js";
import { empty, head, server } from "../parts.js";
import { commandTab } from "./command.js";
import { recordsTab } from "./records.js";
import { sequencesTab } from "./sequences.js";

/**
 * A workspace that a page is about.
 * @typedef {{ app: string, workspace: string, definition: Api.Application }} Place
 */

/** @typedef {{ node: Node, stop?: () => void, keys?: Record<string, () => void> }} Tab */

/**
 * The log of a workspace.
 * @param {Place & { compact?: boolean, rowsMax?: number }} options
 */
export function workspaceLog({ app, workspace, definition, ...rest }) {
  const base = path`/v1/apps/${app}/workspaces/${workspace}`;
  const change = `'{"changes": [{"create": "…", "id": 1, "fields": {}}]}'`;
  return eventLog({
    address: `${base}/events`,
    definition,
    offsetOf: (event) => event.workspace_offset,
    none: empty(
      "No events yet",
      "Send a command: it becomes event 1, and appears here at once.",
      rest.compact ? null : `curl ${server}${base}/commands -H 'content-type: application/json' -d ${change}`,
    ),
    ...rest,
  });
}

/** @param {Place} place */
function eventsTab(place) {
  const log = workspaceLog(place);
  return { node: log.node, stop: log.stop, keys: { p: log.toggle } };
}

/** @type {{ name: string, label: string, open: (place: Place) => Tab | Promise<Tab> }[]} */
const TABS = [
  { name: "events", label: "Events", open: eventsTab },
  { name: "records", label: "Records", open: recordsTab },
  { name: "sequences", label: "Sequences", open: sequencesTab },
  { name: "command", label: "Command", open: commandTab },
];

/** @param {Record<string, string>} found */
export async function open({ app, workspace, tab }) {
  /** @type {[Api.Application, Api.Workspace]} */
  const [definition, descriptor] = await Promise.all([
    get(path`/v1/apps/${app}`),
    get(path`/v1/apps/${app}/workspaces/${workspace}`),
  ]);
  const base = path`#/apps/${app}/workspaces/${workspace}`;
  const shown = TABS.find(({ name }) => name === tab) ?? TABS[0];
  const inner = await shown.open({ app, workspace, definition });
  const links = TABS.map(({ name, label }) =>
    h("a", { href: `${base}/${name}`, "aria-current": name === shown.name ? "page" : null }, label),
  );
  const title = descriptor.name ?? `${descriptor.kind} ${workspace}`;
  const node = h(
    "div",
    null,
    head(title, {
      crumbs: [
        ["Applications", "#/apps"],
        [app, path`#/apps/${app}`],
      ],
      lead: [
        descriptor.kind,
        " ",
        number(descriptor.id),
        ", partition ",
        String(descriptor.id % definition.partitions),
      ],
    }),
    h("nav", { class: "tabs", "aria-label": "Workspace" }, links),
    inner.node,
  );
  /** @type {Record<string, () => void>} */
  const keys = { ...inner.keys };
  TABS.forEach(({ name }, index) => {
    keys[String(index + 1)] = () => {
      location.hash = `${base}/${name}`;
    };
  });
  return { title: `${shown.label}, ${title}`, node, stop: inner.stop, keys };
}
