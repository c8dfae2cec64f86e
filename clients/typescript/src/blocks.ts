import type { Allocated, BlocksState } from "./answers.js";
import { type Calls, type KeyOptions, route } from "./calls.js";
import { BlockLease, type LeaseOptions } from "./lease.js";

/**
 * A block sequence: unique rising ids that may have gaps. It is created before its first use.
 *
 * ```ts
 * await client.blocks("orders").create();
 * const ids = client.blocks("orders").lease({ count: 1000 });
 * const id = await ids.next(); // from memory, nearly always
 * ```
 */
export class Blocks {
  readonly #calls: Calls;

  constructor(
    calls: Calls,
    readonly name: string,
  ) {
    this.#calls = calls;
  }

  /** Creates it. The same settings again change nothing; others are a `ConflictError`. */
  async create(settings: { first?: number; block_size?: number } = {}): Promise<BlocksState> {
    return this.#calls.put(route("blocks", this.name), settings);
  }

  /** Its state. */
  async show(): Promise<BlocksState> {
    return this.#calls.get(route("blocks", this.name));
  }

  /** Allocates consecutive ids, at most 2^32. The same key gives the same ids again. */
  async allocate(count: number, options: KeyOptions = {}): Promise<Allocated> {
    return this.#calls.post(route("blocks", this.name, "allocate"), { count }, options);
  }

  /** Ids from memory: one request for each `count` of them. */
  lease(options: LeaseOptions = {}): BlockLease {
    return new BlockLease((count) => this.allocate(count), options);
  }
}
