// One workspace, in four tabs.

import { get, path } from "../api.js";
import { h } from "../dom.js";
import { eventLog } from "../event_log.js";
import { number } from "../format.js";
import { empty, head, server } from "../parts.js";
import { commandTab } from "./command.js";
import { recordsTab } from "./records.js";
import { sequencesTab } from "./sequences.js";

const TABS = { events: "Events", records: "Records", sequences: "Sequences", command: "Command" };

/** The log of a workspace. */
export function workspaceLog({ app, workspace, definition, ...rest }) {
  const change = `'{"changes": [{"create": "…", "id": 1, "fields": {}}]}'`;
  return eventLog({
    address: path`/v1/apps/${app}/workspaces/${workspace}/events`,
    definition,
    offsetOf: (event) => event.workspace_offset,
    none: empty(
      "No events yet",
      "Send a command: what it does becomes event 1, and shows here at once.",
      rest.compact
        ? null
        : `curl ${server}/v1/apps/${app}/workspaces/${workspace}/commands -H 'content-type: application/json' -d ${change}`,
    ),
    ...rest,
  });
}

function eventsTab(place) {
  const log = workspaceLog(place);
  return { node: log.node, stop: log.stop, keys: { p: log.toggle } };
}

const OPEN = { events: eventsTab, records: recordsTab, sequences: sequencesTab, command: commandTab };

export async function open({ app, workspace, tab = "events" }) {
  const [definition, descriptor] = await Promise.all([
    get(path`/v1/apps/${app}`),
    get(path`/v1/apps/${app}/workspaces/${workspace}`),
  ]);
  const base = path`#/apps/${app}/workspaces/${workspace}`;
  const shown = OPEN[tab] ? tab : "events";
  const inner = await OPEN[shown]({ app, workspace, definition });
  const links = Object.entries(TABS).map(([name, label]) =>
    h("a", { href: `${base}/${name}`, "aria-current": name === shown ? "page" : null }, label),
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
  const jumps = Object.keys(TABS).map((name, index) => [
    String(index + 1),
    () => {
      location.hash = `${base}/${name}`;
    },
  ]);
  return {
    title: `${TABS[shown]}, ${title}`,
    node,
    stop: inner.stop,
    keys: { ...Object.fromEntries(jumps), ...inner.keys },
  };
}
