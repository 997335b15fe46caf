/** How the numbers after the heads are computed: W_O, residual, norms, feed-forward. */
import { kernel } from "../../engine/kernel.js";
import { columnOfMatrix, normed, plus } from "../../maths/block.js";
import { element } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";
import { asWritten } from "./product.js";
import { scoreBars } from "./score.js";

/** @typedef {(place: number) => Element|string} Arithmetic */

/** @param {number} number */
const three = (number) => (number < 0 ? `(${printedNumber(number, 3)})` : printedNumber(number, 3));

/**
 * @param {import("../../maths/block.js").Block} block @param {ArrayLike<number>} x
 * @param {ArrayLike<number>} concatenated @param {{[stage: string]: ArrayLike<number>}} stages of `afterHeads`
 * @returns {Record<string, Arithmetic>}
 */
export function stageArithmetic(block, x, concatenated, stages, transposed = false) {
  const { projected, attended, hidden, fed_forward: fed, result } = stages;
  const summed = (/** @type {string} */ name, /** @type {ArrayLike<number>} */ one, /** @type {ArrayLike<number>} */ other, /** @type {ArrayLike<number>} */ found) => {
    const norm = block.normFirst ? null : block.norm(name);
    const sum = plus(one, other);
    return (/** @type {number} */ place) => {
      const plain = `${three(one[place])} + ${three(other[place])} = ${three(sum[place])}`;
      return norm ? `${plain}; normed: ${normText(norm, sum, place)}` : plain.replace(/= .*/, `= ${three(found[place])}`);
    };
  };
  /** @type {Record<string, Arithmetic>} */
  const found = { attended: summed("norm_1", x, projected, attended) };
  const w = block.weight("o");
  if (w) found.projected = (place) => linearArithmetic(concatenated, columnOfMatrix(w, place), block.bias("o")?.[place], { x: "concatenated", column: asWritten(`column ${place} of W_O`, transposed) });
  const down = block.weight("down");
  if (!down || !hidden) return found;
  found.fed_forward = (place) => linearArithmetic(hidden, columnOfMatrix(down, place), block.bias("down")?.[place], { x: "hidden", column: asWritten(`column ${place} of W_2`, transposed) });
  found.result = summed("norm_2", attended, fed, result);
  return found;
}

/** One number of x · W + b. @param {ArrayLike<number>} x @param {ArrayLike<number>} column @param {number|undefined} bias @param {{x: string, column: string}} names */
export function linearArithmetic(x, column, bias, names) {
  const shift = bias ? element("p", { class: "regard-formula", text: `+ b = ${three(bias)}` }) : null;
  return element("div", {}, scoreBars(x, column, { query: names.x, key: names.column, letters: ["x", "w"] }), shift);
}

/** @param {import("../../maths/block.js").Norm} norm @param {ArrayLike<number>} sum @param {number} place */
function normText(norm, sum, place) {
  const { mean, size } = kernel().moments(sum, norm);
  const shift = norm.bias?.[place];
  const centred = norm.kind === "layer" ? `(${three(sum[place])} − ${three(mean)})` : three(sum[place]);
  return `${centred} ÷ ${three(size)} × ${three(norm.weight[place])}${shift ? ` + ${three(shift)}` : ""} = ${three(normed(sum, norm)[place])}`;
}
