// What the `tokenizers` library and Python make of many lines (fixtures.py), made again. REGARD_FIXTURES names the
// folder that test_tokenizers.py has written.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { tokenizerFileOf } from "../../../src/regard/web/models/tokenizers/gguf_vocabulary.js";
import { utf16Spans } from "../../../src/regard/web/models/tokenizers/code_points.js";
import { Tokeniser, wordsOf } from "../../../src/regard/web/models/tokenizers/tokeniser.js";

const folder = process.env.REGARD_FIXTURES;
const lines = JSON.parse(readFileSync(join(folder, "lines.json"), "utf8"));
const names = readdirSync(folder).filter((name) => name.endsWith(".bin")).map((name) => name.slice(0, -4)); // prettier-ignore
const UNASSIGNED = /\p{Cn}/u;

for (const name of names) {
  const fixture = JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8"));
  const tokeniser = new Tokeniser(fixture.file ?? tokenizerFileOf(fixture.metadata));

  test(`${name}: ids and offsets of ${fixture.lines} lines are the library's`, () => {
    const bytes = readFileSync(join(folder, `${name}.bin`));
    const numbers = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    let index = 0;
    const next = () => {
      const count = numbers[index++];
      const [ids, starts, stops] = [0, 1, 2].map((list) =>
        numbers.subarray(index + list * count, index + (list + 1) * count),
      );
      index += 3 * count;
      return { ids, starts, stops };
    };
    for (const line of lines.slice(0, fixture.lines)) {
      const expected = next();
      const encoding = tokeniser.engine.encode(line, true);
      for (const list of ["ids", "starts", "stops"])
        if (!same(encoding[list], expected[list])) assert.deepEqual(encoding[list], Array.from(expected[list]), `${list} of ${JSON.stringify(line)}`); // prettier-ignore
    }
    assert.equal(index, numbers.length);
  });

  test(`${name}: readable tokens, words and decoded text are Python's`, () => {
    let words = 0;
    for (const { line, assigned, encoded, plain, words: expected, decoded } of fixture.readings) {
      const text = lines[line];
      const about = JSON.stringify(text);
      const actual = tokeniser.encode(text);
      // Whether a letter that is new in one Unicode version continues a word depends on the versions.
      const comparable = assigned && !UNASSIGNED.test(text);
      for (const list of Object.keys(encoded))
        if (list !== "joined" || comparable) assert.deepEqual(actual[list], encoded[list], `${list} of ${about}`);
      assert.deepEqual(tokeniser.encode(text, { special: false }).ids, plain, about);
      assert.deepEqual([tokeniser.decode(actual.ids), tokeniser.decode(actual.ids, { special: true })], decoded, about);
      if (!comparable) continue;
      words += expected.length;
      assert.deepEqual(wordsOf(actual, text).map((word) => [word.text, word.first, word.last, word.special]), expected, about); // prettier-ignore
      const spans = utf16Spans(text, actual.spans);
      actual.spans.forEach(([start, stop], token) =>
        assert.equal(text.slice(...spans[token]), Array.from(text).slice(start, stop).join(""), about),
      );
    }
    assert.ok(words > 0);
  });

  test(`${name}: the vocabulary, generated tokens and beginnings are Python's`, () => {
    assert.equal(tokeniser.size, fixture.size);
    assert.deepEqual(
      [...tokeniser.specials].sort((left, right) => left - right),
      fixture.specials,
    );
    fixture.pieces.forEach(([token, number, text, begins], id) => {
      assert.equal(tokeniser.token(id), token);
      assert.equal(tokeniser.number(token), number);
      assert.deepEqual(tokeniser.piece(id), [text, begins], token);
    });
    for (const { ids, text, encoded, decoded } of fixture.spelled) {
      const actual = tokeniser.spell(ids);
      assert.equal(actual.text, text);
      assert.equal(tokeniser.decode(ids), decoded);
      for (const list of Object.keys(encoded))
        if (list !== "joined" || !UNASSIGNED.test(text)) assert.deepEqual(actual.encoded[list], encoded[list], `${list} of ${ids}`); // prettier-ignore
    }
    for (const [text, longest, expected] of fixture.beginnings)
      assert.equal(tokeniser.beginning(text, longest), expected, JSON.stringify([text, longest]));
  });
}

/** @param {number[]} actual @param {Int32Array} expected */
function same(actual, expected) {
  return actual.length === expected.length && actual.every((number, index) => number === expected[index]);
}
