/** One link of the attention matrix that is cut: which words, where in the model, and which other link it is compared with. Pure functions. */
import { isMasked, maskingOf } from "../../maths/masking.js";

/** @typedef {"all"|"layer"|"head"} Where  in all layers, in one layer, in one head of it */
/** @type {Where[]} */
export const WHERE = ["all", "layer", "head"];

/** @param {unknown} value @returns {Where} */
export function whereOf(value) {
  return value === "layer" || value === "head" ? value : "all";
}

/**
 * The parameters of `flow` that cut one word off from another.
 * @param {{asker: Unit, key: Unit, where: Where, layer: number, head: number}} edge
 */
export function asksFor({ asker, key, where, layer, head }) {
  const tokens = (/** @type {Unit} */ { first, last }) => Array.from({ length: last - first }, (_, piece) => first + piece);
  const place = where === "head" ? { heads: [[layer, head]] } : where === "layer" ? { layers: [layer] } : {};
  return { blocked: { queries: tokens(asker), keys: tokens(key), ...place } };
}

/** Whether a word may look at another at all. @param {Description} description @param {Unit} asker @param {Unit} key @param {number[]} layers */
export function canLook(description, asker, key, layers) {
  return layers.some((layer) => !isMasked(maskingOf(description, { layer }), [asker.first, asker.last], [key.first, key.last]));
}

/**
 * The word that is cut off at first: the one with the most votes; without votes the first that can be looked at.
 * @param {number[]} counts of votes by word @param {number[]} possible positions
 */
export function firstKey(counts, possible) {
  return possible.reduce((best, word) => (best < 0 || (counts[word] ?? 0) > (counts[best] ?? 0) ? word : best), -1);
}

/** Another word to compare with: the nearest to the one that is cut off, after it where two are equally near. @param {number[]} possible positions @param {number} key */
export function controlKey(possible, key) {
  const others = possible.filter((word) => word !== key);
  return others.reduce((best, word) => (best < 0 || Math.abs(word - key) < Math.abs(best - key) || (Math.abs(word - key) === Math.abs(best - key) && word > best) ? word : best), -1);
}
