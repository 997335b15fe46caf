import assert from "node:assert/strict";
import { test } from "node:test";
import { printable, shortened, summedOver, unitOf, unitsOf } from "../../src/regard/web/elements/words.js";

test("control characters become signs", () => {
  assert.equal(printable("a\x00b\n\t\x1b\x7f\x85"), "a␀b↵⇥␛␡�");
});

test("what turns the direction of text is taken out, what holds letters together stays", () => {
  assert.equal(printable("a\u202eb\u2066c"), "abc");
  assert.equal(printable("👩‍👩‍👧‍👦"), "👩‍👩‍👧‍👦");
  assert.equal(printable("שלום"), "שלום");
});

test("half a pair and what is no character are shown as such", () => assert.equal(printable("\ud800x\uffff"), "�x�"));

test("long words are cut at whole letters", () => {
  assert.equal(shortened("w".repeat(10_000)), "w".repeat(23) + "…");
  assert.equal(shortened("short"), "short");
  assert.equal(shortened("👩‍👩‍👧‍👦".repeat(40), 5), "👩‍👩‍👧‍👦".repeat(4) + "…");
  assert.equal(shortened("👩‍👩‍👧‍👦", 5), "👩‍👩‍👧‍👦");
  assert.equal(shortened(""), "␣");
});

test("words are made of tokens, and found by them", () => {
  const description = {
    tokens: ["[CLS]", "un", "happy", "!"],
    words: [
      [0, 1],
      [1, 3],
      [3, 4],
    ],
    special: [0],
    sinks: [0],
    joined: [2],
  };
  const words = unitsOf(description, "word");
  assert.deepEqual(
    words.map((word) => word.text),
    ["[CLS]", "unhappy", "!"],
  );
  assert.deepEqual(
    words.map((word) => word.sink),
    [true, false, false],
  );
  assert.deepEqual(
    [0, 1, 2, 3, 4, null].map((token) => unitOf(words, token)),
    [0, 1, 1, 2, -1, -1],
  );
  assert.equal(unitsOf(description, "token")[2].joined, true);
  assert.deepEqual([...summedOver([1, 2, 3, 4], words)], [1, 5, 4]);
});

test("a word whose letters are several tokens is spelled as in the text", () => {
  const description = {
    text: "أهلا 🙂 hi",
    tokens: ["<D8>", "<A3>", "ه", "ل", "ا", "🙂", "hi"],
    stops: [1, 1, 2, 3, 4, 7, 10],
    words: [
      [0, 5],
      [5, 6],
      [6, 7],
    ],
  };
  assert.deepEqual(
    unitsOf(description, "word").map(({ text }) => text),
    ["أهلا", "🙂", "hi"],
  );
});
