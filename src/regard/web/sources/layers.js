/** The arrays of one layer as a page holds them, made ready to compute with. */
import { framed } from "../frames.js";
import { keyHeadOf, weightsOfRow } from "./computing.js";

/**
 * @param {import("../frames.js").Frame} frame
 * @param {any} description
 * @returns {import("./computing.js").Layer}
 */
export function layerFrom({ header, arrays }, description) {
  const { q, k, v, normaliser } = arrays;
  const [heads, rows, size] = q.shape;
  const count = k.shape[1];
  return {
    queries: multiplied(q, header.q_times),
    keys: multiplied(k, header.k_times),
    values: v ? multiplied(v, header.v_times) : null,
    normaliser: normaliser.toFloat32(),
    rows,
    count,
    heads,
    keyHeads: k.shape[0],
    size,
    valueSize: v ? v.shape[2] : 0,
    scale: header.scale ?? description.scale ?? size ** -0.5,
    softcap: header.softcap ?? null,
    seen: intervalsOf(arrays, count),
    allowed: allowedBy(arrays.visible, rows, count),
    added: addedBy(arrays, header, rows, count),
  };
}

/**
 * Queries, keys and values of one head; of one query also which keys it may see, and their bias.
 * @param {import("./computing.js").Layer} layer @param {number} head @param {number|null} query @param {number[]|null} keys
 */
export function vectorsOf(layer, head, query, keys) {
  const keyHead = keyHeadOf(layer, head);
  const all = keys ?? Array.from({ length: layer.count }, (_, key) => key);
  const asks = query === null ? Array.from({ length: layer.rows }, (_, row) => row) : [query];
  /** @type {Record<string, import("../frames.js").FrameArray>} */
  const arrays = {
    q: taken(layer.queries, head * layer.rows, asks, layer.size),
    k: taken(layer.keys, keyHead * layer.count, all, layer.size),
  };
  if (layer.values) arrays.v = taken(layer.values, keyHead * layer.count, all, layer.valueSize);
  let sink = null;
  if (query !== null) {
    const intervals = layer.seen(head, query);
    const sees = (/** @type {number} */ key) =>
      intervals.some(([first, last]) => key >= first && key < last) &&
      (!layer.allowed || layer.allowed(head, query, key));
    arrays.visible = framed(
      Uint8Array.from(all, (key) => Number(sees(key))),
      [all.length],
    );
    const { added } = layer;
    if (added)
      arrays.bias = framed(
        Float32Array.from(all, (key) => added(head, query, key)),
        [all.length],
      );
    sink = sinkOf(layer, head, query);
  }
  return { header: { scale: layer.scale, softcap: layer.softcap, sink, keys }, arrays };
}

/**
 * The logit that takes what no key gets; null where the keys get everything.
 * @param {import("./computing.js").Layer} layer @param {number} head @param {number} query
 */
function sinkOf(layer, head, query) {
  const normaliser = layer.normaliser[head * layer.rows + query];
  const given = weightsOfRow(layer, head, query).reduce((sum, weight) => sum + weight, 0);
  return Number.isFinite(normaliser) && given < 0.99 ? normaliser + Math.log(1 - given) : null;
}

/** @param {import("../frames.js").FrameArray} array @param {number} [times] */
function multiplied(array, times = 1) {
  const numbers = array.toFloat32();
  return times === 1 ? numbers : numbers.map((number) => number * times);
}

/** @param {any} arrays @param {number} count */
function intervalsOf({ first, last, second_first: secondFirst, second_last: secondLast }, count) {
  if (!first) return () => [[0, count]];
  return (/** @type {number} */ _head, /** @type {number} */ query) => {
    const found = [[first.data[query], last.data[query]]];
    if (secondFirst) found.push([secondFirst.data[query], secondLast.data[query]]);
    return found;
  };
}

/** @param {any} visible @param {number} rows @param {number} count */
function allowedBy(visible, rows, count) {
  if (!visible) return null;
  const step = visible.shape[0] > 1 ? rows * count : 0;
  return (/** @type {number} */ head, /** @type {number} */ query, /** @type {number} */ key) =>
    visible.data[head * step + query * count + key] !== 0;
}

/** @param {any} arrays @param {any} header @param {number} rows @param {number} count */
function addedBy({ bias, relative }, header, rows, count) {
  if (!bias && !relative) return null;
  const [byHead, byQuery, byKey] = bias?.shape ?? [];
  const width = byKey > 1 ? count : 1;
  const height = byQuery > 1 ? rows : 1;
  const span = relative?.shape[1];
  return (/** @type {number} */ head, /** @type {number} */ query, /** @type {number} */ key) => {
    let sum = 0;
    if (bias)
      sum += bias.data[((byHead > 1 ? head : 0) * height + (byQuery > 1 ? query : 0)) * width + (byKey > 1 ? key : 0)];
    if (relative)
      sum +=
        relative.data[
          (relative.shape[0] > 1 ? head : 0) * span + query + (header.offset ?? 0) - key + (header.relative_zero ?? 0)
        ];
    return sum;
  };
}

/** @param {Float32Array} vectors @param {number} start @param {number[]} rows @param {number} size */
function taken(vectors, start, rows, size) {
  const chosen = new Float32Array(rows.length * size);
  rows.forEach((row, place) =>
    chosen.set(vectors.subarray((start + row) * size, (start + row + 1) * size), place * size),
  );
  return framed(chosen, [rows.length, size]);
}
