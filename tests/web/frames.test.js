import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBase64, fromHalf, pack, unpack } from "../../src/regard/web/sources/frames.js";

const weight = Float32Array.from([0.25, 0.5, 0.125, 1, 0, -0]);
const index = Int32Array.from([-1, 7, 100003]);

test("a frame comes back as it was", () => {
  const { header, arrays } = unpack(
    pack(
      { exact: true, note: "größer" },
      { weight: { data: weight, shape: [2, 3] }, index: { data: index, shape: [3] } },
    ),
  );
  assert.equal(header.note, "größer");
  assert.deepEqual(arrays.weight.shape, [2, 3]);
  assert.deepEqual([...arrays.weight.data], [...weight]);
  assert.deepEqual([...arrays.index.data], [...index]);
});

test("bodies and arrays start at multiples of eight", () => {
  for (const note of ["", "a", "ab", "abc", "abcdefgh"]) {
    const frame = pack({ note }, { a: { data: Uint8Array.of(1, 2, 3), shape: [3] }, b: { data: weight, shape: [6] } });
    assert.equal((4 + new DataView(frame).getUint32(0, true)) % 8, 0);
    assert.equal(unpack(frame).header.arrays.b.offset % 8, 0);
  }
});

test("a frame within a larger buffer is read wherever it starts", () => {
  const frame = new Uint8Array(pack({}, { weight: { data: weight, shape: [6] } }));
  for (const start of [0, 1, 4, 8]) {
    const around = new Uint8Array(start + frame.length);
    around.set(frame, start);
    assert.deepEqual([...unpack(new DataView(around.buffer, start)).arrays.weight.data], [...weight]);
  }
});

test("numbers of 16 bits are read exactly", () => {
  const cases = [
    [0x3c00, 1],
    [0xc000, -2],
    [0x0001, 2 ** -24],
    [0x03ff, 1023 * 2 ** -24],
    [0x7bff, 65504],
    [0x7c00, Infinity],
    [0xfc00, -Infinity],
    [0x8000, -0],
  ];
  for (const [bits, number] of cases) assert.ok(Object.is(fromHalf(bits), number), `${bits}`);
  assert.ok(Number.isNaN(fromHalf(0x7e00)));
  const { arrays } = unpack(pack({}, { half: { data: Uint16Array.of(0x3c00, 0x3800), shape: [2], dtype: "f2" } }));
  assert.deepEqual([...arrays.half.toFloat32()], [1, 0.5]);
});

test("broken frames are refused", () => {
  assert.throws(() => unpack(new ArrayBuffer(2)), /at least 4 bytes/);
  assert.throws(() => unpack(Uint8Array.of(255, 255, 255, 255, 0).buffer), /header/);
  const long = pack({}, { a: { data: weight, shape: [6] } });
  assert.throws(() => unpack(long.slice(0, long.byteLength - 8)), /past the end/);
  assert.throws(() => unpack(pack({}, { a: { data: weight, shape: [6], dtype: "c8" } })), /unknown dtype/);
});

test("base64 is read as bytes", () => assert.deepEqual([...new Uint8Array(fromBase64(" AP8Q\n"))], [0, 255, 16]));
