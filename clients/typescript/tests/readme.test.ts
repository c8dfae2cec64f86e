/** The code blocks of the README are type-checked and run, one after the other. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { withServer } from "./server.js";

const root = join(import.meta.dirname, "..");

test("the README runs", () =>
  withServer(async (server) => {
    const text = readFileSync(join(root, "README.md"), "utf8").replaceAll("http://127.0.0.1:7400", server.url);
    const blocks = [...text.matchAll(/^```ts\n(.*?)^```/gms)].map(([, block]) => block!);
    assert(blocks.length >= 6);
    const folder = join(root, "build", "readme");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "readme.mts"), blocks.join("\n"));
    const extended = { extends: "../../tests/tsconfig.json", files: ["readme.mts"], include: [] };
    const compilerOptions = { rootDir: ".", outDir: ".", noUnusedLocals: false };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ ...extended, compilerOptions }));
    try {
      execFileSync(join(root, "node_modules", ".bin", "tsc"), ["--project", folder], { encoding: "utf8" });
    } catch (error) {
      assert.fail((error as { stdout: string }).stdout);
    }
    await import(join(folder, "readme.mjs"));
  }));
