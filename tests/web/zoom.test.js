import assert from "node:assert/strict";
import { test } from "node:test";
import { neighbour } from "../../src/regard/web/elements/dots.js";
import { BESIDE, LEVELS, levelOf, levelsOf, onTheBar, viewOf, viewOfLevel } from "../../src/regard/web/page/levels.js";
import { byLayer, layoutOf, overMeasures, sharedNames } from "../../src/regard/web/views/dots/model.js";
import { controlFor, groupsOf, headsFrom, textOf, toggled } from "../../src/regard/web/views/matter/model.js";
import { asWritten, shapeOf, transposeOf } from "../../src/regard/web/views/steps/product.js";

const view = (name, front = false) => ({ name, title: name, front, suits: () => true, draw: () => ({ cleanUp() {} }) });
const headsOf = (layers, heads) => Array.from({ length: layers * heads }, (_, place) => ({ layer: Math.floor(place / heads), head: place % heads }));

test("every view is at one level of the zoom, or beside it", () => {
  const all = [...LEVELS.flatMap(({ views }) => views), ...BESIDE];
  assert.equal(new Set(all).size, all.length);
  assert.equal(levelOf("matrix").name, "head");
  assert.equal(levelOf("output"), undefined);
});

test("a level without a view that suits is not offered, and a page opens with one head", () => {
  const views = ["vote", "sentence", "matrix", "steps"].map((name) => view(name, name === "vote"));
  assert.deepEqual(levelsOf(views).map(({ name }) => name), ["sentence", "head", "number"]);
  assert.equal(viewOf(null, views, { kind: "reading", text: "a b" }).name, "sentence");
  assert.equal(viewOf(null, views, { kind: "reading", text: "" }).name, "matrix");
  assert.equal(viewOf("steps", views, { kind: "reading", text: "a b" }).name, "steps");
  assert.equal(viewOf("nothing", views, { kind: "reading", text: "a b" }).name, "sentence");
});

test("the bar holds at most four levels: the sentence, where one is, and what lies around it", () => {
  const bar = (levels, chosen) => onTheBar(levels, chosen).map(({ name }) => name);
  for (const [at, { name }] of LEVELS.entries()) {
    const found = bar(LEVELS, name);
    assert.equal(found.length, 4);
    assert.equal(found[0], "sentence");
    assert.ok(found.includes(name));
    if (LEVELS[at + 1]) assert.ok(found.includes(LEVELS[at + 1].name));
  }
  assert.deepEqual(bar(LEVELS, undefined), ["sentence", "heads", "head", "number"]);
  const few = LEVELS.slice(0, 3);
  assert.deepEqual(bar(few, "head"), few.map(({ name }) => name));
  assert.deepEqual(bar(LEVELS.slice(0, 1), "sentence"), ["sentence"]);
});

test("layers are rows and heads columns, for few and for many layers", () => {
  for (const [layers, heads] of [[6, 12], [30, 9], [32, 32]]) {
    const numbers = (count) => Array.from({ length: count }, (_, place) => place);
    const { dots, width, height } = byLayer(headsOf(layers, heads), { layers: numbers(layers), columns: numbers(heads), width: 900, labelled: false });
    for (const { layer, head, x, y, r } of dots) {
      assert.ok(x - r >= 0 && x + r <= width && y - r >= 0 && y + r <= height);
      assert.equal(y, dots[layer * heads].y);
      assert.equal(x, dots[head].x);
    }
    assert.ok(width <= 900);
  }
});

test("names of heads are whole: as many lines as they need, and rows far enough apart", () => {
  const labels = ["spatial preposition → noun", "", "first part of a compound → last part", "verb → object"];
  const heads = headsOf(2, 2);
  const { lines, rows } = byLayer(heads, { layers: [0, 1], columns: [0, 1], width: 290, labelled: true, labels });
  assert.deepEqual(lines.map((one) => one.join(" ").replaceAll("\u00a0", " ")), labels);
  assert.ok(lines.every((texts) => texts.every((line) => !line.endsWith("→"))));
  assert.ok(rows[1].y - rows[0].y > 14 * Math.max(...lines.map(({ length }) => length)) + 20);
  assert.deepEqual(byLayer(heads, { layers: [0, 1], columns: [0, 1], width: 120, labelled: true, labels }).lines, []);
  assert.deepEqual(sharedNames(heads, ["a", "", "b", "a"]), [["a", [heads[0], heads[3]]], ["b", [heads[2]]]]);
});

test("dots over two measures grow to the right and upwards; a head without a number is left out", () => {
  const { dots } = overMeasures(headsOf(1, 3), { x: [0, 1, NaN], y: [5, 9, 7] }, { width: 400, height: 300 });
  assert.equal(dots.length, 2);
  assert.ok(dots[0].x < dots[1].x && dots[0].y > dots[1].y);
});

test("arrow keys go to the nearest dot in their direction", () => {
  const dots = [{ x: 0, y: 0 }, { x: 10, y: 1 }, { x: 9, y: 30 }, { x: 0, y: 12 }];
  assert.equal(neighbour(dots, dots[0], "ArrowRight"), dots[1]);
  assert.equal(neighbour(dots, dots[0], "ArrowDown"), dots[3]);
  assert.equal(neighbour(dots, dots[0], "ArrowLeft"), dots[0]);
  assert.equal(neighbour(dots, dots[0], "End"), dots[3]);
  assert.equal(neighbour(dots, dots[0], "x"), null);
});

test("struck heads are in the address, each once, and others of the same layers are the control", () => {
  const description = { layers: 2, heads: 3 };
  assert.deepEqual(headsFrom("1.2,0.1,7.7,x", description), [{ layer: 1, head: 2 }, { layer: 0, head: 1 }]);
  assert.equal(textOf(toggled(headsFrom("1.2", description), { layer: 0, head: 1 })), "0.1,1.2");
  assert.equal(textOf(toggled(headsFrom("1.2", description), { layer: 1, head: 2 })), undefined);
  assert.equal(textOf(controlFor(headsFrom("0.1,1.2", description), headsOf(2, 3))), "0.2,1.0");
  assert.equal(textOf(controlFor(headsFrom("0.0,0.1,0.2", description), headsOf(2, 3))), "1.0,1.1,1.2");
  assert.equal(controlFor(headsOf(2, 3).slice(0, 4), headsOf(2, 3)), null);
});

test("heads are grouped by the words they look at, and by abstention", () => {
  const votes = [
    { layer: 0, head: 0, word: 1, abstains: false },
    { layer: 0, head: 1, word: 1, abstains: true },
    { layer: 0, head: 2, word: 2, abstains: false },
  ];
  const groups = groupsOf(votes, [{ text: "a" }, { text: "kids" }, { text: "lions" }]);
  assert.deepEqual(groups.map(({ text }) => text), ["The 2 that look at kids", "The 1 that look at lions", "The 1 that abstain"]);
});

test("x · Wᵀ: formulas, shapes and matrices", () => {
  assert.equal(asWritten("q = x · W_Q", true), "q = x · W_Qᵀ");
  assert.equal(asWritten("q = x · W_Q", false), "q = x · W_Q");
  assert.equal(asWritten("× W_O", true), "× W_Oᵀ");
  assert.equal(asWritten("column 3 of W_2", true), "row 3 of W_2");
  assert.equal(shapeOf(384, 32, true), "32 × 384");
  assert.deepEqual(transposeOf([[1, 2, 3], [4, 5, 6]]), [[1, 4], [2, 5], [3, 6]]);
});

test("a level opens with the view shown there last, else with the usual one, else with its first", () => {
  const views = ["dots", "grid"].map((name) => ({ name }));
  const levels = [{ name: "heads", views }];
  const other = { name: "sentence" };
  assert.equal(viewOfLevel(levels, "heads", "grid", other), views[1]);
  assert.equal(viewOfLevel(levels, "heads", undefined, views[1]), views[1]);
  assert.equal(viewOfLevel(levels, "heads", "gone", other), views[0]);
  assert.equal(viewOfLevel(levels, "matter", undefined, other), undefined);
});

test("dots stand by layer until their numbers are known, and every number written is on the picture", () => {
  const heads = headsOf(2, 3);
  const known = { of: (name, { layer, head }) => (name === "entropy" ? layer + head : 10 * head) };
  const shown = { description: { layers: 2, heads: 3, layer_numbers: [4, 7] }, labels: heads.map(() => ""), width: 600 };
  const chosen = { dots_across: "layer", dots_up: "entropy" };
  const waiting = layoutOf(heads, { ...shown, known: null, chosen });
  assert.equal(waiting.axis, "");
  assert.deepEqual(waiting.texts.map(({ text }) => text), ["Layer 4", "Layer 7", "0", "1", "2"]);
  const spread = layoutOf(heads, { ...shown, known, chosen });
  assert.deepEqual(spread.texts.map(({ text }) => text).slice(0, 3), ["4.00", "7.00", "Layer →"]);
  for (const { dots, texts, width, height } of [waiting, spread])
    for (const { x, y } of [...dots, ...texts]) assert.ok(x >= 0 && x <= width && y >= 0 && y <= height);
});
