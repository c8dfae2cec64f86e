// @ts-check
// Follows a log by server-sent events, over fetch, so that a token can be sent. After a break it reconnects, and
// continues after the last event that it received.

import { Problem, request } from "./api.js";

const WAIT_MS = { first: 500, most: 10_000 };

/**
 * The state of following a log: `waiting` means that the connection is lost and will be tried again.
 * @typedef {"following" | "waiting" | Problem} State
 */

/**
 * Follows `address` from an offset. `onState` receives the problem if the server refuses. Returns a stop function.
 * @param {string} address
 * @param {number} from
 * @param {{ onEvent: (event: Api.Event) => void, onState: (state: State) => void }} listeners
 */
export function follow(address, from, { onEvent, onState }) {
  const stop = new AbortController();
  /** @type {string | null} */
  let last = null;

  async function once() {
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/event-stream" };
    if (last !== null) headers["Last-Event-ID"] = last;
    const response = await request(`${address}?from=${from}`, { headers, signal: stop.signal });
    onState("following");
    if (response.body === null) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const message = read(block);
        if (message.id !== null) last = message.id;
        if (message.event === "message" && message.data !== "") onEvent(JSON.parse(message.data));
      }
    }
  }

  async function run() {
    let wait = WAIT_MS.first;
    while (!stop.signal.aborted) {
      const seen = last;
      try {
        await once();
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof Problem && error.status !== 0 && !error.retryable) {
          onState(error);
          return;
        }
      }
      if (stop.signal.aborted) return;
      onState("waiting");
      wait = seen === last ? Math.min(wait * 2, WAIT_MS.most) : WAIT_MS.first;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
  run();
  return () => stop.abort();
}

/**
 * One message: its fields, as the format says.
 * @param {string} block
 */
function read(block) {
  /** @type {{ id: string | null, event: string, data: string }} */
  const message = { id: null, event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === "data") message.data += (message.data === "" ? "" : "\n") + value;
    else if (name === "id" || name === "event") message[name] = value;
  }
  return message;
}
