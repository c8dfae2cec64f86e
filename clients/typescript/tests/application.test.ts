import assert from "node:assert/strict";
import { test } from "node:test";
import { type Change, ConflictError, InvalidError, NotFoundError, TooLargeError } from "seriatim";
import { all, sharedServer } from "./server.js";

const server = sharedServer();

test("workspaces are created, found and listed", async () => {
  const shop = server.client().application("shop");
  const store = await shop.createWorkspace("store", { name: "corner" });
  assert.equal((await shop.createWorkspace("store", { name: "corner" })).id, store.id);
  assert.equal((await shop.findWorkspace("corner"))?.id, store.id);
  assert.equal(await shop.findWorkspace("none"), undefined);
  assert.deepEqual(await store.show(), { id: store.id, kind: "store", name: "corner" });
  assert.deepEqual(await all(shop.listWorkspaces()), [await store.show()]);
  const nameless = await shop.createWorkspace("store", { key: "nameless" });
  assert.equal((await shop.createWorkspace("store", { key: "nameless" })).id, nameless.id);
});

test("a command creates and updates records", async () => {
  const store = await server.client().application("shop").createWorkspace("store");
  const changes: Change[] = [
    { create: "Customer", id: 1, fields: { name: "Ada" } },
    { create: "Invoice", id: 2, fields: { customer: 1, total: "99.50" } },
    { create: "InvoiceLine", id: 3, parent: 2, fields: { text: "tea", amount: "99.50" } },
  ];
  const answer = await store.submit(changes, { key: "order-1" });
  assert.deepEqual(answer.numbers, { "2": { number: 1 } });
  assert.deepEqual(await store.submit(changes, { key: "order-1" }), { ...answer, repeated: true });
  const invoice = answer.ids[2]!;
  await store.submit([{ update: invoice, fields: { total: "100.00" } }], { ifMatch: 1 });
  const record = await store.record(invoice);
  assert.deepEqual([record.type, record.fields["total"], record.fields["number"]], ["Invoice", "100.00", 1]);
  assert.deepEqual(
    (await all(store.records("Invoice"))).map((found) => found.id),
    [invoice],
  );
  assert.deepEqual(
    (await all(store.records())).map((found) => found.type),
    ["Customer"],
  );
  const sequence = (await store.sequences()).find((found) => found.name === "InvoiceNumber");
  assert.equal(sequence?.next, 2);
  const audit = await store.audit("InvoiceNumber");
  assert.deepEqual([audit.complete, audit.count], [true, 1]);
  assert.equal((await store.whoGot("InvoiceNumber", 1)).idempotency_key, "order-1");
  assert.deepEqual(
    (await all(store.events())).map((event) => event.workspace_offset),
    [1, 2],
  );
  assert.deepEqual(
    (await all(store.events({ from: 2 }))).map((event) => event.workspace_offset),
    [2],
  );
});

test("a command takes a document as its argument", async () => {
  const store = await server.client().application("shop").createWorkspace("store");
  const children = [{ create: "OrderLine", id: 2, fields: { item: "tea", quantity: 2 }, children: [] }];
  const args = { id: 1, fields: { note: "soon" }, children };
  assert.deepEqual(Object.keys((await store.submit([], { command: "PlaceOrder", args })).ids), ["1", "2"]);
});

test("another offset than expected is a conflict", async () => {
  const store = await server.client().application("shop").createWorkspace("store");
  const submitted = store.submit([{ create: "Customer", id: 1, fields: { name: "Ada" } }], { ifMatch: 4 });
  await assert.rejects(submitted, (error) => {
    assert(error instanceof ConflictError);
    assert.deepEqual([error.expected, error.found], [4, 0]);
    return true;
  });
});

test("wrong commands are refused", async () => {
  const client = server.client();
  const store = await client.application("shop").createWorkspace("store");
  const name = "x".repeat(2_000_000);
  await assert.rejects(store.submit([{ create: "NoSuchDocument", id: 1 }]), InvalidError);
  await assert.rejects(store.submit([{ create: "Customer", id: 0 }]), InvalidError);
  await assert.rejects(client.application("shop").createWorkspace("no-such-kind"), InvalidError);
  await assert.rejects(client.application("no-such-app").createWorkspace("store"), NotFoundError);
  await assert.rejects(store.record(1), NotFoundError);
  await assert.rejects(all(store.view("no-such-view")), NotFoundError);
  await assert.rejects(store.submit([{ create: "Customer", id: 1, fields: { name } }]), TooLargeError);
  assert.deepEqual(await all(store.events()), []);
});
