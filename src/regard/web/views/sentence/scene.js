/** What the sentence view draws. Pure functions. */
import { isMasked } from "../../maths/masking.js";
import { printable } from "../../elements/words.js";
import { linksOf } from "./lines.js";

/**
 * Lines, and a number per word.
 * @param {import("./weights.js").Gathered} gathered @param {{queries: Unit[], keys: Unit[]}} units
 * @param {Masking} masking
 * @param {{query: number|null, key: number|null, aside: boolean, apart: boolean, relative?: boolean}} how  bars and lines of
 *   one word are drawn between 0 and 1, or relative to the largest; the overview of all words always is relative
 */
export function sceneOf(gathered, units, masking, { query, key, aside, apart, relative = false }) {
  const { rows, columns, mean, each } = gathered;
  const [height, width] = [rows[1] - rows[0], columns[1] - columns[0]];
  const among = (/** @type {[number, number]} */ [first, last], /** @type {(unit: number) => boolean} */ is) =>
    new Set(Array.from({ length: last - first }, (_, place) => place).filter((place) => is(first + place)));
  const within = (/** @type {number|null} */ unit, /** @type {[number, number]} */ range) =>
    unit !== null && unit >= range[0] && unit < range[1] ? unit - range[0] : null;
  const asideKeys = aside ? among(columns, (unit) => units.keys[unit].sink) : new Set();
  const [row, column] = [within(query, rows), within(key, columns)];
  const alone = row !== null || column !== null;
  const isGiven = column !== null; // what a key gives to the queries; else what the keys get
  const isRelative = relative || !alone;
  const noLine = row === null && isGiven ? new Set() : asideKeys;
  const links = linksOf(gathered, { apart, query: row, key: column, aside: noLine, relative: isRelative });
  const rowOf = (/** @type {Float32Array} */ matrix) =>
    row !== null
      ? matrix.subarray(row * width, (row + 1) * width)
      : Float32Array.from({ length: width }, (_, at) => {
          let sum = 0;
          for (let line = 0; line < height; line++) sum += matrix[line * width + at];
          return sum / height;
        });
  const columnOf = (/** @type {Float32Array} */ matrix) =>
    Float32Array.from({ length: height }, (_, line) => matrix[line * width + Number(column)]);
  const weights = (isGiven ? columnOf : rowOf)(mean);
  const parts = apart ? each.map(isGiven ? columnOf : rowOf) : null;
  const seen = (/** @type {number} */ weight, /** @type {number} */ place) => (!isGiven && asideKeys.has(place) ? 0 : weight);
  const largest = Math.max(...[weights, ...(parts ?? [])].flatMap((some) => Array.from(some, seen)), 0);
  const hides = (/** @type {number} */ asks, /** @type {number} */ unit) => isHiddenUnit(masking, units.queries[asks], units.keys[unit]);
  return {
    links,
    gets: isGiven ? null : weights,
    gives: isGiven ? weights : null,
    getsParts: isGiven ? null : parts,
    givesParts: isGiven ? parts : null,
    aside: asideKeys,
    maskedKeys: row === null ? new Set() : among(columns, (unit) => hides(Number(query), unit)),
    maskedQueries: isGiven ? among(rows, (unit) => hides(unit, Number(key))) : new Set(),
    largest,
    most: isRelative ? largest : 1,
    alone,
    height: Math.max(height, width),
  };
}

/** Whether a key is masked for a query. @param {Masking} masking @param {Unit} query @param {Unit} key */
function isHiddenUnit(masking, query, key) {
  return isMasked(masking, [query.first, query.last], [key.first, key.last]);
}

/**
 * A masked key has no weight.
 * @param {import("./weights.js").Gathered} gathered @param {{queries: Unit[], keys: Unit[]}} units
 * @param {Masking} masking
 * @param {number|null} query @param {number[]|null} apart the model's numbers of the heads, where they are shown apart
 * @param {string} title
 */
export function tableOf({ rows: [top, foot], columns: [left, right], each, mean }, units, masking, query, apart, title) {
  const width = right - left;
  const rows = [];
  for (let line = top; line < foot; line++) {
    if (query !== null && line !== query) continue;
    for (let place = 0; place < width; place++) {
      const [asker, key] = [units.queries[line], units.keys[left + place]];
      const isHidden = isHiddenUnit(masking, asker, key);
      const weights = (apart ? each : [mean]).map((matrix) => (isHidden ? null : matrix[(line - top) * width + place]));
      rows.push([printable(asker.text), printable(key.text), ...weights]);
    }
  }
  return { title, columns: ["query", "key", ...(apart ? apart.map((head) => `weight of head ${head}`) : ["weight"])], rows };
}
