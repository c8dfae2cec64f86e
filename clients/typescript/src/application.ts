import type { WorkspaceDescriptor } from "./answers.js";
import { type Calls, type KeyOptions, route } from "./calls.js";
import { Log } from "./log.js";
import { Workspace } from "./workspace.js";

/** A partition of an application: its log has the events of all its workspaces. */
export class Partition extends Log {
  constructor(
    calls: Calls,
    application: string,
    readonly number: number,
  ) {
    super(calls, route("apps", application, "partitions", number));
  }
}

/**
 * An application that the server runs.
 *
 * ```ts
 * const shop = client.application("shop");
 * const store = (await shop.findWorkspace("corner")) ?? (await shop.createWorkspace("store", { name: "corner" }));
 * ```
 */
export class Application {
  readonly #calls: Calls;

  constructor(
    calls: Calls,
    readonly name: string,
  ) {
    this.#calls = calls;
  }

  #workspaces(): string {
    return route("apps", this.name, "workspaces");
  }

  /** Creates a workspace. The same name again gives the same workspace. */
  async createWorkspace(kind: string, { name, key }: { name?: string } & KeyOptions = {}): Promise<Workspace> {
    const made: WorkspaceDescriptor = await this.#calls.post(this.#workspaces(), { kind, name }, { key });
    return this.workspace(made.id);
  }

  /** All its workspaces, ascending by id. */
  listWorkspaces(): AsyncGenerator<WorkspaceDescriptor, void, undefined> {
    return this.#calls.pages("workspaces", this.#workspaces());
  }

  /** The workspace with a name, if there is one. */
  async findWorkspace(name: string): Promise<Workspace | undefined> {
    const page: { workspaces: WorkspaceDescriptor[] } = await this.#calls.get(this.#workspaces(), { name });
    const found = page.workspaces[0];
    return found && this.workspace(found.id);
  }

  /** The workspace with an id. Nothing is sent. */
  workspace(id: number): Workspace {
    return new Workspace(this.#calls, this.name, id);
  }

  /** The partition with a number, from 0. Nothing is sent. */
  partition(number: number): Partition {
    return new Partition(this.#calls, this.name, number);
  }
}
