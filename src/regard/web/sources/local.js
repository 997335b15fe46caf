/**
 * The source of a one-file page: arrays embedded in the page, decoded one layer at a time; weights computed on demand.
 *
 * The page holds `<script type="application/x-regard" id="…">` with frames in base64:
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
 */
import { framed, fromBase64, unpack } from "../frames.js";
import { alongOf, layerFrom, linksOf, tileOf, vectorsOf, weightsOfRow } from "./layer.js";

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
 * @returns {import("./served.js").Source}
 */
export function localSource(page) {
  /** @type {Map<string, any>} */
  const opened = new Map();
  /** The frame of this name; null if the page has none. @param {string} id */
  function frame(id) {
    if (!opened.has(id)) {
      const holder = /** @type {any} */ (page).getElementById(id);
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
      layers.clear(); // one at a time: a layer of 12 heads and 512 tokens takes 5 MB decoded
      layers.set(layer, layerFrom(found));
    }
    return layers.get(layer);
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
        rowOfArray(/** @type {any} */ (array), query),
      ]);
      return { header: found.header, arrays: Object.fromEntries(rows) };
    },

    async tile(asked, signal) {
      const { layer, head, rows = [0, description.queries], columns = [0, count], shape } = asked;
      const weight = await tileOf(layerOf(layer), head, { ...asked, rows, columns }, signal);
      return { header: { exact: true, sampled: null, rows, columns }, arrays: { weight: framed(weight, shape) } };
    },

    row({ layer, heads, query, by }) {
      const full = layerOf(layer);
      const words = by === "word" && description.words ? description.words : null;
      const width = words ? words.length : count;
      const asked = heads ?? full.heads;
      const weight = new Float32Array(asked.length * width);
      asked.forEach((/** @type {number} */ head, /** @type {number} */ place) => {
        const row = words ? rowOfWord(full, head, query, description) : weightsOfRow(full, head, query);
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

    vectors: ({ layer, head, query, keys }) => vectorsOf(layerOf(layer), head, query ?? null, keys ?? null),
  };

  /** The block that a query needs. @param {string} kind @param {any} asked */
  function blockOf(kind, { layer }) {
    if (kind === "describe" || kind === "statistics") return `regard-${kind}`;
    if (kind === "thumbnails" || kind === "steps") return `regard-${kind}-${layer}`;
    return `regard-layer-${layer}`;
  }

  return {
    async ask(kind, parameters = {}, { signal } = {}) {
      await arrived(page, blockOf(kind, parameters));
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
 * @param {any} layer @param {number} head @param {number} query @param {any} description
 */
function rowOfWord(layer, head, query, description) {
  const { words } = description;
  const [first, last] = wordAround(query, description);
  const mean = new Float64Array(words.length);
  const row = new Float64Array(layer.count);
  for (let piece = first; piece < last; piece++) {
    weightsOfRow(layer, head, piece, 0, layer.count, row);
    words.forEach((/** @type {number[]} */ [start, stop], /** @type {number} */ place) => {
      for (let key = start; key < stop; key++) mean[place] += row[key] / (last - first);
    });
  }
  return mean;
}

/** The queries of the same word: [first, last). @param {number} query @param {any} description */
function wordAround(query, { words, first_query: shift, query_tokens: apart, queries }) {
  const own = shift === null || apart ? -1 : query + shift;
  const word = words.find((/** @type {number[]} */ [start, stop]) => own >= start && own < stop);
  return word ? [Math.max(word[0] - shift, 0), Math.min(word[1] - shift, queries)] : [query, query + 1];
}

/** One query's part of an array for all queries. @param {import("../frames.js").FrameArray} array @param {number} query */
function rowOfArray(array, query) {
  const [, ...shape] = array.shape;
  const size = shape.reduce((all, one) => all * one, 1);
  return framed(array.toFloat32().slice(query * size, (query + 1) * size), shape);
}
