// @ts-check
// The live state of the server.

import { chart } from "../chart.js";
import { h, show } from "../dom.js";
import { digits, duration, number, rate } from "../format.js";
import { watch } from "../live.js";
import { codeLine, head, server, status } from "../parts.js";
import { table } from "../table.js";

/** @import { Live, Partition } from "../live.js" */
/** @import { Column } from "../table.js" */

const LOOKS = { ready: "good", recovering: "warn", stopped: "bad", fenced: "bad" };

/** @typedef {ReturnType<typeof figure>} Figure */

/**
 * A large value with its unit; a swatch says which line of a chart it belongs to.
 * @param {string} label
 * @param {{ swatch?: boolean }} [options]
 */
function figure(label, { swatch = false } = {}) {
  return { label, swatch, value: h("b", null, "–"), unit: h("small", null, label) };
}

/**
 * Figures with their chart beneath.
 * @param {string} title
 * @param {Figure[]} figures
 * @param {Node} drawing
 */
function figureCard(title, figures, drawing) {
  const parts = figures.map(({ swatch, value, unit }, index) => {
    const looks = [index === 0 ? null : "second", swatch ? "swatch" : null].filter(Boolean).join(" ");
    return h("span", { class: looks || null }, value, unit);
  });
  return h(
    "section",
    { class: "card figure-card" },
    h("h2", null, title),
    h("div", { class: "figure" }, parts),
    drawing,
  );
}

/**
 * The part of a recovery that is done.
 * @param {Partition} partition
 */
function progressOf({ recovery }) {
  if (!recovery) return 1;
  const { from, at, tail } = recovery;
  return tail > from ? (at - from) / (tail - from) : 1;
}

function partitionsCard() {
  const ready = h("b", null, "–");
  const of = h("small", null, "partitions ready");
  const groups = h("div", { class: "cell-groups" });
  const bar = h("span");
  const words = h("small", { class: "faint" });
  const progress = h("div", null, h("div", { class: "progress" }, bar), words);
  const node = h(
    "section",
    { class: "card figure-card" },
    h("h2", null, "Recovery"),
    h("div", { class: "figure" }, h("span", null, ready, of)),
    h("div", { class: "partitions-summary" }, groups, progress),
  );
  let painted = "";
  /** @param {Partition[]} partitions */
  function update(partitions) {
    const done = partitions.filter((partition) => partition.status === "ready").length;
    show(ready, partitions.length === 0 ? "–" : String(done));
    show(of, partitions.length === 0 ? "partitions ready" : `of ${partitions.length} partitions ready`);
    const recovering = partitions.flatMap(({ recovery }) => recovery ?? []);
    const left = recovering.reduce((sum, { at, tail }) => sum + Math.max(0, tail - at), 0);
    const all = partitions.reduce((sum, partition) => sum + progressOf(partition), 0);
    bar.style.width = `${((all / Math.max(1, partitions.length)) * 100).toFixed(1)}%`;
    show(
      words,
      recovering.length > 0 ? `${digits(left)} events left to apply` : "All derived data agrees with the log",
    );
    const key = partitions.map((partition) => partition.application + partition.status).join();
    if (key === painted) return;
    painted = key;
    const names = [...new Set(partitions.map((partition) => partition.application))];
    show(
      groups,
      names.map((name) =>
        h(
          "div",
          { class: "cell-group" },
          h("span", null, name),
          h(
            "div",
            { class: "cells" },
            partitions
              .filter((partition) => partition.application === name)
              .map((partition) =>
                h("span", {
                  class: LOOKS[partition.status],
                  title: `partition ${partition.partition}: ${partition.status}`,
                }),
              ),
          ),
        ),
      ),
    );
  }
  return { node, update };
}

/** What to do on a new server. It stays when the first number has been taken, so that nothing on the page moves. */
function firstCard() {
  const title = h("h2", null, "Nothing has been numbered yet");
  const text = h("p", null, "A series needs no definition. Take its first number, and it appears here:");
  const node = h(
    "section",
    { class: "card", hidden: true },
    h("div", { class: "empty" }, title, text, codeLine(`curl -X POST ${server}/v1/series/invoices/next`)),
  );
  /** @param {Partition[]} partitions */
  function update(partitions) {
    const isEmpty = partitions.every((partition) => partition.application === "sys" || partition.next_offset === 1);
    if (isEmpty) node.hidden = partitions.length === 0;
    else if (!node.hidden) {
      show(title, "The first event is in the log");
      show(text, "It is durable. Take another number:");
    }
  }
  return { node, update };
}

/** All partitions. Rows are kept and their cells replaced, so that a reader's place and selection stay. */
function partitionTable() {
  /** @type {Column<Partition>[]} */
  const columns = [
    { label: "Application", kind: "head", cell: (row) => row.application },
    { label: "Partition", kind: "num", cell: (row) => place(row) },
    { label: "State", cell: (row) => [status(row.status), detail(row)] },
    { label: "Next offset", kind: "num", cell: (row) => number(row.next_offset) },
    { label: "Checkpoint", kind: "num", wide: true, cell: (row) => number(row.checkpoint) },
    {
      label: "After checkpoint",
      kind: "num",
      wide: true,
      cell: (row) => number(Math.max(0, row.next_offset - row.checkpoint)),
    },
    { label: "Unflushed", kind: "num", cell: (row) => number(row.unflushed) },
    { label: "Owner", wide: true, cell: (row) => row.owner },
  ];
  /** @param {Partition} row */
  const place = (row) =>
    row.application === "sys"
      ? String(row.partition)
      : h("a", { href: `#/apps/${row.application}/partitions/${row.partition}` }, String(row.partition));
  /** @param {Partition} row */
  const detail = ({ recovery, reason }) => {
    if (recovery) {
      return h("span", { class: "small quiet" }, ` at event ${digits(recovery.at)} of ${digits(recovery.tail)}`);
    }
    return reason ? h("span", { class: "small quiet wrap" }, ` ${reason}`) : null;
  };
  const { node, body, draw } = table("Partitions", columns, []);
  /** @type {Partition[]} */
  let before = [];
  /** @param {Partition[]} partitions */
  function update(partitions) {
    if (partitions.length !== before.length) {
      body.replaceChildren();
      draw(partitions);
    } else {
      partitions.forEach((partition, index) => {
        if (JSON.stringify(partition) === JSON.stringify(before[index])) return;
        columns.forEach((column, cell) => {
          if (column.label !== "Partition") show(body.rows[index].cells[cell], column.cell(partition));
        });
      });
    }
    before = partitions;
  }
  return { node, update };
}

/**
 * The state of the server as a sentence.
 * @param {Live} state
 */
function summaryOf({ ready, troubles, problem, measures }) {
  if (problem !== null) return problem.title;
  if (ready === null) return "\u00a0";
  if (troubles.length > 0 && !ready) return `The server is not ready: ${troubles.join(", ").replaceAll("_", " ")}.`;
  if (!ready) return "Some partitions cannot give out numbers; the table says why.";
  return measures
    ? "Every partition can give out numbers."
    : "Every partition can give out numbers. To see the charts, use a token with the scope *:read.";
}

export async function open() {
  const commands = figure("per second");
  const all = figure("since the start");
  const [p50, p99] = [figure("p50", { swatch: true }), figure("p99", { swatch: true })];
  const unflushed = figure("keys in memory, not yet in the store");
  const rates = chart({
    name: "Commands per second",
    values: [(sample) => sample.rate],
    label: (value) => `${rate(value)}/s`,
    least: 10,
  });
  const latency = chart({
    name: "Latency of a command",
    values: [(sample) => sample.p50, (sample) => sample.p99],
    label: (value) => duration(value).join(" "),
    least: 0.001,
  });
  const waiting = chart({
    name: "Unflushed keys",
    values: [(sample) => sample.unflushed],
    label: (value) => digits(Math.round(value)),
    least: 100,
  });
  const summary = partitionsCard();
  const partitions = partitionTable();
  const first = firstCard();
  const lead = h("span", null, "\u00a0");
  const node = h(
    "div",
    null,
    head("Overview", { lead }),
    h(
      "div",
      { class: "stack" },
      first.node,
      h(
        "div",
        { class: "grid figures-grid" },
        figureCard("Commands", [commands, all], rates.node),
        figureCard("Latency, last minute", [p50, p99], latency.node),
        figureCard("Unflushed", [unflushed], waiting.node),
        summary.node,
      ),
      h(
        "section",
        { class: "card flush" },
        h("div", { class: "card-head" }, h("h2", null, "Partitions")),
        partitions.node,
      ),
    ),
  );

  /**
   * @param {Figure} figure
   * @param {number | null} seconds
   */
  function showSeconds({ label, value, unit }, seconds) {
    const [amount, name] = duration(seconds ?? NaN);
    show(value, amount);
    show(unit, `${name} ${label}`);
  }

  /** @param {Live} state */
  function update(state) {
    const { samples, partitions: states } = state;
    const last = samples.at(-1);
    show(lead, summaryOf(state));
    rates.update(samples);
    latency.update(samples);
    waiting.update(samples);
    summary.update(states);
    partitions.update(states);
    if (!last) return;
    show(commands.value, last.rate === null ? "–" : rate(last.rate));
    show(all.value, last.commands === null ? "–" : number(last.commands));
    showSeconds(p50, last.p50);
    showSeconds(p99, last.p99);
    show(unflushed.value, number(last.unflushed));
    first.update(states);
  }
  return { title: "Overview", node, stop: watch(update) };
}
