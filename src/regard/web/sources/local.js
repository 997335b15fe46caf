/**
 * The source of a one-file page: arrays embedded in the page, decoded one layer at a time; weights computed on demand.
 *
 * The page holds `<script type="application/x-regard" id="…">` with frames in base64:
 *   regard-wasm            the kernels, gzipped; for hosts/page.js, of which there is one for all readings
 *   regard-describe        the description, no arrays
 *   regard-layer-3         q (head, query, head_dim), k (key head, key, head_dim), v likewise where the page has steps,
 *                          mostly f2, to be multiplied by q_times, k_times, v_times of the header; sinks (head,) f4;
 *                          visible keys as intervals: first, last, second_first, second_last (query,) i4, or visible
 *                          (head or 1, query, key) u1; bias (head or 1, query or 1, key or 1) f4; relative
 *                          (head or 1, span) f4; header: heads (their numbers in the model), key_heads (one per head),
 *                          scale, softcap, offset, relative_zero
 *   regard-statistics      the answer to `statistics`
 *   regard-thumbnails-3    the answer to `thumbnails`, of the heads in the layer's header
 *   regard-steps-3         the answers to `steps`, for all queries
 *   regard-architecture    the answer to `architecture`
 *   regard-states          (layer + 1, token, width); regard-embedding likewise for all tokens
 *   regard-block-3         the answer to `block`, of the layers that the page has room for
 *   regard-next            after every position: head (token, 256), logits relative to the largest; tail, of buckets of
 *                          tokens; ids of the most likely ones, with texts in the header; rank of the token that follows
 *   regard-likelihood      the answer to `likelihood`
 *   regard-embed           vectors of the texts in its header
 *   regard-2-…             the same of another reading, to compare with
 *   regard-over-layers     mean over all layers and heads, and rollout, (token, token) f2, of short texts
 */
import { framed, fromBase64, unpack } from "./frames.js";
import { productsBy } from "../page/measures.js";
import { keptLayers } from "../page/state.js";
import { alongOf, layerFrom, linksOf, pooledRows, pooledWeights, vectorsOf, weightsOfRow, yieldToEvents } from "./layer.js";

const FEW = 128; // tokens up to which all layers stay decoded

/**
 * Waits while the page is loading, until a block is complete.
 * @param {any} page @param {string} id
 */
async function arrived(page, id) {
  if (page.readyState !== "loading" || page.getElementById(id)?.nextSibling) return;
  await new Promise((go) => page.addEventListener("DOMContentLoaded", go, { once: true }));
}

/**
 * @param {Document|Element|{getElementById: (id: string) => any}} page
 * @param {string} [prefix] of the ids of a second reading
 * @returns {Source & {description: Description}}
 */
export function localSource(page, prefix = "regard") {
  /** @type {Map<string, any>} */
  const opened = new Map();
  /** The frame of this name; null if the page has none. @param {string} id */
  function frame(id) {
    if (!opened.has(id)) {
      const holder = /** @type {any} */ (page).getElementById(id.replace("regard", prefix));
      opened.set(id, holder ? unpack(fromBase64(holder.textContent)) : null);
    }
    return opened.get(id);
  }
  const description = frame("regard-describe")?.header;
  if (!description) throw new Error("This page contains no reading.");
  const count = description.tokens?.length ?? 0;
  const firstQuery = description.first_query ?? null;
  /** @type {Map<number, any>} */
  const layers = new Map();

  /** @param {number} layer */
  function layerOf(layer) {
    if (!layers.has(layer)) {
      const found = frame(`regard-layer-${layer}`);
      if (!found) throw new Error(`Layer ${layer} is not in this page.`);
      if (count > FEW) layers.clear(); // one at a time: a layer of 12 heads and 512 tokens takes 5 MB decoded
      layers.set(layer, layerFrom(found));
    }
    return layers.get(layer);
  }

  /** The rows of the mean over all layers or of the rollout; null for one head's. @param {string} [measure] */
  function overLayers(measure) {
    if (measure !== "mean" && measure !== "rollout") return null;
    const numbers = frame("regard-over-layers")?.arrays[measure]?.toFloat32();
    if (!numbers) throw new Error(`This page does not contain the ${measure} over all layers.`);
    return (/** @type {number} */ query, /** @type {number} */ from, /** @type {number} */ to, /** @type {Float32Array|Float64Array} */ into) => {
      for (let key = from; key < to; key++) into[key - from] = numbers[query * count + key];
      return into;
    };
  }

  /** The rows of one head: weights, or ‖weight · v · W_O‖. @param {any} layer @param {number} head @param {string} [measure] */
  function rowsOfHead(layer, head, measure) {
    const rows = (/** @type {number} */ query, /** @type {number} */ from, /** @type {number} */ to, /** @type {Float32Array|Float64Array} */ into) =>
      weightsOfRow(layer, head, query, from, to, into);
    if (measure !== "norm") return rows;
    const gram = layer.gram(head);
    const productOf = productsBy(gram, description.words);
    const norms = Float64Array.from({ length: count }, (_, key) => Math.sqrt(productOf(key, key)));
    return (/** @type {number} */ query, /** @type {number} */ from, /** @type {number} */ to, /** @type {Float32Array|Float64Array} */ into) => {
      rows(query, from, to, into);
      for (let key = from; key < to; key++) into[key - from] *= norms[key];
      return into;
    };
  }

  /** @type {Record<string, (asked: any, signal?: AbortSignal) => any>} */
  const answers = {
    describe: () => ({ header: description, arrays: {} }),
    statistics: () => frame("regard-statistics"),
    thumbnails: ({ layer }) => frame(`regard-thumbnails-${layer}`),
    steps({ layer, query }) {
      const found = frame(`regard-steps-${layer}`);
      if (!found) return null;
      const rows = Object.entries(found.arrays).map(([name, array]) => [
        name,
        rowOfArray(array, query),
      ]);
      return { header: found.header, arrays: Object.fromEntries(rows) };
    },

    async tile(asked, signal) {
      const { layer, head, rows = [0, description.queries], columns = [0, count], shape, measure } = asked;
      const region = { ...asked, rows, columns };
      const numbers = overLayers(measure) ?? (measure === "norm" ? rowsOfHead(layerOf(layer), head, measure) : null);
      const weight = await (numbers ? pooledRows(numbers, region, signal) : pooledWeights(layerOf(layer), head, region, signal));
      return { header: { exact: true, sampled: null, rows, columns }, arrays: { weight: framed(weight, shape) } };
    },

    row({ layer, heads, query, by, measure }) {
      const over = overLayers(measure);
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
      const arrays = Object.entries(found).map(([name, data]) => [
        name,
        framed(data, [asked.length, data.length / asked.length]),
      ]);
      return { header: { sampled: null, heads: asked }, arrays: Object.fromEntries(arrays) };
    },

    async links({ layer, heads, count: wanted = 50, itself = false, sinks = true }, signal) {
      const full = layerOf(layer);
      const asked = heads ?? full.heads;
      const how = { heads: asked, count: wanted, itself, firstQuery, sinks: sinks ? [] : description.sinks };
      const found = await linksOf(full, how, signal);
      const column = (/** @type {number} */ place) => found.map((link) => link[place]);
      return {
        header: { sampled: null, heads: asked },
        arrays: {
          query: framed(Int32Array.from(column(0)), [found.length]),
          key: framed(Int32Array.from(column(1)), [found.length]),
          weight: framed(Float32Array.from(column(2)), [found.length]),
        },
      };
    },

    /** All heads of the page by the weight of one query on one key, strongest first. */
    async heads_for({ query, key, by }, signal) {
      const words = by === "word" && description.words ? description.words : null;
      const column = words ? words.findIndex((/** @type {number[]} */ [, stop]) => key < stop) : key;
      /** @type {number[][]} */
      const found = [];
      const pause = yieldToEvents(signal);
      for (const layer of keptLayers(description)) {
        const full = layerOf(layer);
        for (const head of full.heads) {
          await pause();
          const row = words ? rowOfWord(rowsOfHead(full, head), query, description) : weightsOfRow(full, head, query);
          found.push([layer, head, Math.fround(row[column])]);
        }
      }
      found.sort((one, other) => other[2] - one[2] || one[0] - other[0] || one[1] - other[1]);
      const part = (/** @type {number} */ place) => found.map((one) => one[place]);
      return {
        header: { query, key },
        arrays: {
          layer: framed(Int32Array.from(part(0)), [found.length]),
          head: framed(Int32Array.from(part(1)), [found.length]),
          weight: framed(Float32Array.from(part(2)), [found.length]),
        },
      };
    },

    value_grams({ layer }) {
      const { gram } = frame(`regard-layer-${layer}`).arrays;
      return { header: { layer, heads: layerOf(layer).heads }, arrays: { gram } };
    },

    vectors: ({ layer, head, query, keys }) => vectorsOf(layerOf(layer), head, query ?? null, keys ?? null),
    architecture: () => frame("regard-architecture"),
    likelihood: () => frame("regard-likelihood"),
    states: ({ layer, tokens }) => statesOf(frame("regard-states"), layer ?? null, tokens),
    embedding: ({ tokens }) => rowsOfAll(frame("regard-embedding"), tokens),
    next: ({ query }) => nextToken(frame("regard-next"), query ?? count - 1),

    block({ layer }) {
      const found = frame(`regard-block-${layer}`);
      if (!found) throw new Error("The weights of this layer are not in this page: the studio and notebooks have them.");
      return found;
    },

    embed({ texts }) {
      const found = frame("regard-embed");
      const places = texts.map((/** @type {string} */ text) => found.header.texts.indexOf(text));
      if (places.includes(-1)) throw new Error("This page holds vectors of its own sentences only.");
      return { header: found.header, arrays: { vector: rowsOf(found.arrays.vector, places) } };
    },
  };

  /** The block that a query needs. @param {string} kind @param {any} asked */
  function blockOf(kind, { layer, measure }) {
    if (measure === "mean" || measure === "rollout") return "regard-over-layers";
    if (kind === "describe" || kind === "statistics") return `regard-${kind}`;
    if (kind === "heads_for") return `regard-layer-${keptLayers(description).at(-1)}`;
    if (["thumbnails", "steps", "block"].includes(kind)) return `regard-${kind}-${layer}`;
    if (["architecture", "likelihood", "states", "embedding", "next", "embed"].includes(kind)) return `regard-${kind}`;
    return `regard-layer-${layer}`;
  }

  return {
    description,
    async ask(kind, parameters = {}, { signal } = {}) {
      await arrived(page, blockOf(kind, parameters).replace("regard", prefix));
      signal?.throwIfAborted();
      const answer = answers[kind] && (await answers[kind](parameters, signal));
      if (!answer) throw new Error(`This page does not contain the data for “${kind}”.`);
      signal?.throwIfAborted();
      return answer;
    },
  };
}

/**
 * Weights by word: summed over the pieces of a key word, averaged over the pieces of the query's word.
 * @param {import("./layer.js").Rows} rowsOf @param {number} query @param {Description} description
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

/** Some rows of an array (row, width). @param {FrameArray} array @param {number[]} rows */
function rowsOf(array, rows) {
  const width = array.shape[1];
  const data = array.toFloat32();
  const found = new Float32Array(rows.length * width);
  rows.forEach((row, place) => found.set(data.subarray(row * width, (row + 1) * width), place * width));
  return framed(found, [rows.length, width]);
}

/** Some rows of every array. @param {Frame} frame @param {number[]} rows */
function rowsOfAll({ header, arrays }, rows) {
  return { header, arrays: Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, rowsOf(array, rows)])) };
}

/** @param {Frame} frame @param {number|null} layer @param {number[]} tokens */
function statesOf({ arrays: { state } }, layer, tokens) {
  const [layers, count, width] = state.shape;
  const data = state.toFloat32();
  const rows = framed(data, [layers * count, width]);
  const wanted = (layer === null ? Array.from({ length: layers }, (_, at) => at) : [layer]).flatMap((at) => tokens.map((token) => at * count + token));
  const found = rowsOf(rows, wanted);
  const shape = layer === null ? [layers, tokens.length, width] : [tokens.length, width];
  return { header: { layer, tokens }, arrays: { state: framed(found.data, shape) } };
}

/** The logits after one position; those of a bucket are equal. @param {Frame} frame @param {number} query */
function nextToken({ header: { vocabulary, bucket, texts }, arrays }, query) {
  const part = (/** @type {string} */ name) => rowOfArray(arrays[name], query).data;
  const [head, tail, ids] = [part("head"), part("tail"), part("ids")];
  const logits = new Float32Array(vocabulary);
  logits.set(head);
  for (let at = head.length; at < vocabulary; at++) logits[at] = tail[Math.floor((at - head.length) / bucket)];
  const named = new Map(texts.map((/** @type {any[]} */ [id, text, begins]) => [id, { text, begins }]));
  const follows = ids[ids.length - 1];
  const rank = part("rank")[0];
  return {
    header: {
      query,
      tokens: Array.from(ids.slice(0, -1), (id) => named.get(id)),
      ids: Array.from(ids.slice(0, -1)),
      follows: rank < 0 ? null : { ...named.get(follows), rank },
    },
    arrays: { logits: framed(logits, [vocabulary]) },
  };
}

/** One query's part of an array for all queries. @param {FrameArray} array @param {number} query */
function rowOfArray(array, query) {
  const [, ...shape] = array.shape;
  const size = shape.reduce((all, one) => all * one, 1);
  return framed(array.toFloat32().slice(query * size, (query + 1) * size), shape);
}
