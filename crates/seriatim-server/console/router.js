// @ts-check
// Pages, by the part of the address after `#`.

import { Problem } from "./api.js";
import { fixed, h, show } from "./dom.js";
import { empty, head, problem } from "./parts.js";
import * as applications from "./pages/applications.js";
import * as application from "./pages/application.js";
import * as blocks from "./pages/blocks.js";
import * as overview from "./pages/overview.js";
import * as partition from "./pages/partition.js";
import * as records from "./pages/records.js";
import * as series from "./pages/series.js";
import * as seriesOne from "./pages/series_one.js";
import * as workflow from "./pages/workflow.js";
import * as workflows from "./pages/workflows.js";
import * as workspace from "./pages/workspace.js";

/**
 * A page. `keys` are its shortcuts, `stop` ends what it does in the background, `error` is why it could not be loaded.
 * @typedef {{
 *   title: string,
 *   node: Node,
 *   keys?: Record<string, () => void>,
 *   stop?: (() => void) | null,
 *   error?: Problem,
 * }} Page
 */

/**
 * How pages are opened. The names after colons are the parameters of a page.
 * @type {[string, (found: Record<string, string>) => Promise<Page>][]}
 */
const ROUTES = [
  ["", overview.open],
  ["apps", applications.open],
  ["apps/:app", application.open],
  ["apps/:app/partitions/:partition", partition.open],
  ["apps/:app/workspaces/:workspace", workspace.open],
  ["apps/:app/workspaces/:workspace/:tab", workspace.open],
  ["apps/:app/workspaces/:workspace/records/:record", records.openOne],
  ["series", series.open],
  ["series/:series", seriesOne.open],
  ["blocks", blocks.open],
  ["blocks/:blocks", blocks.openOne],
  ["workflows", workflows.open],
  ["workflows/:workflow", workflow.open],
  ["workflows/:workflow/runs/:run", workflow.open],
];

/** After how long a page that could not be loaded is loaded again. */
const RETRY_MS = 2000;

/** @type {Pick<Page, "keys" | "stop" | "error">} */
let current = {};
let turns = 0;

/**
 * @param {string} address
 * @returns {() => Promise<Page>}
 */
function match(address) {
  const parts = address.split("/").filter(Boolean);
  for (const [pattern, open] of ROUTES) {
    const names = pattern.split("/").filter(Boolean);
    if (names.length !== parts.length) continue;
    /** @type {Record<string, string>} */
    const found = {};
    const fits = names.every((name, index) => {
      if (!name.startsWith(":")) return name === parts[index];
      found[name.slice(1)] = decodeURIComponent(parts[index]);
      return true;
    });
    if (fits) return () => open(found);
  }
  return async () => ({
    title: "Page not found",
    node: h("div", { class: "card" }, empty("This page does not exist", "Go to the overview.")),
  });
}

/**
 * Replaces a page that could not be loaded. If the problem may be temporary, the page is retried until it is loaded.
 * @param {Problem} error
 * @returns {Page}
 */
function failed(error) {
  const title = "The page could not be loaded";
  const mayPass = error.status === 0 || error.retryable;
  const timer = mayPass ? setTimeout(() => turn({ again: true }), RETRY_MS) : undefined;
  const text = mayPass
    ? h("p", { class: "small quiet" }, "The page is loaded again as soon as the server answers.")
    : null;
  const shown = problem(error);
  if (text) shown.append(text);
  return { title, error, node: h("div", null, head(title), shown), stop: () => clearTimeout(timer) };
}

async function turn({ again = false } = {}) {
  const address = location.hash.replace(/^#\/?/, "");
  if (address === "main") return;
  turns += 1;
  const mine = turns;
  const main = fixed("main");
  if (!again) main.setAttribute("aria-busy", "true");
  let page;
  try {
    page = await match(address)();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    page = failed(error);
  }
  if (mine !== turns) {
    page.stop?.();
    return;
  }
  current.stop?.();
  // The same problem again: the page and the focus stay as they are.
  if (again && page.error !== undefined && page.error.message === current.error?.message) {
    current = { ...current, stop: page.stop };
    return;
  }
  current = page;
  main.removeAttribute("aria-busy");
  show(main, page.node);
  document.title = `${page.title} · Seriatim`;
  scrollTo(0, 0);
  // The first page leaves the focus at the top, where the skip link is; later pages move it to their title.
  if (mine > 1) main.querySelector("h1")?.focus({ preventScroll: true });
  markPlace(address);
}

/** Marks the entry of the navigation that the page belongs to. */
export function markPlace(address = location.hash.replace(/^#\/?/, "")) {
  const [root] = address.split("/");
  for (const link of document.querySelectorAll(".nav a")) {
    const isHere = link.getAttribute("href") === (root === "" ? "#/" : `#/${root}`);
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** The keys of the page that is open. */
export function pageKeys() {
  return current.keys ?? {};
}

/** Opens the page again, after something on it has changed. */
export const reload = () => turn();

/** Turns pages from here on. */
export function keepTurning() {
  addEventListener("hashchange", () => turn());
  return turn();
}
