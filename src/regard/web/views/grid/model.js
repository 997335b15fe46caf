/** The order of the heads in the grid, their captions and statistics. Pure functions, but for the question to a source. */
import { latestOnly } from "../../elements/lifetime.js";
import { printedCount, printedNumber } from "../../maths/numbers.js";
import { maskingOf } from "../../maths/masking.js";
import { isHidden } from "../matrix/geometry.js";
import { numberOfHead, numberOfLayer } from "../../page/state.js";

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

const UNKNOWN = "no clear pattern";

/** The chosen order. @param {Record<string, any>} chosen */
export function orderOf({ grid_order: chosen }) {
  return ORDERS.find(({ value }) => value === chosen) ?? ORDERS[0];
}

/**
 * What is written below a map: pairs of a kind and a text.
 * @param {{name: string, number: number|null, pattern: string, kept: boolean, inModel: boolean, isDense: boolean}} of
 */
export function captionOf({ name, number, pattern, kept, inModel, isDense: dense }) {
  /** @type {[string, string|null][]} */
  const parts = [
    ["name", inModel ? (kept && !pattern ? null : "") : name],
    ["number", number === null ? null : printedStatistic(number)],
    ["label", !dense && pattern && pattern !== UNKNOWN ? pattern : null],
    ["label", kept ? null : "not kept"],
  ];
  return parts.filter(([, text]) => text !== null);
}

/** @param {number} number */
export function printedStatistic(number) {
  if (Number.isNaN(number)) return "not known";
  return Math.abs(number) >= 1000 ? printedCount(Math.round(number)) : printedNumber(number, 2);
}

/** The statistics of a head, with units. */
export const STATISTICS = [
  { name: "entropy", text: "Entropy", unit: "nats", said: "mean over queries: 0 is all weight on one token" },
  { name: "distance", text: "Distance", unit: "tokens", said: "mean distance between query and key" },
  { name: "sinks", text: "Sink mass", unit: "", said: "weight on special and first tokens" },
  { name: "peak", text: "Peak", unit: "", said: "largest weight of a query, mean over queries" },
];

/**
 * @param {HeadPlace[]} heads
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
 * @param {number} number @param {ArrayLike<number>} all
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

/**
 * The statistics of all heads, as "statistics" is answered.
 * @typedef {{arrays: Record<string, Float32Array>, of: (name: string, head: HeadPlace) => number, patternOf: (head: HeadPlace) => string|null}} HeadStatistics
 * @param {Frame} frame @param {Description} description @returns {HeadStatistics}
 */
function statisticsFrom({ header, arrays }, { heads }) {
  const numbers = Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, array.toFloat32()]));
  return {
    arrays: numbers,
    of: (name, { layer, head }) => numbers[name]?.[layer * heads + head] ?? NaN,
    patternOf: ({ layer, head }) => header.patterns?.[layer]?.[head] ?? null,
  };
}

/**
 * Asks for them, where a page has them.
 * @param {Context} context @param {(known: HeadStatistics) => void} take @param {(error: Error) => void} fail
 */
export function askStatistics({ source, description, lifetime }, take, fail) {
  if (!description.has.includes("statistics")) return;
  const ask = (/** @type {AbortSignal} */ signal) => source.ask("statistics", {}, { signal });
  latestOnly(lifetime)(ask, (frame) => take(statisticsFrom(frame, description)), fail);
}

/** The statistics that a page has. @param {HeadStatistics|null} known */
export function statisticsIn(known) {
  return STATISTICS.filter(({ name }) => known?.arrays[name]);
}

/**
 * A row per head.
 * @param {HeadPlace[]} order @param {HeadStatistics|null} known @param {Description} description @param {string} title
 */
export function tableOfStatistics(order, known, description, title) {
  const shown = statisticsIn(known);
  return {
    title,
    columns: ["layer", "head", ...shown.map(({ name }) => name), ...(known ? ["pattern"] : [])],
    rows: order.map((one) => [
      numberOfLayer(description, one.layer),
      numberOfHead(description, one.head),
      ...shown.map(({ name }) => /** @type {HeadStatistics} */ (known).of(name, one)),
      ...(known ? [known.patternOf(one) ?? ""] : []),
    ]),
  };
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
