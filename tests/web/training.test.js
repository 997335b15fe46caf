/** A recorded training run: which head answers which relation, and when. */
import assert from "node:assert/strict";
import test from "node:test";

import { framed } from "../../src/regard/web/sources/frames.js";
import { labelPlaces, nearest } from "../../src/regard/web/training/chart.js";
import { bestHead, filmOf, firstHead, nextOf, openingOf, roleOf, specialisation, steepest, toggledPlay } from "../../src/regard/web/training/model.js";
import { strongestKeys } from "../../src/regard/web/elements/word_matrix.js";

const [SNAPSHOTS, LAYERS, HEADS, TOKENS] = [3, 2, 2, 3];
const RELATIONS = ["where", "whose", "never asked"];

/** accuracy[snapshot][layer][head][relation] */
const ACCURACY = [
  [[[0.1, 0.2, NaN], [0.3, 0.1, NaN]], [[0.2, 0.2, NaN], [0.1, 0.1, NaN]]],
  [[[0.4, 0.2, NaN], [0.3, 0.1, NaN]], [[0.2, 0.6, NaN], [0.1, 0.1, NaN]]],
  [[[0.9, 0.2, NaN], [0.3, 0.1, NaN]], [[0.2, 0.97, NaN], [0.5, 0.49, NaN]]],
]; // prettier-ignore

function film() {
  const size = SNAPSHOTS * LAYERS * HEADS;
  const weights = Float32Array.from({ length: size * TOKENS ** 2 }, (_, place) => place);
  return filmOf({
    header: {
      steps: [0, 10, 20],
      layers: LAYERS,
      heads: HEADS,
      relations: RELATIONS,
      answers: [0.1, 0.2, 0.9],
      probes: [{ text: "a b c", tokens: ["a", "b", "c"], keys: [-1, 0, 1], relations: [-1, 0, 1] }],
    },
    arrays: {
      head_accuracy: framed(Float32Array.from(ACCURACY.flat(3)), [SNAPSHOTS, LAYERS, HEADS, RELATIONS.length]),
      entropy: framed(Float32Array.from({ length: size }, (_, place) => place), [SNAPSHOTS, LAYERS, HEADS]),
      weights_0: framed(weights, [SNAPSHOTS, LAYERS, HEADS, TOKENS, TOKENS]),
      wq: framed(Float32Array.from({ length: size * 10 }, (_, place) => place), [SNAPSHOTS, LAYERS, HEADS, 5, 2]),
    },
  });
}

test("a head is named by the relation it answers best, from half of the cases on", () => {
  assert.equal(roleOf(film(), 0, { layer: 0, head: 0 }), null);
  const role = roleOf(film(), 2, { layer: 1, head: 0 });
  assert.equal(role?.relation, "whose");
  assert.ok(Math.abs(Number(role?.accuracy) - 0.97) < 1e-6);
  assert.equal(roleOf(film(), 2, { layer: 1, head: 1 })?.relation, "where");
});

test("the best head of a relation is found at each snapshot, and none where it was not asked for", () => {
  assert.deepEqual([0, 1].map((relation) => bestHead(film(), 1, relation)).map((best) => [best?.layer, best?.head]), [[0, 0], [1, 0]]); // prettier-ignore
  assert.equal(bestHead(film(), 2, 2), null);
  const [where, whose, never] = specialisation(film());
  assert.deepEqual(where.values.map((value) => Math.round(100 * value)), [30, 40, 90]);
  assert.deepEqual(whose.values.map((value) => Math.round(100 * value)), [20, 60, 97]);
  assert.ok(never.values.every(Number.isNaN));
});

test("the page opens on the head that is best at the end", () => {
  assert.deepEqual(firstHead(film()), { layer: 1, head: 0 });
});

test("what is learned is where right answers rise fastest", () => {
  assert.equal(steepest(film()), 2);
});

test("weights, entropy and projections are those of the snapshot and head asked for", () => {
  const one = { layer: 1, head: 0 };
  const place = 1 * LAYERS * HEADS + 1 * HEADS;
  assert.deepEqual([...film().weights(1, 0, one)], Array.from({ length: 9 }, (_, at) => place * 9 + at));
  assert.equal(film().entropy(1, one), place);
  const bytes = { weights_0: framed(Uint8Array.from({ length: 9 }, (_, at) => 51 * (at % 6)), [1, 1, 1, 3, 3]) };
  const header = { steps: [0], layers: 1, heads: 1, relations: [], probes: [{ tokens: ["a", "b", "c"] }], largest_weight: 255 };
  const narrow = filmOf({ header, arrays: bytes }).weights(0, 0, { layer: 0, head: 0 });
  assert.deepEqual(Array.from(narrow, (weight) => Math.round(weight * 5)), [0, 1, 2, 3, 4, 5, 0, 1, 2]);
  assert.deepEqual([...(film().matrixOf("wq", 1, one)?.data ?? [])], Array.from({ length: 10 }, (_, at) => place * 10 + at));
  assert.equal(film().matrixOf("wk", 1, one), null);
});

test("the strongest keys come first, equal ones in order", () => {
  const weights = Float32Array.from([0, 0, 0, 0.25, 0.5, 0.25, 0, 0, 0]);
  assert.deepEqual(strongestKeys(weights, 3, 1, 3).map(({ key }) => key), [1, 0, 2]);
});

test("labels of lines that end together do not overlap", () => {
  const places = labelPlaces([30, 30, 31, 120]).sort((one, other) => one - other);
  for (let place = 1; place < places.length; place++) assert.ok(places[place] - places[place - 1] >= 12.99);
});

test("the nearest snapshot to a step", () => {
  assert.equal(nearest([0, 50, 400], 300), 2);
  assert.equal(nearest([0, 50, 400], 20), 0);
});

test("a film opens at its end on a query with a right key, plays from the start and stops at the end", () => {
  const run = film();
  let shown = openingOf(run);
  assert.deepEqual({ at: shown.at, query: shown.query, playing: shown.playing }, { at: 2, query: 2, playing: false });
  const seen = [];
  for (shown = toggledPlay(run, shown); shown.playing; shown = nextOf(run, shown)) seen.push(shown.at);
  assert.deepEqual(seen, [0, 1, 2]);
  assert.equal(toggledPlay(run, { ...shown, at: 1 }).at, 1);
  assert.equal(toggledPlay(run, { ...shown, at: 1, playing: true }).playing, false);
});
