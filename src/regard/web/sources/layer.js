/**
 * One layer of a one-file page: its arrays, and the weights that the kernel computes from them on demand: in double
 * precision, maps in single precision where that suffices.
 *
 * @typedef {{mapType: Real, queries: Float32Array, keys: Float32Array[], values: Float32Array|null, rows: number, count: number,
 *   heads: number[], keyHeads: number[], valueHeads: number[], headDim: number, valueDim: number, scale: number, softcap: number|null,
 *   sinks: Float32Array|null, visible: Int32Array[], allowed: Dense|null, bias: Dense|null, relative: Dense|null, offset: number,
 *   relativeZero: number, states: Record<Real, {max: Float64Array, sum: Float64Array}>, gram: (head: number) => Float32Array}} Layer
 *   rows counts queries, count keys; `keys` has one array per key head. A page may hold some heads of a layer: `heads` are
 *   their numbers in the model, a slot is the position of one among them, keyHeads[slot] and valueHeads[slot] its key and
 *   value head. `visible` has the first and the last visible key of every query, of one interval or two; `allowed` further
 *   restricts them. The row max of a state is NaN until it is computed.
 * @typedef {{data: ArrayLike<number>, shape: number[]}} Dense  (head or 1, query or 1, key or 1); `relative` (head or 1, span)
 */
import { kernel, part } from "../engine/kernel.js";
import { framed } from "./frames.js";
import { makeLinks } from "../maths/links.js";
import { rowsAt } from "../maths/rows.js";
import { pauses } from "./pause.js";

const SMALLEST_LOG = -1e4; // of a stored weight that is 0
const STEP = 1e8; // multiply-adds between two chances to yield: 12 ms at 17 GFLOP/s

/** @param {Frame} frame @returns {Layer} */
export function layerFrom({ header, arrays: stored }) {
  const arrays = stored.weight ? { ...stored, ...vectorsFor(stored.weight) } : stored;
  const { q, k, v } = arrays;
  const [heads, rows, headDim] = q.shape;
  const [keyHeads, count] = k.shape;
  const keys = multiplied(k, header.k_times);
  return {
    // Vectors are stored in 16 bits where rounding to 11 digits changes no weight much: rounding sums to 24 changes less.
    mapType: q.dtype === "f2" && k.dtype === "f2" ? "f32" : "f64",
    queries: multiplied(q, header.q_times),
    keys: Array.from({ length: keyHeads }, (_, head) => keys.subarray(head * count * headDim, (head + 1) * count * headDim)),
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
    visible: intervalsOf(arrays, count),
    allowed: arrays.visible ?? null,
    bias: arrays.bias ?? null,
    relative: arrays.relative ?? null,
    offset: header.offset ?? 0,
    relativeZero: header.relative_zero ?? 0,
    gram: gramOf(arrays.gram, header.heads),
    states: { f32: unknownStates(heads * rows), f64: unknownStates(heads * rows) },
  };
}

/**
 * Of a page that stores weights alone: empty vectors, and the logarithms of the weights as a bias, whose softmax are the weights.
 * @param {FrameArray} weight (head, query, key)
 */
function vectorsFor(weight) {
  const [heads, rows, count] = weight.shape;
  const bias = weight.toFloat32().map((one) => (one > 0 ? Math.log(one) : SMALLEST_LOG));
  return { q: framed(new Float32Array(heads * rows), [heads, rows, 1]), k: framed(new Float32Array(count), [1, count, 1]), bias: framed(bias, weight.shape) };
}

/** @param {number} count */
function unknownStates(count) {
  return { max: new Float64Array(count).fill(NaN), sum: new Float64Array(count) };
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

/**
 * The scores of a head for the queries and keys of these ranges, as the kernel takes them.
 * @param {Layer} layer @param {Real} type @param {number} slot @param {number[]} rows [first, last) @param {number[]} columns
 * @param {number} [position] of query 0 among the keys, for distances
 * @returns {import("../engine/kernel.js").Scores}
 */
function scoresOf(layer, type, slot, [first, last], [from, to], position = layer.offset) {
  const { headDim, count, relative, sinks } = layer;
  const [rows, start] = [last - first, slot * layer.rows + first];
  const keys = kernel().held(layer.keys[layer.keyHeads[slot]], type, [1, count, headDim]);
  const end = (/** @type {Int32Array|undefined} */ of) =>
    of ? kernel().tensor("i32", [rows], of.subarray(first, last).map((key) => Math.min(Math.max(key - from, 0), to - from))) : null;
  const [firstKey, lastKey, secondFirst, secondLast] = layer.visible.map(end);
  return {
    queries: kernel().tensor(type, [1, rows, headDim], layer.queries.subarray(start * headDim, (start + rows) * headDim)),
    keys: part(keys, 1, from, to),
    scale: layer.scale,
    softcap: layer.softcap,
    bias: regionOf(layer.bias, "f32", slot, [first, last], [from, to]),
    mask: regionOf(layer.allowed, "u8", slot, [first, last], [from, to]),
    relative: relative && kernel().tensor(type, [1, relative.shape[1]], rowsOfDense(relative.data, relative.shape[0] > 1 ? slot : 0, 1, relative.shape[1])),
    offset: position + first,
    relativeZero: layer.relativeZero + layer.offset - position - from,
    sinks: sinks && kernel().tensor("f64", [1], [sinks[slot]]),
    first: firstKey,
    last: lastKey,
    secondFirst,
    secondLast,
  };
}

/** One head's part of an array for queries and keys. @param {Dense|null} dense @param {"f32"|"u8"} type @param {number} slot @param {number[]} rows @param {number[]} columns */
function regionOf(dense, type, slot, [first, last], [from, to]) {
  if (!dense) return null;
  const [heads, height, width] = dense.shape;
  const [start, rows] = height > 1 ? [first, last - first] : [0, 1];
  const numbers = rowsOfDense(dense.data, (heads > 1 ? slot * height : 0) + start, rows, width);
  const whole = kernel().tensor(type, [1, rows, width], numbers);
  return width > 1 ? part(whole, 2, from, to) : whole;
}

/** @param {ArrayLike<number>} data @param {number} first @param {number} rows @param {number} width @returns {ArrayLike<number>} */
function rowsOfDense(data, first, rows, width) {
  return /** @type {Float32Array} */ (data).subarray(first * width, (first + rows) * width);
}

/** The state of some rows, computed from all their keys the first time and kept. @param {Layer} layer @param {Real} type @param {number} slot @param {number} first @param {number} last */
function stateOf(layer, type, slot, first, last) {
  const [start, stop] = [slot * layer.rows + first, slot * layer.rows + last];
  const [max, sum] = [layer.states[type].max.subarray(start, stop), layer.states[type].sum.subarray(start, stop)];
  if (max.some(Number.isNaN)) {
    const { rowMax, rowSum } = kernel().statistics(scoresOf(layer, type, slot, [first, last], [0, layer.count]), ["rowMax", "rowSum"]);
    max.set(kernel().doubles(rowMax));
    sum.set(kernel().doubles(rowSum));
  }
  return { rowMax: kernel().tensor(type, [1, last - first], max), rowSum: kernel().tensor(type, [1, last - first], sum) };
}

/**
 * The weights of one query of one head on the keys [from, to).
 * @param {Layer} layer @param {number} head @param {number} query
 * @param {number} [from] @param {number} [to] @param {Float32Array|Float64Array} [into]
 */
export function weightsOfRow(layer, head, query, from = 0, to = layer.count, into = new Float32Array(to - from)) {
  into.set(weightsOfRows(layer, slotOf(layer, head), [query, query + 1], [from, to]));
  return into;
}

/** (query, key), in double precision. @param {Layer} layer @param {number} slot @param {number[]} rows @param {number[]} columns */
export function weightsOfRows(layer, slot, rows, columns) {
  return kernel().scope(() => {
    const state = stateOf(layer, "f64", slot, rows[0], rows[1]);
    return kernel().doubles(kernel().tile(scoresOf(layer, "f64", slot, rows, columns), "weight", state));
  });
}

/** Rows in steps that each take a few milliseconds; between them events are handled. @param {Layer} layer @param {number[]} rows @param {number} passes @param {AbortSignal|undefined} signal @param {(first: number, last: number) => void} work */
async function bySteps({ count, headDim }, [first, last], passes, signal, work) {
  const rows = Math.max(1, Math.floor(STEP / (passes * count * headDim)));
  const pause = pauses(signal);
  for (let row = first; row < last; row += rows) {
    await pause();
    work(row, Math.min(last, row + rows));
  }
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
    k: taken(layer.keys[keyHead], 0, all, layer.headDim),
  };
  if (layer.values) arrays.v = taken(layer.values, layer.valueHeads[slot] * layer.count, all, layer.valueDim);
  if (query !== null) {
    const { allowed, bias } = layer;
    const numberAt = (/** @type {Dense} */ { data, shape: [heads, height, width] }, /** @type {number} */ key) =>
      data[((heads > 1 ? slot * height : 0) + (height > 1 ? query : 0)) * width + (width > 1 ? key : 0)];
    const isSeen = (/** @type {number} */ key) =>
      (!allowed || numberAt(allowed, key) !== 0) && isWithin(layer.visible, query, key);
    arrays.visible = framed(Uint8Array.from(all, (key) => Number(isSeen(key))), [all.length]);
    const { relative, offset, relativeZero } = layer;
    const byDistance = (/** @type {Dense} */ { data, shape: [heads, span] }, /** @type {number} */ key) =>
      data[(heads > 1 ? slot * span : 0) + query + offset - key + relativeZero];
    if (bias || relative)
      arrays.bias = framed(
        Float32Array.from(all, (key) => (bias ? numberAt(bias, key) : 0) + (relative ? byDistance(relative, key) : 0)),
        [all.length],
      );
  }
  return { header: { scale: layer.scale, softcap: layer.softcap, sink: sinkOf(layer, slot), keys }, arrays };
}

/**
 * A region of a head's weights pooled into cells; cell i covers rows floor(a + i·(b − a)/r) … floor(a + (i + 1)·(b − a)/r).
 * @typedef {{rows: number[], columns: number[], shape: number[], pool?: string}} Region
 * @param {Layer} layer @param {number} head @param {Region} region @param {AbortSignal} [signal]
 */
export async function pooledWeights(layer, head, { rows, columns, shape: [height, width], pool = "mean" }, signal) {
  const slot = slotOf(layer, head);
  const [rowEdges, columnEdges] = [edges(rows, height), edges(columns, width)];
  const cells = new Float64Array(height * width);
  const isWhole = height === rows[1] - rows[0] && width === columns[1] - columns[0]; // a cell per weight
  await bySteps(layer, rows, 2, signal, (first, last) => {
    // The cells that these rows belong to, and their edges among these rows.
    const line = rowEdges.findLastIndex((edge) => edge <= first);
    const inside = [first, ...rowEdges.filter((edge) => edge > first && edge < last), last].map((edge) => edge - first);
    kernel().scope(() => {
      const state = stateOf(layer, layer.mapType, slot, first, last);
      const scores = scoresOf(layer, layer.mapType, slot, [first, last], isWhole ? columns : [0, layer.count]);
      const pooled = () => kernel().pooled(scores, state, inside, columnEdges, pool === "max" ? "max" : "sum");
      const found = kernel().numbers(isWhole ? kernel().tile(scores, "weight", state) : pooled());
      // Of the cells, only those of the first line may have rows of the step before.
      const [start, shared] = [line * width, first > rowEdges[line] ? width : 0];
      for (let cell = 0; cell < shared; cell++)
        cells[start + cell] = pool === "max" ? Math.max(cells[start + cell], Number(found[cell])) : cells[start + cell] + Number(found[cell]);
      cells.set(/** @type {Float32Array} */ (found).subarray(shared), start + shared);
    });
  });
  if (pool !== "max" && !isWhole) divideByArea(cells, rowEdges, columnEdges);
  return new Float32Array(cells);
}

/** Sums of cells into means. @param {Float64Array} cells @param {number[]} rowEdges @param {number[]} columnEdges */
function divideByArea(cells, rowEdges, columnEdges) {
  const widths = Float64Array.from({ length: columnEdges.length - 1 }, (_, cell) => sizeOf(columnEdges, cell));
  for (let at = 0, line = 0; at < cells.length; line++) {
    const height = sizeOf(rowEdges, line);
    for (let cell = 0; cell < widths.length; cell++, at++) cells[at] /= height * widths[cell];
  }
}

/**
 * Numbers that are not a head's weights, pooled in the same way.
 * @typedef {(query: number, from: number, to: number, into: Float32Array|Float64Array) => Float32Array|Float64Array} Rows  numbers of one query on the keys [from, to)
 * @param {Rows} rowsOf @param {Region} region @param {AbortSignal} [signal]
 */
export async function pooledRows(rowsOf, { rows, columns, shape: [height, width], pool = "mean" }, signal) {
  const [rowEdges, columnEdges] = [edges(rows, height), edges(columns, width)];
  const cells = new Float64Array(height * width);
  const row = new Float64Array(columns[1] - columns[0]);
  const pause = pauses(signal);
  for (let line = 0; line < height; line++) {
    for (let query = rowEdges[line]; query < rowEdges[line + 1]; query++) {
      await pause();
      rowsOf(query, columns[0], columns[1], row);
      for (let cell = 0; cell < width; cell++) {
        const at = line * width + cell;
        for (let key = columnEdges[cell]; key < columnEdges[cell + 1]; key++) {
          const number = row[key - columns[0]];
          cells[at] = pool === "max" ? Math.max(cells[at], number) : cells[at] + number / (sizeOf(rowEdges, line) * sizeOf(columnEdges, cell));
        }
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
  const distance = new Float32Array(heads.length * rows).fill(NaN);
  for (let place = 0; place < heads.length; place++) {
    const slot = slotOf(layer, heads[place]);
    await bySteps(layer, [0, rows], 2, signal, (first, last) =>
      kernel().scope(() => {
        const scores = scoresOf(layer, "f64", slot, [first, last], [0, count], firstQuery ?? layer.offset);
        const found = kernel().statistics(scores, ["rowMax", "rowSum", "entropy", "distance"]);
        entropy.set(kernel().doubles(found.entropy), place * rows + first);
        if (firstQuery !== null) distance.set(kernel().doubles(found.distance), place * rows + first);
        const sums = kernel().doubles(kernel().columnSums(scores, found));
        sums.forEach((sum, key) => (received[place * count + key] += sum));
      }),
    );
  }
  return { received: Float32Array.from(received), entropy, distance };
}

/**
 * Of one head, means over the queries that see a key: entropy, distance, weight on the sinks, largest weight.
 * @param {Layer} layer @param {number} head @param {number[]} sinks @param {number|null} firstQuery as of `alongOf` @param {AbortSignal} [signal]
 */
export async function headStatistics(layer, head, sinks, firstQuery, signal) {
  const slot = slotOf(layer, head);
  const sums = { entropy: 0, distance: 0, sinks: 0, peak: 0 };
  let seeing = 0;
  await bySteps(layer, [0, layer.rows], 2, signal, (first, last) =>
    kernel().scope(() => {
      const scores = scoresOf(layer, "f64", slot, [first, last], [0, layer.count], firstQuery ?? layer.offset);
      const found = kernel().statistics(scores, ["rowMax", "rowSum", "entropy", "peak", "distance"]);
      const [entropy, peak, distance] = [found.entropy, found.peak, found.distance].map((numbers) => kernel().doubles(numbers));
      const onSinks = sinks.map((key) => kernel().doubles(kernel().tile(scoresOf(layer, "f64", slot, [first, last], [key, key + 1]), "weight", found)));
      for (let row = 0; row < last - first; row++) {
        if (!(peak[row] > 0)) continue;
        seeing += 1;
        sums.entropy += entropy[row];
        sums.peak += peak[row];
        sums.distance += distance[row];
        for (const weights of onSinks) sums.sinks += weights[row];
      }
    }),
  );
  const mean = (/** @type {number} */ sum) => sum / Math.max(seeing, 1);
  return { entropy: mean(sums.entropy), distance: firstQuery === null ? NaN : mean(sums.distance), sinks: mean(sums.sinks), peak: mean(sums.peak) };
}

/**
 * The strongest links of the mean over some heads, strongest first.
 * @param {Layer} layer
 * @param {{heads: number[], count: number, itself: boolean, firstQuery: number|null, sinks: Iterable<number>}} asked
 * @param {AbortSignal} [signal]
 */
export async function linksOf(layer, { heads, ...how }, signal) {
  const { count } = layer;
  const links = makeLinks(how);
  const slots = heads.map((head) => slotOf(layer, head));
  await bySteps(layer, [0, layer.rows], 2 * heads.length, signal, (first, last) => {
    const mean = new Float64Array((last - first) * count);
    for (const slot of slots) {
      const weights = weightsOfRows(layer, slot, [first, last], [0, count]);
      for (let at = 0; at < mean.length; at++) mean[at] += weights[at] / heads.length;
    }
    for (let query = first; query < last; query++) links.add(query, mean.subarray((query - first) * count, (query - first + 1) * count));
  });
  return links.links();
}

/** @param {number[]} range @param {number} cells */
function edges([from, to], cells) {
  return Array.from({ length: cells + 1 }, (_, cell) => Math.floor(from + (cell * (to - from)) / cells));
}

/** @param {number[]} edges @param {number} cell */
function sizeOf(edges, cell) {
  return edges[cell + 1] - edges[cell];
}

/** @param {FrameArray} array @param {number} [times] */
function multiplied(array, times = 1) {
  const numbers = array.toFloat32();
  return times === 1 ? numbers : numbers.map((number) => number * times);
}

/** The first and the last visible key of every query, of each interval. @param {Record<string, FrameArray>} arrays @param {number} count */
function intervalsOf({ first, last, second_first: secondFirst, second_last: secondLast }, count) {
  return [first, last, secondFirst, secondLast]
    .filter((ends) => ends)
    .map(({ data }) => Int32Array.from(data, (key) => Math.min(Math.max(Number(key), 0), count)));
}

/** Whether a query's intervals have a key; without intervals all keys are visible. @param {Int32Array[]} ends @param {number} query @param {number} key */
function isWithin(ends, query, key) {
  if (!ends.length) return true;
  for (let which = 0; which < ends.length; which += 2) if (key >= ends[which][query] && key < ends[which + 1][query]) return true;
  return false;
}

/** @param {Float32Array} vectors @param {number} start @param {number[]} rows @param {number} size */
function taken(vectors, start, rows, size) {
  return framed(rowsAt(vectors, size, rows.map((row) => start + row)), [rows.length, size]);
}
