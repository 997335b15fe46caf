// What Python computed (fixtures.py), computed again. REGARD_FIXTURES names the file that test_node.py has written.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { kernel } from "../../src/regard/web/engine/kernel.js";
import { scoreStages } from "../../src/regard/web/maths/attention.js";
import { makeLinks, strongest } from "../../src/regard/web/maths/links.js";
import { dot } from "../../src/regard/web/maths/numbers.js";
import { layerFrom, weightsOfRow } from "../../src/regard/web/sources/layer.js";
import { framed } from "../../src/regard/web/sources/frames.js";
import { afterHeads, blockFrom, inputOf, projectedTo, turned } from "../../src/regard/web/maths/block.js";
import { isLink } from "../../src/regard/web/page/roles.js";
import { provenance } from "../../src/regard/web/page/provenance.js";
import { probabilities } from "../../src/regard/web/maths/sampling.js";
import { voteOf } from "../../src/regard/web/maths/votes.js";

const fixtures = JSON.parse(readFileSync(process.env.REGARD_FIXTURES, "utf8"));

/** Both are double precision: a few units in the last place. */
const near = (found, expected, message) =>
  expected.forEach((number, place) =>
    assert.ok(Math.abs(found[place] - number) <= 1e-14 * Math.max(1, Math.abs(number)), `${message}: ${found} ${expected}`),
  );

for (const { name, stages, ...options } of fixtures.stages) {
  test(`every score stage is Python's: ${name}`, () => {
    const found = scoreStages(stages.score, options);
    for (const [stage, numbers] of Object.entries(stages)) near(found[stage], numbers, stage);
    options.visible?.forEach((visible, key) => assert.equal(found.masked[key] === -Infinity, !visible));
  });
}

test("weights are exact at scores of 1e6, 1e9 and 1e12", () => {
  for (const { scale, query, keys, weight } of fixtures.large_scores) {
    near(scoreStages(keys.map((key) => dot(query, key)), { scale }).weight, weight, "stages");
    const header = { heads: [0], key_heads: [0], scale };
    const arrays = {
      q: framed(Float32Array.from(query), [1, 1, query.length]),
      k: framed(Float32Array.from(keys.flat()), [1, keys.length, query.length]),
    };
    if (keys.flat().every((number) => Math.fround(number) === number))
      near(weightsOfRow(layerFrom({ header, arrays }), 0, 0, 0, keys.length, new Float64Array(keys.length)), weight, "page");
  }
});

test("the strongest links are Python's: first queries, sinks, ties", () => {
  for (const { weights, first_query: firstQuery, count, itself, sinks, links } of fixtures.links) {
    const ranking = makeLinks({ count, itself, firstQuery, sinks });
    weights.forEach((row, query) => ranking.add(query, row));
    const found = ranking.links();
    assert.deepEqual([0, 1, 2].map((column) => found.map((link) => link[column])), links);
  }
});

test("a row is ranked as in Python", () => {
  for (const { weights, count, order } of fixtures.rankings) assert.deepEqual(strongest(weights, count), order);
});

test("a head votes as in Python", () => {
  for (const { row, sinks, own, ...vote } of fixtures.votes) assert.deepEqual(voteOf(row, { sinks, own }), vote);
});

test("with more links than are kept at once, ties still go to the earlier query", () => {
  const ranking = makeLinks({ count: 2, itself: true, firstQuery: 0, sinks: [] });
  for (let query = 0; query < 600; query++) ranking.add(query, [0.5, 0.5]);
  assert.deepEqual(ranking.links(), [
    [0, 0, 0.5],
    [0, 1, 0.5],
  ]);
});

/** Python computes blocks in single precision. */
const close = (found, expected, message) => {
  assert.equal(found.length, expected.length, message);
  const top = Math.max(...expected.map(Math.abs), 1);
  expected.forEach((number, place) => assert.ok(Math.abs(found[place] - number) <= 5e-6 * top, `${message} ${place}`));
};

for (const { name, header, arrays, head, position, count, x, after, ...steps } of fixtures.blocks) {
  test(`a block is Python's: ${name}`, () => {
    const framedArrays = Object.entries(arrays).map(([key, [shape, data]]) => [key, framed(Float32Array.from(data), shape)]);
    const block = blockFrom({ header, arrays: Object.fromEntries(framedArrays) });
    const input = inputOf(block, x);
    for (const letter of ["q", "k", "v"]) {
      const plain = projectedTo(block, letter, head, input);
      const placed = block.rotary && letter !== "v" ? turned(plain, position, block.rotary, count) : plain;
      close(placed, steps[{ q: "query", k: "key", v: "value" }[letter]], letter);
    }
    const found = afterHeads(block, x, steps.concatenated);
    for (const [step, numbers] of Object.entries(after)) close(found[step], numbers, step);
  });
}

/** Without weights: a product with 1. */
function activated(activation, x) {
  return kernel().scope(() => {
    const one = kernel().tensor("f64", [1, 1], [1]);
    return kernel().doubles(kernel().linear({ x: kernel().tensor("f64", [x.length, 1], x), weight: one, activation }));
  });
}

test("activations are Python's", () => {
  for (const [name, [given, expected]] of Object.entries(fixtures.activations)) close(activated(name, given), expected, name);
});

test("probabilities of the next token are Python's", () => {
  for (const { logits, probabilities: expected, ...how } of fixtures.sampled) {
    const found = probabilities(logits, how);
    assert.equal(found.length, expected.length, JSON.stringify(how));
    near(found, expected, JSON.stringify(how));
  }
});

test("a link can be the relations that it can be in Python", () => {
  const { known, links } = fixtures.relations;
  const count = known.classes.length;
  for (const [name, expected] of Object.entries(links)) {
    const [, relation, direction] = /^(.*) (to \w+)$/.exec(name) ?? [];
    const found = [];
    for (let query = 0; query < count; query++)
      for (let key = 0; key < count; key++) if (isLink(known, relation, direction, query, key)) found.push([query, key]);
    assert.deepEqual(found, expected, name);
  }
});

test("where numbers come from is said in Python's words", () => {
  for (const { origin, said } of fixtures.sources) assert.equal(provenance(origin), said);
});
