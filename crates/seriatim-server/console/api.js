// Requests to the server. A token, where one is needed, goes in a header and nowhere else.

import { askToken, forgetToken, token } from "./token.js";

/** What went wrong: a problem document of the server, or that it does not answer. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = document.code ?? null;
    this.title = document.title ?? "The server refused";
    this.retryable = document.retryable === true;
    this.expected = document.expected;
    this.found = document.found;
    this.document = document;
  }
}

/** Sends a request and waits for the headers. Asks for a token where the server wants one, unless told not to. */
export async function request(path, { ask = true, headers = {}, ...options } = {}) {
  for (;;) {
    const used = token();
    const all = used ? { ...headers, Authorization: `Bearer ${used}` } : headers;
    let response;
    try {
      response = await fetch(path, { ...options, headers: all, cache: "no-store", credentials: "omit" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, {
        title: "The server does not answer",
        detail: "it may have stopped, or the network between is down",
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

/** The answer of a GET. */
export async function get(path, options) {
  return (await request(path, options)).json();
}

/** Text, such as metrics. */
export async function text(path, options) {
  return (await request(path, options)).text();
}

/** The answer of a POST or PUT; `status` tells created from already there. */
export async function send(method, path, body, { key = "", expected = "" } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key !== "") headers["Idempotency-Key"] = key;
  if (expected !== "") headers["If-Match"] = `"${expected}"`;
  const response = await request(path, {
    method,
    headers,
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
}

/** A path, with what is put into it escaped. */
export function path(parts, ...values) {
  return parts.reduce((whole, part, index) => whole + encodeURIComponent(values[index - 1]) + part);
}
