import {
  InDoubtError,
  InternalError,
  InvalidError,
  SeriatimError,
  UnavailableError,
  afterDoubt,
  lost,
  refused,
} from "./errors.js";
import { DEFAULT_RETRY, type Retry, sleep, wait } from "./retry.js";

/** Settings of a client. */
export interface Options {
  /** The bearer token. It is sent to the client's address and nowhere else. */
  token?: string;
  /** Bounds of the retries; what is not given is as in the default. */
  retry?: Partial<Retry>;
  /** The time limit of one attempt, longer than any request takes in the server; 40 s by default. */
  timeoutMs?: number;
  /** A follower connects again if the server sends nothing for this long; 60 s by default. */
  silenceMaxMs?: number;
  /** Ends all calls, waits and followers of the client when it is aborted. */
  signal?: AbortSignal;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
}

/** Settings of one change. */
export interface KeyOptions {
  /**
   * The idempotency key: the same key gives the same answer again, to any caller. Without one, a random key protects
   * the call's own retries.
   */
  key?: string;
}

type Query = Record<string, string | number | undefined>;

interface Request {
  method: string;
  path: string;
  query?: Query;
  headers?: Record<string, string>;
  body?: unknown;
  /** Whether a lost answer leaves in doubt what was done. */
  changes?: boolean;
  /** Allowed beyond the time limits. */
  extraMs?: number;
}

/** An answer whose body the caller reads. `end` ends the connection, and a read that waits. */
export interface Stream {
  reader: ReadableStreamDefaultReader<Uint8Array>;
  end(): void;
}

/** A path of the API with its parts escaped. */
export function route(...parts: (string | number)[]): string {
  for (const part of parts) {
    if (["", ".", ".."].includes(String(part))) throw new InvalidError(`"${part}" cannot be a part of an address`);
  }
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}

/** How calls to one server are made: each is sent until there is an answer or the bounds of its retries are reached. */
export class Calls {
  readonly retry: Retry;
  readonly silenceMaxMs: number;
  readonly signal: AbortSignal | undefined;
  readonly #base: string;
  readonly #timeoutMs: number;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof fetch;

  constructor(url: string, options: Options) {
    if (!/^https?:\/\/[^/]/.test(url) || !URL.canParse(url)) {
      throw new TypeError(`"${url}" is not an address such as http://127.0.0.1:7400`);
    }
    if (options.token !== undefined && !/^[!-~]+$/.test(options.token)) {
      throw new TypeError("a token is ASCII without spaces");
    }
    this.retry = { ...DEFAULT_RETRY, ...options.retry };
    this.silenceMaxMs = options.silenceMaxMs ?? 60_000;
    this.signal = options.signal;
    this.#base = url.replace(/\/+$/, "");
    this.#timeoutMs = options.timeoutMs ?? 40_000;
    this.#headers = options.token === undefined ? {} : { authorization: `Bearer ${options.token}` };
    // A browser's fetch has to be called without an object.
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  /** Reads. `extraMs` are allowed beyond the time limits. */
  get<T>(path: string, query: Query = {}, extraMs = 0): Promise<T> {
    return this.#call({ method: "GET", path, query, extraMs });
  }

  /** Sets a state: repeating it changes nothing. */
  put<T>(path: string, body: unknown): Promise<T> {
    return this.#call({ method: "PUT", path, body, changes: true });
  }

  /** Changes something. All attempts have the same key, so that the change is made once. */
  async post<T>(path: string, body: unknown, { key }: KeyOptions, match?: number): Promise<T> {
    if (key !== undefined && !/^[!-~]{1,200}$/.test(key)) {
      throw new InvalidError("an idempotency key has 1 to 200 bytes of ASCII without spaces");
    }
    const headers = {
      "idempotency-key": key ?? newKey(),
      ...(match === undefined ? {} : { "if-match": `"${match}"` }),
    };
    return this.#call({ method: "POST", path, body, headers, changes: true });
  }

  /** A POST that may be repeated without a key. */
  ask<T>(path: string, body?: unknown): Promise<T> {
    return this.#call({ method: "POST", path, body });
  }

  /** All items of a list, page by page. */
  async *pages<T>(
    field: string,
    path: string,
    query: Query = {},
    cursor = "after",
  ): AsyncGenerator<T, void, undefined> {
    for (let after: string | number | undefined; ;) {
      const page: Record<string, unknown> = await this.get(path, { ...query, [cursor]: after });
      yield* page[field] as T[];
      if (page["next"] === null) return;
      after = Array.isArray(page["next"]) ? JSON.stringify(page["next"]) : (page["next"] as string | number);
    }
  }

  /** Opens a stream of server-sent events. */
  stream(path: string, query: Query): Promise<Stream> {
    const request = { method: "GET", path, query, headers: { accept: "text/event-stream" } };
    return this.#repeat(async (timeoutMs) => {
      const attempt = new Attempt(this.signal, timeoutMs);
      try {
        const response = await this.#send(request, undefined, attempt);
        const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
        if (!isStream || !response.body) throw this.#strange("not a stream of events", response.status);
        attempt.stopTimer();
        const reader = response.body.getReader();
        const end = () => {
          reader.cancel().catch(() => undefined); // it may be broken already
          attempt.end();
        };
        return { reader, end };
      } catch (error) {
        attempt.end();
        throw error;
      }
    });
  }

  async #call<T>(request: Request): Promise<T> {
    const content = request.body === undefined ? undefined : JSON.stringify(request.body);
    return this.#repeat(async (timeoutMs) => {
      const attempt = new Attempt(this.signal, timeoutMs);
      try {
        const response = await this.#send(request, content, attempt);
        const text = await this.#text(request, response, attempt);
        return text === "" ? null : JSON.parse(text);
      } catch (error) {
        if (error instanceof SyntaxError) throw this.#strange(error.message);
        throw error;
      } finally {
        attempt.end();
      }
    }, request.extraMs);
  }

  async #repeat<T>(once: (timeoutMs: number) => Promise<T>, extraMs = 0): Promise<T> {
    const deadline = performance.now() + this.retry.timeLimitMs + extraMs;
    let isInDoubt = false;
    for (let attempt = 1; ; attempt++) {
      try {
        // No attempt takes longer than the rest of the call's time.
        return await once(Math.max(1, Math.min(this.#timeoutMs + extraMs, deadline - performance.now())));
      } catch (thrown) {
        const error: unknown = isInDoubt && thrown instanceof SeriatimError ? afterDoubt(thrown) : thrown;
        isInDoubt = error instanceof InDoubtError;
        const again = error instanceof SeriatimError && error.retryable && attempt < this.retry.attempts;
        const waitMs = again ? wait(this.retry, attempt, error.retryAfterMs) : 0;
        if (!again || performance.now() + waitMs >= deadline) throw error;
        await sleep(waitMs, this.signal);
      }
    }
  }

  /** Sends a request once. An answer that is not a success is an error. */
  async #send(request: Request, content: string | undefined, attempt: Attempt): Promise<Response> {
    const given = Object.entries(request.query ?? {}).filter(([, value]) => value !== undefined);
    const query =
      given.length > 0 ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
    const headers = { ...this.#headers, ...request.headers, ...(content && { "content-type": "application/json" }) };
    const { signal } = attempt;
    let response: Response;
    try {
      const init = { method: request.method, headers, body: content ?? null, signal, redirect: "manual" } as const;
      response = await this.#fetch(`${this.#base}${request.path}${query}`, init);
    } catch (error) {
      throw this.#failed(request, error, attempt);
    }
    if (response.ok) return response;
    throw refused(response, await this.#text(request, response, attempt), request.changes ?? false);
  }

  async #text(request: Request, response: Response, attempt: Attempt): Promise<string> {
    try {
      return await response.text();
    } catch (error) {
      throw this.#failed(request, error, attempt);
    }
  }

  /** The error of a request that `fetch` could not complete. */
  #failed(request: Request, error: unknown, attempt: Attempt): unknown {
    if (this.signal?.aborted) return this.signal.reason;
    const cause = (error as { cause?: { code?: string; message?: string } }).cause;
    const reason = attempt.isTimedOut ? "no answer within the time limit" : (cause?.message ?? String(error));
    if (/CERT|SELF_SIGNED|VERIFY/.test(cause?.code ?? "")) {
      return new UnavailableError(`the certificate of ${this.#base} is not accepted: ${reason}`, { cause: error });
    }
    // Only Node says that nothing was sent.
    if (
      /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/.test(cause?.code ?? "")
    ) {
      const text = `no server answers at ${this.#base}: ${reason || cause?.code}`;
      const advice = "start one with `seriatim serve`, or name another";
      return new UnavailableError(`${text}; ${advice}`, { retryable: true, cause: error });
    }
    return lost(`the answer of ${this.#base} was lost: ${reason}`, request.changes ?? false, { cause: error });
  }

  #strange(reason: string, status?: number): InternalError {
    return new InternalError(`${this.#base} does not answer like a Seriatim server of this version: ${reason}`, {
      status,
    });
  }
}

/** What can end one attempt: its time limit, and the client's signal. */
class Attempt {
  isTimedOut = false;
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #abort = () => this.#controller.abort(this.#outer?.reason);
  readonly #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(outer: AbortSignal | undefined, timeoutMs: number) {
    outer?.throwIfAborted();
    outer?.addEventListener("abort", this.#abort, { once: true });
    this.#outer = outer;
    const timedOut = () => {
      this.isTimedOut = true;
      this.#controller.abort();
    };
    this.#timer = timeoutMs === Infinity ? undefined : setTimeout(timedOut, timeoutMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  stopTimer(): void {
    clearTimeout(this.#timer);
  }

  /** Ends what is still open. After a complete answer nothing is. */
  end(): void {
    this.stopTimer();
    this.#outer?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }
}

/** A random key. `crypto.randomUUID` is missing on pages without TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
