// Normalizers on every code point and pre-tokenizers on many lines, as the library has them (fixtures.py).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { AlignedText } from "../../../src/regard/web/models/tokenizers/code_points.js";
import { normalizerOf } from "../../../src/regard/web/models/tokenizers/normalizers.js";
import { preTokenizerOf } from "../../../src/regard/web/models/tokenizers/pre_tokenizers.js";

const read = (name) => JSON.parse(readFileSync(join(process.env.REGARD_FIXTURES, name), "utf8"));
const lines = read("lines.json");
const parts = read("parts.json");

for (const [component, expected] of parts.normalizers)
  test(`every code point is normalized as in the library: ${JSON.stringify(component)}`, () => {
    const text = AlignedText.of(parts.letters);
    const actual = normalizerOf(component)(text);
    const [ours, theirs] = [actual.string, expected].map((string) => string.split("\u0138"));
    const different = ours.findIndex((string, index) => string !== theirs[index]);
    assert.equal(different, -1, `${parts.letters.split("\u0138")[different]?.codePointAt(0).toString(16)}: ${ours[different]} ${theirs[different]}`); // prettier-ignore
    assert.equal(ours.length, theirs.length);
    actual.codes.forEach((_, index) => assert.ok(actual.starts[index] < actual.stops[index]));
  });

for (const [component, expected] of parts.pre_tokenizers)
  test(`${lines.length} lines are cut as in the library: ${JSON.stringify(component).slice(0, 120)}`, () => {
    const { cut } = preTokenizerOf(component);
    lines.forEach((line, index) => {
      const text = AlignedText.of(line);
      const spans = [];
      cut(text, 0, text.length, (piece, start, stop) => spans.push([piece.starts[start], piece.stops[stop - 1] ?? 0]));
      assert.deepEqual(text.length ? spans : [], expected[index], JSON.stringify(line));
    });
  });
