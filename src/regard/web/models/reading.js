/** A text as a model read it: tokens, words, and what every layer computed. */
import { framed } from "../sources/frames.js";
import { certify } from "./certificate.js";
import { headsFirst } from "../maths/rows.js";
import { wordsOf } from "./tokenizers/tokeniser.js";

/**
 * @typedef {import("./forward.js").LayerArrays} LayerArrays
 * @typedef {import("./tokenizers/tokeniser.js").Encoded} Encoded
 */

export class Reading {
  /** @type {import("./certificate.js").Certificate|null} */
  #certificate = null;

  /**
   * @param {import("./model.js").Model} model @param {string} text @param {Encoded} encoded
   * @param {import("./forward.js").ForwardPass} pass @param {number|null} [given] tokens of the prompt, where the model wrote the others
   */
  constructor(model, text, encoded, pass, given = null) {
    const count = encoded.ids.length;
    const whole = pass.capacity === count;
    const rows = (/** @type {Float32Array} */ array) => (whole ? array : array.slice(0, (array.length / pass.capacity) * count));
    this.model = model;
    this.text = text;
    this.encoded = encoded;
    this.given = given;
    this.count = count;
    this.words = wordsOf(encoded, text);
    /** Embedded, then after each layer: (token, width). */
    this.states = pass.states.map(rows);
    /** @type {LayerArrays[]} */
    this.layers = pass.layers.map(({ queries, keys, values, outputs }) => ({ queries: rows(queries), keys: rows(keys), values: rows(values), outputs: rows(outputs) }));
  }

  /** Tokens that take weight in every text: special ones, and the first token of a causal model. */
  get sinks() {
    const special = this.encoded.special.flatMap((is, token) => (is ? [token] : []));
    return this.model.causal && this.count > 1 && !special.includes(0) ? [0, ...special] : special;
  }

  /** Positions of the words that the sinks belong to. */
  get sinkWords() {
    const sinks = new Set(this.sinks);
    return this.words.flatMap(({ first, last }, word) => (Array.from({ length: last - first }, (_, piece) => first + piece).some((token) => sinks.has(token)) ? [word] : []));
  }

  /** How exact the numbers are, computed once. */
  get certificate() {
    this.#certificate ??= certify(this);
    return this.#certificate;
  }

  /**
   * A state of one token, of a copy. @param {number} layer 0 is the embedding @param {number} token
   */
  state(layer, token) {
    const { width } = this.model;
    return this.states[layer].slice(token * width, (token + 1) * width);
  }

  /** The first and last visible key of every query, [first, last); null where all are visible. @param {number} layer */
  visible(layer) {
    const { causal, window } = this.model.layers.encoders[layer].attention;
    if (!causal) return null;
    const first = Int32Array.from({ length: this.count }, (_, query) => (window === null ? 0 : Math.max(0, query - window)));
    return { first, last: first.map((_, query) => query + 1) };
  }

  /**
   * What decides the scores of a layer, as one-file pages store it: see sources/local.js.
   * @param {number} layer @param {LayerArrays} [arrays] what its heads computed; of this reading by default @param {FrameArray|null} [allowed] (head or 1, query, key)
   * @returns {Frame}
   */
  layerFrame(layer, { queries, keys, values } = this.layers[layer], allowed = null) {
    const { heads, keyHeads, headDim, valueDim, scale, softcap } = this.model.layers.encoders[layer].attention;
    const group = heads / keyHeads;
    const slots = Array.from({ length: heads }, (_, head) => head);
    const visible = this.visible(layer);
    return {
      header: { heads: slots, key_heads: slots.map((head) => Math.floor(head / group)), value_heads: slots.map((head) => Math.floor(head / group)), scale, softcap, offset: 0, relative_zero: 0 },
      arrays: {
        q: framed(headsFirst(queries, heads, headDim), [heads, this.count, headDim]),
        k: framed(headsFirst(keys, keyHeads, headDim), [keyHeads, this.count, headDim]),
        v: framed(headsFirst(values, keyHeads, valueDim), [keyHeads, this.count, valueDim]),
        ...(visible && { first: framed(visible.first, [this.count]), last: framed(visible.last, [this.count]) }),
        ...(allowed && { visible: allowed }),
      },
    };
  }
}
