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
 *                          or, in a page that is shared with weights alone, weight (head, query, key) f2 and visible
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
 *   regard-model           a model in the page (its manifest) or beside it (its address); regard-worker, the script that runs
 *                          it; regard-weights-0 …, regard-tokenizer-0 …, its files: see hosts/model_page.js
 *   regard-over-layers     mean over all layers and heads, and rollout, (token, token) f2, of short texts
 */
import { framed, fromBase64, unpack } from "./frames.js";
import { keptLayers } from "../page/state.js";
import { rowsAt } from "../maths/rows.js";
import { layerFrom } from "./layer.js";
import { weightAnswers } from "./weight_answers.js";

const THUMBNAIL = 48; // cells along a side
const FEW = 128; // tokens up to which all layers stay decoded

/** Waits while the page is loading, until a block is complete. @param {any} page @param {string} id */
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
  /** @type {Map<number, import("./layer.js").Layer>} */
  const layers = new Map();

  /** @param {number} layer */
  function layerOf(layer) {
    const decoded = layers.get(layer);
    if (decoded) return decoded;
    const stored = frame(`regard-layer-${layer}`);
    if (!stored) throw new Error(`Layer ${layer} is not in this page.`);
    if (count > FEW) layers.clear(); // one at a time: a layer of 12 heads and 512 tokens takes 5 MB decoded
    layers.set(layer, layerFrom(stored));
    return layerOf(layer);
  }

  /** @param {"mean"|"rollout"} measure */
  function matrixOf(measure) {
    const numbers = frame("regard-over-layers")?.arrays[measure]?.toFloat32();
    if (!numbers) throw new Error(`This page does not contain the ${measure} over all layers.`);
    return numbers;
  }

  /** @type {Record<string, import("./weight_answers.js").Answer>} */
  const answers = {
    ...weightAnswers({ description, layerOf, matrixOf }),
    statistics: () => frame("regard-statistics"),
    async thumbnails({ layer }, signal) {
      const stored = frame(`regard-thumbnails-${layer}`);
      if (stored) return stored;
      const { heads } = layerOf(layer);
      const shape = [Math.min(THUMBNAIL, description.queries), Math.min(THUMBNAIL, count)];
      const tiles = await Promise.all(heads.map((head) => answers.tile({ layer, head, shape }, signal)));
      const weight = Float32Array.from(tiles.flatMap((tile) => [.../** @type {Frame} */ (tile).arrays.weight.toFloat32()]));
      return { header: { sampled: null, heads }, arrays: { weight: framed(weight, [heads.length, ...shape]) } };
    },
    steps({ layer, query }) {
      const found = frame(`regard-steps-${layer}`);
      if (!found) return null;
      const rows = Object.entries(found.arrays).map(([name, array]) => [name, rowOfArray(array, query)]);
      return { header: found.header, arrays: Object.fromEntries(rows) };
    },

    value_grams({ layer }) {
      const { gram } = frame(`regard-layer-${layer}`).arrays;
      return { header: { layer, heads: layerOf(layer).heads }, arrays: { gram } };
    },

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

/** Another reading in the page, to compare with. @param {Document} page @returns {Other|undefined} */
export function secondReading(page) {
  if (!page.getElementById("regard-2-describe")) return undefined;
  const source = localSource(page, "regard-2");
  return { source, description: source.description, close: () => {} };
}

/** Some rows of an array (row, width). @param {FrameArray} array @param {number[]} rows */
function rowsOf(array, rows) {
  const width = array.shape[1];
  return framed(rowsAt(array.toFloat32(), width, rows), [rows.length, width]);
}

/** Some rows of every array. @param {Frame} frame @param {number[]} rows */
function rowsOfAll({ header, arrays }, rows) {
  return { header, arrays: Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, rowsOf(array, rows)])) };
}

/** @param {Frame} frame @param {number|null} layer @param {number[]} tokens */
function statesOf({ arrays: { state } }, layer, tokens) {
  const [layers, count, width] = state.shape;
  const asked = layer === null ? Array.from({ length: layers }, (_, at) => at) : [layer];
  const rows = rowsAt(state.toFloat32(), width, asked.flatMap((at) => tokens.map((token) => at * count + token)));
  const shape = layer === null ? [layers, tokens.length, width] : [tokens.length, width];
  return { header: { layer, tokens }, arrays: { state: framed(rows, shape) } };
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
