import type { Issued, SeriesAudit, SeriesState, Taken, VoidAnswer } from "./answers.js";
import { type Calls, type KeyOptions, route } from "./calls.js";

/** What to take. */
export interface NextOptions extends KeyOptions {
  /** How many consecutive numbers, 1 to 10,000; 1 by default. */
  count?: number;
  /** What they are for. The note is kept with them. */
  note?: string;
}

/**
 * A series: gap-free numbers by name. Its first use creates it.
 *
 * ```ts
 * const invoices = client.series("acme.invoices");
 * const taken = await invoices.next({ note: "order 7", key: "order-7" });
 * console.log(taken.number, taken.text);
 * ```
 */
export class Series {
  readonly #calls: Calls;

  constructor(
    calls: Calls,
    readonly name: string,
  ) {
    this.#calls = calls;
  }

  #route(...parts: (string | number)[]): string {
    return route("series", this.name, ...parts);
  }

  /**
   * Takes the next number, or `count` consecutive ones: gap-free, and durable when the promise is fulfilled. An
   * `InDoubtError` or `InternalError` leaves open whether a number was taken; after any other error none was.
   */
  async next({ count = 1, note, key }: NextOptions = {}): Promise<Taken> {
    return this.#calls.post(this.#route("next"), { count, note }, { key });
  }

  /** Creates the series with settings. The same settings again change nothing; others are a `ConflictError`. */
  async create(settings: { first?: number; format?: string } = {}): Promise<SeriesState> {
    return this.#calls.put(this.#route(), settings);
  }

  /** Marks a taken number as void: a gap that is explained. */
  async void(number: number, reason: string, options: KeyOptions = {}): Promise<VoidAnswer> {
    return this.#calls.post(this.#route("numbers", number, "void"), { reason }, options);
  }

  /** Makes the series continue from a later number, for imports. */
  async raiseTo(next: number, reason: string, options: KeyOptions = {}): Promise<SeriesState> {
    return this.#calls.post(this.#route("raise"), { next, reason }, options);
  }

  /** Its state. */
  async show(): Promise<SeriesState> {
    return this.#calls.get(this.#route());
  }

  /** Whether it is complete. Takes longer the more numbers there are, with no time limit but that of `fetch`. */
  async audit(): Promise<SeriesAudit> {
    return this.#calls.get(this.#route("audit"), {}, Infinity);
  }

  /** How a number was taken: when, with which key and which note. */
  async whoGot(number: number): Promise<Issued> {
    return this.#calls.get(this.#route("numbers", number));
  }
}
