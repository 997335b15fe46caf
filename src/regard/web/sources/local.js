/**
 * A source without a server: arrays embedded in the page, decoded a layer at a time, weights computed when asked for.
 *
 * The page holds `<script type="application/x-regard" id="…">` with frames in base64:
 *   regard-describe        the description, no arrays
 *   regard-layer-3         q (head, query, size), k (key head, key, size), v likewise where Steps is wanted, mostly f2, to be
 *                          multiplied by q_times, k_times, v_times of the header; normaliser (head, query) f4; the keys that
 *                          may be seen: first, last, second_first, second_last (query,) i4 or visible (head or 1, query,
 *                          key) u1; bias (head or 1, query or 1, key or 1) f4; relative (head or 1, span) f4;
 *                          header: scale, softcap, offset, relative_zero
 *   regard-statistics      as the answer to `statistics`
 *   regard-thumbnails-3    as the answer to `thumbnails`
 *   regard-steps-3         as the answers to `steps`, of all queries
 *   regard-light-3         instead of a layer: index (head, query, top) u2 or i4, weight (head, query, top) f2, and
 *                          received (head, key), entropy, distance (head, query) f2
 */
import { framed, fromBase64, unpack } from "../frames.js";
import { alongOf, linksOf, tileOf, weightsOfRow } from "./computing.js";
import { layerFrom, vectorsOf } from "./layers.js";
import { lightAlong, lightLinks, lightRow, lightTile } from "./light.js";

/**
 * Waits while the page comes in, until a block of it is there to its end, or all of it.
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
  /** The frame of this name; null where the page has none. @param {string} id */
  function frame(id) {
    if (!opened.has(id)) {
      const holder = /** @type {any} */ (page).getElementById(id);
      opened.set(id, holder ? unpack(fromBase64(holder.textContent)) : null);
    }
    return opened.get(id);
  }
  const description = frame("regard-describe")?.header;
  if (!description) throw new Error("This page holds no reading.");
  const count = description.tokens?.length ?? 0;
  const shift = description.first_query ?? 0;
  /** @type {Map<number, any>} */
  const layers = new Map();

  /** The arrays of a layer as numbers; null on light pages. @param {number} layer */
  function layerOf(layer) {
    if (!layers.has(layer)) {
      const found = frame(`regard-layer-${layer}`);
      layers.clear(); // one at a time: a layer of 12 heads and 512 tokens takes 5 MB as numbers
      layers.set(layer, found && layerFrom(found, description));
    }
    return layers.get(layer);
  }

  /** @param {number} layer */
  function lightOf(layer) {
    const found = frame(`regard-light-${layer}`);
    if (!found) throw new Error(`This page does not hold layer ${layer}.`);
    return found.arrays;
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
      const { layer, head, rows, columns, shape } = asked;
      const full = layerOf(layer);
      const weight = full ? await tileOf(full, head, asked, signal) : lightTile(lightOf(layer), count, asked);
      return {
        header: { exact: Boolean(full), sampled: null, rows, columns },
        arrays: { weight: framed(weight, shape) },
      };
    },

    row({ layer, heads, query, by }) {
      const full = layerOf(layer);
      const one = (/** @type {number} */ head, /** @type {number} */ at) =>
        full ? weightsOfRow(full, head, at) : lightRow(lightOf(layer), count, head, at);
      const words = by === "word" && description.words ? description.words : null;
      const width = words ? words.length : count;
      const weight = new Float32Array(heads.length * width);
      heads.forEach((/** @type {number} */ head, /** @type {number} */ place) => {
        const row = words ? rowOfWord(one, head, query, words, shift) : one(head, query);
        weight.set(row, place * width);
      });
      return { header: { partial: !full }, arrays: { weight: framed(weight, [heads.length, width]) } };
    },

    async along({ layer, heads }, signal) {
      const full = layerOf(layer);
      const found = full ? await alongOf(full, heads, shift, signal) : lightAlong(lightOf(layer), heads);
      const arrays = Object.entries(found).map(([name, data]) => [
        name,
        framed(data, [heads.length, data.length / heads.length]),
      ]);
      return { header: { sampled: null, heads }, arrays: Object.fromEntries(arrays) };
    },

    async links({ layer, heads, count: wanted, itself, sinks }, signal) {
      const aside = new Set(sinks === false ? description.sinks : []);
      const asked = { heads, count: wanted ?? 50, itself, shift, aside };
      const full = layerOf(layer);
      const found = full ? await linksOf(full, asked, signal) : lightLinks(lightOf(layer), count, asked);
      const column = (/** @type {number} */ place) => found.map((link) => link[place]);
      return {
        header: { partial: !full },
        arrays: {
          query: framed(Int32Array.from(column(0)), [found.length]),
          key: framed(Int32Array.from(column(1)), [found.length]),
          weight: framed(Float32Array.from(column(2)), [found.length]),
        },
      };
    },

    vectors({ layer, head, query, keys }) {
      const full = layerOf(layer);
      return full && vectorsOf(full, head, query ?? null, keys ?? null);
    },
  };

  /** The block that a question needs. @param {string} kind @param {any} asked */
  function blockOf(kind, { layer }) {
    if (kind === "describe" || kind === "statistics") return `regard-${kind}`;
    if (kind === "thumbnails" || kind === "steps") return `regard-${kind}-${layer}`;
    return `regard-${description.light ? "light" : "layer"}-${layer}`;
  }

  return {
    async ask(kind, parameters = {}, { signal } = {}) {
      await arrived(page, blockOf(kind, parameters));
      signal?.throwIfAborted();
      const answer = answers[kind] && (await answers[kind](parameters, signal));
      if (!answer) throw new Error(`This page does not hold what “${kind}” needs.`);
      signal?.throwIfAborted();
      return answer;
    },
  };
}

/**
 * Summed over the pieces looked at, averaged over the pieces that look.
 * @param {(head: number, query: number) => Float32Array} one @param {number} head @param {number} query
 * @param {number[][]} words @param {number} shift
 */
function rowOfWord(one, head, query, words, shift) {
  const [first, last] = words.find(([start, stop]) => query + shift >= start && query + shift < stop) ?? [
    query + shift,
    query + shift + 1,
  ];
  const mean = new Float32Array(words.length);
  for (let piece = first; piece < last; piece++) {
    const row = one(head, piece - shift);
    words.forEach(([start, stop], place) => {
      for (let key = start; key < stop; key++) mean[place] += row[key] / (last - first);
    });
  }
  return mean;
}

/** One query's part of an array that holds all. @param {import("../frames.js").FrameArray} array @param {number} query */
function rowOfArray(array, query) {
  const [, ...shape] = array.shape;
  const size = shape.reduce((all, one) => all * one, 1);
  return framed(array.toFloat32().slice(query * size, (query + 1) * size), shape);
}
