/** What rounding the weights of a model changes, as the page computes it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { FOLDER, openModel } from "./support.js";

for (const [name, expected] of Object.entries(JSON.parse(readFileSync(`${FOLDER}/rounding.json`, "utf8"))))
  test(name, async () => {
    const model = openModel(name);
    await model.measureRounding();
    assert.ok(Math.abs(model.roundingError - expected) < 1e-3 * expected, `${model.roundingError}; Python has ${expected}`); // the reference is stored in float32
    const { line } = (await model.read("the kids left")).certificate;
    assert.match(line, /; weights rounded to float16: outputs within [\de-]+ of the float32 model$/);
    model.release();
  });
