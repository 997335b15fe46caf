// The kernel against Python's reference, in double precision, and what its memory promises.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import "../../src/regard/web/engine/node.js";
import { Kernel, byHead, kernel, loadKernel, part, transposed } from "../../src/regard/web/engine/kernel.js";

const fixtures = JSON.parse(readFileSync(process.env.REGARD_FIXTURES, "utf8"));
const PRECISION = { f64: 1e-13, f32: 2e-6 };

const near = (found, expected, by, message) => {
  assert.equal(found.length, expected.length, message);
  expected.forEach((number, place) => {
    const isNear = Object.is(found[place], number) || Math.abs(found[place] - number) <= by * Math.max(1, Math.abs(number));
    assert.ok(isNear, `${message} ${place}: ${found[place]} ${number}`);
  });
};

/** The scores of a fixture, computed with this type. */
function scoresOf(fixture, type) {
  const made = (stored, as = type) => stored && kernel().tensor(as, stored.shape, stored.numbers);
  const ends = (name) => fixture.ends[name] && kernel().tensor("i32", [fixture.ends[name].length], fixture.ends[name]);
  return {
    queries: made(fixture.queries), keys: made(fixture.keys), scale: fixture.scale, softcap: fixture.softcap,
    bias: made(fixture.bias), mask: made(fixture.mask, "u8"), relative: made(fixture.relative),
    relativeZero: fixture.relative_zero, sinks: made(fixture.sinks, "f64"), offset: fixture.offset,
    first: ends("first"), last: ends("last"), secondFirst: ends("second_first"), secondLast: ends("second_last"),
  }; // prettier-ignore
}

for (const fixture of fixtures.attentions)
  for (const type of ["f64", "f32"]) {
    test(`attention is Python's: ${fixture.name}, ${type}`, () =>
      kernel().scope(() => {
        const by = PRECISION[type];
        const scores = scoresOf(fixture, type);
        const values = kernel().tensor(type, fixture.values.shape, fixture.values.numbers);
        near(kernel().numbers(kernel().attend(scores, values)), fixture.output, by, "output");
        const state = kernel().statistics(scores, ["rowMax", "rowSum", "logsumexp", "entropy", "peak", "distance"], values);
        near(kernel().numbers(state.output), fixture.output, by, "output beside statistics");
        for (const name of ["logsumexp", "entropy", "peak", "distance"]) near(kernel().numbers(state[name]), fixture.statistics[name], 8 * by, name);
        near(kernel().numbers(kernel().tile(scores, "weight", state)), fixture.weight, by, "weight");
        near(kernel().numbers(kernel().columnSums(scores, state)), fixture.received, 4 * by, "received");
        const { rows, columns } = fixture.edges;
        for (const [pool, cells] of Object.entries(fixture.pooled)) near(kernel().numbers(kernel().pooled(scores, state, rows, columns, pool)), cells, 8 * by, pool);
        const { weight, key } = kernel().top(scores, 3);
        near(kernel().numbers(weight), fixture.statistics.top_weight, by, "top weight");
        assert.deepEqual(Array.from(kernel().numbers(key), Number), fixture.statistics.top_index);
      }));
  }

for (const { type, rows, bytes, x, weights, output } of fixtures.quantised)
  test(`weights stay ${type}, ${rows} rows`, () =>
    kernel().scope(() => {
      const stored = Uint8Array.from(bytes);
      const weight = kernel().tensor(type, [13, 96], type === "f16" ? new Uint16Array(stored.buffer) : stored);
      for (const real of ["f32", "f64"]) {
        const found = kernel().linear({ x: kernel().tensor(real, [rows, 96], x), weight });
        near(kernel().numbers(found), output, 10 * PRECISION[real], real);
      }
      const some = kernel().gather(weight, [12, 0, 5], "f64");
      near(kernel().numbers(some), [12, 0, 5].flatMap((row) => weights.slice(row * 96, (row + 1) * 96)), 1e-7, "rows");
      const low = kernel().linear({ x: kernel().tensor("f32", [rows, 96], x), weight: part(weight, 0, 4, 9) });
      near(kernel().numbers(low), output.filter((_, at) => at % 13 >= 4 && at % 13 < 9), 1e-5, "some outputs");
    }));

test("heads may be parts of wide rows, and a matrix may be transposed", () =>
  kernel().scope(() => {
    const numbers = Float64Array.from({ length: 5 * 12 }, (_, at) => Math.sin(at));
    const wide = kernel().tensor("f64", [5, 12], numbers);
    const [queries, keys, values] = [0, 4, 8].map((first) => byHead(part(wide, 1, first, first + 4), 2));
    const packed = [0, 4, 8].map((first) => {
      const rows = [0, 1].flatMap((head) => [0, 1, 2, 3, 4].flatMap((row) => [0, 1].map((at) => numbers[row * 12 + first + head * 2 + at])));
      return kernel().tensor("f64", [2, 5, 2], rows);
    });
    const found = kernel().doubles(kernel().attend({ queries, keys }, values));
    assert.deepEqual(found, kernel().doubles(kernel().attend({ queries: packed[0], keys: packed[1] }, packed[2])));
    const weight = kernel().tensor("f64", [3, 2], [1, 2, 3, 4, 5, 6]);
    const x = kernel().tensor("f64", [1, 3], [1, 10, 100]);
    assert.deepEqual([...kernel().numbers(kernel().linear({ x, weight: transposed(weight) }))], [531, 642]);
  }));

test("outputs can be written into a part of another array", () =>
  kernel().scope(() => {
    const cache = kernel().tensor("f32", [4, 2], new Float32Array(8).fill(7));
    const [x, weight] = [kernel().tensor("f32", [1, 2], [1, 2]), kernel().tensor("f32", [2, 2], [1, 0, 0, 1])];
    kernel().linear({ x, weight, output: part(cache, 0, 2, 3) });
    assert.deepEqual([...kernel().numbers(cache)], [7, 7, 7, 7, 1, 2, 7, 7]);
  }));

test("linear adds bias and residual, and multiplies with a gate after the activation", () =>
  kernel().scope(() => {
    const row = (...numbers) => kernel().tensor("f64", [1, numbers.length], numbers);
    const weight = kernel().tensor("f64", [2, 2], [1, 0, 0, 1]);
    const bias = kernel().tensor("f64", [2], [-2, 1]);
    const found = kernel().linear({ x: row(1, 2), weight, bias, times: row(5, 7), residual: row(100, 200), activation: "relu" });
    assert.deepEqual([...kernel().numbers(found)], [100, 221]);
  }));

test("arrays of a scope are released, kept ones are not", () => {
  const big = new Float32Array(1 << 20).fill(3);
  kernel().scope(() => kernel().tensor("f32", [big.length], big));
  const before = kernel().bytes;
  for (let time = 0; time < 50; time++) kernel().scope(() => kernel().tensor("f32", [big.length], big));
  assert.throws(() => kernel().scope(() => { kernel().tensor("f32", [big.length], big); throw new Error("stop"); }), /stop/); // prettier-ignore
  assert.equal(kernel().bytes, before);
  const kept = kernel().scope(() => kernel().keep(kernel().tensor("f32", [3], [1, 2, 3])));
  kernel().scope(() => kernel().tensor("f32", [3], [4, 5, 6]));
  assert.deepEqual([...kernel().numbers(kept)], [1, 2, 3]);
  kernel().release(kept);
});

test("numbers are right after the memory has grown", () =>
  kernel().scope(() => {
    const small = kernel().tensor("f64", [2], [1, 2]);
    const before = kernel().bytes;
    kernel().tensor("u8", [before]);
    assert.ok(kernel().bytes > before);
    assert.deepEqual([...kernel().numbers(small)], [1, 2]);
  }));

test("copies of JavaScript's arrays are made once, and the oldest go first", () => {
  const fresh = new Kernel(kernel().module);
  const arrays = Array.from({ length: 40 }, (_, at) => new Float32Array(1 << 20).fill(at)); // 160 MB
  const first = fresh.held(arrays[0], "f32", [1 << 20]);
  assert.equal(fresh.held(arrays[0], "f32", [1 << 20]).address, first.address);
  assert.equal(fresh.held(arrays[0], "f64", [1 << 20]).type, "f64");
  arrays.forEach((array, at) => assert.equal(fresh.numbers(fresh.held(array, "f32", [1 << 20]))[5], at));
  assert.ok(fresh.bytes < 130e6);
  assert.equal(fresh.numbers(fresh.held(arrays[0], "f32", [1 << 20]))[9], 0);
});

test("arrays that do not fit are refused by name", () =>
  kernel().scope(() => {
    const made = (...shape) => kernel().tensor("f32", shape);
    assert.throws(() => kernel().attend({ queries: made(2, 3, 4), keys: made(2, 3, 5) }, made(2, 3, 4)), /do not fit keys of shape 2 × 3 × 5/);
    assert.throws(() => kernel().attend({ queries: made(2, 3, 4), keys: made(2, 3, 4) }, made(2, 5, 4)), /shape of values is 2 × 5/);
    assert.throws(() => kernel().attend({ queries: made(2, 3, 4), keys: made(2, 3, 4), bias: made(2, 2, 3) }, made(2, 3, 4)), /does not cover 2 × 3 × 3/);
    assert.throws(() => kernel().linear({ x: made(2, 3), weight: made(4, 5) }), /shape of weight is 4 × 5; expected 4 × 3/);
    assert.throws(() => kernel().tensor("f32", [2, 2], [1, 2, 3]), /3 numbers do not fill the shape 2 × 2/);
    assert.throws(() => kernel().tensor("q8_0", [2, 40]), /a multiple of 32 weights; these have 40/);
    assert.throws(() => part(made(4, 2), 0, 3, 5), /3 to 5 is not within 4/);
    assert.throws(() => kernel().numbers(transposed(made(4, 2))), /not contiguous/);
    assert.throws(() => kernel().gather(made(4, 2), [4]), /Row 4 is not one of 4/);
    const scores = { queries: made(1, 4, 2), keys: made(1, 4, 2) };
    const state = kernel().statistics(scores, ["rowMax", "rowSum"]);
    assert.throws(() => kernel().pooled(scores, state, [0, 2, 5], [0, 4], "sum"), /have to rise, from 0 to 4/);
    assert.throws(() => kernel().pooled(scores, state, [0, 2, 2], [0, 4], "sum"), /rise/);
  }));

test("too large an array is a sentence, and nothing is lost", () => {
  const small = kernel().tensor("f32", [2], [1, 2]);
  assert.throws(() => kernel().tensor("f64", [1 << 29]), /not enough memory/);
  assert.deepEqual([...kernel().numbers(small)], [1, 2]);
  kernel().release(small);
});

test("the module loads once, also from gzipped bytes; a damaged one is an error", async () => {
  const bytes = readFileSync(new URL("../../src/regard/web/engine/regard.wasm", import.meta.url));
  assert.equal(await loadKernel(bytes), kernel());
  const { loadKernel: loadAgain } = await import("../../src/regard/web/engine/kernel.js?again");
  await assert.rejects(loadAgain(bytes.subarray(0, 1000)), WebAssembly.CompileError);
  const other = await loadAgain(gzipSync(bytes));
  assert.equal(other.scope(() => other.numbers(other.tensor("f32", [1], [5]))[0]), 5);
});

test("without WebAssembly SIMD there is one sentence", async () => {
  const { NO_SIMD, loadKernel: loadAgain } = await import("../../src/regard/web/engine/kernel.js?without");
  const { validate } = WebAssembly;
  WebAssembly.validate = () => false;
  await assert.rejects(loadAgain(new ArrayBuffer(8)), { message: NO_SIMD });
  WebAssembly.validate = validate;
});
