/** The forward pass over one text, token by token or many at once, and what it leaves for a reading. */
import { kernel } from "../engine/kernel.js";
import { attendAll, embeddingSteps, nextLogits, observe, project, turnsOf } from "./transformer.js";

/**
 * What one layer computed, token after token: queries and outputs (token, head · size), keys and values (token, key head · size).
 * @typedef {{queries: Float32Array, keys: Float32Array, values: Float32Array, outputs: Float32Array}} LayerArrays
 * @typedef {import("./layers.js").Layers} Layers
 * @typedef {import("./transformer.js").KeyValues} KeyValues
 * @typedef {import("./transformer.js").LayerChange} LayerChange
 * @typedef {import("./transformer.js").Turns} Turns
 */

const MOST_BYTES = 1.5 * 2 ** 30; // of what a reading keeps

/** Bytes that a reading of so many tokens keeps. @param {Layers} layers @param {number} tokens */
function bytesOfReading({ encoders, width }, tokens) {
  const numbers = encoders.reduce((all, { attention: { heads, keyHeads, headDim, valueDim } }) => all + width + heads * (headDim + valueDim) + keyHeads * (headDim + valueDim), width);
  return 4 * tokens * numbers;
}

/** The tokens that a model has read so far, and what every layer computed for them. */
export class ForwardPass {
  /** @type {number[]} */
  ids = [];

  /** @param {Layers} layers @param {number} capacity tokens that will be read @param {{keepCache?: boolean}} [how] keepCache: further tokens will follow */
  constructor(layers, capacity, { keepCache = false } = {}) {
    const bytes = bytesOfReading(layers, capacity);
    if (bytes > MOST_BYTES) throw new Error(`A reading of ${capacity} tokens takes ${Math.ceil(bytes / 2 ** 20)} MB in this page; at most ${MOST_BYTES / 2 ** 20} are kept. Shorten the text.`);
    const { encoders, width } = layers;
    this.model = layers;
    this.capacity = capacity;
    /** Embedded, then after each block: (token, width). */
    this.states = Array.from({ length: encoders.length + 1 }, () => new Float32Array(capacity * width));
    /** @type {LayerArrays[]} */
    this.layers = encoders.map(({ attention: { heads, keyHeads, headDim, valueDim } }) => ({
      queries: new Float32Array(capacity * heads * headDim),
      keys: new Float32Array(capacity * keyHeads * headDim),
      values: new Float32Array(capacity * keyHeads * valueDim),
      outputs: new Float32Array(capacity * heads * valueDim),
    }));
    /** @type {KeyValues[]} */
    this.caches = keepCache ? encoders.map((_, layer) => makeCache(layers, layer, capacity)) : [];
  }

  /**
   * Computes all blocks for further tokens.
   * @param {number[]} ids @param {() => void|Promise<void>} [pause] between layers; may throw to cancel
   */
  async append(ids, pause = () => {}) {
    const turns = new TurnsOfTokens(this.ids.length, ids.length, this.capacity);
    try {
      for (let layer = 0, state = this.#embed(ids); layer < this.model.encoders.length; layer++) {
        await pause();
        state = this.#runLayer(layer, state, turns);
      }
      for (const id of ids) this.ids.push(id);
    } finally {
      turns.release();
    }
  }

  /** @param {number[]} ids */
  #embed(ids) {
    const place = this.ids.length;
    if (place + ids.length > this.capacity) throw new Error(`There is room for ${this.capacity} tokens, not for ${place + ids.length}.`);
    return kernel().scope(() => this.#keepState(0, embedded(this.model, ids, place)));
  }

  /** @param {number} layer @param {Float32Array} state its input @param {TurnsOfTokens} turns */
  #runLayer(layer, state, turns) {
    const place = this.ids.length;
    const arrays = this.layers[layer];
    return kernel().scope(() => {
      const cache = this.caches[layer] ?? makeCache(this.model, layer, this.capacity);
      const result = runBlock(this.model, layer, state, cache, place, turns, null, ({ queries, outputs }) => {
        copy(queries, arrays.queries, place);
        copy(cache.keys, arrays.keys, 0, place, turns.rows);
        copy(cache.values, arrays.values, 0, place, turns.rows);
        copy(outputs, arrays.outputs, place);
      });
      return this.#keepState(layer + 1, result);
    });
  }

  /** @param {number} which @param {Tensor} x */
  #keepState(which, x) {
    const start = this.ids.length * this.model.width;
    copy(x, this.states[which], this.ids.length);
    return this.states[which].subarray(start, start + x.shape[0] * this.model.width);
  }

  /** The logits of the next token. */
  logits() {
    const { width } = this.model;
    const last = this.states[this.states.length - 1].subarray((this.ids.length - 1) * width, this.ids.length * width);
    return kernel().scope(() => kernel().floats(nextLogits(this.model, kernel().tensor("f32", [1, width], last))));
  }

  /** Frees the cache; what is kept for a reading stays. */
  release() {
    for (const { keys, values } of this.caches) {
      kernel().release(keys);
      kernel().release(values);
    }
    this.caches = [];
  }
}

/**
 * One block; what it makes lives in the scope around.
 * @param {Layers} model @param {number} layer @param {Float32Array|Float64Array} state its input, (token, width) @param {KeyValues} cache
 * @param {number} place the position of the first token @param {TurnsOfTokens} turns @param {LayerChange|null} change
 * @param {(heads: {queries: Tensor, outputs: Tensor}) => void} [onHeads]
 */
function runBlock(model, layer, state, cache, place, turns, change, onHeads = () => {}) {
  const block = model.encoders[layer];
  const { attention } = block;
  const x = kernel().tensor(turns.type, [state.length / model.width, model.width], state);
  let result = x;
  const attend = (/** @type {Tensor} */ input) => {
    const queries = project(attention, input, cache, place, turns.of(attention.rotary));
    const outputs = attendAll(attention, queries, cache, place, change);
    onHeads({ queries, outputs });
    return outputs;
  };
  for (const { value } of observe(block, x, attend)) result = value;
  return result;
}

/**
 * The states after each block from a given one on, computed again with changes.
 * @param {Layers} model @param {Float32Array} state the input of block `first`, (token, width) @param {number} first
 * @param {(layer: number) => LayerChange|null} changeOf @param {() => void|Promise<void>} [pause]
 * @param {(layer: number, heads: LayerArrays) => void} [onHeads] gets what the heads of each block computed
 */
export async function changedStates(model, state, first, changeOf, pause = () => {}, onHeads) {
  const rows = state.length / model.width;
  const turns = new TurnsOfTokens(0, rows, rows);
  /** @type {Float32Array[]} */
  const states = [];
  try {
    for (let layer = first; layer < model.encoders.length; layer++) {
      await pause();
      const input = states[states.length - 1] ?? state;
      const run = () => {
        const cache = makeCache(model, layer, rows);
        const keep = (/** @type {{queries: Tensor, outputs: Tensor}} */ { queries, outputs }) =>
          onHeads && onHeads(layer, { queries: kernel().floats(queries), keys: kernel().floats(cache.keys), values: kernel().floats(cache.values), outputs: kernel().floats(outputs) });
        return kernel().floats(runBlock(model, layer, input, cache, 0, turns, changeOf(layer), keep));
      };
      states.push(kernel().scope(run));
    }
  } finally {
    turns.release();
  }
  return states;
}

/**
 * The outputs of every layer's heads in double precision, (token, head · size): what the weights alone decide.
 * @param {Layers} model @param {number[]} ids
 */
export function outputsInDouble(model, ids) {
  const turns = new TurnsOfTokens(0, ids.length, ids.length, "f64");
  /** @type {Float64Array[]} */
  const outputs = [];
  try {
    let state = kernel().scope(() => kernel().doubles(embedded(model, ids, 0, "f64")));
    for (let layer = 0; layer < model.encoders.length; layer++) {
      state = kernel().scope(() => {
        const onHeads = (/** @type {{outputs: Tensor}} */ heads) => outputs.push(kernel().doubles(heads.outputs));
        return kernel().doubles(runBlock(model, layer, state, makeCache(model, layer, ids.length, "f64"), 0, turns, null, onHeads));
      });
    }
  } finally {
    turns.release();
  }
  return outputs;
}

/** The input of the first block. @param {Layers} model @param {number[]} ids @param {number} place @param {Real} [type] */
function embedded(model, ids, place, type = "f32") {
  let x = /** @type {Tensor|null} */ (null);
  for (const { value } of embeddingSteps(model, ids, place, type)) x = value;
  return /** @type {Tensor} */ (x);
}

/** Cosines and sines of some tokens, computed once for all blocks. */
class TurnsOfTokens {
  /** @type {Map<import("./layers.js").Rotary, Turns>} */
  #turns = new Map();

  /** @param {number} first position @param {number} rows @param {number} count tokens of the text @param {Real} [type] */
  constructor(first, rows, count, type = "f32") {
    this.type = type;
    this.first = first;
    this.rows = rows;
    this.count = count;
  }

  /** @param {import("./layers.js").Rotary|null} rotary */
  of(rotary) {
    if (!rotary) return null;
    let turns = this.#turns.get(rotary);
    if (!turns) {
      turns = turnsOf(rotary, this.first, this.rows, this.count, this.type);
      for (const tensor of [turns.cosines, turns.sines]) kernel().keep(tensor);
      this.#turns.set(rotary, turns);
    }
    return turns;
  }

  release() {
    for (const { cosines, sines } of this.#turns.values()) for (const tensor of [cosines, sines]) kernel().release(tensor);
  }
}

/** @param {Layers} model @param {number} layer @param {number} capacity tokens @param {Real} [type] @returns {KeyValues} */
function makeCache(model, layer, capacity, type = "f32") {
  const { keyHeads, headDim, valueDim } = model.encoders[layer].attention;
  return { keys: kernel().tensor(type, [capacity, keyHeads * headDim]), values: kernel().tensor(type, [capacity, keyHeads * valueDim]) };
}

/** Rows of a tensor into an array of rows. @param {Tensor} tensor (row, width) @param {Float32Array} to @param {number} place of the first row there @param {number} [first] @param {number} [count] */
function copy(tensor, to, place, first = 0, count = tensor.shape[0]) {
  const width = tensor.shape[1];
  const numbers = /** @type {Float32Array} */ (kernel().numbers(tensor));
  to.set(numbers.subarray(first * width, (first + count) * width), (place + first) * width);
}
