import type { Answer, Audit, Event, Row, SequenceState, WorkspaceDescriptor, WorkspaceRecord } from "./answers.js";
import { type Calls, type KeyOptions, route } from "./calls.js";
import { Log } from "./log.js";
import type { Change } from "./requests.js";

/** How a command is done. */
export interface SubmitOptions extends KeyOptions {
  /** Its name; `sys.Change`, which makes the changes and nothing else, by default. */
  command?: string;
  /** Its argument: the tree of a document or any JSON, as the definition says. */
  args?: unknown;
  /** An argument that the command reads and the event does not keep. */
  unloggedArgs?: unknown;
  /** The command is done only if the workspace's last event has this offset; otherwise it is a `ConflictError`. */
  ifMatch?: number;
}

/**
 * A workspace of an application. `events` and `follow` read its log.
 *
 * ```ts
 * const store = await client.application("shop").createWorkspace("store", { name: "market" });
 * const answer = await store.submit([
 *   { create: "Invoice", id: 1, fields: { total: "99.50" } },
 *   { create: "InvoiceLine", id: 2, parent: 1, fields: { text: "tea", amount: "99.50" } },
 * ]);
 * console.log(answer.numbers[1], answer.ids[1]);
 * ```
 */
export class Workspace extends Log {
  readonly #parts: (string | number)[];

  constructor(
    calls: Calls,
    application: string,
    readonly id: number,
  ) {
    const parts = ["apps", application, "workspaces", id];
    super(calls, route(...parts));
    this.#parts = parts;
  }

  #route(...parts: (string | number)[]): string {
    return route(...this.#parts, ...parts);
  }

  /** Its id, kind and name. */
  async show(): Promise<WorkspaceDescriptor> {
    return this.calls.get(this.#route());
  }

  /**
   * Does a command: durable when the promise is fulfilled. An `InDoubtError` or `InternalError` leaves open whether it
   * was done; after any other error it was not.
   */
  async submit(changes: Change[], options: SubmitOptions = {}): Promise<Answer> {
    const { command, args, unloggedArgs, ifMatch, key } = options;
    const body = { command, args, unlogged_args: unloggedArgs, changes };
    return this.calls.post(this.#route("commands"), body, { key }, ifMatch);
  }

  /** The record with an id. */
  async record(id: number): Promise<WorkspaceRecord> {
    return this.calls.get(this.#route("records", id));
  }

  /** The records of a type, ascending by id; without a type, all C records of the workspace. */
  records(type?: string): AsyncGenerator<WorkspaceRecord, void, undefined> {
    return this.calls.pages("records", this.#route("records"), type === undefined ? { kind: "C" } : { type });
  }

  /** The rows of a view whose keys begin with `prefix`, ascending by key. */
  view(name: string, prefix: (string | number)[] = []): AsyncGenerator<Row, void, undefined> {
    const query = prefix.length > 0 ? { prefix: JSON.stringify(prefix) } : {};
    return this.calls.pages("rows", this.#route("views", name), query);
  }

  /** Its sequences. */
  async sequences(): Promise<SequenceState[]> {
    return this.calls.get(this.#route("sequences"));
  }

  /** Whether a sequence is complete. Takes longer the more events there are, with no time limit but that of `fetch`. */
  async audit(sequence: string): Promise<Audit> {
    return this.calls.get(this.#route("sequences", sequence, "audit"), {}, Infinity);
  }

  /** The event that drew a number of a sequence. */
  async whoGot(sequence: string, number: number): Promise<Event> {
    return this.calls.get(this.#route("sequences", sequence, "numbers", number));
  }
}
