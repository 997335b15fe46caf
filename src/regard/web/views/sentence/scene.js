/** What the sentence view draws. Pure functions. */
import { isMasked } from "../../maths/masking.js";
import { printable } from "../../elements/words.js";
import { linksOf } from "./lines.js";

/**
 * Lines, and a number per word.
 * @param {import("./weights.js").Gathered} gathered
 * @param {{queries: Unit[], keys: Unit[]}} units
 * @param {Masking} masking
 * @param {{query: number|null, key: number|null, aside: boolean, apart: boolean, relative?: boolean}} how  bars and lines of
 *   one word are drawn between 0 and 1, or relative to the largest; the overview of all words always is relative
 */
export function sceneOf(gathered, units, masking, { query, key, aside, apart, relative = false }) {
  const [height, width] = [gathered.rows[1] - gathered.rows[0], gathered.columns[1] - gathered.columns[0]];
  const asideKeys = new Set(
    aside
      ? Array.from({ length: width }, (_, place) => place).filter(
          (place) => units.keys[gathered.columns[0] + place].sink,
        )
      : [],
  );
  const within = (/** @type {number|null} */ unit, /** @type {[number, number]} */ range) =>
    unit !== null && unit >= range[0] && unit < range[1] ? unit - range[0] : null;
  const [row, column] = [within(query, gathered.rows), within(key, gathered.columns)];
  const alone = row !== null || column !== null;
  const links = linksOf(gathered, {
    apart,
    query: row,
    key: column,
    aside: row === null && column !== null ? new Set() : asideKeys,
    relative: relative || !alone,
  });
  const rowOf = (/** @type {Float32Array} */ matrix) =>
    row !== null
      ? matrix.subarray(row * width, (row + 1) * width)
      : Float32Array.from({ length: width }, (_, at) => {
          let sum = 0;
          for (let line = 0; line < height; line++) sum += matrix[line * width + at];
          return sum / height;
        });
  const columnOf = (/** @type {Float32Array} */ matrix) =>
    Float32Array.from({ length: height }, (_, line) => matrix[line * width + /** @type {number} */ (column)]);
  const gets = column === null ? rowOf(gathered.mean) : null;
  const gives = column === null ? null : columnOf(gathered.mean);
  const getsParts = apart && column === null ? gathered.each.map(rowOf) : null;
  const givesParts = apart && column !== null ? gathered.each.map(columnOf) : null;
  const shown = Array.from(/** @type {ArrayLike<number>} */ (gets ?? gives), (weight, place) =>
    gets && asideKeys.has(place) ? 0 : Number(weight),
  );
  const parts = (getsParts ?? givesParts ?? []).flatMap((part) =>
    Array.from(part, (weight, place) => (getsParts && asideKeys.has(place) ? 0 : weight)),
  );
  const largest = Math.max(...shown, ...parts, 0);
  const among = (/** @type {[number, number]} */ [first, last], /** @type {(unit: number) => boolean} */ is) =>
    new Set(Array.from({ length: last - first }, (_, place) => place).filter((place) => is(first + place)));
  const hides = (/** @type {number} */ asks, /** @type {number} */ unit) => isHiddenUnit(masking, units.queries[asks], units.keys[unit]);
  return {
    links,
    gets,
    gives,
    getsParts,
    givesParts,
    aside: asideKeys,
    maskedKeys: row === null ? new Set() : among(gathered.columns, (unit) => hides(/** @type {number} */ (query), unit)),
    maskedQueries: column === null ? new Set() : among(gathered.rows, (unit) => hides(unit, /** @type {number} */ (key))),
    largest,
    most: relative || !alone ? largest : 1,
    alone,
    height: Math.max(height, width),
  };
}

/** Whether a key is masked for a query. @param {Masking} masking @param {Unit} query @param {Unit} key */
function isHiddenUnit(masking, query, key) {
  return isMasked(masking, [query.first, query.last], [key.first, key.last]);
}

/** A masked key has no weight. @param {import("./weights.js").Gathered} gathered @param {{queries: Unit[], keys: Unit[]}} units @param {Masking} masking @param {number|null} query @param {number[]|null} apart the model's numbers of the heads, where they are shown apart @param {string} title */
export function tableOf(gathered, units, masking, query, apart, title) {
  const width = gathered.columns[1] - gathered.columns[0];
  const rows = [];
  for (let line = gathered.rows[0]; line < gathered.rows[1]; line++) {
    if (query !== null && line !== query) continue;
    for (let place = 0; place < width; place++) {
      const at = (line - gathered.rows[0]) * width + place;
      const isHidden = isHiddenUnit(masking, units.queries[line], units.keys[gathered.columns[0] + place]);
      const weights = (apart ? gathered.each.map((one) => one[at]) : [gathered.mean[at]]).map((/** @type {number} */ one) => (isHidden ? null : one));
      rows.push([
        printable(units.queries[line].text),
        printable(units.keys[gathered.columns[0] + place].text),
        ...weights,
      ]);
    }
  }
  return {
    title,
    columns: [
      "query",
      "key",
      ...(apart ? apart.map((head) => `weight of head ${head}`) : ["weight"]),
    ],
    rows,
  };
}
