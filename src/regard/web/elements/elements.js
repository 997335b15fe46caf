/**
 * Element constructors. Text is only ever set as textContent.
 *
 * @typedef {Record<string, any>} Attributes
 * @typedef {Node|string|null|undefined} Child
 * @typedef {Child|readonly (Child|readonly Child[])[]} Children  lists in lists are flattened
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element. Attributes that begin with `on` are event listeners; `class`, `text` and `style` (an object) are set;
 * false and null omit an attribute, true sets it to the empty string.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name @param {Attributes} [attributes] @param {...Children} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** A button. @param {string} text @param {((event: MouseEvent) => void)|null} onclick @param {Attributes} [attributes] @param {...Children} children */
export function button(text, onclick, attributes = {}, ...children) {
  return element("button", { type: "button", class: "regard-button", text, onclick, ...attributes }, ...children);
}

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name @param {Attributes} [attributes] @param {...Children} children
 * @returns {SVGElementTagNameMap[Name]}
 */
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** The focused element of the page or shadow root that holds an element. @param {Node} el */
export function focusedBeside(el) {
  return /** @type {Document|ShadowRoot} */ (el.getRootNode()).activeElement;
}

/**
 * Draws an element again; the focus stays on what has the same attribute.
 * @param {Element} root @param {string} attribute @param {() => void} draw
 */
export function refocused(root, attribute, draw) {
  const focused = root.contains(document.activeElement) ? document.activeElement?.getAttribute(attribute) : null;
  draw();
  if (focused) /** @type {HTMLElement|null} */ (root.querySelector(`[${attribute}="${focused}"]`))?.focus();
}

/** Replace all children. @param {Element} parent @param {...Children} children */
export function replaced(parent, ...children) {
  parent.replaceChildren(...children.flat(2).filter((child) => child !== null && child !== undefined));
}

/** @param {any} made @param {Attributes} attributes @param {Children[]} children */
function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") made.textContent = value;
    else if (key === "style")
      for (const [property, set] of Object.entries(value)) made.style.setProperty(property, set);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "value" && "value" in made) made.value = value;
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(2)) if (child !== null && child !== undefined) made.append(child);
  return made;
}
