/** Of all keys those that are shown, and what is said of them. Pure functions. */
import { lengthOf, printedNumber } from "../../numbers.js";

/** @param {ArrayLike<number>} numbers */
export function totalOf(numbers) {
  let sum = 0;
  for (let place = 0; place < numbers.length; place++) sum += numbers[place];
  return sum;
}

/** The keys and values at these places. @param {import("./model.js").Given} given @param {number[]} places */
export function pickedGiven(given, places) {
  const some = (/** @type {any} */ list) => list && places.map((place) => list[place]);
  return { ...given, keys: some(given.keys), values: some(given.values) };
}

/** Every step at these places. @param {import("./model.js").Steps} steps @param {number[]} places */
export function pickedSteps({ output, ...lists }, places) {
  const some = (/** @type {any} */ list) => {
    if (!list) return null;
    return Array.isArray(list) ? places.map((place) => list[place]) : Float64Array.from(places, (place) => list[place]);
  };
  const picked = Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, some(list)]));
  return /** @type {import("./model.js").Steps} */ ({ ...picked, output });
}

/** The heading of the scaled scores. @param {import("./model.js").Given} given @param {number|null} divisor */
export function headingOf(given, divisor) {
  if (divisor !== null) return `score/${printedNumber(divisor, 2)}`;
  const isRoot = Math.abs(given.scale * given.scale * given.query.length - 1) < 1e-5;
  return isRoot ? "score/√d_k" : `score × ${Number(given.scale.toPrecision(3))}`;
}

/** @param {string} word @param {number} size */
export function titleOfSteps(word, size) {
  const root = Math.sqrt(size);
  return `${word} asks: d_k = ${size}, √d_k = ${printedNumber(root, Number.isInteger(root) ? 0 : 2)}`;
}

/**
 * How far a change moved weights and output.
 * @param {import("./model.js").Steps} before
 * @param {import("./model.js").Steps} after
 */
export function saidOfChange(before, after) {
  const moved = totalOf(after.weight.map((one, key) => Math.abs(one - before.weight[key]))) / 2;
  const said = `${printedNumber(100 * moved, 0)} % of the weight moved`;
  const [was, is] = [before.output, after.output];
  if (!was || !is) return `${said}.`;
  const change = printedNumber(lengthOf(is.map((one, place) => one - was[place])), 2);
  return `${said}; the output moved by ${change} (its length was ${printedNumber(lengthOf(was), 2)}).`;
}

/** What is shown, as a table to take away. @param {import("./table.js").Shown} shown @param {string} title */
export function stepsTable({ given, steps, words, own, heading }, title) {
  const mine = (/** @type {number} */ row, /** @type {any} */ vector) =>
    row === (own ?? 0) && vector ? Array.from(vector) : null;
  const { values } = given;
  const { weighted } = steps;
  const sums = weighted ? ["softmax × v", "sum"] : [];
  return {
    title,
    columns: ["Word", "q", "k", ...(values ? ["v"] : []), "score", heading, "softmax", ...sums],
    rows: words.map((word, row) => [
      word,
      mine(row, given.query),
      Array.from(given.keys[row]),
      ...(values ? [Array.from(values[row])] : []),
      steps.score[row],
      steps.scaled[row],
      steps.weight[row],
      ...(weighted ? [Array.from(weighted[row]), mine(row, steps.output)] : []),
    ]),
  };
}
