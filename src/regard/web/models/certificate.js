/**
 * How exact the numbers of a reading are, as `regard/reading/certificate.py` says it: some rows of every head, computed
 * again in double precision.
 *
 * @typedef {{row_sums: number, forbidden: number, output: number, rows: number, line: string}} Certificate
 *   row_sums: largest |row sum − 1|; forbidden: largest weight of a row on masked keys; output: largest difference between
 *   an output that the model used and its recomputation in float64
 */
import { byHead, kernel } from "../engine/kernel.js";
import { printedCount } from "../maths/numbers.js";
import { outputsInDouble } from "./forward.js";
import { headsFirst, rowsAt } from "../maths/rows.js";

const ROWS = 16; // queries of each head, evenly spaced from the first to the last

/** @param {import("./reading.js").Reading} reading @returns {Certificate} */
export function certify(reading) {
  const { count, model } = reading;
  const rows = [...new Set(Array.from({ length: ROWS }, (_, place) => Math.round((place * (count - 1)) / (ROWS - 1))))];
  const errors = { row_sums: 0, forbidden: 0, output: 0 };
  let checked = 0;
  model.layers.encoders.forEach(({ attention }, layer) => {
    const found = kernel().scope(() => errorsOf(reading, layer, rows));
    for (const name of /** @type {const} */ (["row_sums", "forbidden", "output"])) errors[name] = Math.max(errors[name], found[name]); // NaN stays NaN
    checked += rows.length * attention.heads;
  });
  return { ...errors, rows: checked, line: lineOf(errors, checked, model) };
}

/** @param {import("./reading.js").Reading} reading @param {number} layer @param {number[]} rows */
function errorsOf(reading, layer, rows) {
  const { heads, keyHeads, headDim, valueDim, scale, softcap } = reading.model.layers.encoders[layer].attention;
  const { queries, keys, values, outputs } = reading.layers[layer];
  const { count } = reading;
  const chosen = (/** @type {Float32Array} */ array, /** @type {number} */ size) => headsFirst(rowsAt(array, heads * size, rows), heads, size);
  const visible = reading.visible(layer);
  const ends = visible && {
    first: kernel().tensor("i32", [rows.length], rows.map((row) => visible.first[row])),
    last: kernel().tensor("i32", [rows.length], rows.map((row) => visible.last[row])),
  };
  const scoresIn = (/** @type {"f32"|"f64"} */ type) => ({
    queries: kernel().tensor(type, [heads, rows.length, headDim], chosen(queries, headDim)),
    keys: byHead(kernel().tensor(type, [count, keyHeads * headDim], keys), keyHeads),
    scale,
    softcap,
    ...ends,
  });
  const exact = kernel().doubles(kernel().attend(scoresIn("f64"), byHead(kernel().tensor("f64", [count, keyHeads * valueDim], values), keyHeads)));
  const weights = kernel().doubles(kernel().tile(scoresIn("f32"), "weight"));
  const used = chosen(outputs, valueDim);
  const errors = { row_sums: 0, forbidden: 0, output: 0 };
  exact.forEach((number, at) => (errors.output = Math.max(errors.output, Math.abs(number - used[at]))));
  for (let line = 0; line < heads * rows.length; line++) {
    const row = rows[line % rows.length];
    let [sum, hidden] = [0, 0];
    for (let key = 0; key < count; key++) {
      const weight = weights[line * count + key];
      sum += weight;
      if (visible && (key < visible.first[row] || key >= visible.last[row])) hidden += weight;
    }
    errors.row_sums = Math.max(errors.row_sums, Math.abs(sum - 1));
    errors.forbidden = Math.max(errors.forbidden, hidden);
  }
  return errors;
}

/** @param {{row_sums: number, forbidden: number, output: number}} errors @param {number} rows @param {import("./model.js").Model} model */
function lineOf({ row_sums, forbidden, output }, rows, model) {
  const line = `${printedCount(rows)} rows: sums within ${printedError(row_sums)} of 1, weight on masked keys ${forbidden === 0 ? "0" : printedError(forbidden)}, outputs within ${printedError(output)} of float64`;
  return `${line}; ${precisionOf(model)}`;
}

/** What rounding the weights changes. @param {import("./model.js").Model} model */
function precisionOf({ manifest: { precision, reference }, roundingError }) {
  if (reference === null) return precision === "float32" ? "weights in float32" : `weights as in the file (${precision})`;
  const bound = roundingError === null ? "" : `: outputs within ${printedError(roundingError)} of the float32 model`;
  return `weights rounded to ${precision}${bound}`;
}

/**
 * How far rounded weights move the outputs of a text, computed in double precision: the outputs of the float32 model come
 * with the weights. @param {import("./model.js").Model} model
 */
export function roundingErrorOf({ manifest: { reference }, tokeniser, layers, weights }) {
  if (reference === null) return null;
  const outputs = outputsInDouble(layers, tokeniser.encode(reference).ids);
  let largest = 0;
  outputs.forEach((numbers, layer) => {
    const { heads, valueDim } = layers.encoders[layer].attention;
    const expected = kernel().doubles(weights.tensor(`reference.${layer}`, [numbers.length / (heads * valueDim), heads * valueDim]));
    numbers.forEach((number, place) => (largest = Math.max(largest, Math.abs(number - expected[place]))));
  });
  return largest;
}

/** A size with one digit, as Python prints it: 4e-07. @param {number} error */
function printedError(error) {
  const [digits, exponent] = error.toExponential(0).split("e");
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
}
