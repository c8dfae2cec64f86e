/** A server that follows a script, for what a real one does only in trouble. */
import { Client, type Options } from "seriatim";

export const QUICK = { waitFirstMs: 1, waitMaxMs: 2 };

type Reaction = Response | Error;

/** Answers each request with the next reaction, and keeps the requests. */
export class Script {
  readonly requests: Request[] = [];
  readonly #reactions: Reaction[];

  constructor(...reactions: Reaction[]) {
    this.#reactions = reactions;
  }

  client(options: Options = {}, url = "http://script"): Client {
    const fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
      this.requests.push(new Request(input, init));
      const reaction = this.#reactions.shift();
      if (reaction instanceof Response) return reaction;
      throw reaction ?? new Error("there are more requests than the script expects");
    };
    return new Client(url, { retry: QUICK, fetch, ...options });
  }

  keys(): Set<string | null> {
    return new Set(this.requests.map((request) => request.headers.get("idempotency-key")));
  }
}

export function problem(
  code: string,
  status: number,
  retryable = false,
  headers: Record<string, string> = {},
): Response {
  return Response.json({ title: "", status, code, detail: "a detail", retryable }, { status, headers });
}

export function taken(number = 7): Response {
  return Response.json({ series: "s", number, count: 1, text: String(number), repeated: false }, { status: 201 });
}

/** What `fetch` of Node throws. */
export function failed(code: string): Error {
  return new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });
}
