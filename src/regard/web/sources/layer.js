/**
 * One layer of a one-file page: its arrays, and the weights computed from them on demand.
 *
 * @typedef {{queries: Float32Array, keys: Float32Array, values: Float32Array|null, rows: number, count: number,
 *   heads: number[], keyHeads: number[], valueHeads: number[], headDim: number, valueDim: number, scale: number, softcap: number|null,
 *   sinks: Float32Array|null, seen: (slot: number, query: number) => number[][],
 *   allowed: ((slot: number, query: number, key: number) => boolean)|null,
 *   bias: ((slot: number, query: number, key: number) => number)|null, rowMax: Float64Array, rowSum: Float64Array,
 *   gram: (head: number) => Float32Array}} Layer
 *   rows counts queries, count keys. A page may hold some heads of a layer: `heads` are their numbers in the model, a
 *   slot is the position of one among them, keyHeads[slot] and valueHeads[slot] its key and value head. `seen` gives the intervals of visible keys,
 *   `allowed` further restricts them. rowMax is NaN until a row's state is computed.
 */
import { cap, rowState, scalesLast, weightOf } from "../maths/attention.js";
import { framed } from "./frames.js";
import { makeLinks } from "../maths/links.js";

const YIELD_AFTER = 12; // milliseconds of work before yielding to the event loop

/**
 * @param {Frame} frame
 * @returns {Layer}
 */
export function layerFrom({ header, arrays }) {
  const { q, k, v } = arrays;
  const [heads, rows, headDim] = q.shape;
  const count = k.shape[1];
  return {
    queries: multiplied(q, header.q_times),
    keys: multiplied(k, header.k_times),
    values: v ? multiplied(v, header.v_times) : null,
    rows,
    count,
    heads: header.heads,
    keyHeads: header.key_heads,
    valueHeads: header.value_heads ?? [],
    headDim,
    valueDim: v ? v.shape[2] : 0,
    scale: header.scale,
    softcap: header.softcap ?? null,
    sinks: arrays.sinks ? arrays.sinks.toFloat32() : null,
    seen: intervalsOf(arrays, count),
    allowed: allowedBy(arrays.visible, rows, count),
    bias: biasFrom(arrays, header, rows, count),
    gram: gramOf(arrays.gram, header.heads),
    rowMax: new Float64Array(heads * rows).fill(NaN),
    rowSum: new Float64Array(heads * rows),
  };
}

/** The products of a head's values, within words. @param {FrameArray|undefined} gram @param {number[]} heads */
function gramOf(gram, heads) {
  return (/** @type {number} */ head) => {
    if (!gram) throw new Error("This page does not contain the values of this layer.");
    const slot = heads.indexOf(head);
    return /** @type {Float32Array} */ (gram.data).subarray(slot * gram.shape[1], (slot + 1) * gram.shape[1]);
  };
}

/** The slot of a head. @param {Layer} layer @param {number} head */
function slotOf(layer, head) {
  const slot = layer.heads.indexOf(head);
  if (slot < 0) throw new Error(`Head ${head} is not in this page; it holds heads ${layer.heads.join(", ")}.`);
  return slot;
}

/** @param {Layer} layer @param {number} slot */
function sinkOf(layer, slot) {
  return layer.sinks ? layer.sinks[slot] : null;
}

/** What the softmax multiplies differences of logits by. @param {Layer} layer @param {number} slot */
function factorOf(layer, slot) {
  const plain = { scale: layer.scale, softcap: layer.softcap, biased: Boolean(layer.bias), sink: sinkOf(layer, slot) };
  return scalesLast(plain) ? layer.scale : 1;
}

/**
 * Logits of the keys [from, to): raw scores where the factor is the scale; −∞ where masked. In double precision.
 * @param {Layer} layer @param {number} slot @param {number} query @param {number} from @param {number} to
 * @param {Float64Array} into
 */
function logitsOf(layer, slot, query, from, to, into) {
  const { queries, keys, headDim, bias, allowed, softcap } = layer;
  const scale = factorOf(layer, slot) === 1 ? layer.scale : 1;
  const start = (slot * layer.rows + query) * headDim;
  const first = layer.keyHeads[slot] * layer.count * headDim;
  into.fill(-Infinity);
  for (const [begin, end] of layer.seen(slot, query)) {
    const stop = Math.min(to, end);
    for (let key = Math.max(from, begin); key < stop; key++) {
      if (allowed && !allowed(slot, query, key)) continue;
      let score = 0;
      for (let part = 0, at = first + key * headDim; part < headDim; part++, at++) score += queries[start + part] * keys[at];
      into[key - from] = cap(score * scale, softcap) + (bias ? bias(slot, query, key) : 0);
    }
  }
  return into;
}

/**
 * The weights of one query of one head on the keys [from, to). The first time a row is asked for, its row max and row
 * sum are computed from all its keys and kept.
 * @param {Layer} layer @param {number} head @param {number} query
 * @param {number} [from] @param {number} [to] @param {Float32Array|Float64Array} [into]
 */
export function weightsOfRow(layer, head, query, from = 0, to = layer.count, into = new Float32Array(to - from)) {
  const slot = slotOf(layer, head);
  const factor = factorOf(layer, slot);
  const at = slot * layer.rows + query;
  const known = !Number.isNaN(layer.rowMax[at]);
  const [first, last] = known ? [from, to] : [0, layer.count];
  const logits = logitsOf(layer, slot, query, first, last, new Float64Array(last - first));
  if (!known) {
    const { max, sum } = rowState(logits, factor, sinkOf(layer, slot));
    layer.rowMax[at] = max;
    layer.rowSum[at] = sum;
  }
  const state = { max: layer.rowMax[at], sum: layer.rowSum[at] };
  for (let key = from; key < to; key++) into[key - from] = weightOf(logits[key - first], state, factor);
  return into;
}

/**
 * Queries, keys and values of one head; of one query also which keys are visible, and their bias.
 * @param {Layer} layer @param {number} head @param {number|null} query @param {number[]|null} keys
 */
export function vectorsOf(layer, head, query, keys) {
  const slot = slotOf(layer, head);
  const keyHead = layer.keyHeads[slot];
  const all = keys ?? Array.from({ length: layer.count }, (_, key) => key);
  const asks = query === null ? Array.from({ length: layer.rows }, (_, row) => row) : [query];
  /** @type {Record<string, FrameArray>} */
  const arrays = {
    q: taken(layer.queries, slot * layer.rows, asks, layer.headDim),
    k: taken(layer.keys, keyHead * layer.count, all, layer.headDim),
  };
  if (layer.values) arrays.v = taken(layer.values, layer.valueHeads[slot] * layer.count, all, layer.valueDim);
  if (query !== null) {
    const intervals = layer.seen(slot, query);
    const sees = (/** @type {number} */ key) =>
      intervals.some(([first, last]) => key >= first && key < last) &&
      (!layer.allowed || layer.allowed(slot, query, key));
    arrays.visible = framed(
      Uint8Array.from(all, (key) => Number(sees(key))),
      [all.length],
    );
    const { bias } = layer;
    if (bias)
      arrays.bias = framed(
        Float32Array.from(all, (key) => bias(slot, query, key)),
        [all.length],
      );
  }
  return { header: { scale: layer.scale, softcap: layer.softcap, sink: sinkOf(layer, slot), keys }, arrays };
}

/**
 * A region pooled into cells; cell i covers rows floor(a + i·(b − a)/r) … floor(a + (i + 1)·(b − a)/r).
 * @typedef {(query: number, from: number, to: number, into: Float32Array|Float64Array) => Float32Array|Float64Array} Rows  numbers of one query on the keys [from, to)
 * @param {Rows} rowsOf @param {{rows: number[], columns: number[], shape: number[], pool?: string}} asked
 * @param {AbortSignal} [signal]
 */
export async function tileOf(rowsOf, { rows, columns, shape, pool = "mean" }, signal) {
  const [height, width] = shape;
  const cells = new Float64Array(height * width);
  const columnEdges = edges(columns, width);
  const row = new Float64Array(columns[1] - columns[0]);
  const rowEdges = edges(rows, height);
  const pause = yieldToEvents(signal);
  for (let line = 0; line < height; line++) {
    for (let query = rowEdges[line]; query < rowEdges[line + 1]; query++) {
      await pause();
      rowsOf(query, columns[0], columns[1], row);
      for (let cell = 0; cell < width; cell++) {
        let pooled = 0;
        const start = columnEdges[cell] - columns[0];
        const stop = columnEdges[cell + 1] - columns[0];
        for (let key = start; key < stop; key++)
          pooled = pool === "max" ? Math.max(pooled, row[key]) : pooled + row[key];
        const at = line * width + cell;
        if (pool === "max") cells[at] = Math.max(cells[at], pooled);
        else cells[at] += pooled / ((stop - start) * (rowEdges[line + 1] - rowEdges[line]));
      }
    }
  }
  return Float32Array.from(cells);
}

/**
 * Per token: the attention it receives, the entropy (nats) and mean distance of its own attention, for some heads.
 * @param {Layer} layer @param {number[]} heads
 * @param {number|null} firstQuery key position of query 0; null: queries are not among the keys, distances are NaN
 * @param {AbortSignal} [signal]
 */
export async function alongOf(layer, heads, firstQuery, signal) {
  const { count, rows } = layer;
  const received = new Float64Array(heads.length * count);
  const entropy = new Float32Array(heads.length * rows);
  const distance = new Float32Array(heads.length * rows);
  const row = new Float64Array(count);
  const pause = yieldToEvents(signal);
  for (let place = 0; place < heads.length; place++) {
    for (let query = 0; query < rows; query++) {
      await pause();
      weightsOfRow(layer, heads[place], query, 0, count, row);
      let nats = 0;
      let far = 0;
      for (let key = 0; key < count; key++) {
        const weight = row[key];
        if (!(weight > 0)) continue;
        received[place * count + key] += weight;
        nats -= weight * Math.log(weight);
        far += weight * Math.abs(query + (firstQuery ?? NaN) - key);
      }
      entropy[place * rows + query] = nats;
      distance[place * rows + query] = firstQuery === null ? NaN : far;
    }
  }
  return { received: Float32Array.from(received), entropy, distance };
}

/**
 * The strongest links of the mean over some heads, strongest first.
 * @param {Layer} layer
 * @param {{heads: number[], count: number, itself: boolean, firstQuery: number|null, sinks: Iterable<number>}} asked
 * @param {AbortSignal} [signal]
 */
export async function linksOf(layer, { heads, ...how }, signal) {
  const links = makeLinks(how);
  const mean = new Float64Array(layer.count);
  const row = new Float64Array(layer.count);
  const pause = yieldToEvents(signal);
  for (let query = 0; query < layer.rows; query++) {
    await pause();
    mean.fill(0);
    for (const head of heads) {
      weightsOfRow(layer, head, query, 0, layer.count, row);
      for (let key = 0; key < layer.count; key++) mean[key] += row[key];
    }
    for (let key = 0; key < layer.count; key++) mean[key] /= heads.length;
    links.add(query, mean);
  }
  return links.links();
}

/** @param {number[]} range @param {number} cells */
function edges([from, to], cells) {
  return Array.from({ length: cells + 1 }, (_, cell) => Math.floor(from + (cell * (to - from)) / cells));
}

/** Yields to the event loop every few milliseconds; throws when the signal is aborted. @param {AbortSignal} [signal] */
export function yieldToEvents(signal) {
  let since = performance.now();
  return async () => {
    if (performance.now() - since < YIELD_AFTER) return;
    await new Promise((go) => setTimeout(go, 0));
    signal?.throwIfAborted();
    since = performance.now();
  };
}

/** @param {FrameArray} array @param {number} [times] */
function multiplied(array, times = 1) {
  const numbers = array.toFloat32();
  return times === 1 ? numbers : numbers.map((number) => number * times);
}

/** @param {Record<string, FrameArray>} arrays @param {number} count */
function intervalsOf({ first, last, second_first: secondFirst, second_last: secondLast }, count) {
  if (!first) return () => [[0, count]];
  return (/** @type {number} */ _slot, /** @type {number} */ query) => {
    const found = [[first.data[query], last.data[query]]];
    if (secondFirst) found.push([secondFirst.data[query], secondLast.data[query]]);
    return found;
  };
}

/** @param {FrameArray} visible @param {number} rows @param {number} count */
function allowedBy(visible, rows, count) {
  if (!visible) return null;
  const step = visible.shape[0] > 1 ? rows * count : 0;
  return (/** @type {number} */ slot, /** @type {number} */ query, /** @type {number} */ key) =>
    visible.data[slot * step + query * count + key] !== 0;
}

/** @param {Record<string, FrameArray>} arrays @param {Record<string, any>} header @param {number} rows @param {number} count */
function biasFrom({ bias, relative }, header, rows, count) {
  if (!bias && !relative) return null;
  const [byHead, byQuery, byKey] = bias?.shape ?? [];
  const width = byKey > 1 ? count : 1;
  const height = byQuery > 1 ? rows : 1;
  const span = relative?.shape[1];
  return (/** @type {number} */ slot, /** @type {number} */ query, /** @type {number} */ key) => {
    let sum = 0;
    if (bias)
      sum += bias.data[((byHead > 1 ? slot : 0) * height + (byQuery > 1 ? query : 0)) * width + (byKey > 1 ? key : 0)];
    if (relative)
      sum +=
        relative.data[
          (relative.shape[0] > 1 ? slot : 0) * span + query + (header.offset ?? 0) - key + (header.relative_zero ?? 0)
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
