/** Vectors: short ones as numbers, long ones as a strip of bars that expands into numbers. */
import { drawn, element } from "../../elements.js";
import { digitsFor, largestOf, lengthOf, printedNumber, printedVector } from "../../numbers.js";

export const FEW = 6; // length up to which numbers are shown
const MOST_NUMBERS = 4096; // numbers in an expanded vector

/**
 * A vector in a cell.
 * @param {ArrayLike<number>} vector
 * @param {{name: string, top: number, digits: number, open?: boolean, act?: () => void, key?: string}} about
 */
export function vectorCell(vector, { name, top, digits, open, act, key }) {
  if (vector.length <= FEW) {
    return element(
      "span",
      { class: "regard-vector", "aria-label": `${name}: ${printedVector(vector, digits)}`, role: "img" },
      Array.from(vector, (one) => element("span", { text: printedNumber(one, digits) })),
    );
  }
  const label = `${name}: ${vector.length} numbers, length ${printedNumber(lengthOf(vector), 2)}`;
  return element(
    "button",
    {
      type: "button",
      class: "regard-strip-button",
      "aria-expanded": String(Boolean(open)),
      "aria-label": label,
      title: label,
      "data-opens": key,
      onclick: act,
    },
    strip(vector, top),
  );
}

/**
 * Bars up for positive numbers, down for negative ones.
 * @param {ArrayLike<number>} vector
 * @param {number} top
 * @param {string} [more] a class
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
    {
      viewBox: `0 0 ${vector.length} ${height}`,
      preserveAspectRatio: "none",
      class: `regard-strip ${more}`,
      "aria-hidden": "true",
    },
    drawn("path", { d: `M0 ${height / 2}h${vector.length}`, class: "regard-strip-zero" }),
    drawn("path", { d: up, class: "regard-strip-up" }),
    drawn("path", { d: down, class: "regard-strip-down" }),
  );
}

/**
 * All numbers of a vector.
 * @param {ArrayLike<number>} vector
 * @param {string} name
 */
export function vectorNumbers(vector, name) {
  const digits = Math.max(2, digitsFor(vector));
  const top = largestOf(vector) || 1;
  const some = Array.from(vector).slice(0, MOST_NUMBERS);
  return element(
    "div",
    { class: "regard-numbers" },
    element("p", {
      class: "regard-subtitle",
      text: `${name}: ${vector.length} numbers, length ${printedNumber(lengthOf(vector), 3)}`,
    }),
    element(
      "ol",
      { class: "regard-numbers-list", start: "0" },
      some.map((one, place) => {
        const bar = element("span", {
          class: one < 0 ? "regard-numbers-bar regard-below" : "regard-numbers-bar",
          "aria-hidden": "true",
        });
        bar.style.setProperty("width", `${(100 * Math.abs(one)) / top}%`);
        return element(
          "li",
          {},
          element("span", { class: "regard-numbers-place", text: String(place) }),
          element("span", { text: printedNumber(one, digits) }),
          bar,
        );
      }),
    ),
  );
}
