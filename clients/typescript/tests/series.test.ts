import assert from "node:assert/strict";
import { test } from "node:test";
import { ConflictError, ExhaustedError, InvalidError, NotFoundError } from "seriatim";
import { all, sharedServer, until, withServer } from "./server.js";

const server = sharedServer();

test("a series counts from 1", async () => {
  const series = server.client().series("counts");
  assert.deepEqual(await series.next(), { series: "counts", number: 1, count: 1, text: "1", repeated: false });
  const three = await series.next({ count: 3, note: "a box" });
  assert.deepEqual([three.number, three.count], [2, 3]);
  assert.equal((await series.show()).next, 5);
});

test("the same key gives the same number", async () => {
  const series = server.client().series("keys");
  const taken = await series.next({ count: 2, key: "order-7" });
  const again = await series.next({ count: 2, key: "order-7" });
  assert.deepEqual(again, { ...taken, repeated: true });
  assert.equal((await series.next({ key: "order-8" })).number, 3);
  await assert.rejects(series.next({ count: 1, key: "order-7" }), ConflictError);
});

test("settings are kept", async () => {
  const series = server.client().series("settings");
  const settings = { first: 17, format: "INV-{number:04}/A" };
  assert.deepEqual(await series.create(settings), await series.create(settings));
  assert.equal((await series.next()).text, "INV-0017/A");
  await assert.rejects(series.create({ first: 18 }), ConflictError);
});

test("voids and raises are in the audit", async () => {
  const series = server.client().series("audited");
  await series.next({ count: 3, note: "three", key: "three" });
  assert.equal((await series.void(2, "misprint")).reason, "misprint");
  assert.equal((await series.raiseTo(10, "imported")).next, 10);
  assert.equal((await series.next()).number, 10);
  const audit = await series.audit();
  assert.deepEqual([audit.complete, audit.first, audit.last, audit.count, audit.gaps], [true, 1, 10, 4, []]);
  assert.deepEqual([audit.voids[0]?.number, audit.raises[0]?.from, audit.raises[0]?.to], [2, 4, 10]);
  const issued = await series.whoGot(2);
  assert.deepEqual([issued.first, issued.note, issued.idempotency_key], [1, "three", "three"]);
  assert.equal(issued.void?.reason, "misprint");
  await assert.rejects(series.whoGot(5), NotFoundError);
});

test("all series are listed over pages", async () => {
  const client = server.client();
  const names = Array.from({ length: 103 }, (_, number) => `listed.${String(number).padStart(3, "0")}`);
  for (const name of names) await client.series(name).create();
  const found = (await all(client.listSeries())).map((state) => state.series);
  assert.deepEqual(
    found.filter((name) => name.startsWith("listed.")),
    names,
  );
});

test("wrong input is invalid", async () => {
  const client = server.client();
  for (const count of [0, -1, 1.5, 10_001, 1e30, NaN]) {
    await assert.rejects(client.series("bad").next({ count }), InvalidError, `count ${count}`);
  }
  for (const name of ["", ".", "..", "a b", "a/b", "ä", "?", "x".repeat(201)]) {
    await assert.rejects(client.series(name).next(), InvalidError, `name ${name}`);
  }
  for (const key of ["", "a b", "ä", "a\nb", "x".repeat(201)]) {
    await assert.rejects(client.series("bad").next({ key }), InvalidError, `key ${key}`);
  }
  await assert.rejects(client.series("never-used").void(1, "misprint"), NotFoundError);
});

test("a series ends", async () => {
  const series = server.client().series("ends");
  await series.raiseTo(Number.MAX_SAFE_INTEGER, "near the end");
  await assert.rejects(series.next({ count: 2 }), ExhaustedError);
  assert.equal((await series.next()).number, Number.MAX_SAFE_INTEGER);
  assert.equal((await series.show()).next, null);
});

test("no gap and no duplicate when the server is killed", () =>
  withServer(async (server) => {
    const client = server.client({ retry: { attempts: 100 } });
    const taken: number[] = [];
    let isStopped = false;
    const take = async () => {
      while (!isStopped) taken.push((await client.series("crash").next()).number);
    };
    const more = (seen: number) => until(() => taken.length >= seen + 100);
    const takers = Promise.all([take(), take(), take(), take()]);
    for (let kills = 0; kills < 3; kills++) {
      await Promise.race([more(taken.length), takers]);
      await server.kill();
      await server.start();
    }
    await Promise.race([more(taken.length), takers]);
    isStopped = true;
    await takers;
    taken.sort((a, b) => a - b);
    assert.deepEqual(
      taken,
      taken.map((_, index) => index + 1),
    );
    const audit = await client.series("crash").audit();
    assert.deepEqual([audit.complete, audit.count], [true, taken.length]);
  }));
