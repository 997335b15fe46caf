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
import { rowState, scoreStages } from "../../maths/attention.js";
import { PRODUCTS, asWritten, transposeOf } from "./product.js";
import { strongest } from "../../maths/links.js";
import { dot, lengthOf, printedNumber, printedWeight, projected, weightedSum } from "../../maths/numbers.js";

/** @type {Changes} */
export const UNCHANGED = Object.freeze({ divisor: null, temperature: 1, mask: "model" });

/** @param {Changes} changes */
export function isChanged({ divisor, temperature, mask }) {
  return divisor !== null || temperature !== 1 || mask !== "model";
}

/**
 * score → scaled → capped → biased → masked → weight → weighted value → output.
 * @param {Given} given @param {Changes} [changes]
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
 * Queries, keys and values of a head from embeddings and matrices: q = x · W_q + b. W_q is (width, head_dim), a row per
 * number of x.
 * @typedef {{embedding: number[][], w_q: number[][][], w_k: number[][][], w_v: number[][][], w_o: number[][]|null,
 *   b_q?: number[][]|null, b_k?: number[][]|null, b_v?: number[][]|null, b_o?: number[]|null}} Numbers
 * @param {Numbers} numbers
 * @param {number} head
 */
export function projectedHead(numbers, head) {
  const through = (/** @type {number[][]} */ matrix, /** @type {number[]|undefined} */ bias) =>
    numbers.embedding.map((x) => projected(x, matrix, bias));
  return {
    queries: through(numbers.w_q[head], numbers.b_q?.[head]),
    keys: through(numbers.w_k[head], numbers.b_k?.[head]),
    values: through(numbers.w_v[head], numbers.b_v?.[head]),
  };
}

/**
 * The outputs of all heads concatenated; those of silenced heads are zeros.
 * @param {Vector[]} outputs @param {Set<number>} silenced
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

/** @param {string} word @param {number} size @param {number|null} [head] of several */
export function titleOfSteps(word, size, head = null) {
  const root = Math.sqrt(size);
  const which = head === null ? "" : `, head ${head}`;
  return `Query ${word}${which}: d_k = ${size}, √d_k = ${printedNumber(root, Number.isInteger(root) ? 0 : 2)}`;
}

/** How much a change moved weights and output. @param {Steps} before @param {Steps} after */
export function saidOfChange(before, after) {
  const moved = totalOf(after.weight.map((one, key) => Math.abs(one - before.weight[key]))) / 2;
  const said = `${printedNumber(100 * moved, 0)} % of the weight moved`;
  const [was, is] = [before.output, after.output];
  if (!was || !is) return `${said}.`;
  const change = printedNumber(lengthOf(is.map((one, place) => one - was[place])), 2);
  return `${said}; the output moved by ${change} (its length was ${printedNumber(lengthOf(was), 2)}).`;
}

/**
 * What a change says in the heading of each column that it changes.
 * @param {Changes} changes @param {boolean} isEdited
 * @returns {Record<string, string|null>}
 */
export function labelsOf({ divisor, temperature, mask }, isEdited) {
  const softmax = [
    temperature === 1 ? null : `at temperature ${printedNumber(temperature, 2)}`,
    mask === "model" ? null : mask === "causal" ? "with a causal mask" : "without a mask",
  ].filter(Boolean);
  const isMoved = divisor !== null || softmax.length > 0 || isEdited;
  const changed = isMoved ? "changed" : null;
  const edited = isEdited ? "edited" : null;
  return { q: edited, k: edited, v: edited, score: edited, weight: softmax.length ? softmax.join(", ") : changed, weighted: changed, sum: changed };
}

/**
 * What was changed, for exports: "scores divided by 1, at temperature 2".
 * @param {Changes} changes @param {number[]} silenced heads @param {boolean} isEdited numbers or words
 */
export function saidOfEdits({ divisor, temperature, mask }, silenced, isEdited) {
  return [
    isEdited ? "vectors, matrices or words" : null,
    divisor === null ? null : `scores divided by ${printedNumber(divisor, 2)}`,
    temperature === 1 ? null : `temperature ${printedNumber(temperature, 2)}`,
    mask === "model" ? null : mask === "causal" ? "a causal mask" : "without a mask",
    silenced.length ? `silenced head${silenced.length > 1 ? "s" : ""} ${silenced.join(", ")}` : null,
  ]
    .filter(Boolean)
    .join(", ");
}

/**
 * How the softmax computes a weight, written out.
 * @param {Steps} steps @param {{scale: number, sink?: number|null}} given @param {Changes} changes
 */
export function softmaxFormula({ masked, weight }, { sink }, { temperature }) {
  const { max, sum } = rowState(masked, { factor: 1 / temperature, sink });
  const by = temperature === 1 ? "" : ` ÷ ${printedNumber(temperature, 2)}`;
  return (/** @type {number} */ row) => {
    if (masked[row] === -Infinity) return "masked: e^(−∞) = 0";
    const power = weight[row] * sum;
    const inside = `(${printedNumber(masked[row], 2)} − ${max < 0 ? `(${printedNumber(max, 2)})` : printedNumber(max, 2)})${by}`;
    const printed = (/** @type {number} */ one) => (one >= 0.001 || one === 0 ? printedNumber(one, 3) : printedWeight(one));
    return `e^${by ? `(${inside})` : inside} ÷ Σ = ${printed(power)} ÷ ${printed(sum)} = ${printed(weight[row])}; the largest score, ${printedNumber(max, 2)}, is subtracted from all, which changes no weight`;
  };
}

/**
 * The stages of the story, each with a sentence in the numbers that are shown.
 * @param {{given: Given, steps: Steps, words: string[], word: string, heading: string, own: number|null, hasOrigin: boolean,
 *   hasAfter: boolean, hasNext: boolean, writes: boolean, rotary: import("../../maths/block.js").Rotary|null, made: import("./origin.js").Made, transposed?: boolean}} shown
 */
export function stagesOf({ given, steps, words, word, heading, own, hasOrigin, hasAfter, hasNext, writes, rotary, made, transposed = false }) {
  const [best] = strongest(steps.weight, 1, { skip: (key) => key === own });
  const top = best ?? 0;
  const size = given.query.length;
  const two = (/** @type {number} */ number) => printedNumber(number, 2);
  const there = words.length === steps.weight.length ? `“${words[top]}”` : "the strongest key";
  const position = rotary
    ? { title: "position", say: () => `RoPE: the position of “${word}” turns its q and k, pair by pair. Turned by the same angle they would fit as before, so only the distance between words counts.` }
    : made.parts.length > 1
      ? { title: "+ position", say: () => `The embedding of “${word}” and the embedding of its position are added: the sum is x. Without it, the order of the words would make no difference.` }
      : null;
  return [
    position && made.parts.length > 1 ? { name: "position", ...position } : null,
    hasOrigin ? { name: "origin", title: asWritten("x · W_Q", transposed), say: () => `“${word}” is a vector x. The matrix W_Q turns it into its query q, ${size} numbers; W_K and W_V turn every word into its key k and value v.` } : null,
    position && rotary ? { name: "position", ...position } : null,
    { name: "score", title: "q · k", say: () => `The score of a word is q · k: multiply number by number and add. ${there} gets ${two(steps.score[top])}. Select a number to see how it is computed.` },
    { name: "scaled", title: heading.replace("score/", "÷ ").replace("score ×", "×"), say: () => `Every score is scaled: ${two(steps.score[top])} becomes ${two(steps.scaled[top])}. Sums of ${size} products are large, and softmax would put all weight on one word.` },
    { name: "weight", title: "softmax", say: () => `e to the power of each scaled score, divided by the sum: weights between 0 and 1 that add up to 1. ${there} gets ${two(steps.weight[top])}.` },
    steps.output ? { name: "sum", title: "Σ weight · v", say: () => `The output is the sum of all values v, each times its weight: mostly the value of ${there}.` } : null,
    hasAfter ? { name: "after", title: "W_O, residual, feed-forward", say: () => "The outputs of all heads are concatenated, mixed by W_O, and added to x; the feed-forward network then works on each word alone." } : null,
    hasNext ? { name: "next", title: writes ? "next token" : "later layers", say: () => writes ? "After the last layer, the vector is compared with every token of the vocabulary: probabilities of what comes next." : "The later layers do the same with the new vectors." } : null,
  ].filter((stage) => stage !== null);
}

/**
 * The table for export; a masked key has no weight.
 * @param {{given: Given, steps: Steps, words: string[], own: number|null, heading: string, changes: Changes}} shown
 * @param {string} title
 */
export function stepsTable({ given, steps, words, own, heading, changes }, title) {
  const mine = (/** @type {number} */ row, /** @type {Vector|null} */ vector) =>
    row === (own ?? 0) && vector ? Array.from(vector) : null;
  const { values } = given;
  const { capped, biased, weighted, visible } = steps;
  const stages = [...(capped ? [{ name: "capped", stage: capped }] : []), ...(biased ? [{ name: "+ bias", stage: biased }] : [])];
  const softmax = changes.temperature === 1 ? "softmax" : `softmax at temperature ${printedNumber(changes.temperature, 2)}`;
  return {
    title,
    columns: ["Word", "q", "k", ...(values ? ["v"] : []), "score", heading, ...stages.map(({ name }) => name), softmax, ...(weighted ? ["softmax × v", "sum"] : [])],
    rows: words.map((word, row) => [
      word,
      mine(row, given.query),
      Array.from(given.keys[row]),
      ...(values ? [Array.from(values[row])] : []),
      steps.score[row],
      steps.scaled[row],
      ...stages.map(({ stage }) => stage[row]),
      visible[row] ? steps.weight[row] : null,
      ...(weighted ? [visible[row] ? Array.from(weighted[row]) : null, mine(row, steps.output)] : []),
    ]),
  };
}

/**
 * What the steps start from, as the tables that `regard check` reads: settings, the keys that the query may not see, and
 * in a small example embeddings and W, as in q = x · W_q.
 * @param {{words: string[], query: string, heads: number, divisor: number|null, visible: boolean[], numbers: Numbers|null, transposed?: boolean}} from
 *   divisor  of the scores where it is not √d_k
 */
export function inputTables({ words, query, heads, divisor, visible, numbers, transposed = false }) {
  const settings = [];
  if (heads > 1) settings.push(["heads", heads]);
  if (divisor !== null) settings.push(["divisor", divisor]);
  if (numbers) settings.push(["product", PRODUCTS[Number(transposed)]]);
  /** @type {Table[]} */
  const found = settings.length ? [{ title: "Settings", columns: ["Setting", "value"], rows: settings }] : [];
  if (visible.includes(false))
    found.push({ title: "Mask: 1 where the query may see the key", columns: ["mask", ...words], rows: [[query, ...visible.map(Number)]] });
  if (!numbers) return found;
  const { embedding, w_o: last } = numbers;
  const letters = /** @type {const} */ (["q", "k", "v"]);
  const written = (/** @type {number[][]} */ matrix) => (transposed ? transposeOf(matrix) : matrix);
  const matrices = letters.map((letter) => written(embedding[0].map((_, row) => numbers[`w_${letter}`].flatMap((matrix) => matrix[row]))));
  const said = letters.map((letter, at) => `${asWritten(`${letter} = x · W_${letter}`, transposed)}, ${matrices[at].length} × ${matrices[at][0].length}`);
  const together = heads > 1 ? `; ${heads} heads, ${transposed ? "below each other in the rows" : "side by side in the columns"}` : "";
  found.push({ title: `Embeddings: ${embedding.length} × ${embedding[0].length}`, columns: ["Word", "x"], rows: words.map((word, row) => [word, embedding[row]]) });
  const table = (/** @type {string} */ title, /** @type {string[]} */ names, /** @type {number[][][]} */ some) =>
    found.push({ title, columns: ["Row", ...names], rows: some[0].map((_, row) => [row + 1, ...some.map((matrix) => matrix[row])]) });
  const names = letters.map((letter) => `W_${letter}`);
  if (matrices.every(({ length }) => length === matrices[0].length)) table(`${said.join("; ")}${together}`, names, matrices);
  else matrices.forEach((matrix, at) => table(`${said[at]}${together}`, [names[at]], [matrix]));
  if (last) {
    const matrix = written(last);
    table(`${asWritten("projected = concatenated · W_O", transposed)}, ${matrix.length} × ${matrix[0].length}`, ["W_O"], [matrix]);
  }
  return found;
}

/** The outputs of all heads, concatenated, and through W_O. @param {string} query @param {Vector[]} outputs @param {Vector|null} through */
export function outputTable(query, outputs, through) {
  const several = outputs.length > 1;
  const rows = outputs.map((output, head) => [`sum, head ${head}`, Array.from(output)]);
  if (several) rows.push(["concatenated", Array.from(concatenatedOf(outputs, new Set()))]);
  if (through) rows.push(["through W_O", Array.from(through)]);
  return { title: `${query}: ${several ? "all heads together" : "after W_O"}`, columns: ["Step", "vector"], rows };
}
