/** Threads: which words are in sight, which is chosen and which pair is asked about follow from the state. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { NOTHING, searched } from "../../src/regard/web/views/sentence/running.js";
import { SMALL, WINDOW, inSight, pagedTo, pairOf, pointedWord, rangesOf, shownWord, strongestKey } from "../../src/regard/web/views/sentence/model.js";

const words = (count, sinks = []) => Array.from({ length: count }, (_, place) => ({ text: `w${place}`, first: place, last: place + 1, sink: sinks.includes(place) }));
const both = (count, sinks) => ({ queries: words(count, sinks), keys: words(count, sinks) });
const nothing = { query: null, key: null };
const gathered = { rows: [0, 3], columns: [0, 3], heads: [0], mean: Float32Array.from([0.7, 0.2, 0.1, 0.5, 0.1, 0.4, 0.6, 0.3, 0.1]) };

test("a short text is in sight whole, a long one around the chosen word, and further by pages", () => {
  assert.deepEqual(rangesOf(both(SMALL), nothing), { queries: [0, SMALL], keys: [0, SMALL] });
  const { queries } = rangesOf(both(200), { query: 100, key: null });
  assert.equal(queries[1] - queries[0], WINDOW);
  assert.ok(queries[0] <= 100 && 100 < queries[1]);
  assert.deepEqual(rangesOf(both(200), { ...nothing, sentence_rows: 30 }).queries, [30, 30 + WINDOW]);
  assert.equal(pagedTo(0, 1, 200), WINDOW - 5);
  assert.equal(pagedTo(150, 1, 200), 200 - WINDOW);
  assert.equal(pagedTo(10, -1, 200), 0);
  assert.ok(inSight(null, words(5), [0, 2]) && inSight(1, words(5), [0, 2]) && !inSight(3, words(5), [0, 2]));
});

test("a word that is pointed at goes before the chosen one, where it is in sight", () => {
  const units = both(3);
  assert.deepEqual(pointedWord([null, 2], units, gathered), { side: "key", unit: 2 });
  assert.deepEqual(pointedWord([1, 2], units, gathered), { side: "query", unit: 1 });
  assert.equal(pointedWord([1, null], units, { ...gathered, rows: [2, 3] }), null);
  assert.equal(pointedWord(null, units, gathered), null);
  assert.deepEqual(shownWord(null, units, { query: 1, key: 2 }), { query: 1, key: null });
  assert.deepEqual(shownWord(null, units, { query: null, key: 2 }), { query: null, key: 2 });
  assert.deepEqual(shownWord({ side: "key", unit: 0 }, units, { query: 1, key: null }), { query: null, key: 0 });
});

test("a query is asked about with the chosen key, or with the word it attends to most, sinks and itself aside", () => {
  const names = (pair) => pair && [pair.query.text, pair.key.text];
  assert.equal(strongestKey(gathered, 2), 0);
  assert.deepEqual(names(pairOf(gathered, null, both(3, [0]), { query: 2, key: null })), ["w2", "w1"]);
  assert.deepEqual(names(pairOf(gathered, null, both(3, [0]), { query: 1, key: 0 })), ["w1", "w0"]);
  assert.deepEqual(names(pairOf(gathered, [0.05, 0.01, 0, 0.9], both(4), { query: 3, key: null })), ["w3", "w0"]); // the whole row is known
  assert.equal(pairOf(gathered, null, both(4), { query: 3, key: null }), null); // not in sight
  assert.equal(pairOf(gathered, null, both(3), nothing), null);
  assert.equal(pairOf({ ...gathered, columns: [0, 1], mean: Float32Array.from([1]), rows: [0, 1] }, null, { queries: words(1), keys: words(1, [0]) }, { query: 0, key: null }), null);
});

test("a search begins on the shown page, falls back to the last match, and ends with an empty field", () => {
  const running = { ...NOTHING, units: ["The", "cat", "that", "sat"].map((text) => ({ text })), first: 2 };
  assert.deepEqual([searched(running, " AT ").matches, searched(running, "at").at], [[1, 2, 3], 1]);
  assert.equal(searched({ ...running, first: 4 }, "at").at, 2);
  assert.deepEqual(searched(running, "").matches, []);
});
