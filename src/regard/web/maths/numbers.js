/** Vector arithmetic, and number formatting equal to Python's. Pure functions. */

const [LEAST_DIGITS, MOST_DIGITS] = [2, 6];
const EXACT = 2 ** 40;
// Half is rounded away from zero; what single precision cannot tell from a half counts as one.
const HALF = 0.5 + 1e-6;
const ROUND_STEPS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** @param {ArrayLike<number>} one @param {ArrayLike<number>} other */
export function dot(one, other) {
  let sum = 0;
  for (let place = 0; place < one.length; place++) sum += one[place] * other[place];
  return sum;
}

/** The products that a score sums. @param {ArrayLike<number>} one @param {ArrayLike<number>} other */
export function productsOf(one, other) {
  return Float64Array.from(one, (number, place) => number * other[place]);
}

/**
 * One row of a row-major matrix.
 * @template {Float32Array|Float64Array} Numbers @param {{data: Numbers, shape: number[]}} matrix @param {number} row
 * @returns {Numbers}
 */
export function rowOf(matrix, row) {
  const width = matrix.shape[matrix.shape.length - 1];
  return /** @type {Numbers} */ (matrix.data.subarray(row * width, (row + 1) * width));
}

/** Σ weight · value. @param {ArrayLike<number>} weights @param {ArrayLike<number>[]} values */
export function weightedSum(weights, values) {
  const sum = new Float64Array(values[0]?.length ?? 0);
  for (let key = 0; key < values.length; key++) {
    // A masked value may hold NaN, and 0 · NaN is NaN.
    if (weights[key] === 0) continue;
    for (let place = 0; place < sum.length; place++) sum[place] += weights[key] * values[key][place];
  }
  return sum;
}

/** x · W + b, with W as people write it: a row per number of x. @param {ArrayLike<number>} x @param {ArrayLike<number>[]} matrix @param {ArrayLike<number>|null} [bias] */
export function projected(x, matrix, bias) {
  return Float64Array.from(matrix[0] ?? [], (_, place) => dot(x, columnOf(matrix, place)) + (bias?.[place] ?? 0));
}

/** One column of a matrix. @param {ArrayLike<number>[]} matrix @param {number} place */
export function columnOf(matrix, place) {
  return Float64Array.from(matrix, (row) => row[place]);
}

/** Euclidean norm. @param {ArrayLike<number>} vector */
export function lengthOf(vector) {
  return Math.sqrt(dot(vector, vector));
}

/** The largest finite absolute value. @param {ArrayLike<number>} numbers */
export function largestOf(numbers) {
  let largest = 0;
  for (let place = 0; place < numbers.length; place++) {
    const size = Math.abs(numbers[place]);
    if (size > largest && size < Infinity) largest = size;
  }
  return largest;
}

/** A number with fixed decimals, half rounded away from zero. @param {number} number @param {number} digits */
export function printedNumber(number, digits = 2) {
  if (Number.isNaN(number)) return "NaN";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const lastDigits = Math.abs(number) * 10 ** digits;
  const rounded = lastDigits < EXACT ? Math.floor(lastDigits + HALF) / 10 ** digits : Math.abs(number);
  const text = rounded.toFixed(digits);
  return number < 0 && /[1-9]/.test(text) ? `−${text}` : text;
}

/** @param {ArrayLike<number>} vector @param {number} digits */
export function printedVector(vector, digits) {
  return Array.from(vector, (number) => printedNumber(number, digits)).join(" ");
}

/** Decimals for these numbers: 0 for integers, more if all of them are small. @param {ArrayLike<number>} numbers */
export function digitsFor(numbers) {
  let whole = true;
  for (let place = 0; place < numbers.length && whole; place++) {
    whole = !Number.isFinite(numbers[place]) || Number.isInteger(numbers[place]);
  }
  if (whole) return 0;
  const largest = largestOf(numbers);
  const digits = largest >= 0.05 ? 0 : 1 - Math.floor(Math.log10(largest));
  return Math.min(MOST_DIGITS, Math.max(LEAST_DIGITS, digits));
}

/** A single weight with four significant digits: 0.4223, 0.00001834, 1.834·10⁻⁹. @param {number} weight */
export function printedWeight(weight) {
  if (weight === 0 || !Number.isFinite(weight)) return weight === 0 ? "0" : printedNumber(weight);
  const power = Math.floor(Math.log10(Math.abs(weight)));
  if (power >= -5) return weight.toFixed(Math.max(0, 3 - power)).replace("-", "−");
  const [digits, exponent] = weight.toExponential(3).split("e");
  return `${digits.replace("-", "−")}·${printedPower(Number(exponent))}`;
}

/** An integer with thousands separators: 100,000. @param {number} number */
export function printedCount(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** The next larger round number: 0.42 becomes 0.5. @param {number} largest */
export function roundedUp(largest) {
  if (!(largest > 0) || !Number.isFinite(largest)) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  const step = ROUND_STEPS.find((one) => one * power >= largest * (1 - 1e-9)) ?? 10;
  return Number((step * power).toPrecision(6));
}

/** A power of ten: 10⁻⁵. @param {number} exponent */
export function printedPower(exponent) {
  return `10${raised(exponent)}`;
}

/** @param {number} exponent */
function raised(exponent) {
  return Array.from(String(exponent), (letter) => (letter === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(letter)])).join("");
}

/** @param {number} size in bytes */
export function megabytes(size) {
  return `${Math.round(size / 1e6)} MB`;
}
