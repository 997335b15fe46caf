/** A source for views, answered by a model in the page: the same answers as `regard/viewer/queries.py` gives. */
import { kernel, part, transposed } from "../engine/kernel.js";
import { dot, rowOf } from "../maths/numbers.js";
import { framed } from "../sources/frames.js";
import { headStatistics, layerFrom, pooledWeights, weightsOfRows } from "../sources/layer.js";
import { pauses } from "../sources/pause.js";
import { weightAnswers } from "../sources/weight_answers.js";
import { describe } from "./description.js";
import { blockedIn } from "./model.js";
import { lensOf, likelihoodIn, logitsAfter, otherText, patchingOf } from "./patching.js";
import { rowsAt } from "../maths/rows.js";
import { largestFirst } from "./sampler.js";
import { allowedBy, embeddingSteps, observe } from "./transformer.js";

/**
 * @typedef {import("./reading.js").Reading} Reading
 * @typedef {import("./model.js").Changes} Changes
 * @typedef {import("../sources/weight_answers.js").Answer} Answer
 */

const FEW = 128; // tokens up to which the arrays of all layers stay by head
const NAMED = 200; // of the most likely tokens, whose texts are sent
const LONGEST_FLOW = 2048; // tokens of a text whose layers are computed again
const MOST_TEXTS = 64;
const LONGEST_TEXT = 4000; // characters
const MOST_CELLS = 64; // of a thumbnail, along each side

/** @param {Reading} reading @returns {Source & {description: Description}} */
export function modelSource(reading) {
  const { model, count } = reading;
  const { encoders } = model.layers;
  /** @type {Map<number, import("../sources/layer.js").Layer>} */
  const layers = new Map();
  /** @type {{text: string, reading: Promise<Reading>}|null} the text that activations were taken from last */
  let other = null;
  const grams = keptBy((/** @type {number} */ layer) => valueGrams(reading, layer));
  const matrices = keptBy(() => matricesOverLayers(encoders.map(({ attention }) => attention.heads), count, layerOf));

  /** @param {number} layer @returns {import("../sources/layer.js").Layer} */
  function layerOf(layer) {
    const kept = layers.get(layer);
    if (kept) return kept;
    if (!encoders[layer]) throw new Error(`The layer is ${layer}; expected 0 to ${encoders.length - 1}.`);
    if (count > FEW) layers.clear();
    const gram = (/** @type {number} */ head) => grams(layer).subarray((head * grams(layer).length) / encoders[layer].attention.heads, ((head + 1) * grams(layer).length) / encoders[layer].attention.heads);
    layers.set(layer, { ...layerFrom(reading.layerFrame(layer)), gram });
    return layerOf(layer);
  }

  const description = describe(reading, layerOf);
  /** @type {Record<string, Answer>} */
  const answers = {
    ...weightAnswers({ description, layerOf, matrixOf: async (measure) => (await matrices(0))[measure] }),
    statistics: (_, signal) => statisticsOf(reading, layerOf, signal),
    thumbnails: ({ layer = 0, shape = [MOST_CELLS, MOST_CELLS] }, signal) => thumbnailsOf(layerOf(layer), shape, signal),
    value_grams({ layer = 0 }) {
      const { heads } = encoders[layer].attention;
      return { header: { layer }, arrays: { gram: framed(grams(layer), [heads, grams(layer).length / heads]) } };
    },
    architecture: () => ({
      header: { model: model.name, stages: model.manifest.stages, parameters: model.manifest.parameters, width: model.width, tokens: count, longest: model.manifest.longest, place: null },
      arrays: {},
    }),
    steps: ({ layer = 0, query }) => stepsOf(reading, layer, query),
    states: ({ layer, tokens }) => statesOf(reading, layer ?? null, tokens),
    embedding: ({ tokens }) => embeddingOf(reading, tokens),
    block: ({ layer = 0 }) => blockOf(model.layers.encoders[layer]),
    next: ({ query = count - 1 }) => nextToken(reading, query, reading.state(encoders.length, query)),
    likelihood: (_, signal) => likelihoodOf(reading, signal),
    flow: ({ query, weights = false, ...changes }, signal) => flowOf(reading, changes, query, { weights, description }, signal),
    lens: (_, signal) => lensOf(reading, signal),
    patching: async ({ text, by = "head", layer = 0, query }, signal) => {
      const from = /** @type {{text: string, reading: Promise<Reading>}} */ (other?.text === text ? other : { text, reading: otherText(reading, text, signal) });
      other = from;
      const there = await from.reading.catch((/** @type {Error} */ error) => {
        if (other === from) other = null; // cancelled, or of another length: the next request reads it again
        throw error;
      });
      return patchingOf(reading, there, { by, layer, query }, signal);
    },
    embed: async ({ texts }, signal) => {
      if (!Array.isArray(texts) || !texts.length || texts.length > MOST_TEXTS || texts.some((text) => text.length > LONGEST_TEXT))
        throw new Error(`Vectors are computed of 1 to ${MOST_TEXTS} texts of at most ${LONGEST_TEXT} characters.`);
      return { header: { model: model.name }, arrays: { vector: framed(await model.embed(texts, { signal }), [texts.length, model.width]) } };
    },
  };
  return {
    description,
    async ask(kind, parameters = {}, { signal } = {}) {
      signal?.throwIfAborted();
      const answer = Object.hasOwn(answers, kind) && (await answers[kind](parameters, signal));
      if (!answer) throw new Error(`A model in the page does not answer “${kind}”.`);
      signal?.throwIfAborted();
      return answer;
    },
  };
}

/** A function whose results are kept. @template Result @param {(of: number) => Result} compute @returns {(of: number) => Result} */
function keptBy(compute) {
  /** @type {Map<number, Result>} */
  const kept = new Map();
  return (of) => {
    if (!kept.has(of)) kept.set(of, compute(of));
    return /** @type {Result} */ (kept.get(of));
  };
}

/** Means per head, (layer, head); NaN for heads that a layer does not have. @param {Reading} reading @param {(layer: number) => import("../sources/layer.js").Layer} layerOf @param {AbortSignal} [signal] */
async function statisticsOf({ model, sinks }, layerOf, signal) {
  const { encoders } = model.layers;
  const most = Math.max(...encoders.map(({ attention }) => attention.heads));
  const shape = [encoders.length, most];
  const names = /** @type {const} */ (["entropy", "distance", "sinks", "peak"]);
  const arrays = Object.fromEntries(names.map((name) => [name, framed(new Float32Array(encoders.length * most).fill(NaN), shape)]));
  for (const [layer, { attention }] of encoders.entries())
    for (let head = 0; head < attention.heads; head++) {
      const means = await headStatistics(layerOf(layer), head, sinks, 0, signal);
      for (const name of names) arrays[name].data[layer * most + head] = means[name];
    }
  return { header: { sampled: null, patterns: null }, arrays };
}

/** @param {import("../sources/layer.js").Layer} layer @param {number[]} shape @param {AbortSignal} [signal] */
async function thumbnailsOf(layer, shape, signal) {
  const cells = shape.map((size) => Math.min(size, layer.count));
  const region = { rows: [0, layer.rows], columns: [0, layer.count], shape: cells };
  const maps = new Float32Array(layer.heads.length * cells[0] * cells[1]);
  for (const head of layer.heads) maps.set(await pooledWeights(layer, head, region, signal), head * cells[0] * cells[1]);
  return { header: { sampled: null }, arrays: { weight: framed(maps, [layer.heads.length, ...cells]) } };
}

/** Products of v · W_O of the tokens of each word, (head, products), word after word. @param {Reading} reading @param {number} layer */
function valueGrams({ model, layers, words, count }, layer) {
  const { heads, keyHeads, valueDim, wo } = model.layers.encoders[layer].attention;
  const products = words.reduce((sum, { first, last }) => sum + (last - first) ** 2, 0);
  const grams = new Float32Array(heads * products);
  return kernel().scope(() => {
    const matrix = wo && allRows(wo.weight, "f64"); // (width, head · value_dim)
    const values = kernel().tensor("f64", [count, keyHeads * valueDim], layers[layer].values);
    for (let head = 0, at = 0; head < heads; head++) {
      const start = Math.floor((head * keyHeads) / heads) * valueDim;
      const value = part(values, 1, start, start + valueDim);
      const rows = matrix ? kernel().doubles(kernel().linear({ x: value, weight: part(matrix, 1, head * valueDim, (head + 1) * valueDim) })) : columnsOf(kernel().doubles(values), keyHeads * valueDim, start, valueDim);
      const row = (/** @type {number} */ token) => rowOf({ data: rows, shape: [count, rows.length / count] }, token);
      for (const { first, last } of words)
        for (let one = first; one < last; one++) for (let other = first; other < last; other++) grams[at++] = dot(row(one), row(other));
    }
    return grams;
  });
}

/** @param {Float64Array} rows @param {number} width @param {number} start @param {number} size */
function columnsOf(rows, width, start, size) {
  const count = rows.length / width;
  const columns = new Float64Array(count * size);
  for (let row = 0; row < count; row++) columns.set(rows.subarray(row * width + start, row * width + start + size), row * size);
  return columns;
}

/** A whole matrix in single or double precision, whatever its type. @param {Tensor} matrix @param {Real} type */
function allRows(matrix, type) {
  return kernel().gather(matrix, Int32Array.from({ length: matrix.shape[0] }, (_, row) => row), type);
}

/** The mean over all layers and heads, and the rollout (Abnar and Zuidema, 2020), (token, token). @param {number[]} heads of each layer @param {number} count @param {(layer: number) => import("../sources/layer.js").Layer} layerOf */
async function matricesOverLayers(heads, count, layerOf) {
  const pause = pauses();
  const mean = new Float64Array(count * count);
  let rollout = Float64Array.from(mean, (_, at) => Number(at % (count + 1) === 0));
  for (const [layer, of] of heads.entries()) {
    const mixed = new Float64Array(count * count);
    for (let head = 0; head < of; head++) {
      await pause();
      const weights = weightsOfRows(layerOf(layer), head, [0, count], [0, count]);
      for (let at = 0; at < mixed.length; at++) mixed[at] += weights[at] / of;
    }
    for (let at = 0; at < mean.length; at++) mean[at] += mixed[at] / heads.length;
    for (let row = 0; row < count; row++) {
      const line = mixed.subarray(row * count, (row + 1) * count);
      line[row] += 1; // half of each step stays with the token itself
      const sum = line.reduce((all, weight) => all + weight, 0);
      line.forEach((weight, key) => (line[key] = weight / sum));
    }
    rollout = kernel().scope(() => kernel().doubles(kernel().linear({ x: kernel().tensor("f64", [count, count], mixed), weight: transposed(kernel().tensor("f64", [count, count], rollout)) })));
  }
  return { mean, rollout };
}

/** The steps after attention, of one token. @param {Reading} reading @param {number} layer @param {number} query */
function stepsOf(reading, layer, query) {
  const block = reading.model.layers.encoders[layer];
  const { heads, valueDim, wo } = block.attention;
  const { width } = reading.model;
  const outputs = rowsAt(reading.layers[layer].outputs, heads * valueDim, [query]);
  const state = reading.state(layer, query);
  /** @type {Record<string, FrameArray>} */
  const arrays = { outputs: framed(outputs, [heads, valueDim]), concatenated: framed(outputs, [outputs.length]) };
  kernel().scope(() => {
    const [x, concatenated] = [kernel().tensor("f32", [1, width], state), kernel().tensor("f32", [1, outputs.length], outputs)];
    for (const { name, value } of observe(block, x, () => concatenated, { separate: true }))
      if (["attended", "fed_forward", "result"].includes(name) || (name === "projected" && wo)) arrays[name] = framed(kernel().floats(value), [width]);
  });
  arrays.state = framed(state, [width]);
  return { header: { formulas: reading.model.manifest.formulas[layer] ?? {}, names: Object.keys(arrays) }, arrays };
}

/** @param {Reading} reading @param {number|null} layer null: all @param {number[]} tokens */
function statesOf({ states, model: { width } }, layer, tokens) {
  const rows = (layer === null ? states : [states[layer]]).map((state) => rowsAt(state, width, tokens));
  const numbers = new Float32Array(rows.length * tokens.length * width);
  rows.forEach((row, place) => numbers.set(row, place * tokens.length * width));
  return { header: { layer, tokens }, arrays: { state: framed(numbers, [...(layer === null ? [rows.length] : []), tokens.length, width]) } };
}

/** How the first layer's input came about. @param {Reading} reading @param {number[]} tokens */
function embeddingOf({ model, encoded }, tokens) {
  const { width } = model;
  return kernel().scope(() => {
    /** @type {Partial<Record<"embedding"|"positioned"|"normed", Float32Array>>} */
    const steps = {};
    for (const { name, value } of embeddingSteps(model.layers, encoded.ids)) steps[name] = kernel().floats(value);
    const embedding = /** @type {Float32Array} */ (steps.embedding);
    const vectors = { embedding, position: steps.positioned?.map((number, at) => number - embedding[at]), normed: steps.normed };
    const rows = Object.entries(vectors).flatMap(([name, numbers]) => (numbers ? [[name, framed(rowsAt(numbers, width, tokens), [tokens.length, width])]] : []));
    return { header: { tokens, scale: model.layers.embeddingScale }, arrays: Object.fromEntries(rows) };
  });
}

/** The weights of a block, in single precision: see `regard/viewer/block_weights.py`. @param {import("./layers.js").Encoder} block */
function blockOf({ attention, feedForward, norm1, norm2, normFirst }) {
  const { wq, wk, wv, wo, heads, keyHeads, rotary, qNorm, kNorm } = attention;
  const { up, gate, down, activation } = feedForward;
  /** @type {Record<string, FrameArray>} */
  const arrays = {};
  const store = (/** @type {string} */ name, /** @type {Tensor} */ tensor) => {
    const numbers = kernel().scope(() => kernel().floats(tensor.shape.length > 1 ? allRows(tensor, "f32") : tensor));
    arrays[name] = framed(numbers, tensor.shape);
  };
  for (const [name, linear] of Object.entries({ q: wq, k: wk, v: wv, o: wo, up, gate, down })) {
    if (!linear) continue;
    store(`w_${name}`, linear.weight);
    if (linear.bias) store(`b_${name}`, linear.bias);
  }
  /** @type {Record<string, {kind: "layer"|"rms", epsilon: number}>} */
  const norms = {};
  for (const [name, norm] of Object.entries({ norm_1: norm1, norm_2: norm2, q_norm: qNorm, k_norm: kNorm })) {
    if (!norm) continue;
    norms[name] = { kind: norm.kind, epsilon: norm.epsilon };
    store(name, norm.weight);
    if (norm.bias) store(`${name}_bias`, norm.bias);
  }
  const turns = rotary && { frequencies: rotary.frequencies, long_frequencies: rotary.longFrequencies, long_after: rotary.longAfter, interleaved: rotary.interleaved, factor: rotary.factor };
  return { header: { heads, key_heads: keyHeads, norm_first: normFirst, norms, activation, rotary: turns }, arrays };
}

/** The logits of the token after one position, largest first, and the texts of the most likely tokens. @param {Reading} reading @param {number} query @param {Float32Array} state */
function nextToken({ model, encoded }, query, state) {
  const logits = model.nextLogits(state);
  const order = largestFirst(logits);
  const ids = Array.from(order.subarray(0, NAMED));
  const named = (/** @type {number} */ id) => {
    const [text, begins] = model.tokeniser.piece(id);
    return { text, begins };
  };
  const follows = encoded.ids[query + 1];
  return {
    header: { query, tokens: ids.map(named), ids, follows: follows === undefined ? null : { ...named(follows), rank: order.indexOf(follows) } },
    arrays: { logits: framed(Float32Array.from(order, (id) => logits[id]), [logits.length]) },
  };
}

/** How likely the model found each token after those before it: probability and rank, from 0; the first has none. @param {Reading} reading @param {AbortSignal} [signal] */
async function likelihoodOf({ model, encoded: { ids }, states, count }, signal) {
  const [probability, rank] = [new Float32Array(count).fill(NaN), new Float32Array(count).fill(NaN)];
  for await (const { token, logits } of logitsAfter(model, states[states.length - 1], count - 1, signal)) {
    const found = likelihoodIn(logits, ids[token + 1]);
    [probability[token + 1], rank[token + 1]] = [found.probability, found.rank];
  }
  return { header: {}, arrays: { probability: framed(probability, [count]), rank: framed(rank, [count]) } };
}

/**
 * How far a change moves one token's vector after every layer, ‖h′ − h‖ / ‖h‖; where the model writes, the next token; and with `weights` those
 * of the token's word in every layer from the first that is changed, (layer, head, word).
 * @param {Reading} reading @param {Partial<Changes>} changes @param {number} query @param {{weights: boolean, description: Description}} how @param {AbortSignal} [signal]
 */
async function flowOf(reading, changes, query, { weights, description }, signal) {
  const { model, count } = reading;
  if (count > LONGEST_FLOW) throw new Error(`The text has ${count} tokens; changes are followed through texts of at most ${LONGEST_FLOW}.`);
  /** @type {Map<number, import("../sources/layer.js").Layer>} */
  const changed = new Map();
  const keep = (/** @type {number} */ layer, /** @type {import("./forward.js").LayerArrays} */ arrays) =>
    changed.set(layer, layerFrom(reading.layerFrame(layer, arrays, allowedIn(reading, changes.blocked ?? null, layer))));
  const states = await model.changedStates(reading, changes, signal, weights ? keep : undefined);
  const moved = Float32Array.from(states, (rows, of) => {
    const [before, after] = [reading.state(of, query), rowsAt(rows, model.width, [query])];
    let [size, change] = [0, 0];
    before.forEach((number, place) => {
      size += number * number;
      change += (after[place] - number) ** 2;
    });
    return Math.sqrt(change) / Math.max(Math.sqrt(size), 1e-30);
  });
  const next = model.writes ? nextToken(reading, query, rowsAt(states[states.length - 1], model.width, [query])) : { header: { query }, arrays: {} };
  const answer = { header: next.header, arrays: { ...next.arrays, moved: framed(moved, [moved.length]) } };
  if (!weights) return answer;
  const layers = [...changed.keys()];
  const most = Math.max(0, ...layers.map((layer) => model.layers.encoders[layer].attention.heads));
  const rows = new Float32Array(layers.length * most * description.words.length).fill(NaN);
  const { row } = weightAnswers({ description, layerOf: (layer) => /** @type {import("../sources/layer.js").Layer} */ (changed.get(layer)), matrixOf: () => [] });
  for (const [place, layer] of layers.entries()) {
    const { arrays } = /** @type {Frame} */ (await row({ layer, query, by: "word" }, signal));
    rows.set(arrays.weight.toFloat32(), place * most * description.words.length);
  }
  return { header: { ...answer.header, layers }, arrays: { ...answer.arrays, weight: framed(rows, [layers.length, most, description.words.length]) } };
}

/** Which keys each query may see where an edge is blocked, (head, query, key). @param {Reading} reading @param {import("./model.js").Blocked|null} blocked @param {number} layer */
function allowedIn({ model, count }, blocked, layer) {
  const { heads } = model.layers.encoders[layer].attention;
  const hidden = blockedIn(blocked, layer, heads);
  if (!blocked || !hidden.length) return null;
  const allowed = new Uint8Array(heads * count * count).fill(1);
  for (const head of hidden) allowed.set(allowedBy(blocked, count, count), head * count * count);
  return framed(allowed, [heads, count, count]);
}
