/** The numbers that the steps start from, asked of a source or typed in a small example: q, k, v, weights, the layer's matrices. */
import { afterHeads, blockFrom, inputOf } from "../../maths/block.js";
import { latestOnly } from "../../elements/lifetime.js";
import { columnOf, projected } from "../../maths/numbers.js";
import { rowsOf } from "../../maths/rows.js";
import { printable } from "../../elements/words.js";
import { UNCHANGED, isChanged, keysToShow, projectedHead, stepsOf, visibleKeys } from "./model.js";
import { originOf, originOfNumbers } from "./origin.js";
import { asWritten, isTransposed } from "./product.js";
import { linearArithmetic, stageArithmetic } from "./stages.js";

export const MOST_KEYS = 4096; // vectors per request
export const SHOWN = 12; // rows of the table at first, for longer texts
const MOST_INPUTS = 512; // tokens whose vectors before the layer are loaded

/**
 * @typedef {any[]} Outputs  of the heads
 * @typedef {{layer: number, block: import("../../maths/block.js").Block, x: ArrayLike<number>[], inputs: ArrayLike<number>[]}} LayerWeights
 * @typedef {import("./model.js").Given} Given @typedef {import("./model.js").Steps} Steps @typedef {import("./model.js").Changes} Changes
 */
export class StepNumbers {
  /** @type {Given|null} */
  given = null;
  /** @type {ArrayLike<number>|null} */
  truth = null; // weights from the source
  /** @type {number[]|null} */
  asked = null; // for a long text, the keys whose vectors are loaded
  /** @type {Frame|null} */
  block = null; // the answer to "steps"
  /** @type {LayerWeights|null} */
  weights = null; // of the layer, with the vectors before it
  /** @type {import("./origin.js").Made} */
  made = { parts: [], isNormed: false }; // how x of the query came about, before the first layer

  /**
   * @param {{source: Source, description: Description, state: State, lifetime: Lifetime, editing: ReturnType<typeof import("./editor.js").makeEditor>|null,
   *   came: (isNew: boolean) => void, failed: (error: Error) => void}} given
   */
  constructor({ source, description, state, lifetime, editing, came, failed }) {
    this.source = source;
    this.description = description;
    this.state = state;
    this.editing = editing;
    this.came = came;
    this.failed = failed;
    this.isLong = description.tokens.length > MOST_KEYS;
    this.latest = latestOnly(lifetime);
    this.latestWeights = latestOnly(lifetime);
  }

  get tokens() {
    return this.editing ? this.editing.numbers.tokens : this.description.tokens;
  }

  get queryTokens() {
    return this.description.query_tokens ?? this.tokens;
  }

  get query() {
    return Math.min(this.state.get().query ?? firstQuery(this.description), this.queryTokens.length - 1);
  }

  /** The key at the position of the query; null where queries and keys are of different texts. */
  get ownKey() {
    return this.description.first_query === null ? null : this.query + (this.description.first_query ?? 0);
  }

  /** Whether matrices are written as in x · Wᵀ. */
  get transposed() {
    return isTransposed(this.state.get());
  }

  /** @param {string} kind */
  has(kind) {
    return (this.description.has ?? []).includes(kind);
  }

  load() {
    const { layer, head } = this.state.get();
    const query = Math.min(this.query, this.description.tokens.length - 1);
    if (this.weights?.layer !== layer) this.weights = null;
    this.made = { parts: [], isNormed: false };
    this.#loadWeights();
    this.latest(
      async (signal) => {
        const whole = await this.source.ask("row", { layer, heads: [head], query, by: "token" }, { signal });
        const weights = whole.arrays.weight.toFloat32();
        const keys = this.isLong ? keysToShow(weights, SHOWN, this.ownKey) : null;
        const [vectors, block] = await Promise.all([
          this.source.ask("vectors", { layer, head, query, ...(keys ? { keys } : {}) }, { signal }),
          this.has("steps") ? this.source.ask("steps", { layer, head, query }, { signal }).catch(() => null) : null,
        ]);
        return { weights, keys, vectors, block };
      },
      ({ weights, keys, vectors, block }) => {
        Object.assign(this, { truth: weights, asked: keys, block, given: this.#givenFrom(vectors, keys) });
        this.came(true);
      },
      this.failed,
    );
  }

  /** @param {Frame} vectors @param {number[]|null} keys @returns {Given} */
  #givenFrom({ header, arrays }, keys) {
    const { description } = this;
    const { q, k, v } = arrays;
    const [count, size] = k.shape;
    return {
      query: q.toFloat32(),
      keys: rowsOf(k),
      values: v ? rowsOf(v) : null,
      scale: header.scale ?? description.scale ?? size ** -0.5,
      softcap: header.softcap ?? description.softcap ?? null,
      bias: arrays.bias?.toFloat32() ?? null,
      visible: arrays.visible?.data ?? (keys ? null : visibleKeys(description, this.ownKey, count)),
      sink: header.sink ?? null,
      own: this.ownKey,
    };
  }

  /** The weights of the layer and the vectors before it: what comes before q, and after the heads. */
  #loadWeights() {
    const { layer } = this.state.get();
    const count = this.description.tokens.length;
    if (!this.has("block") || !this.has("states") || count > MOST_INPUTS || this.description.first_query !== 0) return;
    const own = this.query;
    this.latestWeights(
      async (signal) => {
        const tokens = Array.from({ length: count }, (_, token) => token);
        const known = this.weights?.layer === layer ? this.weights : null;
        const [block, states, embedding] = await Promise.all([
          known ? null : this.source.ask("block", { layer }, { signal }),
          known ? null : this.source.ask("states", { layer, tokens }, { signal }),
          layer === 0 && this.has("embedding") ? this.source.ask("embedding", { tokens: [own] }, { signal }) : null,
        ]);
        return { known, block, states, embedding };
      },
      ({ known, block, states, embedding }) => {
        this.weights = known ?? (block && states && weightsOf(layer, block, states));
        if (embedding) this.made = madeOf(embedding, this.queryTokens[own], own);
        this.came(false);
      },
      () => {
        this.weights = null; // a page holds the weights of some layers
        this.came(false);
      },
    );
  }

  /** The inputs of a head, with edits applied. @param {number} head */
  givenOf(head) {
    const given = /** @type {Given} */ (this.given);
    if (!this.editing?.edited) return given;
    return this.#editedHead(head);
  }

  /** @param {number} head @returns {Given} */
  #editedHead(head) {
    const { queries, keys, values } = projectedHead(/** @type {NonNullable<typeof this.editing>} */ (this.editing).numbers, head);
    const known = /** @type {Given} */ (this.given);
    const isSame = keys.length === known.keys.length;
    const [visible, bias] = isSame ? [known.visible, known.bias] : [visibleKeys(this.description, this.ownKey, keys.length), null];
    return { ...known, query: queries[this.query], keys, values, visible, bias, own: this.ownKey };
  }

  /** Of a long text, the weights of the source and its output. @param {Steps} computed */
  useTruth(computed) {
    const { asked, truth, given } = this;
    if (!asked || !truth) return;
    asked.forEach((key, row) => (computed.weight[row] = truth[key]));
    computed.weighted = computed.weighted?.map((_, row) => Float64Array.from(/** @type {ArrayLike<number>[]} */ (given?.values)[row], (one) => one * computed.weight[row])) ?? null;
    computed.output = /** @type {Float64Array|null} */ (this.#blockOutput());
  }

  #blockOutput() {
    const outputs = this.block?.arrays.outputs;
    return outputs ? rowsOf(outputs)[this.state.get().head] : null;
  }

  /** How a vector of this head and word is computed; null where W is not known. @param {"q"|"k"|"v"} letter @param {number} place @param {Given} now */
  originAt(letter, place, now) {
    const { layer, head } = this.state.get();
    const used = letter === "q" ? now.query : (letter === "k" ? now.keys : now.values)?.[this.asked ? this.asked.indexOf(place) : place];
    if (!used) return null;
    const { transposed } = this;
    if (this.editing) return { ...originOfNumbers(this.editing.numbers, letter, head, place, used), transposed };
    if (!this.weights || this.weights.layer !== layer) return null;
    const { block, x, inputs } = this.weights;
    const origin = originOf(block, { letter, head, x: x[place], input: inputs[place], position: place, count: x.length, used });
    return origin && { ...origin, transposed };
  }

  /** The outputs of all heads, and those without a change. @param {number} head @param {Steps} computed @param {Changes} changes @returns {[Outputs, Outputs|null]} */
  outputsOf(head, computed, changes) {
    const { description } = this;
    if (this.editing) {
      const all = (/** @type {Changes} */ how) => Array.from({ length: description.heads }, (_, one) => stepsOf(this.#editedHead(one), how).output);
      return [all(changes), isChanged(changes) ? all(UNCHANGED) : null];
    }
    const outputs = this.block?.arrays.outputs;
    if (outputs) {
      const original = rowsOf(outputs);
      if (!isChanged(changes) || !computed.output) return [original, null];
      return [original.map((one, place) => (place === head ? computed.output : one)), original];
    }
    return [computed.output && description.heads === 1 ? [computed.output] : [], null];
  }

  /** Computes what follows the concatenated outputs, and says how; null where W_O is not known. */
  throughBlock() {
    const { w_o: matrix, b_o: bias } = this.editing?.numbers ?? {};
    if (matrix)
      return {
        through: (/** @type {ArrayLike<number>} */ concatenated) => ({ projected: projected(concatenated, matrix, bias) }),
        arithmetic: (/** @type {ArrayLike<number>} */ concatenated) => ({
          projected: (/** @type {number} */ place) => linearArithmetic(concatenated, columnOf(matrix, place), bias?.[place], { x: "concatenated", column: asWritten(`column ${place} of W_O`, this.transposed) }),
        }),
      };
    const own = this.ownKey;
    const x = this.weights && this.weights.layer === this.state.get().layer && own !== null ? this.weights.x[own] : null;
    if (!x || !this.weights) return { through: null, arithmetic: null };
    const of = this.weights.block;
    return {
      through: (/** @type {ArrayLike<number>} */ concatenated) => afterHeads(of, x, concatenated),
      arithmetic: (/** @type {ArrayLike<number>} */ concatenated, /** @type {Record<string, ArrayLike<number>>} */ stages) => stageArithmetic(of, x, concatenated, stages, this.transposed),
    };
  }
}

/** @param {number} layer @param {Frame} found @param {Frame} states @returns {LayerWeights} */
function weightsOf(layer, found, states) {
  const block = blockFrom(found);
  const x = rowsOf(states.arrays.state);
  return { layer, block, x, inputs: x.map((row) => inputOf(block, row)) };
}

/** How the vector before the first layer came about. @param {Frame} frame @param {string} word @param {number} place */
function madeOf({ arrays }, word, place) {
  const parts = [{ name: `embedding of ${printable(word)}`, vector: arrays.embedding.toFloat32() }];
  if (arrays.position) parts.push({ name: `position ${place}`, vector: arrays.position.toFloat32() });
  return { parts, isNormed: Boolean(arrays.normed) };
}

/** The initial query: the first word that is not a sink. @param {Description} description */
function firstQuery(description) {
  const aside = new Set([...(description.special ?? []), ...(description.sinks ?? [])]);
  const count = (description.query_tokens ?? description.tokens).length;
  for (let place = 0; place < count; place++) if (!aside.has(place)) return place;
  return 0;
}
