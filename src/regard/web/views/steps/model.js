/**
 * One head for one query, step by step, with the changes of "What if". Pure functions.
 *
 * @typedef {ArrayLike<number>} Vector
 * @typedef {{query: Vector, keys: Vector[], values: Vector[]|null, scale: number, softcap?: number|null,
 *   bias?: Vector|null, visible?: ArrayLike<number|boolean>|null, sink?: number|null, own: number|null}} Given
 * @typedef {{divisor: number|null, temperature: number, mask: "model"|"none"|"causal"}} Changes
 * @typedef {{score: Float64Array, scaled: Float64Array, capped: Float64Array|null, biased: Float64Array|null,
 *   masked: Float64Array, weight: Float64Array, weighted: Float64Array[]|null, output: Float64Array|null,
 *   visible: boolean[]}} Steps
 */
import { scoreStages } from "../../attention.js";
import { strongest } from "../../links.js";
import { dot, lengthOf, printedNumber, projected, weightedSum } from "../../numbers.js";

/** @type {Changes} */
export const UNCHANGED = Object.freeze({ divisor: null, temperature: 1, mask: "model" });

/** @param {Changes} changes */
export function isChanged({ divisor, temperature, mask }) {
  return divisor !== null || temperature !== 1 || mask !== "model";
}

/**
 * score → scaled → capped → biased → masked → weight → weighted value → output.
 * @param {Given} given
 * @param {Changes} [changes]
 * @returns {Steps}
 */
export function stepsOf(given, changes = UNCHANGED) {
  const { query, keys, values, softcap, bias, sink } = given;
  const scale = changes.divisor === null ? given.scale : 1 / changes.divisor;
  const visible = keys.map((_, key) => isVisible(given, changes, key));
  const score = Float64Array.from(keys, (key) => dot(query, key));
  const stages = scoreStages(score, { scale, softcap, bias, visible, sink, temperature: changes.temperature });
  const { weight } = stages;
  return {
    ...stages,
    visible,
    weighted:
      values &&
      values.map((value, key) => Float64Array.from(value, (one) => (weight[key] === 0 ? 0 : one * weight[key]))),
    output: values && weightedSum(weight, values),
  };
}

/** @param {Given} given @param {Changes} changes @param {number} key */
function isVisible({ visible, own }, { mask }, key) {
  if (mask === "none") return true;
  if (mask === "causal") return own === null || key <= own;
  return visible ? Boolean(visible[key]) : true;
}

/**
 * Visible keys, from the kind of mask alone.
 * @param {{causal?: boolean, window?: number|null}} description @param {number|null} own @param {number} count
 */
export function visibleKeys({ causal, window }, own, count) {
  return Array.from(
    { length: count },
    (_, key) => !causal || own === null || (key <= own && (!window || key > own - window)),
  );
}

/**
 * Queries, keys and values of a head from embeddings and matrices: q = W_q · e + b.
 * @typedef {{embedding: number[][], w_q: number[][][], w_k: number[][][], w_v: number[][][], w_o: number[][]|null,
 *   b_q?: number[][]|null, b_k?: number[][]|null, b_v?: number[][]|null, b_o?: number[]|null}} Numbers
 * @param {Numbers} numbers
 * @param {number} head
 */
export function projectedHead(numbers, head) {
  const through = (/** @type {number[][]} */ weight, /** @type {number[]|undefined} */ bias) =>
    numbers.embedding.map((row) => projected(weight, row).map((one, place) => one + (bias?.[place] ?? 0)));
  return {
    queries: through(numbers.w_q[head], numbers.b_q?.[head]),
    keys: through(numbers.w_k[head], numbers.b_k?.[head]),
    values: through(numbers.w_v[head], numbers.b_v?.[head]),
  };
}

/**
 * The outputs of all heads concatenated; those of silenced heads are zeros.
 * @param {Vector[]} outputs
 * @param {Set<number>} silenced
 */
export function concatenatedOf(outputs, silenced) {
  return Float64Array.from(
    outputs.flatMap((output, head) => Array.from(output, (one) => (silenced.has(head) ? 0 : one))),
  );
}

/**
 * At most this many keys: the strongest and the query's own, in text order.
 * @param {Vector} weights @param {number} most @param {number|null} own
 */
export function keysToShow(weights, most, own) {
  if (weights.length <= most) return Array.from({ length: weights.length }, (_, key) => key);
  const order = strongest(weights, most, { zeros: true });
  const chosen = new Set(order);
  if (own !== null && own < weights.length && !chosen.has(own)) {
    chosen.delete(order[most - 1]);
    chosen.add(own);
  }
  return [...chosen].sort((one, other) => one - other);
}

/** @param {ArrayLike<number>} numbers */
export function totalOf(numbers) {
  let sum = 0;
  for (let place = 0; place < numbers.length; place++) sum += numbers[place];
  return sum;
}

/** The keys and values at these positions. @param {Given} given @param {number[]} places */
export function pickedGiven(given, places) {
  const some = (/** @type {any} */ list) => list && places.map((place) => list[place]);
  return { ...given, keys: some(given.keys), values: some(given.values) };
}

/** Every step at these positions. @param {Steps} steps @param {number[]} places */
export function pickedSteps({ output, ...lists }, places) {
  const some = (/** @type {any} */ list) => {
    if (!list) return null;
    return Array.isArray(list) ? places.map((place) => list[place]) : Float64Array.from(places, (place) => list[place]);
  };
  const picked = Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, some(list)]));
  return /** @type {Steps} */ ({ ...picked, output });
}

/** The column heading of the scaled scores. @param {Given} given @param {number|null} divisor */
export function headingOf(given, divisor) {
  if (divisor !== null) return `score/${printedNumber(divisor, 2)}`;
  const isRoot = Math.abs(given.scale * given.scale * given.query.length - 1) < 1e-5;
  return isRoot ? "score/√d_k" : `score × ${Number(given.scale.toPrecision(3))}`;
}

/** @param {string} word @param {number} size */
export function titleOfSteps(word, size) {
  const root = Math.sqrt(size);
  return `Query ${word}: d_k = ${size}, √d_k = ${printedNumber(root, Number.isInteger(root) ? 0 : 2)}`;
}

/**
 * How much a change moved weights and output.
 * @param {Steps} before
 * @param {Steps} after
 */
export function saidOfChange(before, after) {
  const moved = totalOf(after.weight.map((one, key) => Math.abs(one - before.weight[key]))) / 2;
  const said = `${printedNumber(100 * moved, 0)} % of the weight moved`;
  const [was, is] = [before.output, after.output];
  if (!was || !is) return `${said}.`;
  const change = printedNumber(lengthOf(is.map((one, place) => one - was[place])), 2);
  return `${said}; the output moved by ${change} (its length was ${printedNumber(lengthOf(was), 2)}).`;
}

/** The table for export. @param {import("./table.js").Shown} shown @param {string} title */
export function stepsTable({ given, steps, words, own, heading }, title) {
  const mine = (/** @type {number} */ row, /** @type {any} */ vector) =>
    row === (own ?? 0) && vector ? Array.from(vector) : null;
  const { values } = given;
  const { weighted } = steps;
  const sums = weighted ? ["softmax × v", "sum"] : [];
  return {
    title,
    columns: ["Word", "q", "k", ...(values ? ["v"] : []), "score", heading, "softmax", ...sums],
    rows: words.map((word, row) => [
      word,
      mine(row, given.query),
      Array.from(given.keys[row]),
      ...(values ? [Array.from(values[row])] : []),
      steps.score[row],
      steps.scaled[row],
      steps.weight[row],
      ...(weighted ? [Array.from(weighted[row]), mine(row, steps.output)] : []),
    ]),
  };
}
