// @ts-check
// Requests to the server. A token, if one is needed, is only sent in a header.

import { askToken, forgetToken, token } from "./token.js";

/** What went wrong: a problem document of the server, or that the server does not answer. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {Partial<Api.Problem>} document
   */
  constructor(status, document) {
    super(document.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = document.code ?? null;
    this.title = document.title ?? "The server refused the request";
    this.retryable = document.retryable === true;
    this.expected = document.expected;
    this.found = document.found;
    /** The answer as it came. */
    this.document = /** @type {unknown} */ (document);
  }
}

/**
 * If `ask` is false, the reader is not asked for a token.
 * @typedef {Omit<RequestInit, "headers"> & { ask?: boolean, headers?: Record<string, string> }} Options
 */

/**
 * Sends a request and waits for the headers. Asks the reader for a token if the server requires one.
 * @param {string} path
 * @param {Options} [options]
 */
export async function request(path, { ask = true, headers = {}, ...options } = {}) {
  for (;;) {
    const used = token();
    const all = used ? { ...headers, Authorization: `Bearer ${used}` } : headers;
    let response;
    try {
      response = await fetch(path, { ...options, headers: all, cache: "no-store", credentials: "omit" });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Problem(0, {
        title: "The server does not answer",
        detail: "it may have stopped, or the network may be down",
        retryable: true,
      });
    }
    if (response.ok) return response;
    const problem = new Problem(response.status, await response.json().catch(() => ({})));
    if (response.status !== 401) throw problem;
    if (used && token() === used) forgetToken();
    if (!ask || !(await askToken(problem.message))) throw problem;
  }
}

/**
 * The answer of a GET.
 * @template Answer
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<Answer>}
 */
export async function get(path, options) {
  return (await request(path, options)).json();
}

/**
 * Text, such as metrics.
 * @param {string} path
 * @param {Options} [options]
 */
export async function text(path, options) {
  return (await request(path, options)).text();
}

/**
 * The answer of a POST or PUT.
 * @template Answer
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body] Text is sent as it is, everything else as JSON.
 * @param {{ key?: string, expected?: string }} [options] The idempotency key, and the offset that is expected.
 * @returns {Promise<Answer>}
 */
export async function send(method, path, body, { key = "", expected = "" } = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key !== "") headers["Idempotency-Key"] = key;
  if (expected !== "") headers["If-Match"] = `"${expected}"`;
  const response = await request(path, {
    method,
    headers,
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return response.json();
}

/**
 * A path with its values escaped.
 * @param {TemplateStringsArray} parts
 * @param {...(string | number)} values
 */
export function path(parts, ...values) {
  return parts.reduce((whole, part, index) => whole + encodeURIComponent(values[index - 1]) + part);
}
