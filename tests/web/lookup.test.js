import assert from "node:assert/strict";
import { test } from "node:test";
import {
  blended,
  saidTemperature,
  meantKey,
  saidTie,
  saidWeak,
  shares,
  similarities,
  temperatureAt,
  vectorFrom,
} from "../../src/regard/web/views/lookup/model.js";
import { answerHere, bestRows, dictionaries, placeIn, resultsOf, settingsOf } from "../../src/regard/web/views/lookup/dictionary.js";
import { piecesOf, spelling } from "../../src/regard/web/views/lookup/trigrams.js";

const near = (one, other, by = 1e-12) => assert.ok(Math.abs(one - other) < by, `${one} ${other}`);

test("texts that share pieces are similar, and those that share none are not", () => {
  assert.deepEqual([...piecesOf("To_be").keys()].sort(), ["<be", "<be>", "<to", "<to>", "be>", "to>"]);
  const keys = ["Date of birth", "Name"];
  const spelled = spelling(keys);
  const [date, name] = similarities(spelled("birth date"), keys.map(spelled), "cosine");
  near(date, 11 / Math.sqrt(11 * 14)); // 11 of the 14 pieces of the key, as in Python
  assert.equal(name, 0);
  assert.deepEqual(similarities(spelled("zzz"), keys.map(spelled), "cosine"), [0, 0]);
});

test("a soft look-up is hard at temperature 0 and uniform at ∞", () => {
  assert.deepEqual(shares([1, 3, 3], 0), [0, 0.5, 0.5]);
  assert.deepEqual(shares([1, 3], Infinity), [0.5, 0.5]);
  const [one, other] = shares([6, 4], 1);
  near(one, 0.8807970779778823);
  near(one + other, 1);
  near(shares([6, 4], 2)[0], 0.7310585786300049);
});

test("similarities are as they are named", () => {
  const [query, keys] = [
    [3, 4],
    [
      [1, 0],
      [0, 2],
    ],
  ];
  assert.deepEqual(similarities(query, keys, "dot"), [3, 8]);
  near(similarities(query, keys, "scaled dot")[1], 8 / Math.SQRT2);
  near(similarities(query, keys, "cosine")[0], 0.6);
  near(similarities(query, keys, "negative distance")[1], -Math.sqrt(13));
  assert.deepEqual(
    blended(
      [0.25, 0.75],
      [
        [4, 0],
        [0, 4],
      ],
    ),
    [1, 3],
  );
});

test("the slider's ends are 0 and ∞, its middle the usual temperature", () => {
  assert.deepEqual(
    [0, 50, 100].map((place) => temperatureAt(place, 0.1)),
    [0, 0.1, Infinity],
  );
  assert.deepEqual([0, 0.1, Infinity].map(saidTemperature), ["0, hard", "0.10", "∞, uniform"]);
});

test("vectors are read as people type them", () => {
  assert.deepEqual(vectorFrom("[0.3, −1.2; 4]", 3), [0.3, -1.2, 4]);
  assert.equal(vectorFrom("1 2", 3), null);
  assert.equal(vectorFrom("1 2 x", 3), null);
});

test("ties and queries without a match are said", () => {
  const said = (scores, temperature = 1) => saidTie(["a", "b", "c"], { scores, weights: shares(scores, temperature) }, temperature);
  assert.equal(said([1, 2, 3]), "");
  assert.equal(said([2, 1, 2]), "A tie: “a” and “c” have the same probability.");
  assert.ok(said([0, 0, 0]).startsWith("No match"));
  assert.equal(said([0.5, 0.5, 0.5]), "A tie of all keys: each gets 1/3.");
  assert.equal(said([1, 2, 3], Infinity), "Uniform at infinite temperature: each gets 1/3.");
  assert.equal(said([2, 2, 1], 0), "A tie: “a” and “b” have the same probability.");
});

test("a mistyped key is suggested, and a weak match is said", () => {
  const car = ["brand", "model", "year"];
  assert.equal(meantKey("modle", car), "model"); // two letters exchanged
  assert.equal(meantKey("Model ", car), null); // equals a key
  assert.equal(meantKey("mo", car), null);
  assert.equal(meantKey("price", car), null);
  assert.equal(meantKey("cat", ["car", "bat"]), null); // both are as near
  assert.equal(meantKey("", car), null);
  assert.match(saidWeak([0.1, 0.31], "cosine"), /Nothing matches well.*0\.31/);
  assert.equal(saidWeak([0.1, 0.9], "cosine"), "");
  assert.equal(saidWeak([0.1, 0.2], "dot"), "");
});

test("a dictionary and a soft look-up answer with values, sums, or say that they cannot", () => {
  const all = dictionaries({ has: [] });
  const of = (shown, query, more = {}) => {
    const settings = { ...settingsOf(shown, {}), query, ...more };
    return resultsOf(shown, answerHere(shown, settings), query).map(({ values }) => values.join(" or "));
  };
  const car = all.find(({ keys }) => keys.includes("brand"));
  assert.deepEqual(of(car, "model"), ["Mustang", "Mustang"]);
  assert.equal(of(car, "modle")[0], "nothing");
  const vectors = all.find(({ numbers }) => numbers);
  assert.ok(vectors);
  assert.match(of(vectors, vectors.keys[0])[1], /^\[/);
  assert.deepEqual(resultsOf(car, { weights: car.keys.map(() => 1 / car.keys.length), scores: [], note: "" }, "x")[1].values, ["undecided"]);
  assert.equal(answerHere(vectors, { ...settingsOf(vectors, {}), query: "no numbers" }), null);
  assert.deepEqual([...bestRows([0.2, 0.6, 0.2])], [1]);
  assert.deepEqual([...bestRows([0.5, 0.5])], []);
  assert.equal(placeIn(all, { lookup_example: 99 }), 0);
});
