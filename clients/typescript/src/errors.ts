/** What an error knows besides its detail. */
export interface ErrorFacts {
  status?: number | undefined;
  retryable?: boolean;
  expected?: unknown;
  found?: unknown;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/**
 * Why a call has no answer. Each code of the API has a subclass.
 *
 * ```ts
 * try {
 *   await client.blocks("no-such-blocks").allocate(1);
 * } catch (error) {
 *   if (error instanceof NotFoundError) console.log(error.code, error.status, error.detail);
 *   else throw error;
 * }
 * ```
 */
export class SeriatimError extends Error {
  /** The code of the API. */
  readonly code: string = "internal";
  /** What went wrong, for people. */
  readonly detail: string;
  /** The HTTP status; `undefined` if there was no answer. */
  readonly status: number | undefined;
  /** Whether the same request can succeed later. The client has already retried such a request. */
  readonly retryable: boolean;
  /** What the request expected, where that applies. */
  readonly expected: unknown;
  /** What was found instead. */
  readonly found: unknown;
  /** How long the server asks to wait. */
  readonly retryAfterMs: number | undefined;

  constructor(detail: string, facts: ErrorFacts = {}) {
    super(detail, { cause: facts.cause });
    this.name = new.target.name;
    this.detail = detail;
    this.status = facts.status;
    this.retryable = facts.retryable ?? false;
    this.expected = facts.expected;
    this.found = facts.found;
    this.retryAfterMs = facts.retryAfterMs;
  }
}

/** The request is wrong: correct it. */
export class InvalidError extends SeriatimError {
  override readonly code = "invalid";
}

/** The caller is not known: send a token. */
export class UnauthorizedError extends SeriatimError {
  override readonly code = "unauthorized";
}

/** The token does not have the scope that the detail names. */
export class ForbiddenError extends SeriatimError {
  override readonly code = "forbidden";
}

/** It does not exist. */
export class NotFoundError extends SeriatimError {
  override readonly code = "not_found";
}

/** The state is not as the request expects: read again and decide. */
export class ConflictError extends SeriatimError {
  override readonly code = "conflict";
}

/** Send less at once. */
export class TooLargeError extends SeriatimError {
  override readonly code = "too_large";
}

/** There are no more numbers. */
export class ExhaustedError extends SeriatimError {
  override readonly code = "exhausted";
}

/** Not possible at the moment. Nothing was done. */
export class BusyError extends SeriatimError {
  override readonly code = "busy";
}

/** A part of the server does not work, or no server answers. Nothing was done. */
export class UnavailableError extends SeriatimError {
  override readonly code = "unavailable";
}

/** The server has a restored copy that is not unfenced. */
export class FencedError extends SeriatimError {
  override readonly code = "fenced";
}

/** The request may have been carried out: repeat it only with the same key. */
export class InDoubtError extends SeriatimError {
  override readonly code = "in_doubt";
}

/** Stored data contradicts itself. */
export class CorruptError extends SeriatimError {
  override readonly code = "corrupt";
}

/** A defect of the server, or an answer that is not one of this API. */
export class InternalError extends SeriatimError {
  override readonly code = "internal";
}

/** A workflow ended without a result. */
export class WorkflowEndedError extends SeriatimError {
  override readonly code = "ended";

  /** `end` is how it ended: `failed`, `cancelled`, `terminated` or `timed_out`. */
  constructor(
    readonly id: string,
    readonly end: string,
    readonly failure: unknown,
  ) {
    const message = (failure as { message?: string } | null)?.message ?? "no reason is known";
    super(`workflow ${id} has ended without a result, ${end}: ${message}`);
  }
}

const CLASSES: Record<string, new (detail: string, facts: ErrorFacts) => SeriatimError> = {
  invalid: InvalidError,
  unauthorized: UnauthorizedError,
  forbidden: ForbiddenError,
  not_found: NotFoundError,
  conflict: ConflictError,
  too_large: TooLargeError,
  exhausted: ExhaustedError,
  busy: BusyError,
  unavailable: UnavailableError,
  fenced: FencedError,
  in_doubt: InDoubtError,
  corrupt: CorruptError,
  internal: InternalError,
};

/** The error of an answer that is not a success. */
export function refused(response: Response, body: string, changes: boolean): SeriatimError {
  const seconds = response.headers.get("retry-after") ?? "";
  const facts = { status: response.status, retryAfterMs: /^\d+$/.test(seconds) ? Number(seconds) * 1000 : undefined };
  const problem = parsed(body);
  if (typeof problem?.code === "string" && typeof problem.detail === "string") {
    const { detail, retryable, expected, found } = problem;
    return new (CLASSES[problem.code] ?? InternalError)(detail, {
      ...facts,
      retryable: retryable === true,
      expected,
      found,
    });
  }
  const excerpt = JSON.stringify(body.slice(0, 200));
  const detail = `the answer with status ${response.status} is not one of a Seriatim server: ${excerpt}`;
  // Of a proxy, usually while the server restarts.
  if ([429, 502, 503, 504].includes(response.status)) return lost(detail, changes, facts);
  return new InternalError(detail, facts);
}

/** The server says these only after it has looked for the key, so an earlier attempt is no longer in doubt. */
const DECIDED = ["invalid", "not_found", "conflict", "too_large", "exhausted"];

/** The error of an attempt that follows one that may have been carried out. */
export function afterDoubt(error: SeriatimError): SeriatimError {
  if ([...DECIDED, "in_doubt"].includes(error.code)) return error;
  const { detail, status, retryable, retryAfterMs } = error;
  const facts = { status, retryable, retryAfterMs, cause: error };
  return new InDoubtError(`${detail}; an earlier attempt may have been carried out`, facts);
}

/** The error of a request that was sent and has no answer of the server. */
export function lost(detail: string, changes: boolean, facts: ErrorFacts): SeriatimError {
  if (!changes) return new UnavailableError(detail, { ...facts, retryable: true });
  return new InDoubtError(`${detail}; the request may have been carried out`, { ...facts, retryable: true });
}

function parsed(body: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(body) ?? undefined;
  } catch {
    return undefined;
  }
}
