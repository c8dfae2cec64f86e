// @ts-check
// Sets light or dark before the first paint. The reader's choice is stored; without one the system's setting is used.
// Not a module: a module would run after the first paint.
"use strict";
(() => {
  const key = "seriatim.theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  function stored() {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  }

  /** @param {string | null} choice */
  function store(choice) {
    try {
      if (choice === null) localStorage.removeItem(key);
      else localStorage.setItem(key, choice);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }

  /** @param {string | null} choice */
  function apply(choice) {
    if (choice === null) delete root.dataset.theme;
    else root.dataset.theme = choice;
  }

  window.seriatimTheme = {
    isDark() {
      return (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
    },
    toggle() {
      const wanted = this.isDark() ? "light" : "dark";
      const choice = wanted === (system.matches ? "dark" : "light") ? null : wanted;
      apply(choice);
      store(choice);
    },
  };
  const choice = stored();
  apply(choice === "light" || choice === "dark" ? choice : null);
})();
