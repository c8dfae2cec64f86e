// @ts-check
// Puts the console together.

import { askToken, token } from "./token.js";
import { fixed, h, icon, show } from "./dom.js";
import { keepTime } from "./format.js";
import { keepPolling, resume, watch } from "./live.js";
import { keepTurning, markPlace, reload } from "./router.js";
import { listen, showShortcuts } from "./shortcuts.js";

/** @import { Live } from "./live.js" */

function toggleTheme() {
  window.seriatimTheme.toggle();
}

/**
 * @param {Parameters<typeof icon>[0]} name
 * @param {string} label
 * @param {string} address
 */
function entry(name, label, address) {
  return h("a", { href: address }, icon(name), h("span", null, label));
}

const workflowsEntry = entry("workflows", "Workflows", "#/workflows");
workflowsEntry.hidden = true;
fixed(".nav").append(
  entry("overview", "Overview", "#/"),
  entry("applications", "Applications", "#/apps"),
  entry("series", "Series", "#/series"),
  entry("blocks", "Blocks", "#/blocks"),
  workflowsEntry,
);

const readiness = h("span", { class: "status" }, "connecting");
const enter = h("button", { class: "button slight", type: "button", hidden: true }, "Enter a token");
enter.addEventListener("click", async () => {
  if (!(await askToken("The server answers only requests with a token."))) return;
  resume();
  reload();
});
fixed(".side-end").append(
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
        title: "Keyboard shortcuts (?)",
        "aria-label": "Keyboard shortcuts",
        onclick: showShortcuts,
      },
      "?",
    ),
  ),
);

/**
 * The server's state, as a word and its look.
 * @param {Live} state
 */
function readinessWord({ ready, problem }) {
  if (problem !== null) return problem.status === 401 ? ["token needed", "warn"] : ["no answer", "bad"];
  if (ready === null) return ["connecting", ""];
  return ready ? ["ready", "good"] : ["not ready", "warn"];
}

watch((state) => {
  const [word, look] = readinessWord(state);
  show(readiness, word);
  readiness.className = `status ${look}`;
  enter.hidden = state.problem?.status !== 401 || token() !== null;
  workflowsEntry.hidden = !state.workflows;
});

fixed(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  fixed("main").focus();
});
listen(toggleTheme);
keepTime();
keepTurning();
keepPolling();
markPlace();
