// What the server is doing, at a glance and live.

import { chart } from "../chart.js";
import { h, show } from "../dom.js";
import { digits, duration, number, rate } from "../format.js";
import { watch } from "../live.js";
import { codeLine, head, server, status, table } from "../parts.js";

const LOOKS = { ready: "good", recovering: "warn", stopped: "bad", fenced: "bad" };

/** A large value with its unit and its chart beneath. */
function figureCard(title, figures, drawing) {
  const parts = figures.map((figure, index) => {
    figure.value = h("b", null, "–");
    figure.unit = h("small", null, figure.label);
    const looks = [index === 0 ? null : "second", figure.swatch ? "swatch" : null].filter(Boolean).join(" ");
    return h("span", { class: looks || null }, figure.value, figure.unit);
  });
  return h(
    "section",
    { class: "card figure-card" },
    h("h2", null, title),
    h("div", { class: "figure" }, parts),
    drawing,
  );
}

function recovery(partition) {
  if (!partition.recovery) return 1;
  const { from, at, tail } = partition.recovery;
  return tail > from ? (at - from) / (tail - from) : 1;
}

function partitionsCard() {
  const ready = h("b", null, "–");
  const of = h("small", null, "partitions ready");
  const groups = h("div", { class: "cell-groups" });
  const bar = h("span");
  const told = h("small", { class: "faint" });
  const progress = h("div", null, h("div", { class: "progress" }, bar), told);
  const node = h(
    "section",
    { class: "card figure-card" },
    h("h2", null, "Recovery"),
    h("div", { class: "figure" }, h("span", null, ready, of)),
    h("div", { class: "partitions-summary" }, groups, progress),
  );
  let painted = "";
  function update(partitions) {
    const done = partitions.filter((partition) => partition.status === "ready").length;
    show(ready, partitions.length === 0 ? "–" : String(done));
    show(of, partitions.length === 0 ? "partitions ready" : `of ${partitions.length} partitions ready`);
    const recovering = partitions.filter((partition) => partition.recovery);
    const left = recovering.reduce((sum, { recovery: { at, tail } }) => sum + Math.max(0, tail - at), 0);
    const share =
      partitions.length === 0
        ? 0
        : partitions.reduce((sum, partition) => sum + recovery(partition), 0) / partitions.length;
    bar.style.width = `${(share * 100).toFixed(1)}%`;
    show(
      told,
      recovering.length > 0 ? `${digits(left)} events left to apply` : "Everything derived agrees with the log",
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

/** What to do on a new server. It stays where it is when the first number has come, so that nothing jumps. */
function firstCard() {
  const title = h("h2", null, "Nothing has been numbered yet");
  const text = h("p", null, "A series needs no definition. Take its first number, and watch it arrive here:");
  const node = h(
    "section",
    { class: "card", hidden: true },
    h("div", { class: "empty" }, title, text, codeLine(`curl -X POST ${server}/v1/series/invoices/next`)),
  );
  function update(partitions) {
    const isEmpty = partitions.every((partition) => partition.application === "sys" || partition.next_offset === 1);
    if (isEmpty) node.hidden = partitions.length === 0;
    else if (!node.hidden) {
      show(title, "There it is");
      show(text, "The first event is in the log, durable and numbered. Take another:");
    }
  }
  return { node, update };
}

/** Rows are kept and their cells written anew, so that a reader's place and selection stay. */
function partitionTable() {
  const columns = [
    { label: "Application", kind: "head", cell: (row) => row.application },
    { label: "Partition", kind: "num", cell: (row) => place(row) },
    { label: "State", cell: (row) => [status(row.status), detail(row)] },
    { label: "Next offset", kind: "num", cell: (row) => number(row.next_offset) },
    { label: "Checkpoint", kind: "num", wide: true, cell: (row) => number(row.checkpoint) },
    {
      label: "Ahead of it",
      kind: "num",
      wide: true,
      cell: (row) => number(Math.max(0, row.next_offset - row.checkpoint)),
    },
    { label: "Unflushed", kind: "num", cell: (row) => number(row.unflushed) },
    { label: "Owner", wide: true, cell: (row) => row.owner },
  ];
  const place = (row) =>
    row.application === "sys"
      ? String(row.partition)
      : h("a", { href: `#/apps/${row.application}/partitions/${row.partition}` }, String(row.partition));
  const detail = ({ recovery: run, reason }) =>
    run
      ? h("span", { class: "small quiet" }, ` at ${digits(run.at)} of ${digits(run.tail)}`)
      : reason
        ? h("span", { class: "small quiet wrap" }, ` ${reason}`)
        : null;
  const { node, body, draw } = table("Partitions", columns, []);
  let before = [];
  function update(partitions) {
    if (partitions.length !== before.length) {
      body.replaceChildren();
      draw(partitions);
    } else {
      partitions.forEach((partition, index) => {
        if (JSON.stringify(partition) === JSON.stringify(before[index])) return;
        columns.forEach(
          (column, cell) =>
            column.label !== "Partition" && show(body.rows[index].cells[cell], ...[column.cell(partition)].flat()),
        );
      });
    }
    before = partitions;
  }
  return { node, update };
}

export async function open() {
  const commands = { label: "per second" };
  const all = { label: "since the start" };
  const [p50, p99] = [
    { label: "p50", swatch: true },
    { label: "p99", swatch: true },
  ];
  const unflushed = { label: "keys in memory, not yet in the store" };
  const inUnit = (seconds) => duration(seconds).join(" ");
  const rates = chart({
    name: "Commands per second",
    values: [(sample) => sample.rate],
    label: (value) => `${rate(value)}/s`,
    least: 10,
  });
  const latency = chart({
    name: "Latency of a command",
    values: [(sample) => sample.p50, (sample) => sample.p99],
    label: inUnit,
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

  function update({ samples, partitions: states, ready, troubles, problem, measures }) {
    const last = samples.at(-1);
    const whole =
      troubles.length > 0
        ? `The server has trouble: ${troubles.join(", ").replaceAll("_", " ")}.`
        : "Some partitions cannot number yet; the table says why.";
    show(
      lead,
      problem
        ? problem.title
        : ready === null
          ? "\u00a0"
          : !ready
            ? whole
            : measures
              ? "Every partition can number."
              : "Every partition can number. To see the charts, use a token with the scope *:read.",
    );
    rates.update(samples);
    latency.update(samples);
    waiting.update(samples);
    summary.update(states);
    partitions.update(states);
    if (!last) return;
    show(commands.value, last.rate === null ? "–" : rate(last.rate));
    show(all.value, last.commands === null ? "–" : number(last.commands));
    for (const [figure, seconds] of [
      [p50, last.p50],
      [p99, last.p99],
    ]) {
      const [amount, unit] = duration(seconds ?? NaN);
      show(figure.value, amount);
      show(figure.unit, `${unit} ${figure.label}`);
    }
    show(unflushed.value, number(last.unflushed));
    first.update(states);
  }
  return { title: "Overview", node, stop: watch(update) };
}
