import assert from "node:assert/strict";
import { test } from "node:test";
import { framed, pack, unpack } from "../../src/regard/web/sources/frames.js";
import { alongOf, layerFrom, linksOf, pooledRows, pooledWeights, vectorsOf, weightsOfRow } from "../../src/regard/web/sources/layer.js";

const [HEADS, KEY_HEADS, COUNT, SIZE] = [4, 2, 7, 5];

/** Numbers that stay the same. */
function chance(seed) {
  let state = seed;
  return () => ((state = (state * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff) * 2 - 1;
}

/** A layer, and its dense weights by the plain formula. */
function layerWith({ causal = false, bias = false, relative = false } = {}) {
  const next = chance(7);
  const numbers = (count) => Float32Array.from({ length: count }, next);
  const [q, k, v] = [
    numbers(HEADS * COUNT * SIZE),
    numbers(KEY_HEADS * COUNT * SIZE),
    numbers(KEY_HEADS * COUNT * SIZE),
  ];
  const added = numbers(HEADS * COUNT * COUNT);
  const span = numbers(2 * COUNT - 1);
  const dense = Array.from({ length: HEADS }, (_, head) =>
    Array.from({ length: COUNT }, (_, query) => {
      const scores = Array.from({ length: COUNT }, (_, key) => {
        if (causal && key > query) return -Infinity;
        let score = 0;
        for (let part = 0; part < SIZE; part++)
          score += q[(head * COUNT + query) * SIZE + part] * k[((head >> 1) * COUNT + key) * SIZE + part];
        score *= SIZE ** -0.5;
        if (bias) score += added[(head * COUNT + query) * COUNT + key];
        if (relative) score += span[query - key + COUNT - 1];
        return score;
      });
      const sum = scores.reduce((all, score) => all + Math.exp(score), 0);
      return scores.map((score) => Math.exp(score) / sum);
    }),
  );
  const arrays = {
    q: framed(q, [HEADS, COUNT, SIZE]),
    k: framed(k, [KEY_HEADS, COUNT, SIZE]),
    v: framed(v, [KEY_HEADS, COUNT, SIZE]),
  };
  if (causal) {
    arrays.first = framed(new Int32Array(COUNT), [COUNT]);
    arrays.last = framed(
      Int32Array.from({ length: COUNT }, (_, query) => query + 1),
      [COUNT],
    );
  }
  if (bias) arrays.bias = framed(added, [HEADS, COUNT, COUNT]);
  if (relative) arrays.relative = framed(span, [1, 2 * COUNT - 1]);
  const heads = { heads: [0, 1, 2, 3], key_heads: [0, 0, 1, 1], value_heads: [0, 0, 1, 1] };
  const frame = unpack(pack({ scale: SIZE ** -0.5, relative_zero: COUNT - 1, offset: 0, ...heads }, arrays));
  return { layer: layerFrom(frame), dense };
}

const near = (found, expected, by = 1e-5) => {
  assert.equal(found.length, expected.length);
  expected.forEach((number, place) =>
    assert.ok(Math.abs(found[place] - number) < by, `${place}: ${found[place]} ${number}`),
  );
};

for (const how of [{}, { causal: true }, { bias: true }, { relative: true, causal: true }]) {
  test(`weights are the plain formula's with ${JSON.stringify(how)}`, () => {
    const { layer, dense } = layerWith(how);
    for (let head = 0; head < HEADS; head++)
      for (let query = 0; query < COUNT; query++) near(weightsOfRow(layer, head, query), dense[head][query]);
  });
}

const rowsOf = (layer, head) => (query, from, to, into) => weightsOfRow(layer, head, query, from, to, into);

test("tiles are pooled by mean and by maximum, unequal cells too", async () => {
  const { layer, dense } = layerWith();
  const cells = [
    [1, 3],
    [3, 6],
  ];
  for (const pool of ["mean", "max"]) {
    const region = { rows: [1, 6], columns: [0, 7], shape: [2, 3], pool };
    const edges = [0, 2, 4, 7];
    const expected = cells.flatMap(([a, b]) =>
      [0, 1, 2].map((cell) => {
        const part = dense[3].slice(a, b).flatMap((row) => row.slice(edges[cell], edges[cell + 1]));
        return pool === "max" ? Math.max(...part) : part.reduce((sum, one) => sum + one, 0) / part.length;
      }),
    );
    near(await pooledWeights(layer, 3, region), expected);
    near(await pooledRows(rowsOf(layer, 3), region), expected);
  }
});

/** So many queries and keys that a map takes several steps. */
function longLayer() {
  const [count, size] = [3000, 64];
  const next = chance(3);
  const [q, k] = [0, 1].map(() => framed(Float32Array.from({ length: count * size }, next), [1, count, size]));
  const [first, last] = [new Int32Array(count), Int32Array.from({ length: count }, (_, query) => query + 1)];
  return layerFrom({
    header: { heads: [0], key_heads: [0], scale: 0.5 },
    arrays: { q, k, first: framed(first, [count]), last: framed(last, [count]) },
  });
}

test("a map that is computed in several steps is that of all rows", async () => {
  for (const pool of ["mean", "max"])
    for (const region of [
      { rows: [0, 3000], columns: [0, 3000], shape: [7, 5], pool },
      { rows: [150, 2801], columns: [31, 2000], shape: [1, 2], pool },
    ]) {
      const layer = longLayer();
      near(await pooledWeights(layer, 0, region), await pooledRows(rowsOf(layer, 0), region), 1e-9);
    }
});

test("along the text: received, entropy, distance", async () => {
  const { layer, dense } = layerWith({ causal: true });
  const { received, entropy, distance } = await alongOf(layer, [2], 0);
  near(
    received,
    dense[2][0].map((_, key) => dense[2].reduce((sum, row) => sum + row[key], 0)),
  );
  near(
    entropy,
    dense[2].map((row) => -row.reduce((sum, weight) => sum + (weight ? weight * Math.log(weight) : 0), 0)),
  );
  near(
    distance,
    dense[2].map((row, query) => row.reduce((sum, weight, key) => sum + weight * Math.abs(query - key), 0)),
  );
});

test("links are the strongest of the mean; tokens themselves and sinks are left out where asked", async () => {
  const { layer, dense } = layerWith();
  const mean = dense[0].map((row, query) => row.map((weight, key) => (weight + dense[3][query][key]) / 2));
  const all = mean
    .flatMap((row, query) => row.map((weight, key) => [query, key, weight]))
    .filter(([query, key]) => query !== key && key !== 0 && query !== 0);
  const expected = all.sort((one, other) => other[2] - one[2]).slice(0, 5);
  const found = await linksOf(layer, { heads: [0, 3], count: 5, itself: false, firstQuery: 0, sinks: [0] });
  assert.deepEqual(
    found.map(([query, key]) => [query, key]),
    expected.map(([query, key]) => [query, key]),
  );
  near(
    found.map((link) => link[2]),
    expected.map((link) => link[2]),
  );
});

test("work stops when its signal is aborted", async () => {
  const gone = new AbortController();
  const tile = pooledWeights(longLayer(), 0, { rows: [0, 3000], columns: [0, 3000], shape: [7, 7] }, gone.signal);
  gone.abort();
  await assert.rejects(tile, { name: "AbortError" });
});

test("vectors of a query say which keys are visible", () => {
  const { layer } = layerWith({ causal: true });
  const { header, arrays } = vectorsOf(layer, 3, 2, [0, 2, 4]);
  assert.deepEqual([...arrays.visible.data], [1, 1, 0]);
  assert.deepEqual([...arrays.k.data.slice(0, SIZE)], [...layer.keys[1].slice(0, SIZE)]);
  assert.equal(header.sink, null);
  assert.deepEqual(arrays.q.shape, [1, SIZE]);
});

test("a head that the page does not hold is refused by name, never answered with zeros", () => {
  const { layer } = layerWith();
  assert.throws(() => weightsOfRow({ ...layer, heads: [1, 4, 6, 7] }, 3, 0), /Head 3 is not in this page/);
});

test("a row asked for in part has the weights of the whole row", () => {
  const [some, all] = [layerWith().layer, layerWith().layer];
  const part = weightsOfRow(some, 2, 5, 1, 4);
  assert.deepEqual([...part], [...weightsOfRow(all, 2, 5).subarray(1, 4)]);
  assert.deepEqual([...weightsOfRow(some, 2, 5, 3, 6)], [...weightsOfRow(all, 2, 5).subarray(3, 6)]);
});
