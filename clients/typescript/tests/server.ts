/** A real server: the binary on a port and a folder of its own. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, type Options } from "seriatim";

function binary(): string {
  const root = resolve(import.meta.dirname, "../../..");
  const target = process.env["CARGO_TARGET_DIR"] ?? join(root, "target");
  return process.env["SERIATIM_BINARY"] ?? join(target, "debug", "seriatim");
}

function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SERIATIM_")));
}

/** Runs until it is stopped. It can be killed and started again at the same address. */
export class Server {
  url = "";
  readonly folder: string;
  readonly #storage: string;
  #process: ChildProcess | undefined;

  constructor(
    folder = mkdtempSync(join(tmpdir(), "seriatim-")),
    readonly data = "data",
  ) {
    this.folder = folder;
    this.#storage = `file:${join(folder, data)}`;
  }

  /** Starts it, and waits until it can give out numbers. */
  async start(): Promise<void> {
    const log = join(this.folder, "server.log");
    const output = openSync(log, "w");
    const listen = this.url.replace("http://", "") || "127.0.0.1:0";
    const stdio: ("ignore" | number)[] = ["ignore", output, output];
    const command = ["serve", "--listen", listen, "--storage", this.#storage];
    this.#process = spawn(binary(), command, { cwd: this.folder, env: environment(), stdio });
    closeSync(output);
    const deadline = performance.now() + 60_000;
    while (!(await this.#isReady(log))) {
      if (this.#process.exitCode !== null || performance.now() > deadline) {
        throw new Error(`the server did not start: ${readFileSync(log, "utf8")}`);
      }
      await sleep(20);
    }
  }

  async #isReady(log: string): Promise<boolean> {
    const found = /listens on (http:\/\/127\.0\.0\.1:\d+)/.exec(readFileSync(log, "utf8"));
    if (!found) return false;
    this.url = found[1]!;
    const { status } = await fetch(`${this.url}/readyz`);
    return status === 200 || this.data === "restored"; // a restored copy is fenced, and never ready
  }

  async #end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const process = this.#process!;
    if (process.exitCode !== null || process.signalCode !== null) return;
    const exit = once(process, "exit");
    process.kill(signal);
    await exit;
  }

  /** kill -9. */
  kill(): Promise<void> {
    return this.#end("SIGKILL");
  }

  stop(): Promise<void> {
    return this.#end("SIGTERM");
  }

  /** A command of the binary. */
  run(...command: string[]): string {
    return execFileSync(binary(), command, { cwd: this.folder, env: environment(), encoding: "utf8" });
  }

  client(options: Options = {}): Client {
    return new Client(this.url, options);
  }
}

/** A server for all tests of a file that do not stop it. */
export function sharedServer(): Server {
  const server = new Server();
  before(() => server.start());
  after(async () => {
    await server.stop();
    rmSync(server.folder, { recursive: true });
  });
  return server;
}

/** Gives a test a server that it may kill. */
export async function withServer(test: (server: Server) => Promise<void>): Promise<void> {
  const server = new Server();
  await server.start();
  try {
    await test(server);
  } finally {
    await server.stop();
    rmSync(server.folder, { recursive: true });
  }
}

/** All items of an iteration. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** Waits until a condition holds. */
export async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`not within a minute: ${condition}`);
    await sleep(5);
  }
}
