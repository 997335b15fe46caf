/** The dictionary, hard and soft, as arithmetic. */
import { softmax } from "../../attention.js";
import { dot, lengthOf } from "../../numbers.js";

export const SIMILARITIES = ["scaled dot", "dot", "cosine", "negative distance"];

/**
 * How similar a query is to each key.
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
 * The share of each key: softmax(similarity / temperature). At temperature 0 its limit, equal shares of the largest; at ∞
 * equal shares of all.
 * @param {number[]} scores @param {number} temperature
 */
export function shares(scores, temperature) {
  if (temperature === 0) {
    const max = Math.max(...scores);
    return [...softmax(scores.map((score) => (score === max ? 0 : -Infinity)))];
  }
  return [...softmax(scores, { factor: 1 / temperature })];
}

/** Σ weight · value. @param {number[]} weights @param {number[][]} values */
export function blended(weights, values) {
  return values[0].map((_, part) => weights.reduce((sum, weight, key) => sum + weight * values[key][part], 0));
}

const STEPS = 100;
const DECADES = 2; // to either side of the usual temperature

/**
 * The temperature at a place of the slider: 0 at its left end, ∞ at its right one, the usual one in the middle.
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

/** Numbers that a person typed, with commas or spaces; null where they are not so many. @param {string} text @param {number} size */
export function vectorFrom(text, size) {
  const parts = text
    .replace(/−/g, "-")
    .replace(/[[\]()]/g, " ")
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map(Number);
  return parts.length === size && parts.every(Number.isFinite) ? parts : null;
}
