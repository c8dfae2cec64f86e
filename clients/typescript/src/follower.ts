import type { Event } from "./answers.js";
import type { Calls, Stream } from "./calls.js";
import { InternalError } from "./errors.js";
import { type Message, MessageParser } from "./messages.js";
import { sleep, wait } from "./retry.js";

/**
 * The events of a log: first those that exist, then each new one. The iteration never ends by itself; `break` and
 * `close` end it.
 *
 * When the connection breaks or is silent for too long, or the server restarts, the follower connects again and
 * continues after the last event: events come in order, each once. If the server does not answer within the bounds of
 * the client's retries, or refuses, the iteration throws; a new iteration of the same follower continues from the same
 * offset.
 *
 * ```ts
 * const log = store.follow({ from: 1 });
 * for await (const event of log) {
 *   console.log(event.workspace_offset, event.command);
 *   if (log.offset > 100) break;
 * }
 * ```
 */
export class Follower implements AsyncIterable<Event> {
  /** The offset of the next event: another follower can start from it. */
  offset: number;
  readonly #calls: Calls;
  readonly #path: string;
  #stream: Stream | undefined;
  #isClosed = false;

  constructor(calls: Calls, path: string, from: number) {
    this.#calls = calls;
    this.#path = path;
    this.offset = from;
  }

  /** Ends the iteration, also while it waits for an event; while it connects, after the attempt. */
  close(): void {
    this.#isClosed = true;
    this.#stream?.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    const { retry, signal } = this.#calls;
    this.#isClosed = false;
    for (let emptyConnections = 0; !this.#isClosed; emptyConnections++) {
      // Waits longer each time, in case the server ends every stream immediately.
      if (emptyConnections > 0) await sleep(wait(retry, emptyConnections), signal);
      this.#stream = await this.#calls.stream(this.#path, { from: this.offset });
      try {
        if (this.#isClosed) return;
        for await (const message of this.#messages(this.#stream)) {
          if (message.event === "end") break;
          const event = this.#read(message);
          if (event === undefined) continue;
          emptyConnections = -1;
          yield event;
          if (this.#isClosed) return;
        }
      } finally {
        this.#stream.end();
      }
      signal?.throwIfAborted();
    }
  }

  /** The messages of a stream until it ends, breaks or is silent for too long. */
  async *#messages(stream: Stream): AsyncGenerator<Message, void, undefined> {
    const parser = new MessageParser();
    const decoder = new TextDecoder();
    for (;;) {
      const silence = setTimeout(() => stream.end(), this.#calls.silenceMaxMs);
      const piece = await stream.reader.read().catch(() => undefined);
      clearTimeout(silence);
      if (piece?.value === undefined) return;
      yield* parser.push(decoder.decode(piece.value, { stream: true }));
    }
  }

  #read(message: Message): Event | undefined {
    const offset = message.id === "" ? NaN : Number(message.id);
    if (offset < this.offset) return undefined;
    try {
      if (!Number.isSafeInteger(offset)) throw new Error(`its id is "${message.id}"`);
      const event: Event = JSON.parse(message.data);
      this.offset = offset + 1;
      return event;
    } catch (error) {
      throw new InternalError(`a message of ${this.#path} is not an event: ${error}`, { cause: error });
    }
  }
}
