// Nodes, built one by one. Nothing here or elsewhere makes markup of strings: the server's policy would refuse it.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Properties that begin with `on` are listeners, the others are attributes; null and false leave one out. */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An element of a drawing. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Replaces what is in an element; does nothing if the text is already there, so that live values cost nothing. */
export function show(element, ...children) {
  if (children.length === 1 && typeof children[0] === "string" && element.childElementCount === 0) {
    if (element.textContent !== children[0]) element.textContent = children[0];
    return;
  }
  element.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
}

const ICONS = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  applications: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  series: "M4 20v-5M9.3 20v-8M14.6 20V9M20 20V4",
  blocks: "M3 7l9-4 9 4-9 4zM3 12l9 4 9-4M3 17l9 4 9-4",
  workflows: "M6 3v12a3 3 0 0 0 3 3h6M18 21a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM6 6a1 1 0 1 0 0-2M15 7h6M15 11h6",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
};

/** A drawn sign; decoration beside a word. */
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
