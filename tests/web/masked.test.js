// What no query may see is shown as masked or left blank, never as 0.00.
import assert from "node:assert/strict";
import { test } from "node:test";
import { saidOfCell } from "../../src/regard/web/views/grid/model.js";
import { isHidden } from "../../src/regard/web/views/matrix/geometry.js";
import { sceneOf, tableOf } from "../../src/regard/web/views/sentence/scene.js";
import { isMasked, maskingOf } from "../../src/regard/web/maths/masking.js";
import { matrixTable } from "../../src/regard/web/views/matrix/figure.js";
import { unitsOf } from "../../src/regard/web/elements/words.js";

const causal = { tokens: ["The", "cat", "sat"], words: [[0, 1], [1, 2], [2, 3]], causal: true, first_query: 0 }; // prettier-ignore
const mean = Float32Array.of(1, 0, 0, 0.25, 0.75, 0, 0, 0.5, 0.5); // the last row's 0 is a weight, not a mask
const gathered = { rows: [0, 3], columns: [0, 3], mean, each: [mean], heads: [0] };
const units = { queries: unitsOf(causal, "word"), keys: unitsOf(causal, "word") };

test("a causal mask, a window, and queries that follow a cache hide keys by position", () => {
  assert.deepEqual([0, 1, 2].map((key) => isMasked(causal, [1, 2], [key, key + 1])), [false, false, true]);
  assert.deepEqual([0, 1, 2].map((key) => isMasked({ causal: true, window: 2 }, [2, 3], [key, key + 1])), [true, false, false]);
  assert.deepEqual([2, 3].map((key) => isHidden({ causal: true, first_query: 2 }, [0, 1], [key, key + 1])), [false, true]);
  assert.equal(isMasked({ causal: false }, [0, 1], [2, 3]), false);
});

test("the sentence's lists and its file leave masked keys blank", () => {
  const how = { aside: false, apart: false };
  assert.deepEqual([...sceneOf(gathered, units, causal, { ...how, query: 1, key: null }).maskedKeys], [2]);
  assert.deepEqual([...sceneOf(gathered, units, causal, { ...how, query: null, key: 1 }).maskedQueries], [0]);
  assert.deepEqual([...sceneOf(gathered, units, causal, { ...how, query: null, key: null }).maskedKeys], []);
  const weights = tableOf(gathered, units, causal, null, null, "").rows.map((row) => row[2]);
  assert.deepEqual(weights, [1, null, null, 0.25, 0.75, null, 0, 0.5, 0.5]);
});

test("the grid says that a cell is masked", () => {
  const said = (queries, keys) => saidOfCell({ weight: 0, queries, keys }, causal, 0, String).weight;
  assert.deepEqual([said([0, 1], [1, 2]), said([2, 3], [0, 1])], ["masked", "0"]);
});

// A window in layer 0, no window in layer 1, documents of two and one words in layer 2.
const layers = {
  ...causal,
  masks: [{ causal: true, window: 1, visible: null }, { causal: true, window: null, visible: null }, { causal: false, window: null, visible: [[0, 2], [0, 2], [2, 3]] }],
  mask_of_layer: [0, 1, 2],
}; // prettier-ignore
const hidden = (masking) => [0, 1, 2].map((query) => [0, 1, 2].map((key) => Number(isMasked(masking, [query, query + 1], [key, key + 1]))).join("")).join(" ");

test("every layer has its own mask", () => {
  assert.deepEqual([0, 1, 2].map((layer) => hidden(maskingOf(layers, { layer }))), ["011 101 110", "011 001 000", "001 001 110"]);
  assert.equal(hidden(maskingOf(layers, { layer: 0, measure: "mean" })), "000 000 000"); // of all layers
  const windows = { ...layers, masks: layers.masks.slice(0, 1), mask_of_layer: [0, 0] };
  assert.equal(hidden(maskingOf(windows, { layer: 0, measure: "mean" })), "011 101 110");
  assert.equal(hidden(maskingOf(windows, { layer: 0, measure: "rollout" })), "011 001 000"); // through two windows
});

test("queries that follow a cache have the intervals of their rows", () => {
  const later = { visible: [[0, 3], [1, 4]], first_query: 2 };
  assert.deepEqual([0, 3].map((key) => isMasked(later, [2, 3], [key, key + 1])), [false, true]);
  assert.deepEqual([0, 3].map((key) => isMasked(later, [3, 4], [key, key + 1])), [true, false]);
});

test("the matrix's file leaves masked keys blank, pooled cells only where all of them are masked", () => {
  const what = { shown: { rows: [0, 3], columns: [0, 3] }, tokens: causal.tokens, queryTokens: causal.tokens, drawnWeight: () => 0.5, masking: causal };
  assert.deepEqual(matrixTable(what, "", 1).rows.map((row) => row.slice(1)), [[0.5, null, null], [0.5, 0.5, null], [0.5, 0.5, 0.5]]);
  assert.deepEqual(matrixTable(what, "", 2).rows.map((row) => row.slice(1)), [[0.5, null], [0.5, 0.5]]);
});
