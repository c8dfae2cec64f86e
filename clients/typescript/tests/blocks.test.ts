import assert from "node:assert/strict";
import { test } from "node:test";
import { ConflictError, InvalidError, NotFoundError } from "seriatim";
import { all, sharedServer, withServer } from "./server.js";

const server = sharedServer();

test("ids are allocated", async () => {
  const client = server.client();
  const blocks = client.blocks("allocated");
  assert.equal((await blocks.create({ first: 100, block_size: 10 })).next, 100);
  const [first, second] = [await blocks.allocate(5), await blocks.allocate(25)];
  assert.deepEqual([first.count, second.count], [5, 25]);
  assert(second.first >= first.first + 5);
  assert.deepEqual(await blocks.allocate(5, { key: "k" }), await blocks.allocate(5, { key: "k" }));
  assert((await all(client.listBlocks())).some((state) => state.name === "allocated"));
  assert.equal((await blocks.show()).block_size, 10);
});

test("wrong allocations are refused", async () => {
  const blocks = server.client().blocks("refused");
  await assert.rejects(blocks.allocate(1), NotFoundError);
  await assert.rejects(blocks.lease().next(), NotFoundError);
  await blocks.create();
  await assert.rejects(blocks.create({ first: 2 }), ConflictError);
  for (const count of [0, 1.5, 2 ** 32 + 1, NaN]) await assert.rejects(blocks.allocate(count), InvalidError);
  for (const count of [0, -1, NaN]) assert.throws(() => blocks.lease({ count }), RangeError);
});

for (const prefetch of [true, false]) {
  test(`leases of two clients never overlap: prefetch ${prefetch}`, async () => {
    const name = `overlap.${prefetch}`;
    await server.client().blocks(name).create({ block_size: 16 });
    const leases = [server.client(), server.client()].map((client) =>
      client.blocks(name).lease({ count: 7, prefetch }),
    );
    const some = async (number: number): Promise<number[]> => {
      const ids: number[] = [];
      while (ids.length < 100) ids.push(await leases[number % 2]!.next());
      return ids;
    };
    const taken = await Promise.all(Array.from({ length: 16 }, (_, number) => some(number)));
    assert.equal(new Set(taken.flat()).size, 1600);
    for (const ids of taken)
      assert.deepEqual(
        ids,
        [...ids].sort((a, b) => a - b),
      );
  });
}

test("a lease continues after a restart of the server", () =>
  withServer(async (server) => {
    const end = new AbortController();
    const client = server.client({ retry: { attempts: 100 }, signal: end.signal });
    await client.blocks("b").create();
    const lease = client.blocks("b").lease({ count: 10 });
    const ids: number[] = [];
    while (ids.length < 15) ids.push(await lease.next());
    await server.kill();
    const restart = server.start();
    while (ids.length < 65) ids.push(await lease.next());
    await restart;
    end.abort(); // or the block that is fetched ahead would be retried after the end of the server
    assert.equal(new Set(ids).size, 65);
  }));

test("a block that could not be fetched ahead is fetched when it is needed", () =>
  withServer(async (server) => {
    const client = server.client({ retry: { attempts: 1 } });
    await client.blocks("b").create();
    const lease = client.blocks("b").lease({ count: 4 });
    const ids = [await lease.next()];
    await server.kill();
    ids.push(await lease.next(), await lease.next()); // the second of them is where the next block is fetched ahead
    await server.start();
    while (ids.length < 12) ids.push(await lease.next());
    assert.equal(new Set(ids).size, 12);
  }));
