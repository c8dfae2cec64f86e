// @ts-check
// Nodes, built one by one. No module makes markup from strings: the server's policy would refuse it.

const SVG = "http://www.w3.org/2000/svg";

/**
 * The content of an element. Null, undefined and false are left out.
 * @typedef {string | Node | null | undefined | false | Child[]} Child
 */

/**
 * Attributes and listeners by name. Null, undefined and false leave an attribute out; true sets it without a value.
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: Event) => unknown)>} Properties
 */

/**
 * An element. A function is a listener, and its name begins with `on`.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties | null} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, properties = null, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/**
 * An element of a drawing.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties | null} properties
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Properties | null} properties
 * @param {Child[]} children
 * @returns {E}
 */
function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

/**
 * @param {Child[]} children
 * @returns {(string | Node)[]}
 */
function flat(children) {
  return children.flatMap((child) => {
    if (Array.isArray(child)) return flat(child);
    return child === null || child === undefined || child === false ? [] : [child];
  });
}

/**
 * Replaces the content of an element. Does nothing if the text is the same, so that live values cost nothing.
 * @param {Element} element
 * @param {...Child} children
 */
export function show(element, ...children) {
  if (children.length === 1 && typeof children[0] === "string" && element.childElementCount === 0) {
    if (element.textContent !== children[0]) element.textContent = children[0];
    return;
  }
  element.replaceChildren(...flat(children));
}

/**
 * The element that index.html has for a selector.
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function fixed(selector) {
  const element = document.querySelector(selector);
  if (!(element instanceof HTMLElement)) throw new Error(`index.html has no ${selector}`);
  return element;
}

const ICONS = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  applications: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  series: "M4 20v-5M9.3 20v-8M14.6 20V9M20 20V4",
  blocks: "M3 7l9-4 9 4-9 4zM3 12l9 4 9-4M3 17l9 4 9-4",
  workflows: "M6 3v12a3 3 0 0 0 3 3h6M18 21a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM6 6a1 1 0 1 0 0-2M15 7h6M15 11h6",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
};

/**
 * An icon; decoration next to a word.
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  const line = {
    fill: "none",
    stroke: "currentColor",
    "stroke-width": "1.75",
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
  };
  return svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: ICONS[name], ...line }));
}
