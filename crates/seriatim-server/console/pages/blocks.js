// @ts-check
// Block sequences: unique rising ids that may have gaps, leased in blocks.

import { get, path, send } from "../api.js";
import { h, show } from "../dom.js";
import { number } from "../format.js";
import { button, codeLine, empty, field, figures, form, head, server } from "../parts.js";
import { pagedTable } from "../table.js";

/** @import { Options } from "../api.js" */
/** @import { Column } from "../table.js" */

function createForm() {
  const name = h("input", {
    name: "name",
    required: true,
    maxlength: 200,
    pattern: "[A-Za-z0-9._\\-]+",
    placeholder: "orders",
    autocomplete: "off",
  });
  const first = h("input", { name: "first", inputmode: "numeric", pattern: "\\d+", value: "1", required: true });
  const size = h("input", { name: "size", inputmode: "numeric", pattern: "\\d+", value: "4096", required: true });
  const output = h("div", { "aria-live": "polite" });
  const submit = button("Create block sequence", { primary: true, type: "submit" });
  const work = async () => {
    await send("PUT", path`/v1/blocks/${name.value}`, { first: Number(first.value), block_size: Number(size.value) });
    location.hash = path`#/blocks/${name.value}`;
  };
  const children = [
    field("Name", name),
    h("div", { class: "form-row" }, field("First id", first), field("Block size", size)),
    h("p", { class: "small quiet" }, "A larger block means fewer durable writes, and more ids wasted by a crash."),
    submit,
  ];
  return h(
    "section",
    { class: "card" },
    h("h2", null, "New block sequence"),
    form({ class: "form", id: "create-blocks" }, children, submit, work, output),
    output,
  );
}

/**
 * What part of the reserved ids was wasted.
 * @param {Api.BlockSequence} state
 */
function share({ first, reserved, wasted }) {
  const all = reserved - first;
  return all > 0 ? `${((wasted / all) * 100).toFixed(wasted === 0 ? 0 : 1)} %` : "–";
}

export async function open() {
  /**
   * @param {Record<string, string>} query
   * @param {Options} [options]
   */
  const read = async (query, options) => {
    /** @type {Api.BlockSequences} */
    const { blocks, next } = await get(`/v1/blocks?${new URLSearchParams(query)}`, options);
    return { rows: blocks, next };
  };
  /** @type {Column<Api.BlockSequence>[]} */
  const columns = [
    {
      label: "Name",
      kind: "head",
      cell: (one) => h("a", { class: "wrap", href: path`#/blocks/${one.name}` }, one.name),
    },
    { label: "Next", kind: "num", cell: (one) => number(one.next) },
    { label: "Reserved up to", kind: "num", wide: true, cell: (one) => number(one.reserved) },
    { label: "Block size", kind: "num", wide: true, cell: (one) => number(one.block_size) },
    { label: "Wasted", kind: "num", cell: (one) => number(one.wasted) },
  ];
  const body = `'{"first": 1, "block_size": 4096}'`;
  const none = empty(
    "No block sequences yet",
    "For ids that may have gaps and must cost almost nothing. Create one with the form, or with this command:",
    `curl -X PUT ${server}/v1/blocks/orders -H 'content-type: application/json' -d ${body}`,
  );
  const list = await pagedTable("Block sequences", columns, read, none);
  const node = h(
    "div",
    null,
    head("Blocks", {
      lead: "Unique, rising ids, leased in blocks. They may have gaps: use a series where gaps are not allowed.",
    }),
    h("div", { class: "with-aside" }, list.node, createForm()),
  );
  return { title: "Blocks", node, stop: list.stop };
}

/** @param {Record<string, string>} found */
export async function openOne({ blocks: name }) {
  const base = path`/v1/blocks/${name}`;
  const [next, reserved, wasted, part] = [h("span"), h("span"), h("span"), h("span")];
  const display = h("output", { class: "display", "aria-live": "polite" });
  const caption = h("p", { class: "label" }, "Next id");
  const refresh = async () => {
    /** @type {Api.BlockSequence} */
    const state = await get(base);
    show(next, number(state.next));
    show(reserved, number(state.reserved));
    show(wasted, number(state.wasted));
    show(part, share(state));
    return state;
  };
  const state = await refresh();
  show(display, number(state.next));
  const count = h("input", { name: "count", inputmode: "numeric", pattern: "\\d+", value: "100", required: true });
  const output = h("div", { "aria-live": "polite" });
  const submit = button("Allocate", { primary: true, type: "submit" });
  const work = async () => {
    /** @type {Api.Allocated} */
    const block = await send("POST", `${base}/allocate`, { count: Number(count.value) });
    show(output);
    show(caption, "Allocated, without gaps");
    show(display, number(block.first), block.count > 1 ? [" – ", number(block.first + block.count - 1)] : null);
    display.classList.remove("taken");
    requestAnimationFrame(() => display.classList.add("taken"));
    await refresh();
  };
  const body = `'{"count": 100}'`;
  const node = h(
    "div",
    null,
    head(name, {
      crumbs: [["Blocks", "#/blocks"]],
      lead: ["First id ", number(state.first), ", block size ", number(state.block_size)],
    }),
    h(
      "section",
      { class: "card next-card" },
      h("div", null, caption, display),
      figures([
        ["next", next],
        ["reserved up to", reserved],
        ["wasted", wasted],
        ["wasted share", part],
      ]),
      form({ class: "inline-form", id: "allocate" }, [field("How many", count), submit], submit, work, output),
      output,
      codeLine(`curl ${server}${base}/allocate -H 'content-type: application/json' -d ${body}`),
    ),
  );
  return { title: name, node, keys: { n: () => submit.click() } };
}
