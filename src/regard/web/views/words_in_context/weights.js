/** Attention given and received, averaged over the selected heads. */
import { byUnits, summedOver } from "../../elements/words.js";
import { meanOf } from "../sentence/weights.js";

const WIDEST = 1024; // cells along one side of a tile
/**
 * @typedef {Awaited<ReturnType<typeof gatherAlong>>} Along
 * @typedef {{place: number, row: {mean: Float32Array}|null, column: {place: number, weight: number}[]}} AttentionOfWord
 */

const BINS = 10; // bins examined in longer texts: as many as bars are drawn

/**
 * Per word: attention received, entropy in nats, mean distance.
 * @param {Source} source @param {{layer: number, heads: number[], units: Unit[], queries: Unit[], shift: number}} asked
 * @param {AbortSignal} signal
 */
export async function gatherAlong(source, { layer, heads, units, queries, shift }, signal) {
  const { header, arrays } = await source.ask("along", { layer, heads }, { signal });
  const overHeads = (/** @type {FrameArray} */ array) => {
    const data = array.toFloat32();
    const count = array.shape[1];
    return meanOf(heads.map((_, place) => data.subarray(place * count, (place + 1) * count)));
  };
  const averaged = (/** @type {Float32Array} */ numbers) =>
    Float32Array.from(queries, ({ first, last }) => {
      let sum = 0;
      for (let token = first; token < last; token++) sum += numbers[token - shift];
      return sum / (last - first);
    });
  return {
    sampled: header.sampled ?? null,
    received: summedOver(overHeads(arrays.received), units),
    entropy: averaged(overHeads(arrays.entropy)),
    distance: averaged(overHeads(arrays.distance)),
  };
}

/**
 * What a key receives from each query; in long texts, from the strongest ones.
 * @param {Source} source @param {{layer: number, heads: number[], key: Unit, queries: Unit[], shift: number}} asked
 * @param {AbortSignal} signal
 * @returns {Promise<{place: number, weight: number}[]>}
 */
export async function gatherReceived(source, { layer, heads, key, queries, shift }, signal) {
  const last = queries[queries.length - 1].last - shift;
  const columns = [key.first, key.last];
  const ask = async (/** @type {number[]} */ rows, /** @type {number} */ cells, /** @type {string} */ pool) => {
    const shape = [cells, key.last - key.first];
    const asked = heads.map((head) =>
      source.ask("tile", { layer, head, rows, columns, shape, pool, quality: "exact" }, { signal }),
    );
    return { data: meanOf((await Promise.all(asked)).map(({ arrays }) => arrays.weight.toFloat32())), shape };
  };
  const exact = async (/** @type {Unit[]} */ some) => {
    const rows = [some[0].first - shift, some[some.length - 1].last - shift];
    return byUnits(await ask(rows, rows[1] - rows[0], "mean"), some, [key]);
  };
  if (last <= WIDEST) return Array.from(await exact(queries), (weight, place) => ({ place, weight }));

  // In a long text, the maxima of 1,024 bins locate the strongest queries.
  const peaks = await ask([0, last], WIDEST, "max");
  const width = peaks.shape[1];
  const order = Array.from({ length: WIDEST }, (_, bin) => bin);
  const peakOf = (/** @type {number} */ bin) => Math.max(...peaks.data.subarray(bin * width, (bin + 1) * width));
  const best = order.sort((one, other) => peakOf(other) - peakOf(one)).slice(0, BINS);
  const found = await Promise.all(
    best.map(async (bin) => {
      const [from, to] = [bin, bin + 1].map((edge) => Math.floor((edge * last) / WIDEST) + shift);
      const start = queries.findIndex((unit) => unit.last > from);
      const stop = queries.findIndex((unit) => unit.first >= to);
      const some = queries.slice(start, stop < 0 ? queries.length : stop);
      return Array.from(await exact(some), (weight, place) => ({ place: start + place, weight }));
    }),
  );
  return [...new Map(found.flat().map((one) => [one.place, one])).values()];
}
