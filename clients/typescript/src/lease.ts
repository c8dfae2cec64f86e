import type { Allocated } from "./answers.js";

/** How a lease gets its blocks. */
export interface LeaseOptions {
  /** How many ids one block has, and so how many calls share one request; 1000 by default. */
  count?: number;
  /** Whether the next block is allocated when half of the current one is used: callers rarely wait. Default: true. */
  prefetch?: boolean;
}

/**
 * Gives out the ids of blocks that the server has allocated to this lease. Any number of callers may share it.
 *
 * Any number of leases, in any number of processes, never give out the same id. The ids of one lease rise. What a lease
 * holds when it is dropped is wasted: the server takes nothing back. The client's `signal` ends a request that is made
 * ahead.
 */
export class BlockLease {
  readonly #allocate: (count: number) => Promise<Allocated>;
  readonly #count: number;
  readonly #prefetch: boolean;
  #next = 0;
  #end = 0;
  /** A block that was fetched ahead; undefined inside if that failed. */
  #ahead: Promise<Allocated | undefined> | undefined;
  /** Callers that wait for the same block wait for the same promise. */
  #refill: Promise<void> | undefined;

  constructor(allocate: (count: number) => Promise<Allocated>, { count = 1000, prefetch = true }: LeaseOptions) {
    if (!(count >= 1)) throw new RangeError(`a lease needs a count of at least 1, not ${count}`);
    this.#allocate = allocate;
    this.#count = count;
    this.#prefetch = prefetch;
  }

  /** How many ids of the current block are left. */
  get remaining(): number {
    return this.#end - this.#next;
  }

  /** The next id: from memory, or from a new block. */
  async next(): Promise<number> {
    while (this.#next === this.#end) {
      this.#refill ??= this.#fill().finally(() => (this.#refill = undefined));
      await this.#refill;
    }
    const id = this.#next++;
    if (this.#prefetch && this.remaining <= this.#count / 2) {
      this.#ahead ??= this.#allocate(this.#count).catch(() => undefined);
    }
    return id;
  }

  async #fill(): Promise<void> {
    const ahead = await this.#ahead;
    this.#ahead = undefined;
    // The server may answer by now, if it did not when the block was fetched ahead.
    const block = ahead ?? (await this.#allocate(this.#count));
    [this.#next, this.#end] = [block.first, block.first + block.count];
  }
}
