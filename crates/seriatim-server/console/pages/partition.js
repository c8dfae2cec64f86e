// @ts-check
// The log of a partition: the truth, following live.

import { get, path } from "../api.js";
import { h } from "../dom.js";
import { eventLog } from "../event_log.js";
import { number } from "../format.js";
import { empty, figures, head, status } from "../parts.js";

/** @param {Record<string, string>} found */
export async function open({ app, partition }) {
  /** @type {[Api.Application, Api.PartitionState[]]} */
  const [definition, states] = await Promise.all([get(path`/v1/apps/${app}`), get(path`/v1/apps/${app}/partitions`)]);
  const state = states.find((one) => String(one.partition) === partition);
  const log = eventLog({
    address: path`/v1/apps/${app}/partitions/${partition}/events`,
    definition,
    offsetOf: (event) => event.partition_offset,
    next: state?.next_offset ?? null,
    none: empty("No events yet", "The events of all workspaces of this partition appear here, in order."),
  });
  const node = h(
    "div",
    null,
    head(`Partition ${partition}`, {
      crumbs: [
        ["Applications", "#/apps"],
        [app, path`#/apps/${app}`],
      ],
      lead: "The log is the source of truth: all other data is derived from it.",
    }),
    h(
      "div",
      { class: "stack" },
      state
        ? h(
            "section",
            { class: "card" },
            figures([
              ["state", status(state.status)],
              ["next offset", number(state.next_offset)],
              ["checkpoint", number(state.checkpoint)],
              ["unflushed", number(state.unflushed)],
              ["owner", state.owner],
            ]),
          )
        : null,
      log.node,
    ),
  );
  return { title: `${app}, partition ${partition}`, node, stop: log.stop, keys: { p: log.toggle } };
}
