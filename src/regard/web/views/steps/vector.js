/** Vectors: short ones as numbers, long ones as a strip of bars that expands into numbers. */
import { button, drawn, element, replaced } from "../../elements/elements.js";
import { digitsFor, largestOf, lengthOf, printedNumber, printedVector } from "../../maths/numbers.js";

export const FEW = 6; // length up to which numbers are shown
const MOST_NUMBERS = 4096; // numbers in an expanded vector

const HIDDEN = { "aria-hidden": "true" };

/** @typedef {ReturnType<typeof makeOpener>} Opener */

/**
 * Which cell is open, by its `data-opens`: one at a time.
 * @param {Element} root @param {() => void} again draws the cells
 */
export function makeOpener(root, again) {
  /** @type {string|null} */
  let open = null;
  return {
    isOpen: (/** @type {string} */ key) => open === key,
    /** @param {string} key */
    toggle(key) {
      open = open === key ? null : key;
      again();
      /** @type {HTMLElement|null} */ (root.querySelector(`[data-opens="${key}"]`))?.focus();
    },
    close: () => (open = null),
  };
}

/**
 * A vector in a cell.
 * @param {ArrayLike<number>} vector
 * @param {{name: string, top: number, digits: number, opens?: {opener: Opener, key: string}, isOption?: boolean}} about
 *   opens: the cell opens; isOption: of a listbox, otherwise a button
 */
export function vectorCell(vector, { name, top, digits, opens, isOption }) {
  const isOpen = String(Boolean(opens?.opener.isOpen(opens.key)));
  const kind = isOption ? { role: "option", "aria-selected": isOpen } : { type: "button", "aria-expanded": isOpen };
  const acts = { ...kind, "data-opens": opens?.key, onclick: opens && (() => opens.opener.toggle(opens.key)) };
  const tag = isOption ? "div" : "button";
  if (vector.length <= FEW) {
    const label = `${name}: ${printedVector(vector, digits)}`;
    const numbers = Array.from(vector, (one) => element("span", { text: printedNumber(one, digits) }));
    if (!opens) return element("span", { class: "regard-vector", "aria-label": label, role: "img" }, numbers);
    return element(tag, { class: "regard-vector", "aria-label": label, ...acts }, numbers);
  }
  const label = `${name}: ${vector.length} numbers, length ${printedNumber(lengthOf(vector), 2)}`;
  return element(tag, { class: "regard-strip-button", "aria-label": label, title: label, ...acts }, strip(vector, top));
}

/**
 * Bars up for positive numbers, down for negative ones.
 * @param {ArrayLike<number>} vector @param {number} top @param {string} [more] a class
 */
export function strip(vector, top, more = "") {
  const height = 24;
  let [up, down] = ["", ""];
  for (let place = 0; place < vector.length; place++) {
    const size = Math.min(1, Math.abs(vector[place]) / (top || 1)) * (height / 2 - 1);
    if (!(size > 0.02)) continue;
    if (vector[place] > 0) up += `M${place + 0.08} ${height / 2}v${-size.toFixed(2)}h.84v${size.toFixed(2)}z`;
    else down += `M${place + 0.08} ${height / 2}v${size.toFixed(2)}h.84v${-size.toFixed(2)}z`;
  }
  return drawn(
    "svg",
    { viewBox: `0 0 ${vector.length} ${height}`, preserveAspectRatio: "none", class: `regard-strip ${more}`, ...HIDDEN },
    drawn("path", { d: `M0 ${height / 2}h${vector.length}`, class: "regard-strip-zero" }),
    drawn("path", { d: up, class: "regard-strip-up" }),
    drawn("path", { d: down, class: "regard-strip-down" }),
  );
}

/**
 * All numbers of a vector; with `arithmetic`, each one opens into how it was computed.
 * @param {ArrayLike<number>} vector @param {string} name @param {((place: number) => Element|string)|null} [arithmetic]
 */
export function vectorNumbers(vector, name, arithmetic = null) {
  const digits = Math.max(2, digitsFor(vector));
  const top = largestOf(vector) || 1;
  const some = Array.from(vector).slice(0, MOST_NUMBERS);
  const worked = element("div", { class: "regard-worked", role: "status" });
  /** @param {HTMLElement} button @param {number} place */
  const open = (button, place) => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    for (const one of list.querySelectorAll("[aria-expanded]")) one.setAttribute("aria-expanded", "false");
    button.setAttribute("aria-expanded", String(!isOpen));
    const found = isOpen ? null : arithmetic?.(place);
    replaced(worked, typeof found === "string" ? element("p", { class: "regard-formula", text: found }) : found);
  };
  const lines = some.map((one, place) => {
    const kind = one < 0 ? "regard-numbers-bar regard-below" : "regard-numbers-bar";
    const bar = element("span", { class: kind, ...HIDDEN, style: { width: `${(100 * Math.abs(one)) / top}%` } });
    const number = printedNumber(one, digits);
    const attributes = { class: "regard-link", "aria-expanded": "false", "aria-label": `${name}, number ${place}: ${number}` };
    const opener = arithmetic && button(number, () => opener && open(opener, place), attributes);
    const where = element("span", { class: "regard-numbers-place", text: String(place) });
    return element("li", {}, where, element("span", {}, opener ?? number), bar);
  });
  const list = element("ol", { class: "regard-numbers-list", start: "0" }, lines);
  const said = `${name}: ${vector.length} numbers, length ${printedNumber(lengthOf(vector), 3)}`;
  const title = element("p", { class: "regard-subtitle", text: said });
  return element("div", { class: "regard-numbers" }, title, list, arithmetic ? worked : null);
}
