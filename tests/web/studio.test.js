// The studio's state: what the address says, what a text needs before it is read, and the ways on from a refusal.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  addressParts, isNewEntry, listedModel, missingModel, offerOf, OPENING, outdated, waitFor, waysFrom, withStored,
} from "../../src/regard/web/hosts/studio/model.js";

const MODELS = [{ name: "minilm", here: true, size: 9e7 }, { name: "smollm2", here: false, size: 9.8e7, licence: "Apache-2.0" }];
const LISTED = { ...OPENING, models: MODELS };
const shown = (more) => ({ reading: "r1", kept: false, text: "The cat sat", model: "minilm", ...more });

test("the address holds a short text, the name of a stored one, and a reading only while its text stands", () => {
  const long = "word ".repeat(500);
  assert.deepEqual(addressParts(OPENING, { text: "The cat", model: "" }), { text: "The cat" });
  assert.deepEqual(addressParts(OPENING, { text: long, model: "minilm" }), { model: "minilm" });
  const stored = withStored(OPENING, long, "s7");
  assert.deepEqual(addressParts(stored, { text: long, model: "minilm" }), { stored: "s7", model: "minilm" });
  assert.deepEqual(addressParts(stored, { text: `${long}!`, model: "" }), {});
  const kept = { ...OPENING, shown: shown({ kept: true }) };
  assert.deepEqual(addressParts(kept, { text: "The cat sat", model: "" }), { text: "The cat sat", reading: "r1" });
  assert.deepEqual(addressParts(kept, { text: "The cat", model: "" }), { text: "The cat" });
  assert.equal(withStored(OPENING, long, undefined), OPENING);
});

test("a text after a pause is a new entry of the history; long texts wait for the end of typing", () => {
  assert.ok(isNewEntry(OPENING, 1));
  assert.ok(!isNewEntry({ ...OPENING, edited: 1000 }, 3999));
  assert.ok(isNewEntry({ ...OPENING, edited: 1000 }, 4001));
  assert.ok(waitFor("short") < 10 && waitFor("x".repeat(601)) > 100);
});

test("a model that is not on this machine is offered with its size, never taken for an unknown one", () => {
  assert.equal(missingModel(LISTED, "minilm"), null);
  assert.equal(missingModel(LISTED, "unknown"), null);
  assert.equal(missingModel(LISTED, "smollm2"), MODELS[1]);
  assert.equal(offerOf(MODELS[1], false), "smollm2 is not on this machine yet: 98 MB to download, licence Apache-2.0.");
  assert.match(offerOf(MODELS[1], true), /^A language model reads this sentence on your own machine\. .* 98 MB to download/);
  assert.equal(listedModel(LISTED, "elsewhere", "minilm"), "minilm");
  assert.equal(listedModel(LISTED, "smollm2", "minilm"), "smollm2");
});

test("only a reading that can be read again and is no longer shown is closed", () => {
  const next = shown({ reading: "r2" });
  assert.equal(outdated(OPENING, next), null);
  assert.equal(outdated({ ...OPENING, shown: shown() }, next), "r1");
  assert.equal(outdated({ ...OPENING, shown: shown() }, shown()), null);
  assert.equal(outdated({ ...OPENING, shown: shown({ kept: true }) }, next), null);
});

test("a refusal names the models that read the text, and its beginning where that fits", () => {
  assert.deepEqual(waysFrom({}, "abcdef"), []);
  assert.deepEqual(waysFrom({ others: ["smollm2"], fits: 3 }, "abcdef"), [
    { text: "Read with smollm2", model: "smollm2" },
    { text: "Read only the beginning", fill: "abc" },
  ]);
});
