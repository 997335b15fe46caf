// A small example through the page's own modules: node small_example.js numbers.json query head > {steps, csv, latex}.
import { readFileSync } from "node:fs";
import "../src/regard/web/engine/node.js";
import { toCsv, toLatex } from "../src/regard/web/page/export.js";
import { UNCHANGED, concatenatedOf, headingOf, inputTables, outputTable, projectedHead, stepsOf, stepsTable, titleOfSteps } from "../src/regard/web/views/steps/model.js";
import { projected } from "../src/regard/web/maths/numbers.js";

const [path, query, head] = process.argv.slice(2);
const numbers = JSON.parse(readFileSync(path, "utf8"));
const [own, heads] = [Number(query), numbers.w_q.length];
const given = (/** @type {number} */ of) => {
  const { queries, keys, values } = projectedHead(numbers, of);
  return { query: queries[own], keys, values, scale: keys[0].length ** -0.5, own };
};
const outputs = numbers.w_q.map((_, of) => stepsOf(given(of)).output);
const through = projected(concatenatedOf(outputs, new Set()), numbers.w_o, null);
const word = numbers.tokens[own];
const now = given(Number(head));
const steps = stepsOf(now);
const shown = { given: now, steps, words: numbers.tokens, own, heading: headingOf(now, null), changes: UNCHANGED };
const table = {
  ...stepsTable(shown, titleOfSteps(word, now.query.length, Number(head))),
  inputs: inputTables({ words: numbers.tokens, query: word, heads, divisor: null, visible: steps.visible, numbers }),
  results: [outputTable(word, outputs, through)],
};
const list = (/** @type {ArrayLike<number>} */ vector) => Array.from(vector);
process.stdout.write(
  JSON.stringify({ query: list(now.query), keys: now.keys.map(list), values: now.values.map(list), score: list(steps.score), weight: list(steps.weight), output: list(steps.output), projected: list(through), csv: toCsv(table), latex: toLatex(table) }),
);
