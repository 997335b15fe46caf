/** The dictionaries of the view, and what a query finds in them. Pure functions. */
import { printedVector } from "../../maths/numbers.js";
import { EXAMPLES } from "./examples.js";
import { SIMILARITIES, blended, saidTemperature, shares, similarities, temperatureAt, tiedRows, vectorFrom } from "./model.js";
import { spelling } from "./trigrams.js";

/** @typedef {{weights: number[], scores: number[], note: string}} Answer */

/**
 * A dictionary in the view: keys with vectors, values as strings and, if numeric, as numbers.
 * @typedef {{name: string, keys: string[], values: string[], vectors: number[][]|null, numbers: number[][]|null, query: string,
 *   similarity: string, temperature: number, textual: boolean, spelled: ((text: string) => number[])|null, asks: boolean,
 *   meant: boolean, embedded?: Promise<number[][]>}} Dictionary
 * asks   the source computes the answer; meant: it can embed texts by meaning, otherwise they are compared by spelling
 */

/** @param {Description} description @returns {Dictionary[]} */
export function dictionaries(description) {
  const found = EXAMPLES.map((example) => {
    const textual = typeof example.keys[0] === "string";
    const texts = /** @type {string[]} */ (example.keys);
    const spelled = textual ? spelling(texts) : null;
    const said = (/** @type {string|number[]} */ part) => (Array.isArray(part) ? `[${part.join(", ")}]` : String(part));
    return {
      ...example,
      keys: example.keys.map(said),
      values: example.values.map(said),
      vectors: spelled ? texts.map(spelled) : /** @type {number[][]} */ (example.keys),
      numbers: Array.isArray(example.values[0]) ? /** @type {number[][]} */ (example.values) : null,
      textual,
      spelled,
      asks: false,
      meant: textual && (description.has ?? []).includes("meaning"),
    };
  });
  const given = description.lookup;
  if (!given) return found;
  const size = given.vectors?.[0]?.length ?? 0;
  const spelled = given.spelling ? spelling(given.keys) : null;
  const textual = given.spelling || !given.keys.every((/** @type {string} */ key) => vectorFrom(key, size));
  const own = {
    name: "This dictionary",
    keys: given.keys,
    values: given.values,
    vectors: spelled ? given.keys.map(spelled) : given.vectors,
    numbers: given.numbers,
    query: given.query ?? given.keys[0] ?? "",
    similarity: given.similarity,
    temperature: given.temperature || 0.1,
    textual,
    spelled,
    asks: !spelled && (!given.vectors || given.similarity === "function" || textual),
    meant: false,
  };
  return [own, ...found];
}

/** The dictionary that is chosen. @param {Dictionary[]} all @param {Chosen} chosen */
export function placeIn(all, { lookup_example: place }) {
  return all[Number(place ?? 0)] ? Number(place ?? 0) : 0;
}

/** Query, similarity and temperature: chosen, or those of the dictionary. @param {Dictionary} shown @param {Chosen} chosen */
export function settingsOf(shown, { lookup_query: asked, lookup_similarity: how, lookup_temperature: place, lookup_by: by }) {
  const at = typeof place === "number" ? place : 50;
  return {
    query: asked === undefined || asked === null ? shown.query : String(asked),
    how: SIMILARITIES.includes(how) ? how : shown.similarity,
    meaning: shown.meant && by !== "spelling",
    place: at,
    temperature: temperatureAt(at, shown.temperature),
  };
}

/** The same where no model is needed. @param {Dictionary} shown @param {Omit<ReturnType<typeof settingsOf>, "place"|"meaning"> & {meaning?: boolean}} settings */
export function answerHere(shown, { query, how, temperature }) {
  const vector = shown.spelled ? shown.spelled(query) : vectorFrom(query, shown.vectors?.[0].length ?? 0);
  if (!vector) return null;
  const scores = similarities(vector, shown.vectors ?? [], how);
  return { scores, weights: shares(scores, temperature), note: "" };
}

/** How texts are compared, where they are compared here. @param {Dictionary} shown @param {boolean} meaning */
export function comparisonOf({ textual, asks }, meaning) {
  if (!textual || asks) return "";
  return meaning ? "By meaning: cosine and other similarities of minilm's embeddings." : "By spelling: groups of three letters that query and key share.";
}

/** The keys with the largest probability, unless all have it. @param {number[]} weights */
export function bestRows(weights) {
  const most = Math.max(...weights);
  return new Set(Math.min(...weights) < most ? weights.flatMap((weight, row) => (weight === most ? [row] : [])) : []);
}

/**
 * What a dictionary and what a soft look-up return: values by their texts, with a note.
 * @param {Dictionary} shown @param {Answer} answer @param {string} asked
 * @returns {{name: string, values: string[], isText: boolean, note: string}[]}
 */
export function resultsOf(shown, answer, asked) {
  const equal = hardMatches(shown, asked);
  const hard = hardValue(shown, equal);
  const many = equal.length < 2 ? "" : `Several keys are equal: ${shown.numbers ? "their values are summed" : "the last value is taken"}.`;
  const first = { name: "Hard", values: [hard ?? "nothing"], isText: hard !== null, note: hard === null ? "No key equals the query." : many };
  if (shown.numbers) return [first, { name: "Soft", values: [`[${printedVector(blended(answer.weights, shown.numbers), 2)}]`], isText: false, note: "Σ probability · value" }];
  const tied = tiedRows(answer.weights);
  if (tied.length > 1 && tied.length === shown.values.length) return [first, { name: "Soft", values: ["undecided"], isText: false, note: "All values are equally probable." }];
  const note = tied.length === 1 ? "Text values cannot be averaged: the most probable one is shown." : "Equally probable: text values cannot be averaged.";
  return [first, { name: "Soft", values: tied.map((row) => shown.values[row]), isText: true, note }];
}

/** Where the numbers come from. @param {Dictionary} shown @param {ReturnType<typeof settingsOf>} settings */
export function originOf(shown, { how, temperature, meaning }) {
  const by = !shown.textual ? "" : meaning ? " by minilm's embeddings" : shown.asks ? "" : " by spelling";
  return { source: `look-up${by}, softmax(${how} ÷ ${saidTemperature(temperature).split(",")[0]})`, text: shown.name };
}

/** The keys equal to the query. @param {Dictionary} shown @param {string} asked */
function hardMatches(shown, asked) {
  const vector = shown.textual || !shown.vectors ? null : vectorFrom(asked, shown.vectors[0].length);
  const equals = (/** @type {number} */ row) =>
    vector ? vector.every((part, place) => part === shown.vectors?.[row][place]) : shown.keys[row] === asked;
  return shown.keys.map((_, row) => row).filter(equals);
}

/** Numbers are summed; of other values the last one is taken. @param {Dictionary} shown @param {number[]} rows */
function hardValue({ values, numbers }, rows) {
  if (!numbers) return rows.length ? values[rows[rows.length - 1]] : null;
  const sums = numbers[0].map((_, part) => rows.reduce((sum, row) => sum + numbers[row][part], 0));
  return `[${printedVector(sums, rows.length ? 2 : 0)}]`;
}
