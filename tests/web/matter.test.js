/** Does it matter? What is said of changed votes, which link is cut and compared, maps of effects, the lens, and what is missing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { asksFor, controlKey, firstKey, whereOf } from "../../src/regard/web/views/edges/model.js";
import { mapOf as lensMap, settledAfter } from "../../src/regard/web/views/lens/model.js";
import { missingFor } from "../../src/regard/web/views/matter/missing.js";
import { headsLook, saidOfVotes, sceneAfter, votesAfter } from "../../src/regard/web/views/matter/model.js";
import { mapOf, saidOfMeasure, strongestCells } from "../../src/regard/web/views/patching/model.js";

const textOf = (parts) => parts.map(({ text }) => text).join("");

test("the number of heads that look elsewhere is said, also where it is none, one, or no layer comes after", () => {
  assert.equal(textOf(saidOfVotes({ changed: 3, of: 35, word: "they" })), "3 of 35 heads in later layers now look from “they” to another word.");
  assert.equal(textOf(saidOfVotes({ changed: 1, of: 12, word: "they" })), "1 of 12 heads in later layers now looks from “they” to another word.");
  assert.match(textOf(saidOfVotes({ changed: 0, of: 12, word: "they" })), /^None of the 12 heads/);
  assert.match(textOf(saidOfVotes({ changed: 0, of: 0, word: "they" })), /^No layer comes after/);
  assert.deepEqual([0, 1, 2].map(headsLook), ["no head looks", "1 head looks", "2 heads look"]);
});

test("a link is cut between all pieces of two words, in all layers, in one, or in one head", () => {
  const edge = { asker: { first: 9, last: 10 }, key: { first: 2, last: 4 }, layer: 3, head: 1 };
  assert.deepEqual(asksFor({ ...edge, where: "all" }), { blocked: { queries: [9], keys: [2, 3] } });
  assert.deepEqual(asksFor({ ...edge, where: "layer" }), { blocked: { queries: [9], keys: [2, 3], layers: [3] } });
  assert.deepEqual(asksFor({ ...edge, where: "head" }), { blocked: { queries: [9], keys: [2, 3], heads: [[3, 1]] } });
  assert.deepEqual(["head", "layer", "all", undefined, "x"].map(whereOf), ["head", "layer", "all", "all", "all"]);
});

test("the first link goes to the word with the most votes, its control to the nearest other word", () => {
  assert.equal(firstKey([0, 3, 7, 7, 9], [1, 2, 3]), 2);
  assert.equal(firstKey([], [4, 5]), 4);
  assert.equal(firstKey([1], []), -1);
  assert.equal(controlKey([1, 2, 4, 8], 2), 1);
  assert.equal(controlKey([1, 2, 3], 2), 3); // as near: the one after
  assert.equal(controlKey([2], 2), -1);
});

test("a map of effects has one cell per layer and column; layers to come wait", () => {
  const effects = [Float32Array.of(0.1, -0.5), null];
  const map = mapOf({ by: "head", effects, layers: ["0", "1"], columns: ["0", "1"], nameOf: (layer, head) => `${layer}.${head}` });
  assert.deepEqual(map.cells.map((row) => row.map(({ text }) => text)), [["10", "−50"], ["", ""]]);
  assert.deepEqual(map.cells[1].map(({ value }) => value), [null, null]);
  assert.ok(Math.abs(map.cells[0][0].value - 0.2) < 1e-6); // the largest effect has the full colour
  assert.equal(map.cells[0][1].value, -1);
  assert.deepEqual(strongestCells(effects, 1), [{ layer: 0, column: 1, effect: -0.5 }]);
});

test("what 100 % means is said by the two answers, or by the vector", () => {
  const tokens = [{ text: "Mary", begins: true }, { text: "John", begins: true }];
  assert.match(saidOfMeasure({ kind: "logits", tokens }, "to"), /“Mary” here and “John” in the other text/);
  assert.match(saidOfMeasure({ kind: "state" }, "they"), /the vector of they/);
});

test("the lens marks tokens that follow, and says from which layer on an answer stays", () => {
  const lens = { tops: [["a", "x"], ["b", "y"], ["b", "x"]], probability: [0.1, 0.2, 0.5, 0.3, 0.9, 0.4], rank: [3, NaN, 0, NaN, 0, NaN] };
  const map = lensMap(lens, ["one", "two"], ["0", "1"], [0, 1]);
  assert.deepEqual(map.rows, ["start", "0", "1"]);
  assert.deepEqual(map.cells.map(([{ strong }]) => strong), [false, true, true]);
  assert.match(map.cells[1][0].title, /After layer 0, “one”: “b” with probability 0.500, and it does follow/);
  assert.equal(settledAfter(lens.tops, 0), 1);
  assert.equal(settledAfter(lens.tops, 1), 2);
});

test("a page says what is missing and how to get it", () => {
  const page = { has: ["row"], model: "minilm", text: 'Say "hi" to `them`', causal: false, long: false, given: null };
  assert.equal(missingFor("flow", { ...page, has: ["flow"] }), null);
  const { why, command } = missingFor("flow", page);
  assert.match(why, /not the model/);
  assert.match(command, /regard see "Say hi to them" --model minilm --with-model --out page.html/); // nothing that a shell would take apart
  assert.match(missingFor("lens", { ...page, has: ["flow"] }).why, /no unembedding/);
  assert.match(missingFor("flow", page, { loads: true }).why, /as soon as it is loaded/);
  assert.match(missingFor("flow", page, { show: () => {} }).why, /transformers runs this model/);
  assert.match(missingFor("flow", { ...page, long: true }).why, /too long/);
});

test("after a change struck heads lie in the tray, later layers vote again, and the others stay", () => {
  const units = ["a", "b", "c"].map((text) => ({ text, sink: false }));
  const before = [[0, 0, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]].map(([layer, head, word]) => ({ layer, head, word, weight: 0.6, abstains: false }));
  const weight = { shape: [1, 2, 3], toFloat32: () => Float32Array.of(0.1, 0.8, 0.1, NaN, NaN, NaN) }; // of layer 1; one head has none
  const after = votesAfter(before, { header: { layers: [1] }, arrays: { weight } }, units, 2);
  assert.deepEqual(after.map(({ word }) => word), [0, 1, 1, 1]);
  const scene = sceneAfter(before, { votes: after, struck: new Set(["0.0"]) }, { keys: ["a", "b", "c"], layers: [0, 1] });
  assert.deepEqual([scene.counts, [...scene.before.values()], [...scene.changed]], [[0, 3, 0], [2, 2, 0], ["1.0"]]);
  assert.equal(sceneAfter(before, { votes: before, struck: new Set() }, { keys: ["a", "b", "c"], layers: [0, 1] }).before, null);
});
