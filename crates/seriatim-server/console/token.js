// @ts-check
// The bearer token: kept for this tab only, never in an address, never on disk.

import { h } from "./dom.js";
import { sentence } from "./format.js";

const KEY = "seriatim.token";
/** @type {Promise<boolean> | null} */
let asking = null;

/** The token in use, or null. */
export function token() {
  return sessionStorage.getItem(KEY);
}

/** Removes the token. */
export function forgetToken() {
  sessionStorage.removeItem(KEY);
}

/**
 * Asks the reader for a token; true if one was given. Requests that need a token at the same time share one dialog.
 * @param {string} why
 */
export function askToken(why) {
  asking ??= ask(why).finally(() => {
    asking = null;
  });
  return asking;
}

/**
 * @param {string} why
 * @returns {Promise<boolean>}
 */
function ask(why) {
  return new Promise((resolve) => {
    const input = h("input", {
      type: "password",
      name: "token",
      autocomplete: "off",
      spellcheck: "false",
      required: true,
    });
    const cancel = h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Not now");
    /** @param {Event} event */
    const use = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      dialog.close("given");
    };
    /** @type {HTMLDialogElement} */
    const dialog = h(
      "dialog",
      { "aria-labelledby": "token-title" },
      h(
        "form",
        { onsubmit: use },
        h("h2", { id: "token-title" }, "This server requires a token"),
        h("p", { class: "quiet small" }, sentence(why)),
        h(
          "label",
          { class: "field" },
          h("span", null, "Bearer token"),
          input,
          h(
            "small",
            null,
            "The token is kept until this tab is closed. Create one with ",
            h("code", null, "seriatim token create"),
            ".",
          ),
        ),
        h("div", { class: "buttons" }, cancel, h("button", { class: "button primary" }, "Use this token")),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "given");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
