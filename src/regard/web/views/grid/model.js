/** The order of the heads in the grid. Pure functions. */
import { maskingOf } from "../../maths/masking.js";
import { isHidden } from "../matrix/geometry.js";

/**
 * Available orders; `statistic` is the sort key.
 * @type {{value: string, text: string, statistic?: string, down?: boolean, said: string}[]}
 */
export const ORDERS = [
  { value: "model", text: "Model", said: "One row per layer." },
  { value: "entropy", text: "Entropy", statistic: "entropy", said: "Most concentrated heads first." },
  { value: "distance", text: "Distance", statistic: "distance", said: "Heads with the shortest distance first." },
  {
    value: "sinks",
    text: "Sink mass",
    statistic: "sinks",
    down: true,
    said: "Heads with the most weight on sinks first.",
  },
];

/** The statistics of a head, with units. */
export const STATISTICS = [
  { name: "entropy", text: "Entropy", unit: "nats", said: "mean over queries: 0 is all weight on one token" },
  { name: "distance", text: "Distance", unit: "tokens", said: "mean distance between query and key" },
  { name: "sinks", text: "Sink mass", unit: "", said: "weight on special and first tokens" },
  { name: "peak", text: "Peak", unit: "", said: "largest weight of a query, mean over queries" },
];

/** @typedef {{layer: number, head: number}} Head */

/** @param {number} layers @param {number} heads @returns {Head[]} */
export function headsOf(layers, heads) {
  return Array.from({ length: layers * heads }, (_, place) => ({
    layer: Math.floor(place / heads),
    head: place % heads,
  }));
}

/**
 * @param {Head[]} heads
 * @param {ArrayLike<number>|undefined} numbers one per head, layer by layer; undefined keeps the model order
 * @param {boolean} down the largest first
 */
export function ordered(heads, numbers, down = false) {
  if (!numbers) return heads;
  const places = heads.map((_, place) => place);
  // NaN sorts last.
  const of = (/** @type {number} */ place) =>
    Number.isNaN(numbers[place]) ? Infinity : (down ? -1 : 1) * numbers[place];
  return places.sort((one, other) => of(one) - of(other) || one - other).map((place) => heads[place]);
}

/**
 * Position of a number between the smallest and the largest, from 0 to 1.
 * @param {number} number
 * @param {ArrayLike<number>} all
 */
export function shareOf(number, all) {
  let [least, most] = [Infinity, -Infinity];
  for (let place = 0; place < all.length; place++) {
    if (all[place] < least) least = all[place];
    if (all[place] > most) most = all[place];
  }
  return most > least ? (number - least) / (most - least) : 0.5;
}

const SPARSE = 100; // heads up to which each map has its label

/** Whether all heads are drawn small, without labels: chosen, or by their number. @param {Chosen} chosen @param {number} count */
export function isDense({ grid_density: density }, count) {
  return density ? density === "dense" : count > SPARSE;
}

/** Whether layers run across instead of down: many layers of few heads fit a screen that way. @param {boolean} dense @param {number} layers @param {number} heads */
export function layersAcross(dense, layers, heads) {
  return dense && layers > heads;
}

/**
 * What a cell of a map shows, in words.
 * @param {{weight: number, queries: number[], keys: number[]}} cell @param {Description} description @param {number} layer
 * @param {(weight: number) => string} printed
 */
export function saidOfCell({ weight, queries, keys }, description, layer, printed) {
  const tokens = description.tokens;
  const named = (/** @type {number[]} */ [first, last], /** @type {string[]} */ of) =>
    last - first === 1 ? of[first] : `${of[first]} … ${of[last - 1]}`;
  const pooled = queries[1] - queries[0] > 1 || keys[1] - keys[0] > 1;
  return {
    query: named(queries, description.query_tokens ?? tokens.slice(description.first_query ?? 0)),
    key: named(keys, tokens),
    weight: isHidden(maskingOf(description, { layer }), queries, keys) ? "masked" : `${pooled ? "mean " : ""}${printed(weight)}`,
  };
}

/**
 * The position that an arrow key moves to.
 * @param {string} key @param {number} here @param {number} count @param {number} across maps per row
 */
export function walked(key, here, count, across) {
  /** @type {Record<string, number>} */
  const moves = {
    ArrowLeft: here - 1,
    ArrowRight: here + 1,
    ArrowUp: here - across,
    ArrowDown: here + across,
    Home: 0,
    End: count - 1,
  };
  if (!(key in moves)) return null;
  return moves[key] < 0 || moves[key] >= count ? here : moves[key];
}
