// The first screen: what is asked, which nouns can be swapped, how dots pile up, and what the result says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EXAMPLES, nextExample, questionOf, swapped } from "../../src/regard/web/views/guess/model.js";
import {
  ballotOf, bestVote, changedHeads, choicesOf, isAlike, keysOf, placed, sceneOf, spacesOf, tallied, votesOf, withText,
} from "../../src/regard/web/views/vote/model.js";
import { goalsOf, pile, pileHeight, pilesOf, pileShape, trayHeight, waitingShape } from "../../src/regard/web/views/vote/piles.js";
import { layersText, legendOf, resultOf, sayHead } from "../../src/regard/web/views/vote/result.js";

const KIDS = EXAMPLES[0].text;
const unit = (text, more = {}) => ({ text, first: 0, last: 1, special: false, sink: false, joined: false, ...more });
const saying = (parts) => parts.map(({ text, next }) => (next ? " " : "") + text).join("");

test("two nouns of one number after “the” are swapped, and back", () => {
  const other = "The lions were scared of the kids, so they left right away.";
  assert.equal(swapped(KIDS), other);
  assert.equal(swapped(other), KIDS);
  assert.equal(swapped("The trophy didn't fit in the suitcase because it was too big."), "The suitcase didn't fit in the trophy because it was too big.");
});

test("nothing is swapped where the result might be no sentence", () => {
  for (const text of [
    "Love Apple phones", // no noun after “the”
    "The cat sat", // one noun
    "The kids were scared of the lion, so they left.", // of two numbers
    "The red car hit the blue bus because it was fast.", // adjectives
    "The cat and the dog of the bird, so it sang.", // three
    "The cat of the cat, so it left.", // one word twice
    "",
  ])
    assert.equal(swapped(text), null, text);
});

test("an example keeps its question when its nouns are swapped; a typed text has none of its own", () => {
  for (const { text, question } of EXAMPLES) {
    assert.equal(questionOf(text), question);
    if (swapped(text)) assert.equal(questionOf(swapped(text)), question);
  }
  assert.equal(questionOf("The cat sat"), null);
});

test("the examples follow each other in a circle; after a text of one's own comes the first", () => {
  let text = KIDS;
  const seen = EXAMPLES.map(() => (text = nextExample(text).text));
  assert.deepEqual(new Set(seen), new Set(EXAMPLES.map((example) => example.text)));
  assert.equal(text, KIDS);
  assert.equal(nextExample("my own").text, KIDS);
});

test("votes are taken row by row, with sinks and the asking word set aside", () => {
  const units = [unit("[CLS]", { special: true, sink: true }), unit("kids"), unit("left"), unit("they")];
  const rows = [0.6, 0.3, 0.1, 0, /* head 1 */ 0.1, 0.2, 0.3, 0.4, /* head 2 */ 0.5, 0.25, 0.25, 0];
  const votes = votesOf([{ layer: 4, heads: [0, 1, 2], rows }], units, 3);
  assert.deepEqual(votes, [
    { layer: 4, head: 0, word: 1, weight: 0.3, abstains: true },
    { layer: 4, head: 1, word: 2, weight: 0.3, abstains: false },
    { layer: 4, head: 2, word: null, weight: 0, abstains: true },
  ]);
});

const votes = (...choices) => choices.map(([layer, word, abstains = false], head) => ({ layer, head, word, weight: 0.5, abstains }));

test("dots wait in layers that have not voted, lie in the tray, or are on words; none is lost", () => {
  const all = votes([0, 1], [0, 2, true], [1, 1], [1, null, true]);
  const at = (how) => placed(all, { layers: [0, 1], ...how }).map(({ where }) => where);
  assert.deepEqual(at({ counted: 2, apart: false }), ["word", "word", "word", "tray"]);
  assert.deepEqual(at({ counted: 2, apart: true }), ["word", "tray", "word", "tray"]);
  assert.deepEqual(at({ counted: 1, apart: false }), ["word", "word", "layer", "layer"]);
  assert.deepEqual(at({ counted: 0, apart: false }), ["layer", "layer", "layer", "layer"]);
  assert.deepEqual(tallied(placed(all, { layers: [0, 1], counted: 1, apart: false }), 3), [0, 1, 1]);
});

test("no two dots of a pile overlap, next choices lie above votes, and the height is as announced", () => {
  for (const counts of [[0, 1], [7, 0], [6, 8], [31, 40]])
    for (const shape of [{ pitch: 14, columns: 3 }, { pitch: 5, columns: 8 }]) {
      const dots = pile(counts, shape);
      assert.equal(dots.length, counts[0] + counts[1]);
      for (const [at, one] of dots.entries())
        for (const other of dots.slice(at + 1)) assert.ok(Math.hypot(one.x - other.x, one.y - other.y) >= shape.pitch - 1e-9);
      const [first, next] = [dots.slice(0, counts[0]), dots.slice(counts[0])];
      assert.ok(!first.length || !next.length || Math.min(...first.map(({ y }) => y)) > Math.max(...next.map(({ y }) => y)));
      assert.ok(Math.max(...dots.map(({ y }) => -y)) + shape.pitch / 2 <= pileHeight(counts, shape) + 1e-9);
      assert.ok(Math.max(...dots.map(({ x }) => Math.abs(x))) <= (shape.columns * shape.pitch) / 2);
    }
});

test("dots are as large as the highest pile allows, for 72 heads and for 1,200", () => {
  const many = (count) => placed(votes(...Array.from({ length: count }, (_, head) => [0, head % 3, head % 2 === 0])), { layers: [0], counted: 1, apart: false });
  const room = { width: 46, height: 132 };
  const [few, most] = [72, 1200].map((count) => pileShape(many(count), 3, room));
  assert.ok(few.pitch >= 10 && most.pitch < few.pitch && most.pitch >= 3);
  for (const [count, shape] of [[72, few], [1200, most]])
    for (const counts of pilesOf(many(count), 3)) assert.ok(pileHeight(counts, shape) <= room.height);
});

test("heads that changed their word are found by the word, not by its place", () => {
  const [one, other] = [["the", "kids", "lions"], ["the", "lions", "kids"]];
  const before = choicesOf(votes([0, 1], [0, 2], [1, null]), one);
  assert.deepEqual([...changedHeads(votes([0, 1], [0, 1], [1, null]), before, other)], ["0.0"]);
});

test("words are found again in another case; texts with other words are not compared", () => {
  assert.deepEqual(keysOf([unit("The"), unit("cat"), unit("the")]), ["the", "cat", "the:2"]);
  const words = (text) => keysOf(text.split(" ").map((word) => unit(word)));
  assert.ok(isAlike(words("The kids saw the lions"), words("The lions saw the kids")));
  assert.ok(isAlike(words("The kids saw the lions"), words("The kids saw the tigers")));
  assert.ok(!isAlike(words("The kids saw the lions"), words("The trophy was big")));
});

test("punctuation follows its word without a space", () => {
  const units = ["[CLS]", "Kids", ",", "they", "'", "re", "!"].map((text) => unit(text, { special: text === "[CLS]" }));
  assert.deepEqual(spacesOf("Kids, they're !", units), [true, true, false, true, false, false, true]);
});

test("the result says how many heads agree with a guess, and which word gets most", () => {
  const texts = ["[CLS]", "kids", "lions", "so", "they"];
  const say = (counts, guess) => saying(resultOf({ counts, texts, asker: 4, guess, heads: 72 }));
  assert.equal(say([0, 12, 8, 14, 0], 1), "You said kids: 12 of 72 heads agree. Most votes, 14, go to so, the word before it.");
  assert.equal(say([0, 12, 8, 1, 0], 1), "12 of 72 heads agree with you: kids gets the most votes.");
  assert.equal(say([0, 12, 12, 1, 0], 1), "You said kids: 12 of 72 heads agree. No word gets more.");
  assert.equal(say([0, 0, 9, 1, 0], 1), "You said kids: no head agrees. Most votes, 9, go to lions.");
  assert.equal(say([0, 1, 9, 1, 0], 1), "You said kids: 1 of 72 heads agrees. Most votes, 9, go to lions.");
  assert.equal(say([0, 12, 8, 14, 0], null), "Of 72 heads, 14 look at so, 12 at kids, 8 at lions.");
  assert.equal(say([0, 0, 0, 0, 0], 1), "No head looks at another word yet.");
});

const described = (text, more = {}) => {
  const words = text.split(" ");
  return { text, layers: 2, heads: 3, tokens: words, words: words.map((_, at) => [at, at + 1]), sinks: [], start: { layer: 0, head: 0, query: words.length - 1 }, ...more };
};
const ROOM = { width: 27, height: 84 };

test("a scene says who asks, what was guessed, and which layers have voted", () => {
  const ballot = { ...ballotOf(described("the kids left they")), votes: votes([0, 1], [0, 2, true], [1, 1], [1, null, true]) };
  const opening = sceneOf(ballot, { query: null }, ROOM);
  assert.deepEqual([opening.open, opening.asker, opening.guess, opening.counted], [false, 3, null, 2]);
  const guessed = sceneOf(ballot, { query: 2, vote_open: true, vote_guess: "kids", vote_layers: 1, vote_apart: true }, ROOM);
  assert.deepEqual([guessed.open, guessed.asker, guessed.guess, guessed.counted], [true, 2, 1, 1]);
  assert.deepEqual(guessed.dots.map(({ where }) => where), ["word", "tray", "layer", "layer"]);
  assert.deepEqual(guessed.counts, [0, 1, 0, 0]);
  assert.equal(bestVote(ballot.votes, 1).head, 0);
  assert.equal(bestVote(ballot.votes, 0), null);
});

test("another text is compared with the one before only while votes are shown, and only if it is alike", () => {
  const ballot = { ...ballotOf(described("the kids saw the lions")), votes: votes([0, 1], [1, 4]) };
  const next = withText(ballot, described("the lions saw the kids"), true);
  assert.deepEqual([next.compared, next.before.counts.get("kids"), next.keys[1]], [true, 1, "lions"]);
  const scene = sceneOf({ ...next, votes: votes([0, 1], [1, 1]) }, { query: null, vote_open: true }, ROOM);
  assert.deepEqual([...scene.changed], ["0.0"]);
  assert.equal(withText(ballot, described("the lions saw the kids"), false).compared, false);
  assert.equal(withText(ballot, described("birds fly south today now"), true).compared, false);
});

test("every dot has one goal, and no two dots the same", () => {
  const ballot = { ...ballotOf(described("the kids left they")), votes: votes([0, 1], [0, 1, true], [0, null, true], [1, 1], [1, 2], [1, 2]) };
  const at = { words: [{ x: 20, y: 90 }, { x: 60, y: 90 }, { x: 100, y: 90 }, { x: 140, y: 90 }], tray: { x: 0, y: 100, width: 200 }, strip: { x: 0, y: 0 } };
  for (const [layers, width] of [[undefined, 200], [1, 200], [0, 30]]) {
    const scene = sceneOf(ballot, { query: null, vote_open: true, vote_layers: layers }, ROOM);
    const waiting = waitingShape(scene, width);
    const goals = goalsOf(scene, waiting, at);
    assert.deepEqual([...goals.keys()].sort(), ["0.0", "0.1", "0.2", "1.3", "1.4", "1.5"]);
    assert.equal(new Set([...goals.values()].map(({ x, y }) => `${x} ${y}`)).size, 6);
    for (const dot of scene.dots.filter(({ where }) => where === "layer")) assert.ok(goals.get(`${dot.layer}.${dot.head}`).y < waiting.height);
    for (const dot of scene.dots.filter(({ where }) => where === "tray")) assert.ok(goals.get(`${dot.layer}.${dot.head}`).y < 100 + trayHeight(scene, 200));
  }
});

test("the legend counts who abstains and who is undecided, of the layers that have voted", () => {
  const units = ["[CLS]", "kids", "they"];
  const description = described(units.join(" "), { sinks: [0], special: [0] });
  const ballot = { ...ballotOf(description), votes: votes([0, 1], [0, 1, true], [1, null, true]) };
  const say = (more) => legendOf(ballot, sceneOf(ballot, { query: 2, vote_open: true, ...more }, ROOM)).map(({ text }) => text);
  assert.deepEqual(say({}), ["looks here most", "1 of 3 abstain: they look at [CLS] most, and here next", "1 is undecided"]);
  assert.deepEqual(say({ vote_layers: 1, vote_apart: true }), ["looks here most", "1 of 2 abstain: they look at [CLS] most"]);
  assert.equal(sayHead(ballot, "0.1"), "Layer 0, head 1 looks at kids (0.50), but more at [CLS]");
  assert.equal(sayHead(ballot, "1.2"), "Layer 1, head 2 looks at no word more than another");
  assert.equal(layersText(1, 2), "1 of 2 layers has voted.");
});
