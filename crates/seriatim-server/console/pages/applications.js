// @ts-check
// The applications that the server runs.

import { get } from "../api.js";
import { h } from "../dom.js";
import { figures, head, empty } from "../parts.js";
import { number } from "../format.js";

export async function open() {
  /** @type {Api.Application[]} */
  const list = await get("/v1/apps");
  /** @param {Api.Application} application */
  const card = (application) =>
    h(
      "a",
      { class: "card app-card", href: `#/apps/${encodeURIComponent(application.name)}` },
      h("h2", null, application.name),
      figures([
        ["partitions", number(application.partitions)],
        ["documents", number(application.documents.length)],
        ["commands", number(application.commands.length)],
      ]),
      h(
        "div",
        { class: "chips" },
        application.documents
          .filter((document) => !document.parent)
          .map((document) => h("span", { class: "chip" }, document.name)),
      ),
    );
  const node = h(
    "div",
    null,
    head("Applications", {
      lead: "An application has its own documents, sequences and partitions. Its tenants are workspaces.",
    }),
    list.length === 0
      ? h(
          "div",
          { class: "card" },
          empty(
            "No applications",
            "Start the server with your own definition, or without --app to get the demo.",
            "seriatim serve --app my-app.toml",
          ),
        )
      : h("div", { class: "grid cards" }, list.map(card)),
  );
  return { title: "Applications", node };
}
