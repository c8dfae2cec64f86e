// Puts the console together.

import { askToken, token } from "./token.js";
import { h, icon, show } from "./dom.js";
import { keepTime } from "./format.js";
import { keepAsking, resume, watch } from "./live.js";
import { keepTurning, markPlace, reload } from "./router.js";
import { listen, showShortcuts } from "./shortcuts.js";

const PLACES = [
  ["overview", "Overview", "#/"],
  ["applications", "Applications", "#/apps"],
  ["series", "Series", "#/series"],
  ["blocks", "Blocks", "#/blocks"],
  ["workflows", "Workflows", "#/workflows"],
];

function toggleTheme() {
  window.seriatimTheme.toggle();
}

const entries = new Map(
  PLACES.map(([name, label, address]) => [name, h("a", { href: address }, icon(name), h("span", null, label))]),
);
entries.get("workflows").hidden = true;
document.querySelector(".nav").append(...entries.values());

const readiness = h("span", { class: "status" }, "asking");
const enter = h("button", { class: "button slight", type: "button", hidden: true }, "Enter a token");
enter.addEventListener("click", async () => {
  if (!(await askToken("The server answers those who show one."))) return;
  resume();
  reload();
});
document.querySelector(".side-end").append(
  h("div", { class: "readiness", role: "status" }, readiness, enter),
  h(
    "div",
    { class: "side-tools" },
    h(
      "button",
      {
        class: "icon-button",
        type: "button",
        title: "Light or dark (t)",
        "aria-label": "Light or dark",
        onclick: toggleTheme,
      },
      icon("theme"),
    ),
    h(
      "button",
      {
        class: "icon-button",
        type: "button",
        title: "Keyboard (?)",
        "aria-label": "Keyboard shortcuts",
        onclick: showShortcuts,
      },
      "?",
    ),
  ),
);

watch(({ ready, problem, workflows }) => {
  const [word, look] = problem
    ? problem.status === 401
      ? ["token needed", "warn"]
      : ["no answer", "bad"]
    : ready === null
      ? ["asking", ""]
      : ready
        ? ["ready", "good"]
        : ["not ready", "warn"];
  show(readiness, word);
  readiness.className = `status ${look}`;
  enter.hidden = problem?.status !== 401 || token() !== null;
  entries.get("workflows").hidden = !workflows;
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.querySelector("main").focus();
});
listen(toggleTheme);
keepTime();
keepTurning();
keepAsking();
markPlace();
