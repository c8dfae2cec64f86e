/** The types of the answers agree with what the server's OpenAPI document says. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { sharedServer } from "./server.js";

interface Schema {
  $ref?: string;
  allOf?: Schema[];
  properties?: Record<string, unknown>;
  required?: string[];
}

/** The document's name of each type that has another one here. */
const NAMES: Record<string, string> = {
  SeriesState: "Series",
  BlocksState: "BlockSequence",
  SequenceState: "Sequence",
  WorkspaceDescriptor: "Workspace",
  WorkspaceRecord: "Record",
  WorkflowState: "Workflow",
  Delivery: "ToldWorkflow",
};

const server = sharedServer();
const source = readFileSync(join(import.meta.dirname, "../src/answers.ts"), "utf8");

/** The fields of each interface, and whether each may be missing or null. */
function interfaces(): Map<string, Map<string, boolean>> {
  const found = new Map<string, Map<string, boolean>>();
  for (const [, name, parent, body] of source.matchAll(/^export interface (\w+)(?: extends (\w+))? \{\n(.*?)^\}/gms)) {
    const fields = new Map(parent ? found.get(parent) : []);
    for (const [, field, optional, type] of body!.matchAll(/^ {2}(\w+)(\??): (.*);$/gm)) {
      fields.set(field!, optional === "?" || /\bnull$|^unknown$/.test(type!));
    }
    found.set(name!, fields);
  }
  return found;
}

function properties(schemas: Record<string, Schema>, schema: Schema): [Set<string>, Set<string>] {
  if (schema.$ref) return properties(schemas, schemas[schema.$ref.split("/").at(-1)!]!);
  const parts = (schema.allOf ?? []).map((part) => properties(schemas, part));
  const names = Object.keys(schema.properties ?? {});
  return [
    new Set([...names, ...parts.flatMap(([fields]) => [...fields])]),
    new Set([...(schema.required ?? []), ...parts.flatMap(([, required]) => [...required])]),
  ];
}

test("each type agrees with the document", async () => {
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
    components: { schemas: Record<string, Schema> };
  };
  const { schemas } = document.components;
  const found = interfaces();
  assert(found.size > 20);
  for (const [name, fields] of found) {
    const schema = schemas[NAMES[name] ?? name];
    assert(schema, `${name} is no object of the API`);
    const [expected, required] = properties(schemas, schema);
    for (const [field, mayBeMissing] of fields) {
      assert(expected.has(field), `${name}.${field} is not in the API`);
      // Fields that the server fills in for older requests are always in its answers.
      const isAlwaysSent = ["memo", "warnings", "started", "repeated"].includes(field);
      assert(mayBeMissing || required.has(field) || isAlwaysSent, `${name}.${field} may be missing`);
    }
  }
});
