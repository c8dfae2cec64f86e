import type { Event } from "./answers.js";
import type { Calls } from "./calls.js";
import { Follower } from "./follower.js";

/** Where to begin in a log. */
export interface LogOptions {
  /** The offset of the first event; 1 by default. */
  from?: number;
}

/** Events in order, numbered from 1: of a workspace, or of a partition. */
export class Log {
  protected readonly calls: Calls;
  readonly #path: string;

  constructor(calls: Calls, base: string) {
    this.calls = calls;
    this.#path = `${base}/events`;
  }

  /** The events from an offset to the end of the log. */
  async *events({ from = 1 }: LogOptions = {}): AsyncGenerator<Event, void, undefined> {
    for (let next = from; ;) {
      const page: { events: Event[]; next: number } = await this.calls.get(this.#path, { from: next });
      yield* page.events;
      if (page.events.length === 0) return;
      next = page.next;
    }
  }

  /** Follows the log from an offset: first the events that exist, then each new one. */
  follow({ from = 1 }: LogOptions = {}): Follower {
    return new Follower(this.calls, this.#path, from);
  }
}
