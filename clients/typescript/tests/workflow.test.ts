import assert from "node:assert/strict";
import { test } from "node:test";
import { ConflictError, InvalidError, NotFoundError, WorkflowEndedError } from "seriatim";
import { all, sharedServer } from "./server.js";

const server = sharedServer();

test("a workflow is started and waited for", async () => {
  const client = server.client();
  const greeting = client.workflow("greet one");
  const options = { input: "Ada", memo: { for: "test" }, key: "greet-one" };
  const started = await greeting.start("greet", options);
  assert.deepEqual([started.id, started.started, started.repeated], ["greet one", true, false]);
  assert.equal((await greeting.start("greet", options)).repeated, true);
  assert.equal((await greeting.wait({ timeLimitMs: 30_000 })).result, "Hello, Ada!");
  const state = await greeting.show();
  assert.deepEqual([state.status, state.type, state.memo], ["completed", "greet", { for: "test" }]);
  assert.deepEqual(
    (await all(greeting.runs())).map((run) => run.run),
    [1],
  );
  const history = await greeting.history();
  assert(history.entries.some((entry) => entry.name === "greeting"));
  assert(history.steps.length > 0);
  assert((await all(client.listWorkflows("completed"))).some((found) => found.id === "greet one"));
});

test("an order takes messages", async () => {
  const order = server.client().workflow("order-messages");
  await order.start("order", { input: { item: "tea", patience_ms: 600_000 }, run_timeout: "1h" });
  await assert.rejects(order.start("order"), ConflictError);
  assert.equal((await order.wait({ timeLimitMs: 0 })).status, "running");
  assert.equal(await order.update("change_item", "coffee", { key: "u" }), "tea");
  assert.equal(await order.update("change_item", "coffee", { key: "u" }), "tea");
  assert(["charging", "awaiting_approval"].includes((await order.query("status")) as string));
  assert.equal((await order.signal("approve", { by: "Ada" }, { key: "s" })).repeated, false);
  const result = (await order.result()) as { item: string; approved_by: string };
  assert.deepEqual([result.item, result.approved_by], ["coffee", "signal"]);
});

test("waiting for a run may take longer than the time limit of a call", async () => {
  const client = server.client({ retry: { timeLimitMs: 1000 }, timeoutMs: 1000 });
  const order = await client.startWorkflow("order", { input: { patience_ms: 2500 } });
  assert.equal((await order.wait({ timeLimitMs: 100 })).status, "running");
  assert.equal(((await order.result()) as { approved_by: string }).approved_by, "timer");
});

test("a run that is stopped has no result", async () => {
  for (const [stop, end] of [
    ["cancel", "cancelled"],
    ["terminate", "terminated"],
  ] as const) {
    const order = await server.client().startWorkflow("order", { input: { patience_ms: 600_000 } });
    await order[stop]("no longer needed");
    await assert.rejects(order.result(), (error) => {
      assert(error instanceof WorkflowEndedError);
      assert.deepEqual([error.id, error.end, error.code], [order.id, end, "ended"]);
      return true;
    });
    await assert.rejects(order.signal("approve"), ConflictError);
  }
});

test("a run that fails says why", async () => {
  const order = await server.client().startWorkflow("order", { input: { amount: 0 } });
  await assert.rejects(order.result(), /failed/);
});

test("wrong requests are refused", async () => {
  const client = server.client();
  await assert.rejects(client.workflow("no-such-workflow").show(), NotFoundError);
  await assert.rejects(client.startWorkflow("greet", { run_timeout: "soon" }), InvalidError);
  await assert.rejects(client.workflow("..").show(), InvalidError);
});
