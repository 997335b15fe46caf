import assert from "node:assert/strict";
import { test } from "node:test";
import { steppedNumber, typedNumber, withEntry, withName, withoutWord, withWord } from "../../src/regard/web/views/steps/edits.js";
import { stagesOf } from "../../src/regard/web/views/steps/after.js";
import { printedVector } from "../../src/regard/web/maths/numbers.js";
import {
  UNCHANGED,
  concatenatedOf,
  inputTables,
  isChanged,
  keysToShow,
  projectedHead,
  stepsOf,
  stepsTable,
  visibleKeys,
} from "../../src/regard/web/views/steps/model.js";
import { numbered } from "../../src/regard/web/elements/words.js";

const E = [
  [1, 0, 1, 0],
  [0, 1, 0, 1],
  [1, 1, 1, 1],
];
const I = [
  [1, 0, 0, 0],
  [0, 1, 0, 0],
  [0, 0, 1, 0],
  [0, 0, 0, 1],
];
const given = (query, more = {}) => ({ query: E[query], keys: E, values: E, scale: 0.5, own: query, ...more });
const printed = (numbers, digits = 2) => printedVector(numbers, digits);

test("the worked example, step by step", () => {
  const { score, scaled, weight, weighted, output } = stepsOf(given(1));
  assert.equal(printed(score, 0), "0 2 2");
  assert.equal(printed(scaled, 0), "0 1 1");
  assert.equal(printed(weight), "0.16 0.42 0.42");
  assert.equal(printed(weighted[2]), "0.42 0.42 0.42 0.42");
  assert.equal(printed(output), "0.58 0.84 0.58 0.84");
  assert.equal(printed(stepsOf(given(0)).weight), "0.42 0.16 0.42");
  assert.equal(printed(stepsOf(given(2)).score, 0), "2 2 4");
});

test("embeddings through W give queries, keys and values; a changed entry changes what follows", () => {
  const numbers = { embedding: E, w_q: [I], w_k: [I], w_v: [I], w_o: null };
  assert.deepEqual(Array.from(projectedHead(numbers, 0).keys[1]), E[1]);
  const doubled = { ...numbers, w_q: [I.map((row) => row.map((one) => one * 2))], b_q: [[1, 0, 0, 0]] };
  assert.deepEqual(Array.from(projectedHead(doubled, 0).queries[1]), [1, 2, 0, 2]);
});

test("another divisor and a temperature do the same where nothing else is in the way", () => {
  const divided = stepsOf(given(1), { ...UNCHANGED, divisor: 4 }).weight;
  const warmed = stepsOf(given(1), { ...UNCHANGED, temperature: 2 }).weight;
  divided.forEach((one, key) => assert.ok(Math.abs(one - warmed[key]) < 1e-15));
  assert.ok(stepsOf(given(1), { ...UNCHANGED, divisor: 1 }).weight[1] > 0.46);
  assert.deepEqual([isChanged(UNCHANGED), isChanged({ ...UNCHANGED, mask: "none" })], [false, true]);
});

test("masks can be switched on and off", () => {
  const visible = [true, false, true];
  assert.equal(stepsOf(given(0, { visible })).weight[1], 0);
  assert.equal(stepsOf(given(0, { visible })).masked[1], -Infinity);
  assert.ok(stepsOf(given(0, { visible }), { ...UNCHANGED, mask: "none" }).weight[1] > 0.1);
  assert.deepEqual(Array.from(stepsOf(given(0), { ...UNCHANGED, mask: "causal" }).weight), [1, 0, 0]);
});

test("softcap, bias and sinks take part in their order", () => {
  const { capped, biased, weight } = stepsOf(given(1, { softcap: 1, bias: [0.5, 0, 0], sink: 0 }));
  assert.equal(capped[1], Math.tanh(1));
  assert.equal(biased[0], 0.5);
  const parts = [Math.exp(0.5), Math.exp(Math.tanh(1)), Math.exp(Math.tanh(1)), 1];
  assert.ok(Math.abs(weight[0] - parts[0] / parts.reduce((sum, one) => sum + one)) < 1e-15);
});

test("a masked value that is not a number has no influence", () => {
  const { output, weighted } = stepsOf(given(0, { values: [[1], [NaN], [1]], visible: [true, false, true] }));
  assert.deepEqual([Array.from(output), Array.from(weighted[1])], [[1], [0]]);
});

test("causal masks and windows say which keys are visible", () => {
  assert.deepEqual(visibleKeys({ causal: true }, 1, 3), [true, true, false]);
  assert.deepEqual(visibleKeys({ causal: true, window: 2 }, 2, 4), [false, true, true, false]);
  assert.deepEqual(visibleKeys({ causal: false }, 0, 2), [true, true]);
});

test("a silenced head leaves zeros", () => {
  assert.deepEqual(
    Array.from(
      concatenatedOf(
        [
          [1, 2],
          [3, 4],
        ],
        new Set([0]),
      ),
    ),
    [0, 0, 3, 4],
  );
});

test("of many keys the strongest are shown and the query's own, as they stand in the text", () => {
  assert.deepEqual(keysToShow([0.1, 0.5, 0.05, 0.3, 0.05], 3, 2), [1, 2, 3]);
  assert.deepEqual(keysToShow([0.1, 0.5], 3, null), [0, 1]);
});

test("a masked key has no weight in a file, and the mask is written beside it", () => {
  const steps = stepsOf(given(1, { visible: [true, true, false] }));
  const shown = { given: given(1), steps, words: ["The", "cat", "sat"], own: 1, heading: "score/√d_k", changes: UNCHANGED };
  const { columns, rows } = stepsTable(shown, "");
  assert.deepEqual(rows[2].slice(columns.indexOf("softmax")), [null, null, null]);
  assert.ok(rows[0][columns.indexOf("softmax")] > 0);
  const [mask] = inputTables({ words: shown.words, query: "cat", heads: 1, divisor: null, visible: steps.visible, numbers: null });
  assert.deepEqual([mask.columns, mask.rows], [["mask", "The", "cat", "sat"], [["cat", 1, 1, 0]]]);
});

test("repeated words are numbered as in Python", () => {
  assert.deepEqual(numbered(["the", "cat", "the", "the"]), ["the", "cat", "the:2", "the:3"]);
});

test("edits of an example are new numbers: the ones before stay as they are, also in the heads that were not edited", () => {
  const before = Object.freeze({ tokens: ["a", "b"], embedding: [[1, 2], [3, 4]], w_q: [[[1]], [[2]]], w_o: null });
  const copy = structuredClone(before);
  assert.deepEqual(withEntry(before, { name: "embedding" }, [1, 0], 7).embedding, [[1, 2], [7, 4]]);
  assert.deepEqual(withEntry(before, { name: "w_q", head: 1 }, [0, 0], 7).w_q, [[[1]], [[7]]]);
  assert.deepEqual(withName(before, 1, "  ").tokens, ["a", "·"]);
  assert.deepEqual(withWord(before).embedding, [[1, 2], [3, 4], [0, 0]]);
  assert.deepEqual([withoutWord(before, 0).tokens, withoutWord(before, 0).embedding], [["b"], [[3, 4]]]);
  assert.deepEqual(before, copy);
});

test("numbers are typed with a comma or a minus sign, and stepped without rounding errors", () => {
  assert.deepEqual(["−1,5", " 2e3 ", "", "1e7", "x", "1.2.3"].map(typedNumber), [-1.5, 2000, null, null, null, null]);
  const step = (text, key, shiftKey = false) => steppedNumber(text, { key, shiftKey });
  assert.deepEqual([step("0.1", "ArrowUp", true), step("1", "ArrowDown"), step("1", "Enter"), step("x", "ArrowUp")], [0.2, 0, null, null]);
});

test("after a change the stages are computed again where W_O is known, and else say that they are not", () => {
  const twice = (vector) => ({ projected: Array.from(vector, (one) => 2 * one) });
  const after = { outputs: [[3, 4], [0, 0]], original: null, arrays: { projected: [6, 8, 0, 0], result: [1, 1, 1, 1] }, formulas: {}, head: 0, through: twice, arithmetic: null };
  const say = (given, silenced) => stagesOf({ ...after, ...given }, new Set(silenced), false).map(({ name, vector, note }) => [name, [...vector], note]);
  const stale = "not computed again: its weights are not at hand here";
  assert.deepEqual(say({}, []), [["concatenated", [3, 4, 0, 0], null], ["projected", [6, 8, 0, 0], null], ["result", [1, 1, 1, 1], null]]);
  assert.deepEqual(say({}, [0]), [
    ["concatenated", [0, 0, 0, 0], "changed: moved by 100 % of its length"],
    ["projected", [0, 0, 0, 0], "changed: moved by 100 % of its length"],
    ["result", [1, 1, 1, 1], stale],
  ]);
  assert.deepEqual(say({}, [1]).map(([, , note]) => note), ["unchanged", "unchanged", stale]); // its output was zero
  assert.deepEqual(say({ through: null }, [0]).map(([, , note]) => note), ["changed: moved by 100 % of its length", stale, stale]);
});
