/** Hard and soft look-up. Pure functions. */
import { softmax } from "../../maths/attention.js";
import { dot, lengthOf } from "../../maths/numbers.js";
import { printable } from "../../elements/words.js";

export const SIMILARITIES = ["scaled dot", "dot", "cosine", "negative distance"];

/**
 * Similarity of a query to each key.
 * @param {ArrayLike<number>} query @param {ArrayLike<number>[]} keys @param {string} how
 */
export function similarities(query, keys, how) {
  return keys.map((key) => {
    if (how === "negative distance") return -Math.hypot(...Array.from(key, (part, place) => part - query[place]));
    const product = dot(query, key);
    if (how === "scaled dot") return product / Math.sqrt(key.length);
    if (how === "cosine") return product / (lengthOf(query) * lengthOf(key) || 1);
    return product;
  });
}

/**
 * The weight of each key: softmax(similarity / temperature). In the limit 0 the largest share equally, in the limit ∞
 * all do.
 * @param {number[]} scores @param {number} temperature
 */
export function shares(scores, temperature) {
  if (temperature === 0) {
    const max = Math.max(...scores);
    return [...softmax(scores.map((score) => (score === max ? 0 : -Infinity)))];
  }
  return [...softmax(scores, { factor: 1 / temperature })];
}

const EQUAL = 1e-6; // what single precision can tell apart

/** The rows of the largest weight. @param {number[]} weights */
export function tiedRows(weights) {
  const top = Math.max(...weights);
  return weights.map((_, row) => row).filter((row) => weights[row] >= top * (1 - EQUAL));
}

/**
 * What to say if no key alone is the most probable; otherwise nothing.
 * @param {string[]} keys @param {{scores: number[], weights: number[]}} answer @param {number} temperature
 */
export function saidTie(keys, { scores, weights }, temperature) {
  const tied = tiedRows(weights);
  if (tied.length < 2) return "";
  const share = `each gets 1/${keys.length}`;
  if (tied.length < keys.length) {
    const names = tied.map((row) => `“${printable(keys[row])}”`);
    return `A tie: ${names.slice(0, -1).join(", ")} and ${names[names.length - 1]} have the same probability.`;
  }
  if (temperature === Infinity) return `Uniform at infinite temperature: ${share}.`;
  return scores.every((score) => score === 0)
    ? `No match: the query is not similar to any key, so all keys are equally probable: ${share}.`
    : `A tie of all keys: ${share}.`;
}

const WEAK = 0.35; // cosine below which texts have little in common

/** That no key is similar, where that is so. @param {number[]} scores @param {string} how @returns {string} */
export function saidWeak(scores, how) {
  const best = Math.max(...scores);
  return how === "cosine" && best > 0 && best < WEAK ? `Nothing matches well: the most similar key reaches ${best.toFixed(2)} of 1.` : "";
}

/**
 * The key that a mistyped query probably means: at most two letters are missing, extra, wrong or exchanged with the next.
 * Null where a key equals the query, or none or several are as near.
 * @param {string} query @param {string[]} keys
 */
export function meantKey(query, keys) {
  const fold = (/** @type {string} */ text) => text.trim().toLowerCase();
  if (!fold(query) || keys.some((key) => fold(key) === fold(query))) return null;
  const near = keys.map((key) => ({ key, edits: editsBetween(fold(query), fold(key)) })).sort((one, other) => one.edits - other.edits);
  const [first, second] = near;
  const isNear = first && first.edits <= Math.min(2, Math.floor(fold(first.key).length / 3));
  return isNear && (!second || second.edits > first.edits) ? first.key : null;
}

/** Letters to insert, remove, replace or exchange with the next. @param {string} one @param {string} other */
function editsBetween(one, other) {
  const [a, b] = [[...one], [...other]];
  const rows = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= a.length; row++) {
    rows.push([row]);
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      let edits = Math.min(rows[row - 1][column] + 1, rows[row][column - 1] + 1, rows[row - 1][column - 1] + (isSame ? 0 : 1));
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) edits = Math.min(edits, rows[row - 2][column - 2] + 1);
      rows[row].push(edits);
    }
  }
  return rows[a.length][b.length];
}

/** Σ weight · value. @param {number[]} weights @param {number[][]} values */
export function blended(weights, values) {
  return values[0].map((_, part) => weights.reduce((sum, weight, key) => sum + weight * values[key][part], 0));
}

const STEPS = 100;
const DECADES = 2; // on either side of the default temperature

/**
 * The temperature at a slider position: 0 at the left end, ∞ at the right end, the default in the middle.
 * @param {number} place from 0 to 100 @param {number} usual
 */
export function temperatureAt(place, usual) {
  if (place <= 0) return 0;
  if (place >= STEPS) return Infinity;
  return usual * 10 ** (DECADES * ((2 * place) / STEPS - 1));
}

/** A temperature in words. @param {number} temperature */
export function saidTemperature(temperature) {
  if (temperature === 0) return "0, hard";
  if (temperature === Infinity) return "∞, uniform";
  return temperature >= 10 ? temperature.toFixed(0) : temperature.toPrecision(2);
}

/** Parse numbers separated by commas or spaces; null if the count is not `size`. @param {string} text @param {number} size */
export function vectorFrom(text, size) {
  const parts = text
    .replace(/−/g, "-")
    .replace(/[[\]()]/g, " ")
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map(Number);
  return parts.length === size && parts.every(Number.isFinite) ? parts : null;
}
