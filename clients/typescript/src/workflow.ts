import type { Delivery, StartedWorkflow, WorkflowHistory, WorkflowState, WorkflowSummary } from "./answers.js";
import { type Calls, type KeyOptions, route } from "./calls.js";
import { WorkflowEndedError } from "./errors.js";
import type { StartOptions } from "./requests.js";

/** How long one request waits for the end of a run: less than the server allows. */
const WAIT_SECONDS = 20;

/**
 * A workflow, by its id: a durable run of code on the server.
 *
 * ```ts
 * const order = client.workflow("order-7");
 * await order.start("order", { input: { item: "tea" }, run_timeout: "1h", key: "order-7" });
 * await order.signal("approve", { by: "Ada" });
 * console.log(await order.result());
 * ```
 */
export class Workflow {
  readonly #calls: Calls;

  constructor(
    calls: Calls,
    readonly id: string,
  ) {
    this.#calls = calls;
  }

  #route(...parts: string[]): string {
    return route("workflows", this.id, ...parts);
  }

  /** Starts it: durable when the promise is fulfilled. While a run with the id is open, it is a `ConflictError`. */
  async start(type: string, { key, ...options }: StartOptions & KeyOptions = {}): Promise<StartedWorkflow> {
    return this.#calls.post(route("workflows"), { ...options, type, id: this.id }, { key });
  }

  /** The state of its newest run. */
  async show(): Promise<WorkflowState> {
    return this.#calls.get(this.#route());
  }

  /**
   * Waits until its newest run has ended, and returns the state: also that of a run that has not ended within
   * `timeLimitMs`.
   */
  async wait({ timeLimitMs = Infinity }: { timeLimitMs?: number } = {}): Promise<WorkflowState> {
    const end = performance.now() + timeLimitMs;
    for (;;) {
      const seconds = Math.ceil(Math.max(0, Math.min(WAIT_SECONDS, (end - performance.now()) / 1000)));
      const state: WorkflowState = await this.#calls.get(this.#route(), { wait: seconds }, seconds * 1000);
      if (state.status !== "running" || seconds === 0) return state;
    }
  }

  /**
   * Waits without a time limit, and returns what it returned. A run that ended without a result is a
   * `WorkflowEndedError`.
   */
  async result(): Promise<unknown> {
    const state = await this.wait();
    if (state.status !== "completed") throw new WorkflowEndedError(this.id, state.status, state.failure);
    return state.result;
  }

  /** Sends a signal to the open run: durable when the promise is fulfilled. */
  async signal(name: string, input?: unknown, options: KeyOptions = {}): Promise<Delivery> {
    return this.#calls.post(this.#route("signals", name), { input }, options);
  }

  /** Asks its code, which changes nothing. */
  async query(name: string, input?: unknown): Promise<unknown> {
    const answer: { result: unknown } = await this.#calls.ask(this.#route("queries", name), { input });
    return answer.result;
  }

  /** Changes the run, and returns what its code answers. */
  async update(name: string, input?: unknown, options: KeyOptions = {}): Promise<unknown> {
    const answer: { result: unknown } = await this.#calls.post(this.#route("updates", name), { input }, options);
    return answer.result;
  }

  /** Asks the open run to stop. */
  async cancel(reason = "", options: KeyOptions = {}): Promise<Delivery> {
    return this.#calls.post(this.#route("cancel"), { reason }, options);
  }

  /** Ends the open run without running its code again. */
  async terminate(reason = "", options: KeyOptions = {}): Promise<Delivery> {
    return this.#calls.post(this.#route("terminate"), { reason }, options);
  }

  /** Tries a stuck run again. */
  async retry(): Promise<Delivery> {
    return this.#calls.ask(this.#route("retry"));
  }

  /** Its runs, the newest first. */
  runs(): AsyncGenerator<WorkflowSummary, void, undefined> {
    return this.#calls.pages("runs", this.#route("runs"), {}, "before");
  }

  /**
   * A page of the history of a run, by default of the newest: the events after `after`, the `next` of the previous
   * page.
   */
  async history(page: { run?: number; after?: number } = {}): Promise<WorkflowHistory> {
    return this.#calls.get(this.#route("history"), { run: page.run, after: page.after });
  }
}
