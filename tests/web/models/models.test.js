/** Every layer of real and small models, generation, vectors of texts and changes: equal to Python's. */
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { probabilities } from "../../../src/regard/web/maths/sampling.js";
import { headsFirst } from "../../../src/regard/web/maths/rows.js";
import { largestFirst, sampler } from "../../../src/regard/web/models/sampler.js";
import { difference, expectedOf, FOLDER, openModel } from "./support.js";

const EQUAL = 2e-5; // of the largest number of an array
const CASES = readdirSync(FOLDER, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name);

const near = (found, expected, what, by = EQUAL) => {
  const apart = difference(found, expected);
  assert.ok(apart <= by, `${what}: ${apart}`);
};

for (const name of CASES) {
  test(name, async (t) => {
    const model = openModel(name);
    const expected = expectedOf(name);
    const reading = await model.read(expected.text);

    await t.test("tokens, words and sinks", () => {
      assert.deepEqual(reading.encoded.ids, expected.ids);
      assert.deepEqual(reading.encoded.texts, expected.tokens);
      assert.deepEqual(reading.words.map(({ text, first, last }) => [text, first, last]), expected.words);
      assert.deepEqual(reading.sinks, expected.sinks);
    });

    await t.test("states, queries, keys, values and outputs of every layer", () => {
      const [layers, count, width] = expected.shape("states");
      assert.equal(reading.states.length, layers);
      for (let layer = 0; layer < layers; layer++) {
        const rows = expected.array("states").subarray(layer * count * width, (layer + 1) * count * width);
        near(reading.states[layer], rows, `states ${layer}`);
      }
      reading.layers.forEach(({ queries, keys, values, outputs }, layer) => {
        for (const [what, rows] of Object.entries({ q: queries, k: keys, v: values, outputs })) {
          const [heads, , size] = expected.shape(`${what}${layer}`);
          near(headsFirst(rows, heads, size), expected.array(`${what}${layer}`), `${what} ${layer}`);
        }
      });
    });

    await t.test("a certificate in double precision", () => {
      const { rows, row_sums, forbidden, output, line } = reading.certificate;
      assert.equal(rows, expected.certificate.rows);
      assert.ok(row_sums < 2e-6 && forbidden === 0 && output > 0 && output < 2e-5, line);
    });

    await t.test("vectors of texts", async () => near(await model.embed(expected.alike), expected.array("embed"), "embed"));

    await t.test("changes, through all later layers", async () => {
      for (const [place, change] of expected.changes.entries()) {
        const states = await model.changedStates(reading, change);
        const whole = Float32Array.from(states.flatMap((rows) => [...rows]));
        near(whole, expected.array(`changed${place}`), JSON.stringify(change));
        assert.ok(difference(whole, expected.array("states")) > 1e-4, `${JSON.stringify(change)} changes nothing`);
      }
    });

    if (!model.writes) {
      await t.test("a model that does not write says so", () => assert.rejects(model.generate("The"), /cannot write/));
      return model.release();
    }

    await t.test("logits", () => near(model.nextLogits(reading.states.at(-1)), expected.array("logits"), "logits"));

    await t.test("generated tokens are the same", async () => {
      for (const { sampling, ids, text, given, starts, tokens, pieces } of expected.written) {
        const { temperature, top_k: topK, top_p: topP, seed } = sampling;
        const heard = [];
        const found = await model.generate(expected.prompt, { tokens, temperature, topK, topP, seed, onToken: (piece) => heard.push(piece) });
        assert.deepEqual(found.encoded.ids, ids, JSON.stringify(sampling));
        assert.equal(found.text, text);
        assert.equal(found.given, given);
        assert.deepEqual(found.encoded.spans.map(([start]) => start), starts);
        assert.deepEqual(heard, pieces);
      }
    });

    await t.test("what was generated reads as if it were given", async () => {
      const { ids } = expected.written[0];
      const found = await model.generate(expected.prompt, { tokens: ids.length - expected.written[0].given });
      const { ForwardPass } = await import("../../../src/regard/web/models/forward.js");
      const pass = new ForwardPass(model.layers, ids.length);
      await pass.append(ids);
      pass.states.forEach((rows, layer) => near(found.states[layer], rows, `states ${layer}`));
      pass.layers.forEach((arrays, layer) => {
        for (const what of ["queries", "keys", "values", "outputs"]) near(found.layers[layer][what], arrays[what], `${what} ${layer}`);
      });
    });

    await t.test("generation stops at a text, and when it is cancelled", async () => {
      const { text } = expected.written[0];
      const stop = text.slice(expected.prompt.length).slice(3, 9);
      const short = await model.generate(expected.prompt, { tokens: expected.written[0].tokens, stop: [stop] });
      assert.ok(short.text.includes(stop) && short.encoded.ids.length <= expected.written[0].ids.length);
      const gone = new AbortController();
      const cancelled = model.generate(expected.prompt, { tokens: expected.written[0].tokens, signal: gone.signal, onToken: () => gone.abort() });
      await assert.rejects(cancelled, { name: "AbortError" });
    });
    model.release();
  });
}

test("sampling is Python's, to the token", () => {
  const { logits, cases } = JSON.parse(readFileSync(`${FOLDER}/sampling.json`, "utf8"));
  const numbers = Float32Array.from(logits);
  for (const { options, order, shares, drawn } of cases) {
    const { temperature, top_k: topK, top_p: topP, seed } = options;
    const ids = largestFirst(numbers);
    const found = probabilities(Array.from(ids, (id) => numbers[id]), { temperature, topK, topP });
    assert.deepEqual([...ids.slice(0, found.length)], order);
    found.forEach((share, place) => assert.ok(Math.abs(share - shares[place]) < 1e-12));
    const sample = sampler({ temperature, topK, topP, seed });
    assert.deepEqual(drawn.map(() => sample(numbers)), drawn, JSON.stringify(options));
  }
});
