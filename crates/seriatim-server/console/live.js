// What the server is doing, asked every two seconds and remembered for five minutes, whichever page is open.

import { get, Problem, text } from "./api.js";
import { parse, quantile, sum } from "./metrics.js";

export const PERIOD_MS = 2000;
export const WINDOW_MS = 5 * 60 * 1000;

const COMMANDS = "seriatim_engine_commands_total";
const LATENCY = "seriatim_engine_command_seconds";

/** The state that pages read. `problem` says why it is not fresh. */
export const live = {
  applications: null,
  partitions: [],
  samples: [],
  ready: null,
  troubles: [],
  problem: null,
  measures: true,
  workflows: false,
};

const listeners = new Set();
// What the token in use may not see: not asked for again until there is another one.
const refused = new Set();
let counted = null;
let rounds = 0;
let paused = false;

/** Calls back after every round, and at once; returns how to stop. */
export function watch(listener) {
  listeners.add(listener);
  listener(live);
  return () => listeners.delete(listener);
}

/** Begins to ask. */
export async function keepAsking() {
  for (;;) {
    if (!document.hidden && !paused) await round();
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}

/** Asks again, after the reader has done something about it. */
export function resume() {
  paused = false;
  refused.clear();
}

async function round() {
  const ask = rounds === 0;
  try {
    // The first question may ask the reader for a token; later ones only say that one is needed.
    if (rounds % 5 === 0) await findParts(ask);
    const [metrics, ready] = await Promise.all([unlessRefused("/metrics", text), readiness(), askPartitions()]);
    live.ready = ready.status === "ready";
    live.troubles = ready.troubles ?? [];
    live.measures = metrics !== null;
    take(parse(metrics ?? "", [COMMANDS, LATENCY]));
    live.problem = null;
    rounds += 1;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    live.problem = error;
    counted = null;
    paused = error.status === 401;
  }
  for (const listener of listeners) listener(live);
}

async function findParts(ask) {
  live.applications = await get("/v1/apps", { ask });
  if (rounds === 0) live.workflows = await runsWorkflows();
}

/** Whether the server runs workflows, and this reader may see them. */
async function runsWorkflows() {
  try {
    return (await unlessRefused("/v1/workflows?limit=1", get)) !== null;
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== "unavailable") throw error;
    return false;
  }
}

/** What is there for this reader; null if it is not. */
async function unlessRefused(address, read) {
  if (refused.has(address)) return null;
  try {
    return await read(address, { ask: false });
  } catch (error) {
    if (!(error instanceof Problem) || ![403, 404].includes(error.status)) throw error;
    refused.add(address);
    return null;
  }
}

/** What `/readyz` says; that it is not ready comes as an error with the same document. */
async function readiness() {
  try {
    return await get("/readyz", { ask: false });
  } catch (error) {
    if (error instanceof Problem && error.status === 503) return error.document;
    throw error;
  }
}

/** All partitions that this reader may see: those of the applications first, then those of the server's own parts. */
async function askPartitions() {
  const served = live.applications.map((application) => application.name);
  const place = ({ application }) => (served.includes(application) ? served.indexOf(application) : served.length);
  const found = await get("/v1/partitions", { ask: false });
  live.partitions = found
    .map(({ app, ...partition }) => ({ application: app, ...partition }))
    .sort((one, other) => place(one) - place(other));
}

function take(samples) {
  const at = Date.now();
  const commands = sum(samples, COMMANDS);
  const seconds = counted === null ? null : (at - counted.at) / 1000;
  // A counter that went back belongs to a server that has started anew.
  const rate =
    seconds === null || commands === null || commands < counted.commands
      ? null
      : (commands - counted.commands) / seconds;
  counted = commands === null ? null : { at, commands };
  const unflushed = live.partitions.reduce((total, partition) => total + (partition.unflushed ?? 0), 0);
  const [p50, p99] = [0.5, 0.99].map((wanted) => quantile(samples, LATENCY, wanted));
  live.samples.push({ at, commands, rate, p50, p99, unflushed });
  while (live.samples[0].at < at - WINDOW_MS) live.samples.shift();
}
