// The bearer token: kept for this tab only, never in an address, never on disk.

import { h } from "./dom.js";
import { sentence } from "./format.js";

const KEY = "seriatim.token";
let asking = null;

/** The token in use, or null. */
export function token() {
  return sessionStorage.getItem(KEY);
}

/** Forgets the token. */
export function forgetToken() {
  sessionStorage.removeItem(KEY);
}

/** Asks the reader for a token; true if one was given. Who asks while the question is open shares the answer. */
export function askToken(why) {
  asking ??= ask(why).finally(() => {
    asking = null;
  });
  return asking;
}

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
    const use = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      dialog.close("given");
    };
    const dialog = h(
      "dialog",
      { "aria-labelledby": "token-title" },
      h(
        "form",
        { onsubmit: use },
        h("h2", { id: "token-title" }, "This server wants a token"),
        h("p", { class: "quiet small" }, sentence(why)),
        h(
          "label",
          { class: "field" },
          h("span", null, "Bearer token"),
          input,
          h(
            "small",
            null,
            "Kept until this tab is closed. Make one with ",
            h("code", null, "seriatim token create"),
            ".",
          ),
        ),
        h("div", { class: "buttons" }, cancel, h("button", { class: "button primary" }, "Use it")),
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
