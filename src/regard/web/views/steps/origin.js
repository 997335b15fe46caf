/** Where q, k and v of a word come from: its vector x, with its position, times W; RoPE turns q and k. */
import { anglesOf, columnOfMatrix, columnsOfHead, pairOf, projectedTo, turned } from "../../maths/block.js";
import { pressable, segments, walkable } from "../../elements/controls.js";
import { drawn, element, replaced } from "../../elements/elements.js";
import { columnOf, digitsFor, largestOf, printedCount, printedNumber } from "../../maths/numbers.js";
import { asWritten, shapeOf } from "./product.js";
import { linearArithmetic } from "./stages.js";
import { makeOpener, vectorCell, vectorNumbers } from "./vector.js";

const DIALS = 8; // pairs of RoPE that are drawn
const CLOSE = 0.02; // of the largest number: a page holds 16 bits per number

/**
 * How a vector of a head came about.
 * @typedef {import("../../maths/block.js").Rotary} Rotary
 * @typedef {{letter: "q"|"k"|"v", x: ArrayLike<number>, input: ArrayLike<number>, isNormed: boolean, columns: ArrayLike<number>[],
 *   bias: ArrayLike<number>|null, norm: import("../../maths/block.js").Norm|null, projected: Float64Array, rotary: Rotary|null, position: number,
 *   count: number, result: ArrayLike<number>, transposed?: boolean}} Origin  columns are those of W in x · W; norm is that of queries and keys
 * @typedef {{parts: {name: string, vector: ArrayLike<number>}[], isNormed: boolean}} Made  how x came about: embedding, position
 */

/**
 * The origin of q, k or v by the weights of a block; null where it does not give the vector that the model used.
 * @param {import("../../maths/block.js").Block} block @param {{letter: "q"|"k"|"v", head: number, x: ArrayLike<number>,
 *   input: ArrayLike<number>, position: number, count: number, used: ArrayLike<number>}} of
 * @returns {Origin|null}
 */
export function originOf(block, { letter, head, x, input, position, count, used }) {
  const matrix = block.weight(letter);
  if (!matrix) return null;
  const [first, last] = columnsOfHead(block, letter, head);
  const projected = projectedTo(block, letter, head, input);
  const rotary = letter === "v" ? null : block.rotary;
  const result = rotary ? turned(projected, position, rotary, count) : projected;
  const off = largestOf(result.map((one, place) => one - used[place]));
  if (result.length !== used.length || off > CLOSE * Math.max(1, largestOf(used))) return null;
  const columns = Array.from({ length: last - first }, (_, place) => columnOfMatrix(matrix, first + place));
  const biases = block.bias(letter);
  const bias = biases && Array.from(biases).slice(first, last);
  const norm = letter === "v" ? null : block.norm(`${letter}_norm`);
  return { letter, x, input, isNormed: block.normFirst, columns, bias, norm, projected, rotary, position, count, result };
}

/**
 * The origin in a small example: W and embeddings as edited.
 * @param {import("./model.js").Numbers} numbers @param {"q"|"k"|"v"} letter @param {number} head @param {number} place
 * @param {ArrayLike<number>} result @returns {Origin}
 */
export function originOfNumbers(numbers, letter, head, place, result) {
  const x = numbers.embedding[place];
  const projected = Float64Array.from(result);
  const bias = numbers[`b_${letter}`]?.[head] ?? null;
  const columns = Array.from(result, (_, at) => columnOf(numbers[`w_${letter}`][head], at));
  return { letter, x, input: x, isNormed: false, columns, bias, norm: null, projected, rotary: null, position: place, count: 0, result };
}

/** One number of x · W. @param {Origin} origin @param {number} place */
function projectionArithmetic({ letter, columns, input, bias, norm, isNormed, projected, transposed = false }, place) {
  const names = { x: isNormed ? "norm(x)" : "x", column: asWritten(`column ${place} of W_${letter.toUpperCase()}`, transposed) };
  const product = linearArithmetic(input, columns[place], bias?.[place], names);
  return norm ? element("div", {}, product, element("p", { class: "regard-formula", text: `${letter}, normed: ${printedNumber(projected[place], 3)}` })) : product;
}

/** One number of a head's vector: turned by RoPE, or x · W. @param {Origin} origin @param {number} place */
export function vectorArithmetic(origin, place) {
  return origin.rotary ? turnArithmetic(origin, place) : projectionArithmetic(origin, place);
}

/** @param {Origin} origin @param {number} place */
function turnArithmetic(origin, place) {
  const { rotary, projected, position, count, result } = /** @type {Origin & {rotary: Rotary}} */ (origin);
  const angles = anglesOf(position, rotary, count);
  const pair = angles.findIndex((/** @type {number} */ _, /** @type {number} */ at) => pairOf(at, rotary).includes(place));
  if (pair < 0) return projectionArithmetic(origin, place);
  const [a, b] = pairOf(pair, rotary);
  const [u, w] = [projected[a], projected[b]].map((one) => printedNumber(one, 3));
  const angle = printedNumber(angles[pair], 3);
  const said = place === a ? `${u} · cos ${angle} − ${w} · sin ${angle}` : `${w} · cos ${angle} + ${u} · sin ${angle}`;
  return element(
    "div",
    {},
    element("p", { class: "regard-subtitle", text: `Position ${position} turns the numbers ${a} and ${b} by ${angle} radians` }),
    element("p", { class: "regard-formula", text: `${said}${rotary.factor === 1 ? "" : `, × ${rotary.factor}`} = ${printedNumber(result[place], 3)}` }),
    projectionArithmetic(origin, place),
  );
}

/** The panel. @param {() => void} again */
export function makeOrigin(again) {
  /** @type {"q"|"k"|"v"} */
  let letter = "q";
  const chain = element("div", { class: "regard-origin-chain", role: "listbox", "aria-label": "Vectors: choose one for its numbers" });
  const opener = makeOpener(chain, again);
  const opened = element("div", { class: "regard-origin-opened" });
  const dials = element("div", { class: "regard-origin-dials" });
  const choice = segments(
    "Vector",
    /** @type {const} */ (["q", "k", "v"]).map((value) => ({ value, text: value, title: `W_${value.toUpperCase()}` })),
    letter,
    (value) => {
      letter = value;
      opener.close();
      again();
    },
  );
  const el = element("section", { class: "regard-origin", "aria-label": "From x to q, k and v", hidden: true }, chain, dials, opened);

  const options = () => /** @type {HTMLElement[]} */ ([...chain.querySelectorAll("[role=option]")]);
  walkable(chain, options);
  pressable(chain);

  /** @param {string} word @param {(letter: "q"|"k"|"v") => Origin|null} of @param {Made} made */
  function show(word, of, made) {
    const origin = of(letter);
    el.hidden = !origin;
    if (!origin) return;
    const name = letter.toUpperCase();
    const { transposed = false } = origin;
    const shape = shapeOf(printedCount(origin.x.length), printedCount(origin.columns.length), transposed);
    const bias = origin.bias && largestOf(origin.bias) > 0 ? ` + b_${name}` : "";
    /** @type {{key: string, label: string, vector: ArrayLike<number>, before: string, arithmetic: ((place: number) => Element)|null}[]} */
    const cells = made.parts.map(({ name: label, vector }, place) => ({ key: `made-${place}`, label, vector, before: place ? "+" : "", arithmetic: null }));
    const equals = !made.parts.length ? "" : made.isNormed ? "→ norm →" : "=";
    cells.push({ key: "x", label: made.parts.length ? "x" : `x of ${word}`, vector: origin.x, before: equals, arithmetic: null });
    if (origin.isNormed) cells.push({ key: "input", label: "norm(x)", vector: origin.input, before: "→", arithmetic: null });
    cells.push({
      key: "projected",
      label: origin.rotary ? "before position" : letter,
      vector: origin.projected,
      before: `${asWritten(`× W_${name}`, transposed)} (${transposed ? "W " : ""}${shape})${bias} ${origin.norm ? "→ norm →" : "="}`,
      arithmetic: (place) => projectionArithmetic(origin, place),
    });
    const turn = `turned by position ${origin.position} (RoPE) →`;
    const turnedBy = (/** @type {number} */ place) => vectorArithmetic(origin, place);
    if (origin.rotary) cells.push({ key: "turned", label: letter, vector: origin.result, before: turn, arithmetic: turnedBy });
    const shown = cells.map(({ key, label, vector, before }) => {
      const about = { name: label, top: largestOf(vector), digits: digitsFor(vector), opens: { opener, key }, isOption: true };
      const size = element("span", { class: "regard-quiet", text: `${label} (1 × ${printedCount(vector.length)})` });
      const cell = element("div", { class: "regard-origin-cell", "data-origin": key }, size, vectorCell(vector, about));
      return [before ? element("span", { class: "regard-origin-operator", text: before }) : null, cell];
    });
    replaced(chain, shown);
    options().forEach((option, place) => (option.tabIndex = place ? -1 : 0));
    const found = cells.find(({ key }) => opener.isOpen(key));
    replaced(opened, found ? vectorNumbers(found.vector, found.label, found.arithmetic) : []);
    replaced(dials, origin.rotary ? dialsOf(origin, origin.rotary) : []);
  }

  return { el, choice: choice.el, show };
}

/** Pairs of RoPE as arrows: before (thin) and after. @param {Origin} origin @param {Rotary} rotary */
function dialsOf({ projected, result, position, count }, rotary) {
  const angles = anglesOf(position, rotary, count);
  const shown = Array.from({ length: Math.min(DIALS, angles.length) }, (_, at) => Math.floor((at * angles.length) / Math.min(DIALS, angles.length)));
  const [size, reach] = [52, 21];
  const parts = shown.map((pair) => {
    const [a, b] = pairOf(pair, rotary);
    const tip = (/** @type {ArrayLike<number>} */ of) => {
      const long = Math.hypot(of[a], of[b]) || 1;
      return [size / 2 + (reach * of[a]) / long, size / 2 - (reach * of[b]) / long];
    };
    const [[x0, y0], [x1, y1]] = [tip(projected), tip(result)];
    const turns = angles[pair] / (2 * Math.PI);
    const said = `numbers ${a} and ${b}: ${printedNumber(angles[pair], 2)} radians, ${printedNumber(turns, 2)} turns`;
    return element(
      "figure",
      { title: said },
      drawn(
        "svg",
        { viewBox: `0 0 ${size} ${size}`, width: size, height: size, role: "img", "aria-label": said },
        drawn("circle", { cx: size / 2, cy: size / 2, r: reach, class: "regard-dial-rim" }),
        drawn("path", { d: `M${size / 2} ${size / 2}L${x0.toFixed(1)} ${y0.toFixed(1)}`, class: "regard-dial-before" }),
        drawn("path", { d: `M${size / 2} ${size / 2}L${x1.toFixed(1)} ${y1.toFixed(1)}`, class: "regard-dial-after" }),
        drawn("circle", { cx: x1.toFixed(1), cy: y1.toFixed(1), r: 2.6, class: "regard-dial-tip" }),
      ),
      element("figcaption", { text: `${printedNumber(turns, Math.abs(turns) < 0.1 ? 3 : 1)} turns` }),
    );
  });
  return [element("p", { class: "regard-quiet", text: `RoPE turns each pair of numbers by position × frequency, so that q · k depends on the distance between words. ${shown.length} of ${angles.length} pairs, before (thin) and after:` }), element("div", { class: "regard-dials" }, parts)];
}
