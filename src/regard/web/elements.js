/** Making elements. Text only ever goes in as text. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element. Attributes whose name begins with `on` listen; `class`, `text`, `style` (an object) as one expects;
 * false and null leave an attribute out, true sets it empty.
 * @param {string} name
 * @param {Record<string, any>} [attributes]
 * @param {...(Node|string|null|undefined|(Node|string|null|undefined)[])} children
 * @returns {any}
 */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/**
 * An SVG element.
 * @param {string} name
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 * @returns {any}
 */
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Put these children in place of what is there. @param {Element} parent @param {...any} children */
export function replaced(parent, ...children) {
  parent.replaceChildren(...children.flat(2).filter((child) => child !== null && child !== undefined));
}

/** @param {any} made @param {Record<string, any>} attributes @param {any[]} children */
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
