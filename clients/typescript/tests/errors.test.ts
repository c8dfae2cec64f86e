import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import * as seriatim from "seriatim";
import { Script, problem } from "./script.js";
import { Server, withServer } from "./server.js";

const CODES = {
  invalid: [400, seriatim.InvalidError],
  unauthorized: [401, seriatim.UnauthorizedError],
  forbidden: [403, seriatim.ForbiddenError],
  not_found: [404, seriatim.NotFoundError],
  conflict: [409, seriatim.ConflictError],
  too_large: [413, seriatim.TooLargeError],
  exhausted: [422, seriatim.ExhaustedError],
  busy: [503, seriatim.BusyError],
  unavailable: [503, seriatim.UnavailableError],
  fenced: [503, seriatim.FencedError],
  in_doubt: [503, seriatim.InDoubtError],
  corrupt: [500, seriatim.CorruptError],
  internal: [500, seriatim.InternalError],
} as const;

test("each code has a class", async () => {
  for (const [code, [status, kind]] of Object.entries(CODES)) {
    const taking = new Script(problem(code, status)).client().series("s").next();
    await assert.rejects(taking, (error) => {
      assert(error instanceof seriatim.SeriatimError);
      assert.equal(error.constructor, kind);
      assert.deepEqual([error.code, error.detail, error.status, error.name], [code, "a detail", status, kind.name]);
      return true;
    });
  }
});

test("the server has no other codes", () =>
  withServer(async (server) => {
    const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
      components: { schemas: { Code: { enum: string[] } } };
    };
    assert.deepEqual(new Set(document.components.schemas.Code.enum), new Set(Object.keys(CODES)));
  }));

test("tokens decide what a client may do", () =>
  withServer(async (server) => {
    const admin = server
      .run("token", "create", "--scope", "*:admin", "--server", server.url)
      .trim()
      .split(/\s+/)
      .at(-1)!;
    await assert.rejects(server.client().series("s").next(), seriatim.UnauthorizedError);
    await assert.rejects(server.client({ token: "seriatim_0_0" }).series("s").next(), seriatim.UnauthorizedError);
    assert.equal((await server.client({ token: admin }).series("s").next()).number, 1);
    const made = await fetch(`${server.url}/v1/tokens`, {
      method: "POST",
      headers: { authorization: `Bearer ${admin}`, "content-type": "application/json" },
      body: JSON.stringify({ scopes: ["series:read"] }),
    });
    const reader = server.client({ token: ((await made.json()) as { secret: string }).secret });
    assert.equal((await reader.series("s").show()).next, 2);
    await assert.rejects(reader.series("s").next(), seriatim.ForbiddenError);
  }));

test("a restored copy is fenced", () =>
  withServer(async (server) => {
    await server.client().series("s").next();
    server.run("backup", join(server.folder, "backup"), "--server", server.url);
    server.run("restore", join(server.folder, "backup"), "--storage", `file:${join(server.folder, "restored")}`);
    const copy = new Server(server.folder, "restored");
    await copy.start();
    try {
      await assert.rejects(copy.client().series("s").next(), seriatim.FencedError);
    } finally {
      await copy.stop();
    }
  }));
