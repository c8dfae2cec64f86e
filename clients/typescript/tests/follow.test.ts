import assert from "node:assert/strict";
import { test } from "node:test";
import { type Event, InternalError, NotFoundError, type Workspace } from "seriatim";
import { MessageParser } from "../dist/messages.js";
import { Script } from "./script.js";
import { all, sharedServer, until, withServer } from "./server.js";

const server = sharedServer();

function customer(store: Workspace, name: string): Promise<unknown> {
  return store.submit([{ create: "Customer", id: 1, fields: { name } }]);
}

function name(event: Event | void): unknown {
  return event?.changes[0]?.fields["name"];
}

test("a follower returns old and new events", async () => {
  const store = await server.client().application("shop").createWorkspace("store");
  await customer(store, "a");
  const log = store.follow();
  const events = log[Symbol.asyncIterator]();
  assert.equal(name((await events.next()).value), "a");
  const waiting = events.next();
  await customer(store, "b");
  assert.equal(name((await waiting).value), "b");
  assert.equal(log.offset, 3);
  await events.return();
  for await (const event of store.follow({ from: 2 })) {
    assert.equal(event.workspace_offset, 2);
    break;
  }
});

test("a partition is followed too", async () => {
  const shop = server.client().application("shop");
  const store = await shop.createWorkspace("store");
  await customer(store, "partition");
  const [event] = await all(store.events());
  for await (const found of shop.partition(event!.partition).follow({ from: event!.partition_offset })) {
    assert.deepEqual(found, event);
    break;
  }
});

test("a follower that waits can be closed, and continues when it is iterated again", async () => {
  const store = await server.client().application("shop").createWorkspace("store");
  await customer(store, "a");
  const log = store.follow();
  const got: unknown[] = [];
  const following = (async () => {
    for await (const event of log) got.push(name(event));
  })();
  await until(() => got.length === 1);
  log.close();
  await following;
  await customer(store, "b");
  for await (const event of log) {
    assert.equal(name(event), "b");
    break;
  }
});

test("a signal ends a follower that waits", async () => {
  const controller = new AbortController();
  const store = await server.client({ signal: controller.signal }).application("shop").createWorkspace("store");
  setTimeout(() => controller.abort(new Error("no longer needed")), 50);
  await assert.rejects(all(store.follow()), /no longer needed/);
});

test("following what does not exist is an error", async () => {
  const client = server.client();
  await assert.rejects(all(client.application("shop").workspace(1).follow()), NotFoundError);
  await assert.rejects(all(client.application("no-such-app").partition(0).follow()), NotFoundError);
});

for (const end of ["kill", "stop"] as const) {
  test(`a follower continues after a restart: ${end}`, () =>
    withServer(async (server) => {
      const client = server.client({ retry: { attempts: 100 } });
      const store = await client.application("shop").createWorkspace("store");
      const got: Event[] = [];
      const following = (async () => {
        for await (const event of store.follow()) {
          got.push(event);
          if (got.length === 30) return;
        }
      })();
      for (const first of [0, 10, 20]) {
        for (let number = first; number < first + 10; number++) await customer(store, String(number));
        await Promise.race([until(() => got.length === first + 10), following]);
        if (first < 20) {
          await server[end]();
          await server.start();
        }
      }
      await following;
      assert.deepEqual(
        got.map((event) => [name(event), event.workspace_offset]),
        Array.from({ length: 30 }, (_, index) => [String(index), index + 1]),
      );
    }));
}

function stream(text: string, end: "closes" | "is silent"): Response {
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text));
      if (end === "closes") controller.close();
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

test("a message that is not an event is an error", async () => {
  for (const text of ["data: {}\n\n", "id: x\ndata: {}\n\n", "id: 1\ndata: {\n\n"]) {
    const log = new Script(stream(text, "is silent")).client().application("shop").workspace(1).follow();
    await assert.rejects(all(log), InternalError, text);
    assert.equal(log.offset, 1);
  }
});

test("a stream that is silent, breaks or repeats events is opened again after the last event", async () => {
  const event = (offset: number) => `id: ${offset}\ndata: {"workspace_offset":${offset}}\n\n`;
  const script = new Script(
    stream(`: hello\n\n${event(1)}id: 2\ndata: {"worksp`, "closes"),
    stream(`${event(1)}${event(2)}event: end\ndata: 3\n\n`, "closes"),
    stream(event(3), "is silent"),
    stream(event(4), "closes"),
  );
  const log = script.client({ silenceMaxMs: 50 }).application("shop").workspace(1).follow();
  const offsets: number[] = [];
  for await (const found of log) {
    offsets.push(found.workspace_offset);
    if (found.workspace_offset === 4) break;
  }
  assert.deepEqual(offsets, [1, 2, 3, 4]);
  assert.deepEqual(
    script.requests.map((request) => new URL(request.url).search),
    ["?from=1", "?from=2", "?from=3", "?from=4"],
  );
});

test("messages come out whole however the text is cut", () => {
  const text = [
    ': hello\n\nid: 1\ndata: {"a":1}\n\nid:2\r\ndata: x\r\ndata: y\r\n\r\n',
    "retry: 5\n\nevent: end\ndata: 3\n\nid: 4\ndata",
  ].join("");
  const expected = [
    { event: "", id: "1", data: '{"a":1}' },
    { event: "", id: "2", data: "x\ny" },
    { event: "end", id: "", data: "3" },
  ];
  for (let size = 1; size <= text.length; size++) {
    const parser = new MessageParser();
    const pieces = text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
    assert.deepEqual(
      pieces.flatMap((piece) => parser.push(piece)),
      expected,
      `in pieces of ${size}`,
    );
  }
});
