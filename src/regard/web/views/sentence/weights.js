/** The weights between the visible words, for each selected head, or another measure of them. */
import { framed } from "../../sources/frames.js";
import { isOverLayers, normsByUnits } from "../../page/measures.js";
import { byUnits } from "../../elements/words.js";

/**
 * @typedef {{rows: [number, number], columns: [number, number], heads: number[], each: Float32Array[], mean: Float32Array,
 *   exact: boolean}} Gathered  rows and columns count units; each head's weights row after row
 */

/** The selected heads: several, or one. @param {Chosen} chosen @returns {number[]} */
export function chosenHeads({ heads, head }) {
  return heads?.length ? heads : [head];
}

/**
 * @param {Source} source
 * @param {{layer: number, heads: number[], queries: Unit[], keys: Unit[], rows: [number, number], columns: [number, number],
 *   shift: number, measure: Measure, words: number[][]}} asked  queries and keys are units; `shift` is the
 *   token of the first query
 * @param {AbortSignal} signal
 * @returns {Promise<Gathered>}
 */
export async function gather(source, { layer, heads: chosen, queries, keys, rows, columns, shift, measure, words }, signal) {
  const heads = isOverLayers(measure) ? chosen.slice(0, 1) : chosen;
  const left = queries.slice(...rows);
  const right = keys.slice(...columns);
  const tokenRows = [left[0].first - shift, left[left.length - 1].last - shift];
  const tokenColumns = [right[0].first, right[right.length - 1].last];
  const shape = [tokenRows[1] - tokenRows[0], tokenColumns[1] - tokenColumns[0]];
  const about = isOverLayers(measure) ? { measure } : {};
  const grams = measure === "norm" ? source.ask("value_grams", { layer }, { signal }) : null;
  const answers = await Promise.all(
    heads.map((head) =>
      source.ask(
        "tile",
        { layer, head, rows: tokenRows, columns: tokenColumns, shape, pool: "mean", quality: "exact", ...about },
        { signal },
      ),
    ),
  );
  const gramOf = gramsBy(await grams);
  const each = answers.map(({ arrays }, place) =>
    gramOf
      ? normsByUnits(arrays.weight, gramOf(heads[place]), left, right, words)
      : byUnits(arrays.weight, left, right),
  );
  return {
    rows,
    columns,
    heads,
    each,
    mean: meanOf(each),
    exact: answers.every(({ header }) => header.exact !== false),
  };
}

/** The products of one head's values. @param {Frame|null} answer of `value_grams` */
function gramsBy(answer) {
  if (!answer) return null;
  const { header, arrays } = answer;
  const [, width] = arrays.gram.shape;
  const data = arrays.gram.toFloat32();
  return (/** @type {number} */ head) => {
    const slot = header.heads ? header.heads.indexOf(head) : head;
    return data.subarray(slot * width, (slot + 1) * width);
  };
}

/** @param {Float32Array[]} each */
export function meanOf(each) {
  if (each.length === 1) return each[0];
  const mean = new Float32Array(each[0].length);
  for (const one of each) for (let place = 0; place < mean.length; place++) mean[place] += one[place] / each.length;
  return mean;
}

/**
 * The weights of one query on all units, one row per head.
 * @param {Source} source
 * @param {{layer: number, heads: number[], query: number, by: string, keys: Unit[], measure?: string}} asked
 * @param {AbortSignal} signal
 */
export async function gatherRow(source, { layer, heads: chosen, query, by, keys, measure }, signal) {
  const over = measure === "mean" || measure === "rollout";
  const heads = over ? chosen.slice(0, 1) : chosen;
  const { arrays } = await source.ask("row", { layer, heads, query, by, ...(over ? { measure } : {}) }, { signal });
  const data = arrays.weight.toFloat32();
  const each = heads.map((_, place) => data.subarray(place * keys.length, (place + 1) * keys.length));
  return { each, mean: meanOf(each), array: framed(data, [heads.length, keys.length]) };
}

/** Total weight on sinks. @param {ArrayLike<number>} row @param {Unit[]} keys */
export function takenBySinks(row, keys) {
  let taken = 0;
  keys.forEach((key, place) => {
    if (key.sink) taken += row[place];
  });
  return taken;
}

/**
 * The visible range around a position: the whole text if it is short.
 * @param {number} count @param {number} centre @param {number} size @param {number} small
 * @returns {[number, number]}
 */
export function windowAround(count, centre, size, small) {
  if (count <= small) return [0, count];
  const start = Math.max(0, Math.min(centre - Math.floor(size / 2), count - size));
  return [start, start + size];
}
