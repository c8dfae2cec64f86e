// What the server is doing, asked every two seconds and remembered for five minutes, whichever page is open.

import { get, Problem, path, text } from "./api.js";
import { parse, quantile, sum } from "./metrics.js";

export const PERIOD_MS = 2000;
export const WINDOW_MS = 5 * 60 * 1000;

const COMMANDS = "seriatim_engine_commands_total";
const UNFLUSHED = "seriatim_engine_unflushed";
const LATENCY = "seriatim_engine_command_seconds";
// Parts of the server that are applications inside, and not in the list of applications.
const BUILT_IN = ["series", "sys"];

/** The state that pages read. `problem` says why it is not fresh. */
export const live = { applications: null, partitions: [], samples: [], ready: null, troubles: [], problem: null, workflows: false };

const listeners = new Set();
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
}

async function round() {
  const ask = rounds === 0;
  try {
    if (rounds % 5 === 0) await findParts(ask);
    const [metrics, ready] = await Promise.all([text("/metrics", { ask }), readiness(), askPartitions()]);
    live.ready = ready.status === "ready";
    live.troubles = ready.troubles ?? [];
    take(parse(metrics, [COMMANDS, UNFLUSHED, LATENCY]));
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
  if (rounds === 0) live.workflows = await has("/v1/workflows?limit=1");
}

async function has(address) {
  try {
    await get(address, { ask: false });
    return true;
  } catch (error) {
    if (error instanceof Problem && error.status !== 404) return error.status === 403 || error.status === 401;
    return false;
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

async function askPartitions() {
  const names = [...live.applications.map((application) => application.name), ...BUILT_IN, ...(live.workflows ? ["workflows"] : [])];
  const of = async (application) => {
    const list = await get(path`/v1/apps/${application}/partitions`, { ask: false }).catch(() => []);
    return list.map((partition) => ({ application, ...partition }));
  };
  live.partitions = (await Promise.all([...new Set(names)].map(of))).flat();
}

function take(samples) {
  const at = Date.now();
  const commands = sum(samples, COMMANDS);
  const seconds = counted === null ? null : (at - counted.at) / 1000;
  // A counter that went back belongs to a server that has started anew.
  const rate = seconds === null || commands === null || commands < counted.commands ? null : (commands - counted.commands) / seconds;
  counted = commands === null ? null : { at, commands };
  const unflushed = live.partitions.reduce((total, partition) => total + (partition.unflushed ?? 0), 0);
  const [p50, p99] = [0.5, 0.99].map((wanted) => quantile(samples, LATENCY, wanted));
  live.samples.push({ at, commands, rate, p50, p99, unflushed });
  while (live.samples[0].at < at - WINDOW_MS) live.samples.shift();
}
