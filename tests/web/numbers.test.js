import assert from "node:assert/strict";
import { test } from "node:test";
import {
  digitsFor,
  dot,
  largestOf,
  printedCount,
  printedNumber,
  printedVector,
  printedWeight,
  productsOf,
  projected,
  roundedUp,
  rowOf,
  weightedSum,
} from "../../src/regard/web/maths/numbers.js";
import { softmax } from "../../src/regard/web/maths/attention.js";
import { strongest } from "../../src/regard/web/maths/links.js";

const WORDS = { The: [1, 0, 1, 0], cat: [0, 1, 0, 1], sat: [1, 1, 1, 1] };
const E = Object.values(WORDS);
const near = (one, other, within = 1e-12) =>
  one.forEach((n, i) => assert.ok(Math.abs(n - other[i]) <= within, `${n} ≠ ${other[i]}`));

test("the worked example comes out as on the slides", () => {
  assert.deepEqual(
    E.map((key) => dot(WORDS.cat, key)),
    [0, 2, 2],
  );
  assert.deepEqual(
    E.map((key) => dot(WORDS.sat, key)),
    [2, 2, 4],
  );
  const outputs = E.map((query) => weightedSum(softmax(E.map((key) => dot(query, key) / 2)), E));
  assert.equal(printedVector(softmax(E.map((key) => dot(WORDS.The, key) / 2)), 2), "0.42 0.16 0.42");
  assert.deepEqual(
    outputs.map((output) => printedVector(output, 2)),
    ["0.84 0.58 0.84 0.58", "0.58 0.84 0.58 0.84", "0.79 0.79 0.79 0.79"],
  );
});

test("a smaller divisor sharpens the weights", () => {
  assert.equal(printedVector(softmax([6, 4]), 2), "0.88 0.12");
  assert.equal(printedVector(softmax([3, 2]), 2), "0.73 0.27");
});

test("masked keys get zero weight, and a row of them only zeros", () => {
  near(softmax([0, -Infinity, 0]), [0.5, 0, 0.5]);
  near(softmax([-Infinity, -Infinity]), [0, 0]);
  near(softmax([1000, 1000]), [0.5, 0.5]);
});

test("a value with weight zero has no influence, even if it is NaN", () => {
  near(
    weightedSum(
      [1, 0],
      [
        [2, 3],
        [NaN, Infinity],
      ],
    ),
    [2, 3],
  );
});

test("numbers are printed as Python prints them", () => {
  assert.deepEqual(
    [printedNumber(0.125, 2), printedNumber(-2.5, 0), printedNumber(-0.001, 2), printedNumber(-Infinity, 2)],
    ["0.13", "−3", "0.00", "−∞"],
  );
  assert.deepEqual(
    [printedNumber(NaN), printedNumber(Infinity), printedNumber(-1.5, 1), printedNumber(0.015, 2)],
    ["NaN", "∞", "−1.5", "0.02"],
  );
  assert.deepEqual(
    [digitsFor([1, 2]), digitsFor([0.5, 0.001]), digitsFor([0.0004, 0.00312]), digitsFor([])],
    [0, 2, 4, 0],
  );
});

test("a single weight keeps four digits however small it is", () => {
  assert.deepEqual([0.42232, 1, 0, 0.0000183412, 1.8341e-9].map(printedWeight), [
    "0.4223",
    "1.000",
    "0",
    "0.00001834",
    "1.834·10⁻⁹",
  ]);
});

test("counts have their thousands apart, tops of scales are round", () => {
  assert.deepEqual([7, 999, 1000, 100000, 1234567].map(printedCount), ["7", "999", "1,000", "100,000", "1,234,567"]);
  assert.deepEqual([0.42, 0.5, 0.0031, 7, 0, NaN, 1].map(roundedUp), [0.5, 0.5, 0.004, 8, 1, 1, 1]);
});

test("products, projections, rows, entropy and the strongest", () => {
  near(productsOf([1, 2, 3], [4, -5, 6]), [4, -10, 18]);
  near(
    projected(
      [1, -1],
      [
        [1, 3, 5],
        [2, 4, 7],
      ],
      [0, 0, 10],
    ),
    [-1, -1, 8],
  );
  near(rowOf({ data: Float32Array.of(1, 2, 3, 4, 5, 6), shape: [3, 2] }, 1), [3, 4]);
  assert.deepEqual(strongest([0.1, 0.5, 0.1, 0.3], 3, { zeros: true }), [1, 3, 0]);
  assert.equal(largestOf([1, -3, Infinity, NaN]), 3);
});
