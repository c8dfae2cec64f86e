// @ts-check
// The state of the server: polled every two seconds and kept for five minutes, on every page.

import { get, Problem, text } from "./api.js";
import { parse, quantile, sum } from "./metrics.js";

const PERIOD_MS = 2000;
const WINDOW_MS = 5 * 60 * 1000;

const COMMANDS = "seriatim_engine_commands_total";
const LATENCY = "seriatim_engine_command_seconds";

/** @import { Samples } from "./metrics.js" */

/**
 * @typedef {{
 *   at: number,
 *   commands: number | null,
 *   rate: number | null,
 *   p50: number | null,
 *   p99: number | null,
 *   unflushed: number,
 * }} Sample
 */

/** @typedef {Api.PartitionState & { application: string }} Partition */

/**
 * The state that pages read. `problem` says why it is out of date.
 * @typedef {{
 *   applications: Api.Application[],
 *   partitions: Partition[],
 *   samples: Sample[],
 *   ready: boolean | null,
 *   troubles: string[],
 *   problem: Problem | null,
 *   measures: boolean,
 *   workflows: boolean,
 * }} Live
 */

/** @type {Live} */
export const live = {
  applications: [],
  partitions: [],
  samples: [],
  ready: null,
  troubles: [],
  problem: null,
  measures: true,
  workflows: false,
};

/** @type {Set<(state: Live) => void>} */
const listeners = new Set();
/**
 * Addresses that the token in use may not read: not requested again until there is another token.
 * @type {Set<string>}
 */
const refused = new Set();
/** @type {{ at: number, commands: number } | null} */
let counted = null;
let rounds = 0;
let paused = false;

/**
 * Calls the listener immediately and after every round; returns a function that stops this.
 * @param {(state: Live) => void} listener
 */
export function watch(listener) {
  listeners.add(listener);
  listener(live);
  return () => listeners.delete(listener);
}

/** Begins to poll. */
export async function keepPolling() {
  for (;;) {
    if (!document.hidden && !paused) await round();
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}

/** Polls again, after the reader has entered a token. */
export function resume() {
  paused = false;
  refused.clear();
}

async function round() {
  const ask = rounds === 0;
  try {
    // Only the first request opens the dialog for a token; later ones only report that a token is needed.
    if (rounds % 5 === 0) await findParts(ask);
    const [metrics, ready] = await Promise.all([unlessRefused("/metrics", text), readiness(), readPartitions()]);
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

/** @param {boolean} ask */
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

/**
 * The answer of an address; null if the token may not read it, or the server does not have it.
 * @template Answer
 * @param {string} address
 * @param {(address: string, options: { ask: boolean }) => Promise<Answer>} read
 */
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

/**
 * The answer of `/readyz`. A server that is not ready answers 503 with the same document.
 * @returns {Promise<Partial<Api.Readiness>>}
 */
async function readiness() {
  try {
    return await get("/readyz", { ask: false });
  } catch (error) {
    if (error instanceof Problem && error.status === 503) return /** @type {Api.Readiness} */ (error.document);
    throw error;
  }
}

/** All partitions that this reader may see: those of the applications first, then those of the server's own parts. */
async function readPartitions() {
  const served = live.applications.map((application) => application.name);
  /** @param {Partition} partition */
  const place = ({ application }) => (served.includes(application) ? served.indexOf(application) : served.length);
  /** @type {Api.NamedPartition[]} */
  const found = await get("/v1/partitions", { ask: false });
  live.partitions = found
    .map(({ app, ...partition }) => ({ application: app, ...partition }))
    .sort((one, other) => place(one) - place(other));
}

/** @param {Samples} samples */
function take(samples) {
  const at = Date.now();
  const commands = sum(samples, COMMANDS);
  // A counter that is lower than before means that the server has restarted.
  const rate =
    counted === null || commands === null || commands < counted.commands
      ? null
      : (commands - counted.commands) / ((at - counted.at) / 1000);
  counted = commands === null ? null : { at, commands };
  const unflushed = live.partitions.reduce((total, partition) => total + partition.unflushed, 0);
  const [p50, p99] = [0.5, 0.99].map((wanted) => quantile(samples, LATENCY, wanted));
  live.samples.push({ at, commands, rate, p50, p99, unflushed });
  while (live.samples[0].at < at - WINDOW_MS) live.samples.shift();
}
