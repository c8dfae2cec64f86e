import type { BlocksState, SeriesState, StartedWorkflow, WorkflowSummary } from "./answers.js";
import { Application } from "./application.js";
import { Blocks } from "./blocks.js";
import { Calls, type KeyOptions, type Options, route } from "./calls.js";
import type { StartOptions } from "./requests.js";
import { Series } from "./series.js";
import { Workflow } from "./workflow.js";

/**
 * A client of one server. It sends nothing before the first call, and any number of callers may share it.
 *
 * ```ts
 * const client = new Client("http://127.0.0.1:7400", { token: process.env.SERIATIM_TOKEN });
 * const taken = await client.series("acme.invoices").next();
 * ```
 */
export class Client {
  readonly #url: string;
  readonly #options: Options;
  readonly #calls: Calls;

  constructor(url = "http://127.0.0.1:7400", options: Options = {}) {
    this.#url = url;
    this.#options = options;
    this.#calls = new Calls(url, options);
  }

  /** A client of the same server with some other settings, for example a signal that ends its calls. */
  with(options: Options): Client {
    return new Client(this.#url, { ...this.#options, ...options });
  }

  /** A series: gap-free numbers by name. */
  series(name: string): Series {
    return new Series(this.#calls, name);
  }

  /** All series, ascending by name. */
  listSeries(): AsyncGenerator<SeriesState, void, undefined> {
    return this.#calls.pages("series", route("series"));
  }

  /** A block sequence: ids that may have gaps. */
  blocks(name: string): Blocks {
    return new Blocks(this.#calls, name);
  }

  /** All block sequences, ascending by name. */
  listBlocks(): AsyncGenerator<BlocksState, void, undefined> {
    return this.#calls.pages("blocks", route("blocks"));
  }

  /** An application. */
  application(name: string): Application {
    return new Application(this.#calls, name);
  }

  /** A workflow, by its id. */
  workflow(id: string): Workflow {
    return new Workflow(this.#calls, id);
  }

  /** Starts a workflow with an id that the server makes. */
  async startWorkflow(type: string, { key, ...options }: StartOptions & KeyOptions = {}): Promise<Workflow> {
    const started: StartedWorkflow = await this.#calls.post(route("workflows"), { ...options, type }, { key });
    return this.workflow(started.id);
  }

  /** All workflows, each with its newest run, in the order of their first starts. `stuck` is a status too. */
  listWorkflows(status?: string): AsyncGenerator<WorkflowSummary, void, undefined> {
    return this.#calls.pages("workflows", route("workflows"), { status });
  }
}
