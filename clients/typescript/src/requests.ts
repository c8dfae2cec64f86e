/** What a caller sends, with the names of the HTTP API. */

/** A record to be created. `id` is a raw id from 1 to 65535 that names it inside the command. */
export interface Create {
  create: string;
  id: number;
  parent?: number;
  fields?: Record<string, unknown>;
}

/** A record to be updated: fields that are not named keep their values, null removes one. */
export interface Update {
  update: number;
  fields: Record<string, unknown>;
}

/** One change of a command. */
export type Change = Create | Update;

/** How a workflow that fails is retried as a whole. Durations are text: `200ms`, `30s`, `15m`, `12h`, `7d`. */
export interface RetryPolicy {
  initial_interval?: string;
  backoff_coefficient?: number;
  maximum_interval?: string;
  maximum_attempts?: number;
  non_retryable_error_types?: string[];
}

/** Options of a start. Durations are text: `200ms`, `30s`, `15m`, `12h`, `7d`. */
export interface StartOptions {
  input?: unknown;
  execution_timeout?: string;
  run_timeout?: string;
  retry_policy?: RetryPolicy;
  memo?: Record<string, unknown>;
  start_delay?: string;
  id_reuse_policy?: "allow_duplicate" | "allow_duplicate_failed_only" | "reject_duplicate" | "terminate_if_running";
  signal?: { name: string; input?: unknown };
}
