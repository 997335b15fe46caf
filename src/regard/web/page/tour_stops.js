/**
 * The stops of the tour. Each one sets the view, layer, head and word, points at one part of the page and explains it
 * with the numbers shown there: they are computed from the page's own data, on any text.
 *
 * @typedef {{source: Source, description: Description, chosen: Chosen,
 *   signal: AbortSignal}} Scene
 * @typedef {{name: string, title: string, view: string, suits?: (description: Description) => boolean,
 *   points: (chosen: Chosen) => string, say: (scene: Scene) => Promise<string[]>}} Stop
 */
import { printedNumber, lengthOf, rowOf } from "../maths/numbers.js";
import { strongest } from "../maths/links.js";
import { numberOfHead, numberOfLayer } from "./state.js";
import { shortened, unitOf, unitsOf } from "../elements/words.js";
import { lookedUp } from "../views/lookup/view.js";
import { stepsOf } from "../views/steps/model.js";

export const SENTENCE = "The kids were scared of the lions, so they left right away.";
export const MODEL = "minilm";

const number = (/** @type {number} */ value) => printedNumber(value, Math.abs(value) >= 100 ? 0 : 2);
const quoted = (/** @type {string} */ word) => `“${shortened(word, 20)}”`;
const listed = (/** @type {string[]} */ parts) =>
  parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;

/** @type {Stop[]} */
export const STOPS = [
  {
    name: "lookup",
    title: "A look-up made soft",
    view: "lookup",
    points: () => ".regard-lookup-table",
    async say({ source, description, chosen, signal }) {
      const { shown, query, weights } = await lookedUp(source, description, chosen, signal);
      const best = strongest(weights, 2);
      const equal = shown.keys.includes(query)
        ? `One key here is equal to ${quoted(query)}.`
        : `No key here is equal to ${quoted(query)}, so it finds nothing.`;
      return [
        `A dictionary returns the value whose key equals the query. ${equal}`,
        `A soft look-up compares the query with every key and turns the similarities into probabilities that sum to 1: ${listed(
          best.map((row) => `${quoted(shown.keys[row])} gets ${number(weights[row])}`),
        )}. The answer is the average of all values by these probabilities. That is attention.`,
      ];
    },
  },
  {
    name: "scores",
    title: "One query, all keys",
    view: "steps",
    points: () => '.regard-steps-table [data-column="score"]',
    async say(scene) {
      const { word, best, steps, words, size } = await headFacts(scene);
      const order = strongest(steps.score.map((one) => one - Math.min(...steps.score) + 1));
      const last = order[order.length - 1];
      return [
        `In a sentence, every word asks. ${quoted(word)} has a query q, a vector of ${size} numbers; every word, ${quoted(word)} included, has a key k of the same size.`,
        `The score of a key is q · k: multiply number by number and add. ${quoted(words[best])} scores ${number(steps.score[best])}, ${quoted(words[last])} only ${number(steps.score[last])}. Select a score to see its products.`,
      ];
    },
  },
  {
    name: "scale",
    title: "Scale",
    view: "steps",
    points: () => '.regard-steps-table [data-column="scaled"]',
    async say(scene) {
      const { best, steps, words, size, given } = await headFacts(scene);
      const unscaled = stepsOf(given, { divisor: 1, temperature: 1, mask: "model" });
      const by = number(1 / given.scale);
      return [
        `Sums of ${size} products are large, and large scores would put nearly all weight on one word. So every score is divided by √d_k = √${size} = ${by}: ${number(steps.score[best])} becomes ${number(steps.scaled[best])}.`,
        `Without the division, ${quoted(words[best])} would get ${number(unscaled.weight[best])} of the weight instead of ${number(steps.weight[best])}. The first slider above the table changes the divisor.`,
      ];
    },
  },
  {
    name: "softmax",
    title: "Softmax",
    view: "steps",
    points: () => '.regard-steps-table [data-column="weight"]',
    async say(scene) {
      const { word, steps, words } = await headFacts(scene);
      const top = strongest(steps.weight, 3);
      return [
        "Softmax takes e to the power of each scaled score and divides by the sum. The results are the weights: none is negative, and together they are 1.",
        `${quoted(word)} gives ${listed(top.map((key) => `${number(steps.weight[key])} to ${quoted(words[key])}`))}.`,
      ];
    },
  },
  {
    name: "sum",
    title: "The weighted sum",
    view: "steps",
    points: () => ".regard-steps-sum",
    async say(scene) {
      const { word, steps, words } = await headFacts(scene);
      const top = strongest(steps.weight, 2);
      const output = steps.output ? ` Its length is ${number(lengthOf(steps.output))}.` : "";
      return [
        `Every word also has a value v. The output for ${quoted(word)} is the sum of all values, each times its weight: mostly ${listed(
          top.map((key) => `${number(steps.weight[key])} · v of ${quoted(words[key])}`),
        )}.${output}`,
        "The output carries what was looked up. This is all that one attention head does.",
      ];
    },
  },
  {
    name: "heads",
    title: "Many heads",
    view: "grid",
    suits: ({ heads }) => heads > 1,
    points: ({ layer }) => `.regard-grid-cell[data-layer="${layer}"]`,
    async say(scene) {
      const { description, chosen } = scene;
      const { word, key } = await pairFacts(scene);
      const of = key.heads.filter((one) => one.layer === chosen.layer);
      const [most, least] = [of[0], of[of.length - 1]];
      return [
        `A layer has several heads, ${description.heads} here and 8 in the first transformer, each with its own W_Q, W_K and W_V. Each small map is the attention of one head: queries down, keys across.`,
        `They attend differently. From ${quoted(word)} to ${quoted(key.text)}: ${number(most.weight)} in head ${numberOfHead(description, most.head)}, ${number(least.weight)} in head ${numberOfHead(description, least.head)}.`,
      ];
    },
  },
  {
    name: "concatenate",
    title: "Concatenate, then W_O",
    view: "steps",
    suits: ({ has, heads }) => has.includes("steps") && heads > 1,
    points: () => ".regard-steps-after",
    async say({ source, description, chosen, signal }) {
      const { layer, head, query } = chosen;
      const { arrays } = await source.ask("steps", { layer, head, query }, { signal });
      const { data, shape } = { data: arrays.outputs.toFloat32(), shape: arrays.outputs.shape };
      const lengths = Array.from({ length: shape[0] }, (_, one) => lengthOf(rowOf({ data, shape }, one)));
      const [first] = strongest(lengths, 1);
      const after = arrays.projected
        ? `W_O mixes them into ${arrays.projected.shape[0]} numbers, which are added to the word's own vector: it keeps what it was and gains what was looked up.`
        : "A matrix W_O then mixes the heads.";
      return [
        `The outputs of the ${description.heads} heads, ${shape[1]} numbers each, are written one after the other: ${shape[0] * shape[1]} numbers. ${after}`,
        `The longest output comes from head ${numberOfHead(description, first)}: ${number(lengths[first])}. Silence a head to see what is left without it.`,
      ];
    },
  },
  {
    name: "layers",
    title: "Layers",
    view: "sentence",
    suits: ({ layers, has }) => layers > 1 && has.includes("heads_for"),
    points: () => ".regard-which",
    async say(scene) {
      const { description } = scene;
      const { word, key } = await pairFacts(scene);
      const ofLayers = [...new Set(key.heads.map(({ layer }) => layer))].sort((one, other) => one - other);
      const best = ofLayers.map((layer) => key.heads.filter((one) => one.layer === layer)[0]);
      const [strong, weak] = [key.heads[0], best.reduce((least, one) => (one.weight < least.weight ? one : least))];
      return [
        `The next layer does the same with the new vectors, and so on through ${description.layers} layers: later heads see words that already carry their context.`,
        `From ${quoted(word)} to ${quoted(key.text)}, the strongest head is in layer ${numberOfLayer(description, strong.layer)} (${number(strong.weight)}); in layer ${numberOfLayer(description, weak.layer)} no head has more than ${number(weak.weight)}. The list shows all heads for this pair.`,
      ];
    },
  },
  {
    name: "conclude",
    title: "What you may conclude",
    view: "sentence",
    points: () => ".regard-sentence-stage",
    async say(scene) {
      const { description } = scene;
      const { word, best, steps, words } = await headFacts(scene);
      const sinks = description.sinks ?? [];
      const names = [...new Set(sinks.map((/** @type {number} */ at) => quoted(description.tokens[at])))].slice(0, 2);
      const taken = sinks.reduce((/** @type {number} */ sum, /** @type {number} */ at) => sum + steps.weight[at], 0);
      const sunk = sinks.length
        ? ` ${listed(names)} ${names.length > 1 ? "take" : "takes"} ${number(taken)} of it: such attention sinks take weight in every text and carry little meaning.`
        : "";
      return [
        `You see where one head of this model takes its values from: ${quoted(word)} from ${quoted(words[best])}, ${number(steps.weight[best])} of the weight.${sunk}`,
        "A weight is not a reason. A large weight can rest on a small value, and other heads may do the same work. To find out whether a head matters, silence it, and look at many texts.",
        "Now choose a word yourself: point at it, or use the arrow keys.",
      ];
    },
  },
];

/** Where the tour looks: the strongest link between content words, or the first word. @param {Description} description */
export function startOf(description) {
  const sinks = new Set([...(description.special ?? []), ...(description.sinks ?? [])]);
  const count = (description.query_tokens ?? description.tokens ?? []).length;
  let query = 0;
  while (query < count - 1 && sinks.has(query)) query += 1;
  return { layer: 0, head: 0, query, ...description.start, key: null, heads: null };
}

/** One head for one query, as the Steps view computes it. @param {Scene} scene */
async function headFacts({ source, description, chosen, signal }) {
  const { layer, head, query } = chosen;
  const { header, arrays } = await source.ask("vectors", { layer, head, query }, { signal });
  const matrix = (/** @type {FrameArray} */ array) => ({ data: array.toFloat32(), shape: array.shape });
  const rows = (/** @type {{data: Float32Array, shape: number[]}} */ { data, shape }) =>
    Array.from({ length: shape[0] }, (_, row) => rowOf({ data, shape }, row));
  const given = {
    query: arrays.q.toFloat32(),
    keys: rows(matrix(arrays.k)),
    values: arrays.v ? rows(matrix(arrays.v)) : null,
    scale: header.scale,
    softcap: header.softcap,
    bias: arrays.bias?.toFloat32() ?? null,
    visible: arrays.visible?.data ?? null,
    sink: header.sink ?? null,
    own: description.first_query === null ? null : /** @type {number} */ (query) + (description.first_query ?? 0),
  };
  const steps = stepsOf(given);
  const words = description.tokens;
  const sinks = new Set(description.sinks ?? []);
  const best = strongest(steps.weight, 1, { skip: (key) => sinks.has(key) || key === given.own })[0] ?? 0;
  return { word: (description.query_tokens ?? words)[query ?? 0], words, best, steps, given, size: given.query.length };
}

/** The word, the other word it attends to most, and every head's weight on this pair. @param {Scene} scene */
async function pairFacts({ source, description, chosen, signal }) {
  const { layer, head, query, key, by } = chosen;
  const units = unitsOf(description, by);
  const own = units[unitOf(units, /** @type {number} */ (query) + (description.first_query ?? 0))];
  const { arrays } = await source.ask("row", { layer, heads: [head], query, by }, { signal });
  const skip = (/** @type {number} */ place) => units[place].sink || units[place] === own;
  const chosenKey = unitOf(units, key);
  const place = chosenKey >= 0 ? chosenKey : (strongest(arrays.weight.toFloat32(), 1, { skip })[0] ?? 0);
  const found = await source.ask("heads_for", { query, key: units[place].first, by }, { signal });
  const heads = Array.from(found.arrays.weight.toFloat32(), (weight, at) => ({
    layer: found.arrays.layer.data[at],
    head: found.arrays.head.data[at],
    weight,
  }));
  return { word: own?.text ?? description.query_tokens?.[query ?? 0] ?? "", key: { text: units[place].text, heads } };
}
