// Workflows: the server does not offer them; the entry of the navigation is hidden then, and this page says so.

import { h } from "../dom.js";
import { empty, head } from "../parts.js";

export async function open() {
  return { title: "Workflows", node: h("div", null, head("Workflows"), h("div", { class: "card" }, empty("No workflows here", "This server does not run workflows."))) };
}

export const openOne = open;
