// @ts-check
// Example commands, made from an application's definition.

/**
 * A value of each type, by the name of its field.
 * @type {Partial<Record<Api.Field["type"], (name: string) => unknown>>}
 */
const SAMPLES = {
  text: (name) => name,
  integer: () => 1,
  decimal: () => "1.00",
  bool: () => true,
  timestamp: () => new Date().toISOString(),
  json: () => ({}),
};

/**
 * Values for the fields that a client sets. A reference needs the id of a record, so it is left out.
 * @param {Api.Document} document
 */
function fields(document) {
  const set = document.fields.filter((field) => !field.draw && SAMPLES[field.type]);
  return Object.fromEntries(set.map(({ name, type }) => [name, SAMPLES[type]?.(name)]));
}

/**
 * @param {Api.Application} definition
 * @param {Api.Document} document
 */
function childrenOf(definition, document) {
  return definition.documents.filter((child) => child.parent === document.name);
}

/**
 * Documents that a change may create: not those that are stored in an event only.
 * @param {Api.Application} definition
 */
export function creatable(definition) {
  return definition.documents.filter((document) => !document.parent && document.kind !== "O");
}

/**
 * The document of the first example: one that draws a number, if there is one.
 * @param {Api.Application} definition
 * @returns {Api.Document | undefined}
 */
export function usual(definition) {
  const documents = creatable(definition);
  return documents.find((document) => document.fields.some((field) => field.draw)) ?? documents[0];
}

/**
 * A change that creates a document and one of each of its child records.
 * @param {Api.Application} definition
 * @param {string} name
 */
export function change(definition, name) {
  const document = creatable(definition).find((one) => one.name === name);
  if (!document) return { command: "sys.Change", changes: [] };
  /** @type {{ create: string, id: number, parent?: number, fields: Record<string, unknown> }[]} */
  const changes = [{ create: document.name, id: 1, fields: fields(document) }];
  for (const child of childrenOf(definition, document)) {
    changes.push({ create: child.name, id: changes.length + 1, parent: 1, fields: fields(child) });
  }
  return { command: "sys.Change", changes };
}

/**
 * A command with its argument: a tree of the document whose name is part of the command's, else of the only document
 * that it can be.
 * @param {Api.Application} definition
 * @param {string} name
 */
export function command(definition, name) {
  const roots = definition.documents.filter((document) => !document.parent && document.kind === "O");
  const root = roots.find((document) => name.includes(document.name)) ?? (roots.length === 1 ? roots[0] : null);
  if (root === null) return { command: name, args: null, changes: [] };
  const children = childrenOf(definition, root).map((child, index) => ({
    create: child.name,
    id: index + 2,
    fields: fields(child),
    children: [],
  }));
  return { command: name, args: { id: 1, fields: fields(root), children }, changes: [] };
}
