import assert from "node:assert/strict";
import { test } from "node:test";
import { headsOf } from "../../src/regard/web/page/state.js";
import { captionOf, orderOf, ordered, printedStatistic, shareOf, walked } from "../../src/regard/web/views/grid/model.js";

const names = (heads) => heads.map(({ layer, head }) => `${layer}.${head}`);

test("heads stand layer after layer", () => {
  assert.deepEqual(names(headsOf(2, 3)), ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]);
});

test("heads can be sorted by a number, up or down; what is not a number comes last", () => {
  const heads = headsOf(2, 2);
  assert.deepEqual(names(ordered(heads, [3, 1, 2, 1])), ["0.1", "1.1", "1.0", "0.0"]);
  assert.deepEqual(names(ordered(heads, [3, NaN, 2, 1], true)), ["0.0", "1.0", "1.1", "0.1"]);
  assert.deepEqual(ordered(heads, undefined), heads);
});

test("a number's place between the smallest and the largest", () => {
  assert.deepEqual([shareOf(2, [1, 3]), shareOf(1, [1, 1]), shareOf(3, [1, 3, NaN])], [0.5, 0.5, 1]);
});

test("arrows walk and stop at the ends", () => {
  assert.deepEqual(
    ["ArrowRight", "ArrowDown", "ArrowUp", "Home", "End", "Enter"].map((key) => walked(key, 4, 7, 3)),
    [5, 4, 1, 0, 6, null],
  );
});

test("below a map stand its number, what its head is known for, or that it is not kept", () => {
  const of = { name: "2 · 1", number: null, pattern: "verb → object", kept: true, inModel: false, isDense: false };
  assert.deepEqual(captionOf(of), [["name", "2 · 1"], ["label", "verb → object"]]);
  assert.deepEqual(captionOf({ ...of, number: 0.5, isDense: true }), [["name", "2 · 1"], ["number", "0.50"]]);
  assert.deepEqual(captionOf({ ...of, pattern: "no clear pattern" }), [["name", "2 · 1"]]);
  assert.deepEqual(captionOf({ ...of, inModel: true, pattern: "" }), []);
  assert.deepEqual(captionOf({ ...of, kept: false, pattern: "" }), [["name", "2 · 1"], ["label", "not kept"]]);
  assert.equal(printedStatistic(NaN), "not known");
  assert.equal(orderOf({ grid_order: "sinks" }).statistic, "sinks");
  assert.equal(orderOf({ grid_order: "nonsense" }).value, "model");
});
