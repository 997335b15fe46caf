/**
 * A transformer, computed by the kernel: the named steps of `regard/layers/encoder.py` `observe()`, over the tokens of one
 * text. How the heads attend is an argument, as there.
 *
 * @typedef {import("./layers.js").Encoder} Encoder
 * @typedef {import("./layers.js").Layers} Layers
 * @typedef {import("./layers.js").Linear} Linear
 * @typedef {import("./layers.js").MultiHead} MultiHead
 * @typedef {import("./layers.js").Norm} Norm
 * @typedef {import("./layers.js").Rotary} Rotary
 *
 * normed       the input of the attention's projections: the tokens, normed first in pre-norm blocks
 * heads        the outputs of all heads, concatenated
 * projected    these through W_O; only with `separate`
 * attended     the tokens after the attention, its residual and its norm
 * feed_input   the input of the feed-forward
 * fed_forward  its output; only with `separate`
 * result       the tokens after the block
 * @typedef {"normed"|"heads"|"projected"|"attended"|"feed_input"|"fed_forward"|"result"} StepName
 * @typedef {{name: StepName, value: Tensor}} Step  (token, width)
 * @typedef {{cosines: Tensor, sines: Tensor}} Turns  (token, pair)
 *
 * The keys and values of a layer, (token, key head · size), with room for tokens that follow.
 * @typedef {{keys: Tensor, values: Tensor}} KeyValues
 *
 * What is changed in a layer: heads that write nothing, one head's divisor, temperature or mask, tokens that may not attend
 * to others, and heads whose outputs come from another text, (token, head · value_dim).
 * @typedef {{silenced?: number[], head?: {head: number, divisor: number|null, temperature: number, mask: "model"|"none"|"causal"}|null,
 *   blocked?: BlockedEdge|null, patched?: {heads: number[], outputs: Float32Array}|null}} LayerChange
 * @typedef {{queries: number[], keys: number[], heads: number[]}} BlockedEdge  heads: of the layer
 */
import { byHead, kernel, part } from "../engine/kernel.js";

/** activation(x · weightᵀ + bias) · times + residual. @param {Linear} linear @param {Tensor} x @param {{activation?: import("../engine/kernel.js").Activation, times?: Tensor, residual?: Tensor, output?: Tensor}} [how] */
export function linear({ weight, bias }, x, how = {}) {
  return kernel().linear({ x, weight, bias, ...how });
}

/** @param {Norm} norm @param {Tensor} x */
export function normed(norm, x) {
  return kernel().norm({ x, ...norm });
}

/**
 * The steps of the embedding: the tokens' vectors, + positions, normed; the last two only where the model has them.
 * @param {Layers} layers @param {number[]} ids @param {number} [first] the position of the first token
 * @param {Real} [type] that is computed with, here and in all blocks after
 * @returns {Generator<{name: "embedding"|"positioned"|"normed", value: Tensor}>}
 */
export function* embeddingSteps(layers, ids, first = 0, type = "f32") {
  const { embedding, positions, embeddingNorm, embeddingScale } = layers;
  let x = kernel().gather(embedding, ids, type);
  if (embeddingScale !== 1) x = multiplied(x, embeddingScale);
  yield { name: "embedding", value: x };
  if (positions) {
    x = added(x, kernel().gather(positions.weight, positionRows(positions, ids, first), type));
    yield { name: "positioned", value: x };
  }
  if (embeddingNorm) yield { name: "normed", value: normed(embeddingNorm, x) };
}

/** The rows of learned positions. With padding, as in RoBERTa, padding tokens have none. @param {{padding: number|null, weight: Tensor}} positions @param {number[]} ids @param {number} first */
function positionRows({ padding, weight }, ids, first) {
  let count = first;
  const rows = ids.map((id) => (padding === null ? count++ : id === padding ? padding : ++count + padding));
  const most = weight.shape[0];
  if (rows.some((row) => row >= most)) throw new Error(`There are learned positions 0 to ${most - 1}: shorten the text.`);
  return rows;
}

/** @param {Tensor} x @param {number} by */
function multiplied(x, by) {
  return kernel().tensor(x.type, x.shape, kernel().doubles(x).map((number) => number * by));
}

/**
 * The steps of a block, each as soon as it is computed.
 * @param {Encoder} block @param {Tensor} x (token, width) @param {(normed: Tensor) => Tensor} attend to the outputs of all heads
 * @param {{separate?: boolean}} [how] separate: W_O and the feed-forward before their residuals are added
 * @returns {Generator<Step>}
 */
export function* observe(block, x, attend, { separate = false } = {}) {
  const { attention, feedForward, norm1, norm2, normFirst } = block;
  const input = normFirst ? normed(norm1, x) : x;
  yield { name: "normed", value: input };
  const heads = attend(input);
  yield { name: "heads", value: heads };
  let after;
  if (separate || !attention.wo) {
    const projected = attention.wo ? linear(attention.wo, heads) : heads;
    if (separate) yield { name: "projected", value: projected };
    after = added(projected, x);
  } else {
    after = linear(attention.wo, heads, { residual: x });
  }
  const attended = normFirst ? after : normed(norm1, after);
  yield { name: "attended", value: attended };
  const fed = normFirst ? normed(norm2, attended) : attended;
  yield { name: "feed_input", value: fed };
  const { up, gate, down, activation } = feedForward;
  let hidden;
  if (gate) {
    const times = linear(up, fed);
    hidden = linear(gate, fed, { activation, times, output: times });
  } else {
    hidden = linear(up, fed, { activation });
  }
  let last;
  if (separate) {
    const output = linear(down, hidden);
    yield { name: "fed_forward", value: output };
    last = added(output, attended);
  } else {
    last = linear(down, hidden, { residual: attended });
  }
  yield { name: "result", value: normFirst ? last : normed(norm2, last) };
}

/** @param {Tensor} one @param {Tensor} other */
function added(one, other) {
  const sum = kernel().doubles(one);
  /** @type {Float32Array} */ (kernel().numbers(other)).forEach((number, place) => (sum[place] += number));
  return kernel().tensor(one.type, one.shape, sum);
}

/**
 * The queries of some tokens, (token, head · head_dim); their keys and values follow those that are cached.
 * @param {MultiHead} layer @param {Tensor} x normed @param {KeyValues} cache @param {number} place the position of the first token
 * @param {Turns|null} turns
 */
export function project(layer, x, cache, place, turns) {
  const { heads, keyHeads, headDim, qNorm, kNorm, rotary } = layer;
  const rows = x.shape[0];
  let queries = linear(layer.wq, x);
  const keys = part(cache.keys, 0, place, place + rows);
  linear(layer.wk, x, { output: keys });
  linear(layer.wv, x, { output: part(cache.values, 0, place, place + rows) });
  if (qNorm) queries = reshaped(normed(qNorm, reshaped(queries, [rows * heads, headDim])), queries.shape);
  if (kNorm) kernel().norm({ x: reshaped(keys, [rows * keyHeads, headDim]), ...kNorm, output: reshaped(keys, [rows * keyHeads, headDim]) });
  if (rotary && turns)
    for (const [tensor, count] of /** @type {[Tensor, number][]} */ ([[queries, heads], [keys, keyHeads]])) { // prettier-ignore
      const x = byHead(tensor, count);
      kernel().rotary({ x, ...turns, interleaved: rotary.interleaved, output: x });
    }
  return queries;
}

/** The same numbers as other rows. @param {Tensor} tensor contiguous @param {number[]} shape @returns {Tensor} */
function reshaped({ address, type }, [rows, width]) {
  return { address, type, shape: [rows, width], strides: [width, 1] };
}

/**
 * The outputs of all heads, concatenated, (token, head · value_dim).
 * @param {MultiHead} layer @param {Tensor} queries of `project` @param {KeyValues} cache @param {number} place
 * @param {LayerChange|null} [change]
 */
export function attendAll(layer, queries, cache, place, change = null) {
  const { heads, valueDim } = layer;
  const outputs = kernel().tensor(queries.type, [queries.shape[0], heads * valueDim]);
  const { scores, values } = scoresOf(layer, queries, cache, place);
  kernel().attend(scores, values, byHead(outputs, heads));
  if (change?.head) attendChanged(layer, queries, cache, place, change.head, outputs);
  if (change?.blocked) attendBlocked(layer, scores, values, change.blocked, outputs);
  for (const head of change?.silenced ?? []) setHead(outputs, head, valueDim, null);
  for (const head of change?.patched?.heads ?? []) setHead(outputs, head, valueDim, /** @type {NonNullable<LayerChange["patched"]>} */ (change?.patched).outputs);
  return outputs;
}

/** Some heads attend with an edge hidden by a mask: the softmax renormalises. @param {MultiHead} layer @param {import("../engine/kernel.js").Scores} scores @param {Tensor} values @param {BlockedEdge} blocked @param {Tensor} outputs */
function attendBlocked(layer, scores, values, blocked, outputs) {
  const [rows, keys] = [scores.queries.shape[1], scores.keys.shape[1]];
  const mask = kernel().tensor("u8", [1, rows, keys], allowedBy(blocked, rows, keys));
  for (const head of blocked.heads) {
    const keyHead = Math.floor((head * layer.keyHeads) / layer.heads);
    const ofHead = { ...scores, queries: part(scores.queries, 0, head, head + 1), keys: part(scores.keys, 0, keyHead, keyHead + 1), mask };
    kernel().attend(ofHead, part(values, 0, keyHead, keyHead + 1), part(byHead(outputs, layer.heads), 0, head, head + 1));
  }
}

/** 0 where an edge is blocked, (query, key). @param {{queries: number[], keys: number[]}} blocked @param {number} rows @param {number} count */
export function allowedBy({ queries, keys }, rows, count) {
  const allowed = new Uint8Array(rows * count).fill(1);
  for (const query of queries) for (const key of keys) allowed[query * count + key] = 0;
  return allowed;
}

/**
 * What decides the scores of some tokens, and the values that their heads see.
 * @param {MultiHead} layer @param {Tensor} queries (token, head · head_dim) @param {KeyValues} cache @param {number} place
 * @returns {{scores: import("../engine/kernel.js").Scores, values: Tensor}}
 */
function scoresOf({ heads, keyHeads, scale, softcap, causal, window }, queries, cache, place) {
  const rows = queries.shape[0];
  // Keys before the window of the first query are left out.
  const first = window === null ? 0 : Math.max(0, place - window);
  const [keys, values] = [cache.keys, cache.values].map((rowsOf) => byHead(part(rowsOf, 0, first, place + rows), keyHeads));
  const scores = { queries: byHead(queries, heads), keys, scale, softcap };
  if (!causal || rows === 1) return { scores, values }; // one token sees all that are there
  return { scores: { ...scores, ...visibleKeys(rows, place, window, first) }, values };
}

/** The first and last visible key of every query, counted from `from`. @param {number} rows @param {number} place @param {number|null} window @param {number} from */
function visibleKeys(rows, place, window, from) {
  const at = (/** @type {(position: number) => number} */ of) => kernel().tensor("i32", [rows], Int32Array.from({ length: rows }, (_, row) => of(place + row) - from));
  return { first: at((position) => (window === null ? from : Math.max(from, position - window))), last: at((position) => position + 1) };
}

/** One head attends with another divisor, temperature or mask. @param {MultiHead} layer @param {Tensor} queries @param {KeyValues} cache @param {number} place @param {NonNullable<LayerChange["head"]>} change @param {Tensor} outputs */
function attendChanged(layer, queries, cache, place, { head, divisor, temperature, mask }, outputs) {
  if (temperature !== 1 && layer.softcap) throw new Error("A temperature for scores with a softcap is not supported. Change the divisor instead.");
  const keyHead = Math.floor((head * layer.keyHeads) / layer.heads);
  const causal = mask === "causal" || (mask === "model" && layer.causal);
  const window = mask === "model" ? layer.window : null;
  const { scores, values } = scoresOf({ ...layer, causal, window }, queries, cache, place);
  const scale = (divisor === null ? layer.scale : 1 / divisor) / temperature;
  const changed = { ...scores, queries: part(scores.queries, 0, head, head + 1), keys: part(scores.keys, 0, keyHead, keyHead + 1), scale };
  kernel().attend(changed, part(values, 0, keyHead, keyHead + 1), part(byHead(outputs, layer.heads), 0, head, head + 1));
}

/** Zeros in place of one head's outputs, or those of another text. @param {Tensor} outputs @param {number} head @param {number} size @param {Float32Array|null} from */
function setHead(outputs, head, size, from) {
  const [rows, width] = outputs.shape;
  const numbers = /** @type {Float32Array} */ (kernel().numbers(outputs));
  for (let row = 0; row < rows; row++) {
    const [start, stop] = [row * width + head * size, row * width + (head + 1) * size];
    if (from) numbers.set(from.subarray(start, stop), start);
    else numbers.fill(0, start, stop);
  }
}

/** Cosines and sines for so many tokens from a position on, of a text of `count` tokens. @param {Rotary} rotary @param {number} first @param {number} rows @param {number} count @param {Real} type @returns {Turns} */
export function turnsOf({ frequencies, longFrequencies, longAfter, factor }, first, rows, count, type) {
  const speeds = longFrequencies && longAfter !== null && count > longAfter ? longFrequencies : frequencies;
  const turns = [Math.cos, Math.sin].map((of) => {
    const numbers = new Float64Array(rows * speeds.length);
    for (let row = 0, at = 0; row < rows; row++) for (const speed of speeds) numbers[at++] = of((first + row) * speed) * factor;
    return kernel().tensor(type, [rows, speeds.length], numbers);
  });
  return { cosines: turns[0], sines: turns[1] };
}

/** The logits of the token after each state. @param {Layers} layers @param {Tensor} states (token, width) after the last block */
export function nextLogits({ norm, head }, states) {
  if (!head) throw new Error("This model has no language-model head: it does not predict the next token.");
  return linear(head, norm ? normed(norm, states) : states);
}
