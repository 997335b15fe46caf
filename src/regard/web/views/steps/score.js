/** A score expanded into the products q_i · k_i that it sums. */
import { drawn, element } from "../../elements/elements.js";
import { strongest } from "../../maths/links.js";
import { digitsFor, largestOf, printedNumber, productsOf } from "../../maths/numbers.js";

const WRITTEN_OUT = 8; // products up to which the sum is written out
const MOST_BARS = 512;

/**
 * @param {ArrayLike<number>} query @param {ArrayLike<number>} key
 * @param {{query: string, key: string, letters?: string[]}} words
 */
export function scoreBars(query, key, words) {
  const [left, right] = words.letters ?? ["q", "k"];
  const products = productsOf(query, key);
  const sum = products.reduce((all, one) => all + one, 0);
  const digits = digitsFor(products);
  const said = `${words.query} · ${words.key} = Σ ${left}ᵢ · ${right}ᵢ = ${printedNumber(sum, digitsFor([sum]))}`;
  const isShort = products.length <= WRITTEN_OUT;
  return element(
    "div",
    { class: "regard-score" },
    element("p", { class: "regard-subtitle", text: said }),
    isShort ? writtenOut(query, key, sum) : null,
    bars(products, digits, (place) => `${left}${place} · ${right}${place}`),
    isShort ? null : largest(products),
  );
}

/** @param {ArrayLike<number>} query @param {ArrayLike<number>} key @param {number} sum */
function writtenOut(query, key, sum) {
  const [q, k] = [digitsFor(query), digitsFor(key)];
  const factor = (/** @type {number} */ one, /** @type {number} */ digits) =>
    one < 0 ? `(${printedNumber(one, digits)})` : printedNumber(one, digits);
  const terms = Array.from(query, (one, place) => `${factor(one, q)}·${factor(key[place], k)}`);
  return element("p", { class: "regard-formula", text: `${terms.join(" + ")} = ${printedNumber(sum, digitsFor([sum]))}` });
}

/** @param {Float64Array} products @param {number} digits @param {(place: number) => string} named */
function bars(products, digits, named) {
  const few = products.length <= 24;
  const shown = Array.from(products).slice(0, MOST_BARS);
  const top = largestOf(products) || 1;
  const [step, half] = [few ? 44 : 10, 46];
  const width = shown.length * step;
  const below = shown.some((one) => one < 0) ? half * 2 : half + 18;
  const parts = shown.map((one, place) => {
    const [height, x] = [(Math.abs(one) / top) * (half - 4), place * step + step * 0.14];
    const kind = one < 0 ? "regard-strip-down" : "regard-strip-up";
    const size = { width: step * 0.72, height: Math.max(height, 0.75), class: kind };
    const title = drawn("title", { text: `${named(place)} = ${printedNumber(one, Math.max(digits, 3))}` });
    const at = { x: x + step * 0.36, y: one < 0 ? half - 5 : half + 13, class: "regard-score-label" };
    const label = few ? drawn("text", { ...at, text: printedNumber(one, digits) }) : null;
    return [drawn("rect", { x, y: one < 0 ? half : half - height, ...size }, title), label];
  });
  return drawn(
    "svg",
    {
      viewBox: `0 0 ${width} ${below}`,
      class: few ? "regard-score-bars" : "regard-score-bars regard-score-many",
      style: { height: `${below + 12}px`, ...(few ? { "max-width": `${width}px` } : {}) },
      preserveAspectRatio: few ? "xMidYMid" : "none",
      role: "img",
      "aria-label": `${products.length} products`,
    },
    parts,
    drawn("path", { d: `M0 ${half}h${width}`, class: "regard-strip-zero" }),
  );
}

/** @param {Float64Array} products */
function largest(products) {
  const order = strongest(products.map(Math.abs), 5, { zeros: true });
  const said = order.map((place) => `${printedNumber(products[place], 2)} at ${place}`).join(", ");
  return element("p", { class: "regard-quiet", text: `Largest: ${said}.` });
}
