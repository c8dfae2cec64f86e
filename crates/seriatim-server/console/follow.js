// Follows a log by server-sent events, over fetch, so that a token can be sent. Comes back by itself, behind the last event seen.

import { Problem, request } from "./api.js";

const WAIT_MS = { first: 500, most: 10_000 };

/**
 * Follows `address` from an offset. `onEvent(event)` gets each event; `onState` gets `following`, `waiting` (the connection is
 * gone, it will try again) or `refused` with the problem. Returns how to stop.
 */
export function follow(address, from, { onEvent, onState }) {
  const stop = new AbortController();
  let last = null;

  async function once() {
    const headers = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
    const response = await request(`${address}?from=${from}`, { headers, signal: stop.signal });
    onState("following");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
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
          onState("refused", error);
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

/** One message: its fields, as the format says. */
function read(block) {
  const message = { id: null, event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === "data") message.data += (message.data === "" ? "" : "\n") + value;
    else if (name === "id" || name === "event") message[name] = value;
  }
  return message;
}
