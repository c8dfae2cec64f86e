import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import {
  Client,
  ConflictError,
  InDoubtError,
  InternalError,
  InvalidError,
  SeriatimError,
  UnavailableError,
} from "seriatim";
import { DEFAULT_RETRY, wait } from "../dist/retry.js";
import { all } from "./server.js";
import { QUICK, Script, failed, problem, taken } from "./script.js";

test("a change is repeated with the same key until it is answered", async () => {
  const script = new Script(
    problem("busy", 503, true, { "retry-after": "1" }),
    problem("unavailable", 503, true),
    problem("in_doubt", 503, true),
    failed("ECONNREFUSED"),
    failed("UND_ERR_SOCKET"),
    new TypeError("Failed to fetch"),
    new Response("<html>bad gateway</html>", { status: 502 }),
    taken(),
  );
  assert.equal((await script.client().series("s").next()).number, 7);
  assert.deepEqual([script.requests.length, script.keys().size], [8, 1]);
});

test("each call has a key of its own", async () => {
  const script = new Script(taken(1), taken(2));
  const client = script.client();
  await client.series("s").next();
  await client.series("s").next();
  assert.equal(script.keys().size, 2);
});

test("what a retry does not help is an error at once", async () => {
  for (const reaction of [
    problem("unavailable", 503),
    problem("fenced", 503),
    problem("conflict", 409),
    problem("internal", 500),
    problem("a_newer_code", 418),
    Response.redirect("http://elsewhere", 307),
    new Response("hello"),
    failed("DEPTH_ZERO_SELF_SIGNED_CERT"),
  ]) {
    const script = new Script(reaction);
    await assert.rejects(script.client().series("s").next(), (error) => {
      assert(error instanceof SeriatimError && !error.retryable, String(error));
      return true;
    });
    assert.equal(script.requests.length, 1);
  }
});

test("the number of attempts is bounded", async () => {
  const script = new Script(...Array.from({ length: 4 }, () => failed("ECONNREFUSED")));
  const taking = script
    .client({ retry: { ...QUICK, attempts: 4 } })
    .series("s")
    .next();
  await assert.rejects(taking, (error) => {
    assert(error instanceof UnavailableError);
    assert.deepEqual([error.status, error.retryable], [undefined, true]);
    return true;
  });
  assert.equal(script.requests.length, 4);
});

test("all attempts together have a time limit", async () => {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  listener.close();
  await once(listener, "close");
  const started = performance.now();
  const client = new Client(url, { retry: { attempts: 1000, timeLimitMs: 500 } });
  await assert.rejects(client.series("s").next(), UnavailableError);
  const took = performance.now() - started;
  assert(took > 100 && took < 20_000, `${took} ms`);
});

test("a server that never answers uses up the time limit and no more", async () => {
  const listener = createServer((socket) => socket.on("error", () => {})).listen(0, "127.0.0.1");
  await once(listener, "listening");
  const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const started = performance.now();
  const client = new Client(url, { retry: { timeLimitMs: 500 } });
  await assert.rejects(client.series("s").next(), InDoubtError);
  await assert.rejects(client.series("s").show(), UnavailableError);
  await assert.rejects(all(client.application("a").workspace(1).follow()), UnavailableError);
  assert(performance.now() - started < 20_000);
  listener.close();
});

test("a lost answer is in doubt only for a change", async () => {
  const retry = { attempts: 1 };
  await assert.rejects(
    new Script(failed("ECONNRESET")).client({ retry }).series("s").next(),
    /may have been carried out/,
  );
  await assert.rejects(new Script(failed("ECONNRESET")).client({ retry }).series("s").show(), UnavailableError);
});

test("a call stays in doubt if an earlier attempt may have been carried out", async () => {
  for (const last of [
    failed("ECONNREFUSED"),
    problem("busy", 503, true),
    problem("fenced", 503),
    problem("forbidden", 403),
  ]) {
    const script = new Script(failed("ECONNRESET"), failed("ECONNREFUSED"), last);
    const taking = script
      .client({ retry: { ...QUICK, attempts: 3 } })
      .series("s")
      .next();
    await assert.rejects(taking, (error) => {
      assert(error instanceof InDoubtError && /an earlier attempt/.test(error.detail), String(error));
      return true;
    });
  }
});

test("a decision of the server ends the doubt", async () => {
  const decided = new Script(failed("ECONNRESET"), failed("ECONNREFUSED"), problem("conflict", 409));
  await assert.rejects(decided.client().series("s").next(), ConflictError);
  const unsent = new Script(failed("ECONNREFUSED"), failed("ECONNREFUSED"));
  await assert.rejects(
    unsent
      .client({ retry: { ...QUICK, attempts: 2 } })
      .series("s")
      .next(),
    UnavailableError,
  );
});

test("waits double up to a bound and follow the hint", () => {
  const retry = { ...DEFAULT_RETRY, waitFirstMs: 1000, waitMaxMs: 5000 };
  const table: [number, number | undefined, number][] = [
    [1, undefined, 1000],
    [2, undefined, 2000],
    [3, undefined, 4000],
    [9, undefined, 5000],
    [1, 3000, 3000],
    [1, 99_000, 5000],
  ];
  for (const [attempt, hint, middle] of table) {
    const waits = Array.from({ length: 100 }, () => wait(retry, attempt, hint));
    assert(Math.min(...waits) >= 0.75 * middle && Math.max(...waits) <= 1.25 * middle);
    assert(Math.max(...waits) > Math.min(...waits));
  }
});

test("the wait that the server asks for is kept", async () => {
  const script = new Script(problem("busy", 503, true, { "retry-after": "1" }), taken());
  const started = performance.now();
  await script
    .client({ retry: { waitFirstMs: 1, waitMaxMs: 400 } })
    .series("s")
    .next();
  assert(performance.now() - started >= 290);
});

test("a signal ends a call and its retries", async () => {
  const controller = new AbortController();
  const reactions = Array.from({ length: 100 }, () => failed("ECONNREFUSED"));
  const client = new Script(...reactions).client({ retry: { attempts: 100, waitFirstMs: 50 } });
  setTimeout(() => controller.abort(new Error("no longer needed")), 100);
  await assert.rejects(client.with({ signal: controller.signal }).series("s").next(), /no longer needed/);
  await assert.rejects(client.with({ signal: controller.signal }).series("s").next(), /no longer needed/);
});

test("a query is sent without a key and an update with one", async () => {
  const script = new Script(Response.json({ result: 1 }), Response.json({ result: 2 }));
  const workflow = script.client().workflow("w");
  assert.deepEqual([await workflow.query("status"), await workflow.update("change")], [1, 2]);
  assert.deepEqual(
    script.requests.map((request) => request.headers.has("idempotency-key")),
    [false, true],
  );
});

test("pages of a view follow each other", async () => {
  const page = { rows: [{ key: ["a", 1], row: { n: 1 } }], next: ["a", 1] };
  const last = { rows: [{ key: ["a", 2], row: null }], next: null };
  const script = new Script(Response.json(page), Response.json(last));
  const rows = await all(script.client().application("shop").workspace(7).view("by name", ["a"]));
  assert.deepEqual(
    rows.map((row) => row.key),
    [
      ["a", 1],
      ["a", 2],
    ],
  );
  const query = "?prefix=%5B%22a%22%5D&after=%5B%22a%22%2C1%5D";
  assert.equal(script.requests[1]?.url, `http://script/v1/apps/shop/workspaces/7/views/by%20name${query}`);
});

test("a token is sent, and an address may have a path", async () => {
  const script = new Script(taken());
  await script.client({ token: "secret" }, "http://proxy/numbers/").series("s").next();
  assert.equal(script.requests[0]?.headers.get("authorization"), "Bearer secret");
  assert.equal(script.requests[0]?.url, "http://proxy/numbers/v1/series/s/next");
});

test("wrong settings are refused", () => {
  for (const url of ["", "localhost:7400", "ftp://localhost", "http://", "http://a b"]) {
    assert.throws(() => new Client(url), /address/, url);
  }
  for (const token of ["", "a b", "ä", "a\nb"]) {
    assert.throws(() => new Client(undefined, { token }), /a token is ASCII/, token);
  }
});

test("an answer that is no stream is an error", async () => {
  const script = new Script(Response.json({ events: [], next: 1 }));
  await assert.rejects(all(script.client().application("shop").workspace(1).follow()), InternalError);
});

test("an input that is not JSON is refused", async () => {
  await assert.rejects(new Script().client().workflow("w").signal("s", 1n), TypeError);
  await assert.rejects(new Script().client().workflow("..").signal("s"), InvalidError);
});
