/**
 * Bounds of the retries of one call. `busy`, `unavailable`, `in_doubt` and broken connections are retried, a change
 * with the same idempotency key.
 */
export interface Retry {
  /** The largest number of attempts; 12 by default, and 1 retries nothing. */
  attempts: number;
  /** All attempts and waits of a call together; 60 s by default. */
  timeLimitMs: number;
  /** The wait before the first retry; it doubles with each retry. 50 ms by default. */
  waitFirstMs: number;
  /** The longest wait, also if the server asks for a longer one; 5 s by default. */
  waitMaxMs: number;
}

export const DEFAULT_RETRY: Retry = { attempts: 12, timeLimitMs: 60_000, waitFirstMs: 50, waitMaxMs: 5_000 };

/** How long to wait after an attempt, counted from 1: the hint or the doubled wait, plus or minus a quarter. */
export function wait(retry: Retry, attempt: number, hintMs?: number): number {
  const doubled = retry.waitFirstMs * 2 ** Math.min(attempt - 1, 30);
  return Math.min(hintMs ?? doubled, retry.waitMaxMs) * (0.75 + Math.random() / 2);
}

/** Waits, or throws the reason of the signal when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const end = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
