/** What the view Words shows. Pure functions. */
import { strongest } from "../../maths/links.js";
import { isMasked } from "../../maths/masking.js";
import { printedNumber } from "../../maths/numbers.js";
import { printable, unitOf } from "../../elements/words.js";
import { windowAround } from "../sentence/weights.js";

/**
 * @typedef {{query: number, key: number, weight: number, distance: number}} Link
 * @typedef {{place: number, weight: number, unit: Unit}} Bar
 * @typedef {import("./weights.js").Along} Along
 * @typedef {import("./weights.js").AttentionOfWord} AttentionOfWord
 */

const TEXT = 240; // words of the text shown at once
const BARS = 10;
const POINTS = 600; // of a chart; longer texts are drawn by the maximum of each bin

/** The selected word, or the one that receives most. @param {Unit[]} units @param {number|null} query @param {Along|null} along */
export function shownUnit(units, query, along) {
  const place = unitOf(units, query);
  if (place >= 0 || !along) return place;
  return strongest(Float64Array.from(along.received), 1, { skip: (at) => units[at].sink })[0] ?? -1;
}

/**
 * The words of the text around the chosen one, each with its share of the largest attention received.
 * @param {{units: Unit[], along: Along, chosen: number, aside: boolean}} scene with `aside`, sinks are struck through
 */
export function textOf({ units, along: { received }, chosen, aside }) {
  const [from, to] = windowAround(units.length, Math.max(chosen, 0), TEXT, TEXT + 40);
  const isAside = (/** @type {number} */ place) => aside && units[place].sink;
  const most = received.reduce((best, weight, place) => (isAside(place) ? best : Math.max(best, weight)), 1e-9);
  const words = units.slice(from, to).map((unit, at) => {
    const weight = received[from + at];
    return { place: from + at, text: unit.text, weight, share: weight / most, isAside: isAside(from + at) };
  });
  return { words, before: from > 0, after: to < units.length };
}

/**
 * Attention given and received by a word, strongest first, and the largest of these weights.
 * @param {{units: Unit[], queries: Unit[], word: AttentionOfWord, aside: boolean}} scene with `aside`, sinks are left out
 */
export function barsOf({ units, queries, word, aside }) {
  const ranked = (/** @type {Bar[]} */ all) => {
    const skip = (/** @type {number} */ at) => aside && all[at].unit.sink;
    return strongest(Float64Array.from(all, ({ weight }) => weight), BARS, { skip }).map((at) => all[at]);
  };
  const mean = /** @type {ArrayLike<number>} */ (word.row?.mean ?? []);
  const given = ranked(Array.from(mean, (weight, place) => ({ place, weight, unit: units[place] })));
  const taken = ranked(word.column.map(({ place, weight }) => ({ place, weight, unit: queries[place] })));
  return { given, taken, most: Math.max(...[...given, ...taken].map((bar) => bar.weight), 1e-9) };
}

/** @param {Link[]} links @param {string} by @param {boolean} down */
export function sortedLinks(links, by, down) {
  const name = /** @type {keyof Link} */ (by);
  return [...links].sort((one, other) => (down ? other[name] - one[name] : one[name] - other[name]) || other.weight - one.weight);
}

/** At most POINTS numbers to draw: the maximum of each bin. @param {ArrayLike<number>} numbers */
function pointsOf(numbers) {
  if (numbers.length <= POINTS) return Array.from(numbers);
  return Array.from({ length: POINTS }, (_, point) => {
    const [from, to] = [point, point + 1].map((edge) => Math.floor((edge * numbers.length) / POINTS));
    let most = -Infinity;
    for (let place = from; place < to; place++) most = Math.max(most, numbers[place]);
    return most;
  });
}

/** A chart along the text: its path, as wide as it has points. @param {ArrayLike<number>} numbers @param {"bars"|"line"} kind @param {number} height */
export function pathAlong(numbers, kind, height) {
  const points = pointsOf(numbers);
  const most = Math.max(...points, 1e-9);
  const y = (/** @type {number} */ value) => (height - (value / most) * (height - 4)).toFixed(2);
  const gap = points.length > 120 ? 0 : 0.12;
  const pieces = points.map((value, place) =>
    kind === "line" ? `${place ? "L" : "M"}${place + 0.5} ${y(value)}` : `M${place + gap} ${height}V${y(value)}H${place + 1 - gap}V${height}Z`,
  );
  return { path: pieces.join(""), width: Math.max(points.length, 1) };
}

/** What a chart says of one word. @param {ArrayLike<number>} numbers @param {Unit[]} words @param {number} place @param {string} unit */
export function saidAlong(numbers, words, place, unit) {
  const word = words[place];
  return word ? `${printable(word.text).slice(0, 24)} ${printedNumber(numbers[place], 2)}${unit}` : "";
}

/**
 * Each query's numbers for export.
 * @param {{units: Unit[], queries: Unit[], along: Along, word: AttentionOfWord|null, masking: Masking, apartWords: boolean}} scene
 */
export function rowsOf({ units, queries, along, word, masking, apartWords }) {
  const row = apartWords ? null : word?.row;
  return queries.map((unit, place) => {
    const at = apartWords ? place : unitOf(units, unit.first);
    const asker = row && word ? units[word.place] : null;
    const given = row && asker && !isMasked(masking, [asker.first, asker.last], [unit.first, unit.last]) ? row.mean[at] : null;
    return [printable(unit.text), along.received[at] ?? null, along.entropy[place], along.distance[place], given];
  });
}
