/** What heads do: axes, ranks, labels and colours follow from the measured numbers. */
import assert from "node:assert/strict";
import test from "node:test";
import { pack, unpack } from "../../src/regard/web/sources/frames.js";
import {
  NONE,
  nameOf,
  RELATION,
  alone,
  atlasOf,
  axisOf,
  firstAxes,
  firstHead,
  legendOf,
  onSentence,
  patternOf,
  rankOf,
  shareOf,
  short,
  tickDigits,
} from "../../src/regard/web/heads/model.js";

const label = (pattern, score) => ({ pattern, score });
const relation = { layer: 1, head: 0, arrow: "object → verb", accuracy: [0.74, 0.7, 0.8], gain: 0.39, offset: 0.35 };

/** @param {Record<string, any>} [more] */
function model(more = {}) {
  return {
    model: "small",
    source: "a text",
    layers: 2,
    heads: 3,
    about: { documents: 1, tokens: 4 },
    notes: [],
    patterns: [{ name: "previous token" }, { name: "first-token sink" }],
    labels: [
      [[label("previous token", 0.9)], [], [label("first-token sink", 0.7)]],
      [[label("first-token sink", 0.6)], [], []],
    ],
    statistics: [
      { name: "entropy", meaning: "m", mean: [[0.5, 1, 1.5], [2, 2.5, null]], low: [[0.4, 0.9, null], [1, 2, null]], high: [[0.6, 1.1, null], [3, 3, null]] },
      { name: "induction", meaning: "m", mean: [[null, null, null], [null, null, null]] },
    ],
    relations: [relation],
    relations_on: "a treebank",
    examples: [],
    tenths: null,
    sentences: [{ text: "a b", tokens: ["a", "b"], sinks: [], causal: false }],
    ...more,
  };
}

/** @param {...any} models */
function atlas(...models) {
  const weights = new Uint8Array(24).map((_, place) => place * 10);
  return atlasOf(unpack(pack({ title: "Heads", models }, { weights_0_0: { data: weights, shape: [2, 3, 2, 2] } })));
}

test("only metrics that were measured in every model can be axes", () => {
  assert.deepEqual(atlas(model()).metrics.map(({ name }) => name), ["entropy", "relation", "layer"]);
  assert.deepEqual(atlas(model(), model({ relations: [] })).metrics.map(({ name }) => name), ["entropy", "layer"]);
  assert.deepEqual(firstAxes(atlas(model())), ["entropy", "layer"]);
});

test("an axis holds every value of both models, and its ticks are round", () => {
  const two = atlas(model(), model({ statistics: [{ ...model().statistics[0], mean: [[4, 5, 6], [7, 8, 9.5]] }] }));
  const { from, to, ticks } = axisOf(two, "entropy");
  assert.equal(from, 0);
  assert.ok(to >= 9.5);
  assert.deepEqual(ticks, [0, 2, 4, 6, 8]);
  assert.ok(shareOf({ from, to }, 9.5) <= 1);
});

test("values that were not counted are NaN and have no interval", () => {
  const [one] = atlas(model()).models;
  assert.ok(Number.isNaN(one.of("entropy", one.all[5])));
  assert.equal(one.interval("entropy", one.all[2]), null);
  assert.deepEqual(one.interval("entropy", one.all[0]), [0.4, 0.6]);
  assert.equal(rankOf(one, "entropy", one.all[3]), 1);
});

test("a head is coloured by its pattern, a relation before a sink, and nothing clear last", () => {
  const all = atlas(model());
  const [one] = all.models;
  assert.deepEqual(one.all.map((head) => patternOf(one, head)), ["previous token", NONE, "first-token sink", RELATION, NONE, NONE]);
  assert.equal(nameOf(one, one.all[3]), "object → verb");
  assert.equal(nameOf(one, one.all[0]), "previous token");
  assert.equal(nameOf(one, one.all[1]), NONE);
  const named = { ...one, known: () => "verb → object" };
  assert.equal(nameOf(named, one.all[0]), "verb → object"); // as every other page calls it
  assert.deepEqual(legendOf(all).map(({ name, count }) => [name, count]), [[RELATION, 1], ["previous token", 1], ["first-token sink", 1], [NONE, 3]]);
  assert.equal(new Set([RELATION, NONE, "previous token", "next token", "itself", "first-token sink", "separator sink", "duplicate token", "induction", "same word", "local window", "broad"].map(short)).size, 12);
});

test("the page begins with the head that gains most in a relation, or shows the clearest pattern", () => {
  assert.deepEqual(firstHead(atlas(model())).one, { layer: 1, head: 0 });
  assert.deepEqual(firstHead(atlas(model({ relations: [] }))).one, { layer: 0, head: 0 });
});

test("weights of a head are those of its place", () => {
  const [one] = atlas(model()).models;
  assert.deepEqual([...one.weights(0, one.all[4])].map((weight) => Math.round(weight * 255)), [160, 170, 180, 190]);
});

test("dots are named where their neighbours leave room", () => {
  assert.deepEqual(alone([{ x: 0, y: 0 }, { x: 5, y: 5 }, { x: 100, y: 0 }], 30), [false, false, true]);
});

test("tick labels have as many decimals as their steps need", () => {
  assert.equal(tickDigits([0, 1.5, 3]), 1);
  assert.equal(tickDigits([0, 0.25, 0.5]), 2);
  assert.equal(tickDigits([0, 20, 40]), 0);
});

test("a card stays on a sentence and a word that its model has, and opens on the clearest link", () => {
  const both = atlas(model({ sentences: [{ text: "a b", tokens: ["a", "b"], sinks: [], causal: false }] }), model({ sentences: [] }));
  const [one, head] = [both.models[0], both.models[0].all[0]]; // weights 0, 10, 20, 30
  assert.deepEqual([onSentence({ model: one, one: head, sentence: 5, query: null })].map(({ sentence, query }) => [sentence, query]), [[0, 1]]);
  assert.equal(onSentence({ model: one, one: head, sentence: 0, query: 0 }).query, 0);
  assert.equal(onSentence({ model: one, one: head, sentence: 0, query: 7 }).query, 1);
  assert.equal(onSentence({ model: both.models[1], one: head, sentence: 0, query: 1 }).query, null);
});
