/** What the threads show: which words are in sight, which is chosen, which pair is asked about. Pure functions. */
import { unitOf } from "../../elements/words.js";
import { strongest } from "../../maths/links.js";
import { windowAround } from "./weights.js";

/**
 * @typedef {{queries: Unit[], keys: Unit[]}} Units
 * @typedef {{side: "query"|"key", unit: number}} Word
 * @typedef {import("./weights.js").Gathered} Gathered
 */

export const WINDOW = 40; // words in sight of a long text
export const SMALL = 56; // texts up to this many words are shown whole

/** @param {number} place */
export const orNull = (place) => (place < 0 ? null : place);

/** The ranges in sight of both sides. @param {Units} units @param {Pick<Chosen, "query"|"key"> & Record<string, any>} chosen */
export function rangesOf(units, { query, key, sentence_rows: rows, sentence_columns: columns }) {
  const [asks, answers] = [unitOf(units.queries, query), unitOf(units.keys, key)];
  const fixed = (/** @type {number|null|undefined} */ start, /** @type {Unit[]} */ list) => (typeof start === "number" ? windowAround(list.length, start + WINDOW / 2, WINDOW, SMALL) : null);
  const around = (/** @type {Unit[]} */ list, /** @type {number} */ place) => windowAround(list.length, Math.max(place, 0), WINDOW, SMALL);
  const queries = fixed(rows, units.queries) ?? around(units.queries, Math.max(asks, answers));
  const isSame = units.keys.length === units.queries.length;
  return { queries, keys: fixed(columns, units.keys) ?? (isSame ? queries : around(units.keys, answers)) };
}

/** Where a window begins after so many pages. @param {number} start @param {number} by @param {number} count of words */
export function pagedTo(start, by, count) {
  return Math.min(Math.max(start + by * (WINDOW - 5), 0), count - WINDOW);
}

/** Whether a word is among those that were gathered. @param {Gathered|null} gathered @param {Word} word */
export function isVisible(gathered, { side, unit }) {
  const [first, end] = (side === "query" ? gathered?.rows : gathered?.columns) ?? [0, 0];
  return unit >= first && unit < end;
}

/** The word that is pointed at, here or in the map beside. @param {Chosen["pointed"]} pointed @param {Units} units @param {Gathered|null} gathered @returns {Word|null} */
export function pointedWord(pointed, units, gathered) {
  const [query, key] = pointed ?? [null, null];
  const side = query === null ? "key" : "query";
  const unit = unitOf(side === "query" ? units.queries : units.keys, query ?? key);
  return unit < 0 || !isVisible(gathered, { side, unit }) ? null : { side, unit };
}

/** The word whose threads are shown: the one that is pointed at, else the chosen one. @param {Word|null} pointed @param {Units} units @param {Pick<Chosen, "query"|"key">} chosen */
export function shownWord(pointed, units, chosen) {
  if (pointed) return pointed.side === "query" ? { query: pointed.unit, key: null } : { query: null, key: pointed.unit };
  const query = orNull(unitOf(units.queries, chosen.query));
  return { query, key: query === null ? orNull(unitOf(units.keys, chosen.key)) : null };
}

/** The weights of one query on the keys in sight. @param {Gathered} gathered @param {number} query */
function rowOf({ rows, columns, mean }, query) {
  const width = columns[1] - columns[0];
  const start = (query - rows[0]) * width;
  return mean.subarray(start, start + width);
}

/** The key in sight that a query attends to most. @param {Gathered} gathered @param {number} query */
export function strongestKey(gathered, query) {
  return gathered.columns[0] + (strongest(rowOf(gathered, query), 1)[0] ?? 0);
}

/**
 * The query and the chosen key, or the other word that the query attends to most; null where that is not known.
 * @param {Gathered} gathered @param {ArrayLike<number>|null} row of the query on the whole text @param {Units} units @param {Pick<Chosen, "query"|"key">} chosen
 */
export function pairOf(gathered, row, units, { query: token, key }) {
  const query = unitOf(units.queries, token);
  if (query < 0 || (!row && !isVisible(gathered, { side: "query", unit: query }))) return null;
  const from = row ? 0 : gathered.columns[0];
  const skip = (/** @type {number} */ place) => units.keys[from + place].sink || units.keys[from + place].first === units.queries[query].first;
  const chosen = unitOf(units.keys, key);
  const place = chosen >= 0 ? chosen : from + (strongest(row ?? rowOf(gathered, query), 1, { skip })[0] ?? -1 - from);
  return place < 0 || !units.keys[place] ? null : { query: units.queries[query], key: units.keys[place] };
}

/** Whether a token is in a range, or nowhere. @param {number|null} token @param {Unit[]} units @param {[number, number]} range */
export function inSight(token, units, range) {
  const place = unitOf(units, token);
  return place < 0 || (place >= range[0] && place < range[1]);
}
