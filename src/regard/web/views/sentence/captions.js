/** What the sentence view says in words. Pure functions, but for the elements of words. */
import { strongest } from "../../maths/links.js";
import { printedNumber } from "../../maths/numbers.js";
import { isOverLayers, nameOfMeasure, verbOf } from "../../page/measures.js";
import { numberOfHead, numberOfLayer } from "../../page/state.js";
import { shortened, sinksOf, wordElement } from "../../elements/words.js";
import { digitsOf } from "./side.js";
import { chosenHeads } from "./weights.js";

/** The weight outside the visible part, and where most of it is. @param {ArrayLike<number>} row @param {[number, number]} visible @param {Unit[]} keys */
export function elsewhereOf(row, [start, stop], keys) {
  const part = (/** @type {number} */ from, /** @type {number} */ to) => {
    let sum = 0;
    let best = from;
    for (let place = from; place < to; place++) {
      sum += row[place];
      if (row[place] > row[best]) best = place;
    }
    return sum >= 0.005 ? ` · ${printedNumber(sum, 2)}, most ${shortened(keys[best].text, 12)}` : "";
  };
  return { before: part(0, start), after: part(stop, row.length) };
}

/** What the switch does, and how much weight it is about. @param {Unit[]} keys @param {number|null} taken @param {string|null} word that looks */
export function sinkLabel(keys, taken, word) {
  const { listed, several } = sinksOf(keys);
  if (taken === null) return `Set ${listed} aside`;
  const share = `${several ? "they take" : "it takes"} ${printedNumber(taken, 2)}`;
  return `Set ${listed} aside (${word ? `${share} of the attention of “${shortened(word, 16)}”` : `${share} on average`})`;
}

/**
 * One sentence about the selection.
 * @param {{query: number|null, key: number|null, row: ArrayLike<number>|null, start: number, gives: ArrayLike<number>|null, firstRow: number,
 *   units: {queries: Unit[], keys: Unit[]}, aside: boolean, measure: Measure}} shown  row: weights of the query from the key `start` on
 */
export function captionOf({ query, key, row, start, gives, firstRow, units, aside, measure }) {
  const best = (/** @type {ArrayLike<number>} */ weights, /** @type {Unit[]} */ list, /** @type {number} */ from) =>
    strongest(weights, 3, { skip: (place) => aside && list[from + place].sink && key === null }).map((place) => ({ weight: weights[place], unit: list[from + place] }));
  const word = (/** @type {Unit} */ unit) => wordElement(unit.text, { class: "regard-word" }, 16);
  const named = (/** @type {{unit: Unit, weight: number}[]} */ found) =>
    found.flatMap(({ unit, weight }, place) => [place ? ", " : "", word(unit), ` ${printedNumber(weight, digitsOf(found[0].weight))}`]);
  if (query !== null) {
    const found = best(row ?? [], units.keys, start);
    return [word(units.queries[query]), ...(found.length ? [verbOf(measure), ...named(found)] : [" sees no key"])];
  }
  if (key === null || !gives) return ["The strongest links of all words. Select a word to see its own."];
  const verb = measure === "norm" ? " contributes most to " : " receives most attention from ";
  return [word(units.keys[key]), verb, ...named(best(gives, units.queries, firstRow))];
}

/** @param {Chosen} chosen @param {Measure} measure @param {Description} description */
export function titleOf(chosen, measure, description) {
  const heads = chosenHeads(chosen);
  const shown = nameOfMeasure(measure, description);
  if (isOverLayers(measure)) return shown;
  return `${measure === "weight" ? "" : `${shown}: `}Layer ${numberOfLayer(description, chosen.layer)}, head${heads.length > 1 ? "s" : ""} ${heads.map((head) => numberOfHead(description, head)).join(", ")}`;
}
