/** Answers about attention weights, computed from the layers of a reading: one stored in the page, or a model's. */
import { framed } from "./frames.js";
import { productsBy } from "../page/measures.js";
import { keptLayers } from "../page/state.js";
import { alongOf, linksOf, pooledRows, pooledWeights, vectorsOf, weightsOfRow } from "./layer.js";
import { pauses } from "./pause.js";

/** @typedef {import("./layer.js").Rows} Rows */

/**
 * layerOf     the arrays of a layer; with products of values where norms are shown
 * matrixOf    the mean over all layers and heads, or the rollout, (token, token)
 * @typedef {{description: Description, layerOf: (layer: number) => import("./layer.js").Layer,
 *   matrixOf: (measure: "mean"|"rollout") => ArrayLike<number>|Promise<ArrayLike<number>>}} Contents
 * @typedef {(parameters: any, signal?: AbortSignal) => Frame|null|Promise<Frame|null>} Answer
 */

/** By kind of query. @param {Contents} contents @returns {Record<string, Answer>} */
export function weightAnswers({ description, layerOf, matrixOf }) {
  const count = description.tokens?.length ?? 0;
  const firstQuery = description.first_query ?? null;

  /** The rows of the mean over all layers or of the rollout; null for one head's. @param {string} [measure] */
  async function overLayers(measure) {
    if (measure !== "mean" && measure !== "rollout") return null;
    const numbers = await matrixOf(measure);
    /** @type {Rows} */
    const rows = (query, from, to, into) => {
      for (let key = from; key < to; key++) into[key - from] = numbers[query * count + key];
      return into;
    };
    return rows;
  }

  /** The rows of one head: weights, or ‖weight · v · W_O‖. @param {import("./layer.js").Layer} layer @param {number} head @param {string} [measure] */
  function rowsOfHead(layer, head, measure) {
    /** @type {Rows} */
    const rows = (query, from, to, into) => weightsOfRow(layer, head, query, from, to, into);
    if (measure !== "norm") return rows;
    const gram = layer.gram(head);
    const productOf = productsBy(gram, description.words);
    const norms = Float64Array.from({ length: count }, (_, key) => Math.sqrt(productOf(key, key)));
    return (/** @type {Parameters<Rows>} */ ...[query, from, to, into]) => {
      rows(query, from, to, into);
      for (let key = from; key < to; key++) into[key - from] *= norms[key];
      return into;
    };
  }

  return {
    describe: () => ({ header: description, arrays: {} }),
    vectors: ({ layer, head, query, keys }) => vectorsOf(layerOf(layer), head, query ?? null, keys ?? null),

    async tile(asked, signal) {
      const { layer, head, rows = [0, description.queries], columns = [0, count], shape, measure } = asked;
      const region = { ...asked, rows, columns };
      const numbers = (await overLayers(measure)) ?? (measure === "norm" ? rowsOfHead(layerOf(layer), head, measure) : null);
      const weight = await (numbers ? pooledRows(numbers, region, signal) : pooledWeights(layerOf(layer), head, region, signal));
      return { header: { exact: true, sampled: null, rows, columns }, arrays: { weight: framed(weight, shape) } };
    },

    async row({ layer, heads, query, by, measure }) {
      const over = await overLayers(measure);
      if (over) {
        const row = by === "word" ? rowOfWord(over, query, description) : over(query, 0, count, new Float64Array(count));
        return { header: { query }, arrays: { weight: framed(Float32Array.from(row), [1, row.length]) } };
      }
      const full = layerOf(layer);
      const words = by === "word" && description.words ? description.words : null;
      const width = words ? words.length : count;
      const asked = heads ?? full.heads;
      const weight = new Float32Array(asked.length * width);
      asked.forEach((/** @type {number} */ head, /** @type {number} */ place) => {
        const row = words ? rowOfWord(rowsOfHead(full, head), query, description) : weightsOfRow(full, head, query);
        weight.set(row, place * width);
      });
      return { header: { query, heads: asked }, arrays: { weight: framed(weight, [asked.length, width]) } };
    },

    async along({ layer, heads }, signal) {
      const full = layerOf(layer);
      const asked = heads ?? full.heads;
      const found = await alongOf(full, asked, firstQuery, signal);
      const arrays = Object.entries(found).map(([name, data]) => [name, framed(data, [asked.length, data.length / asked.length])]);
      return { header: { sampled: null, heads: asked }, arrays: Object.fromEntries(arrays) };
    },

    async links({ layer, heads, count: wanted = 50, itself = false, sinks = true }, signal) {
      const full = layerOf(layer);
      const asked = heads ?? full.heads;
      const how = { heads: asked, count: wanted, itself, firstQuery, sinks: sinks ? [] : description.sinks };
      const found = await linksOf(full, how, signal);
      return { header: { sampled: null, heads: asked }, arrays: weightedPairs(found, "query", "key") };
    },

    /** All heads of the page by the weight of one query on one key, strongest first. */
    async heads_for({ query, key, by }, signal) {
      const words = by === "word" && description.words ? description.words : null;
      const column = words ? words.findIndex((/** @type {number[]} */ [, stop]) => key < stop) : key;
      /** @type {number[][]} */
      const found = [];
      const pause = pauses(signal);
      for (const layer of keptLayers(description)) {
        const full = layerOf(layer);
        for (const head of full.heads) {
          await pause();
          const row = words ? rowOfWord(rowsOfHead(full, head), query, description) : weightsOfRow(full, head, query);
          found.push([layer, head, Math.fround(row[column])]);
        }
      }
      found.sort((one, other) => other[2] - one[2] || one[0] - other[0] || one[1] - other[1]);
      return { header: { query, key }, arrays: weightedPairs(found, "layer", "head") };
    },
  };
}

/** Two integers and a weight each, as arrays. @param {number[][]} found @param {string} one @param {string} other */
function weightedPairs(found, one, other) {
  const column = (/** @type {number} */ place) => found.map((numbers) => numbers[place]);
  return {
    [one]: framed(Int32Array.from(column(0)), [found.length]),
    [other]: framed(Int32Array.from(column(1)), [found.length]),
    weight: framed(Float32Array.from(column(2)), [found.length]),
  };
}

/**
 * Weights by word: summed over the pieces of a key word, averaged over the pieces of the query's word.
 * @param {Rows} rowsOf @param {number} query @param {Description} description
 */
function rowOfWord(rowsOf, query, description) {
  const { words, tokens } = description;
  const [first, last] = wordAround(query, description);
  const mean = new Float64Array(words.length);
  const row = new Float64Array(tokens.length);
  for (let piece = first; piece < last; piece++) {
    rowsOf(piece, 0, tokens.length, row);
    words.forEach((/** @type {number[]} */ [start, stop], /** @type {number} */ place) => {
      for (let key = start; key < stop; key++) mean[place] += row[key] / (last - first);
    });
  }
  return mean;
}

/** The queries of the same word: [first, last). @param {number} query @param {Description} description */
function wordAround(query, { words, first_query: shift, query_tokens: apart, queries }) {
  if (shift === null || apart) return [query, query + 1];
  const word = words.find(([start, stop]) => query + shift >= start && query + shift < stop);
  return word ? [Math.max(word[0] - shift, 0), Math.min(word[1] - shift, queries)] : [query, query + 1];
}
