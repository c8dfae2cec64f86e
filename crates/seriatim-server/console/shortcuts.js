// @ts-check
// The keyboard. Single keys can be switched off, for readers who use speech input.

import { h } from "./dom.js";
import { live } from "./live.js";
import { pageKeys } from "./router.js";

const OFF = "seriatim.shortcuts";
/** @type {Record<string, string>} */
const PLACES = { o: "#/", a: "#/apps", s: "#/series", b: "#/blocks", w: "#/workflows" };
/** @type {[string[], string][]} */
const LISTED = [
  [["g", "o"], "Overview"],
  [["g", "a"], "Applications"],
  [["g", "s"], "Series"],
  [["g", "b"], "Blocks"],
  [["g", "w"], "Workflows"],
  [["1", "–", "4"], "Tabs of a workspace"],
  [["p"], "Pause or resume a log"],
  [["n"], "Take the next number, on the page of a series"],
  [["Ctrl", "Enter"], "Send the command"],
  [["t"], "Light or dark"],
  [["?"], "This list"],
];

function areOff() {
  return localStorage.getItem(OFF) === "off";
}

/**
 * Handles the keyboard; the key `t` calls `toggleTheme`.
 * @param {() => void} toggleTheme
 */
export function listen(toggleTheme) {
  let leading = false;
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || areOff()) return;
    const wasLeading = leading;
    leading = event.key === "g" && !wasLeading;
    const place = wasLeading ? PLACES[event.key] : undefined;
    /** @type {Record<string, () => void>} */
    const actions = { "?": showShortcuts, t: toggleTheme, ...pageKeys() };
    const action = wasLeading ? undefined : actions[event.key];
    if (place === undefined && action === undefined) return;
    event.preventDefault();
    if (place !== undefined) location.hash = place;
    action?.();
  });
}

/** The list of shortcuts. */
export function showShortcuts() {
  const off = h("input", { type: "checkbox" });
  off.checked = !areOff();
  off.addEventListener("change", () => localStorage.setItem(OFF, off.checked ? "on" : "off"));
  const keys = LISTED.filter(([, meaning]) => meaning !== "Workflows" || live.workflows).map(([names, meaning]) => [
    h(
      "span",
      null,
      names.map((name) => (name === "–" ? " – " : [h("kbd", null, name), " "])),
    ),
    h("span", null, meaning),
  ]);
  const dialog = h(
    "dialog",
    { "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keyboard"),
    h("div", { class: "keys" }, keys),
    h(
      "form",
      { method: "dialog" },
      h("label", { class: "check" }, off, "Use single keys as shortcuts"),
      h("div", { class: "buttons" }, h("button", { class: "button primary" }, "Close")),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
