/**
 * What the heads of one or two models do: pure functions from the measured numbers to what is drawn.
 *
 * @typedef {{name: string, meaning: string}} Metric
 * @typedef {{pattern: string, score: number}} Label
 * @typedef {HeadPlace & {relation: string, direction: string, arrow: string, accuracy: number[], gain: number, offset: number,
 *   untrained: number|null, words: number}} Relation
 * @typedef {HeadPlace & {text: string, query: number[], key: number[], weight: number, tenth: number}} Example  query and key: letters [first, last)
 * @typedef {Metric & {mean: (number|null)[][], low?: (number|null)[][], high?: (number|null)[][]}} Statistic
 * @typedef {{model: string, source: string, names: string[][]|null, notes: string[], about: Record<string, any>, layers: number, heads: number, patterns: Metric[],
 *   labels: Label[][][], statistics: Statistic[], relations: Relation[], relations_on: string, examples: Example[],
 *   tenths: number[][][]|null, sentences: {text: string, tokens: string[], sinks: number[], causal: boolean}[]}} Measured
 * @typedef {ReturnType<typeof modelOf>} Model
 * @typedef {{title: string, models: Model[], metrics: Metric[]}} Atlas
 */
import { roundedUp } from "../maths/numbers.js";
import { headsOf } from "../page/state.js";

export const NONE = "no clear pattern";
export const RELATION = "finds a relation";
const LAYER = { name: "layer", meaning: "the number of the layer, from 0" };
const GAIN = { name: "relation", meaning: "the most that the head gains over the best fixed offset, in any relation" };
const LARGEST_WEIGHT = 255; // weights are stored in 8 bits

/** @param {Frame} frame @returns {Atlas} */
export function atlasOf({ header, arrays }) {
  const models = /** @type {Measured[]} */ (header.models).map((data, place) => modelOf(data, place, arrays));
  const shared = models[0].metrics.filter(({ name }) => models.every((one) => one.has(name)));
  return { title: header.title, models, metrics: shared };
}

/** @param {Measured} data @param {number} place @param {Record<string, FrameArray>} arrays */
function modelOf(data, place, arrays) {
  const { layers, heads } = data;
  const all = headsOf(layers, heads);
  const statistics = new Map(data.statistics.map((one) => [one.name, one]));
  const isOf = (/** @type {HeadPlace} */ one, /** @type {HeadPlace} */ { layer, head }) => one.layer === layer && one.head === head;
  const relationsOf = (/** @type {HeadPlace} */ head) => data.relations.filter((one) => isOf(one, head));
  const gains = all.map((head) => Math.max(0, ...relationsOf(head).map(({ gain }) => gain)));

  /** The mean of a metric; NaN where nothing was counted. @param {string} name @param {HeadPlace} one */
  function of(name, one) {
    if (name === LAYER.name) return one.layer;
    if (name === GAIN.name) return gains[one.layer * heads + one.head];
    return statistics.get(name)?.mean[one.layer][one.head] ?? NaN;
  }

  const measured = data.statistics.filter(({ name }) => all.some((one) => Number.isFinite(of(name, one))));
  /** @type {Metric[]} */
  const metrics = [...measured, ...(data.relations.length ? [GAIN] : []), LAYER];
  return {
    place,
    name: data.model,
    source: data.source,
    notes: data.notes,
    about: data.about,
    layers,
    heads,
    patterns: data.patterns,
    all,
    metrics,
    has: (/** @type {string} */ name) => metrics.some((metric) => metric.name === name),
    of,
    /** The 95% interval; null where there is none. @param {string} name @param {HeadPlace} one */
    interval(name, { layer, head }) {
      const found = statistics.get(name);
      const ends = [found?.low?.[layer][head] ?? null, found?.high?.[layer][head] ?? null];
      return ends.includes(null) ? null : /** @type {number[]} */ (ends);
    },
    /** @param {HeadPlace} one @returns {Label[]} */
    labels: ({ layer, head }) => data.labels[layer][head],
    /** What the head is known for in general, as every page calls it; null where that is not known. @param {HeadPlace} one */
    known: ({ layer, head }) => data.names?.[layer][head] ?? null,
    relationsOf,
    relationsOn: data.relations_on,
    hasRelations: data.relations.length > 0,
    examplesOf: (/** @type {HeadPlace} */ head) => data.examples.filter((one) => isOf(one, head)),
    /** Links in each tenth of the weight. @param {HeadPlace} one @returns {number[]|null} */
    tenths: ({ layer, head }) => data.tenths?.[layer][head] ?? null,
    sentences: data.sentences,
    /** Attention weights (query, key). @param {number} sentence @param {HeadPlace} one */
    weights(sentence, { layer, head }) {
      const size = data.sentences[sentence].tokens.length ** 2;
      const start = (layer * heads + head) * size;
      const bytes = arrays[`weights_${place}_${sentence}`].data.subarray(start, start + size);
      return Float32Array.from(bytes, (weight) => weight / LARGEST_WEIGHT);
    },
  };
}

/** What a head is coloured by: its first pattern, a relation, a sink, or nothing clear. @param {Model} model @param {HeadPlace} one */
export function patternOf(model, one) {
  const [first] = model.labels(one);
  if (model.relationsOf(one).length && (!first || first.pattern.endsWith("sink"))) return RELATION;
  return first?.pattern ?? NONE;
}

/** Whether a head shows a pattern, be it its first or another. @param {Model} model @param {HeadPlace} one @param {string} name */
export function showsPattern(model, one, name) {
  return patternOf(model, one) === name || model.labels(one).some(({ pattern }) => pattern === name);
}

/** What a head is called: as on every other page, or by what is measured here. @param {Model} model @param {HeadPlace} one */
export function nameOf(model, one) {
  const [first] = model.labels(one);
  return model.known(one) ?? model.relationsOf(one)[0]?.arrow ?? first?.pattern ?? NONE;
}

/** The patterns that occur in any of the models, most frequent first, and how many heads show each. @param {Atlas} atlas */
export function legendOf(atlas) {
  const names = [RELATION, ...atlas.models[0].patterns.map(({ name }) => name), NONE];
  /** @type {Map<string, number>} */
  const counts = new Map(names.map((name) => [name, 0]));
  for (const model of atlas.models)
    for (const one of model.all) counts.set(patternOf(model, one), (counts.get(patternOf(model, one)) ?? 0) + 1);
  return [...counts].map(([name, count], place) => ({ name, count, place })).filter(({ count }) => count);
}

/** Two letters for a pattern: "pr" of "previous token". @param {string} pattern */
export function short(pattern) {
  return pattern === NONE ? "·" : pattern === RELATION ? "re" : pattern.slice(0, 2);
}

/**
 * An axis that holds a metric of all models: from 0 where that is near, ends rounded, and its ticks.
 * @param {Atlas} atlas @param {string} name
 */
export function axisOf(atlas, name) {
  const values = atlas.models.flatMap((model) => model.all.map((one) => model.of(name, one))).filter(Number.isFinite);
  const [least, most] = [Math.min(...values, Infinity), Math.max(...values, -Infinity)];
  if (!values.length) return { from: 0, to: 1, ticks: [0, 0.5, 1] };
  if (name === LAYER.name) return { from: -0.5, to: most + 0.5, ticks: steps(0, most, Math.ceil((most + 1) / 8)) };
  const from = least >= 0 && least < 0.6 * most ? 0 : least - 0.06 * (most - least || 1);
  const step = roundedUp((most - from) / 6 || 0.25);
  const first = Math.ceil(from / step) * step;
  const to = Math.max(most + 0.04 * (most - from), from + step);
  return { from, to, ticks: steps(first, to, step) };
}

/** Decimals with which all ticks can be told apart: 2 for 0, 0.25, 0.5. @param {number[]} ticks */
export function tickDigits(ticks) {
  return Math.max(0, ...ticks.map((tick) => (String(tick).split(".")[1] ?? "").length));
}

/** @param {number} from @param {number} to @param {number} step */
function steps(from, to, step) {
  const count = Math.floor((to - from) / step + 1e-9) + 1;
  return Array.from({ length: count }, (_, place) => Number((from + place * step).toPrecision(6)));
}

/** Where a value is on an axis, from 0 to 1. @param {{from: number, to: number}} axis @param {number} value */
export function shareOf({ from, to }, value) {
  return (value - from) / (to - from);
}

/** How many heads have a larger value, from 0. @param {Model} model @param {string} name @param {HeadPlace} one */
export function rankOf(model, name, one) {
  const value = model.of(name, one);
  return model.all.filter((other) => model.of(name, other) > value).length;
}

/** The head worth seeing first: with the largest gain in a relation, or the clearest pattern. @param {Atlas} atlas */
export function firstHead(atlas) {
  const [model] = atlas.models;
  const clear = (/** @type {HeadPlace} */ one) => {
    const best = model.labels(one).find(({ pattern }) => !pattern.endsWith("sink"));
    return model.hasRelations ? model.of(GAIN.name, one) : (best?.score ?? 0);
  };
  return { model, one: model.all.reduce((best, one) => (clear(one) > clear(best) ? one : best)) };
}

/** The axes to begin with. @param {Atlas} atlas @returns {[string, string]} */
export function firstAxes({ metrics }) {
  const has = (/** @type {string} */ name) => metrics.some((metric) => metric.name === name);
  const wanted = ["distance of the rest", "entropy", "first", "layer"].filter(has);
  return [wanted[0], wanted[1] ?? "layer"];
}

/** Dots whose neighbours leave room for a name. @param {{x: number, y: number}[]} dots @param {number} room */
export function alone(dots, room) {
  return dots.map((dot, place) =>
    dots.every((other, at) => at === place || Math.abs(other.x - dot.x) > room || Math.abs(other.y - dot.y) > room / 2),
  );
}

/**
 * A head on a sentence; query: null before one is chosen, or where there is no sentence.
 * @typedef {{model: Model, one: HeadPlace, sentence: number, query: number|null}} CardState
 * @param {CardState} shown @returns {CardState} on a sentence of the model; the query is one of its words
 */
export function onSentence({ model, one, sentence: wanted, query }) {
  if (!model.sentences.length) return { model, one, sentence: wanted, query: null };
  const sentence = Math.min(wanted, model.sentences.length - 1);
  const { tokens, sinks } = model.sentences[sentence];
  const isThere = query !== null && query < tokens.length;
  return { model, one, sentence, query: isThere ? query : clearest(model.weights(sentence, one), tokens.length, sinks) };
}

/** The query with the largest weight on another content token. @param {Float32Array} weights @param {number} count @param {number[]} sinks */
function clearest(weights, count, sinks) {
  let [found, largest] = [Math.min(1, count - 1), 0];
  weights.forEach((weight, place) => {
    const [query, key] = [Math.floor(place / count), place % count];
    if (query === key || sinks.includes(query) || sinks.includes(key) || weight <= largest) return;
    [found, largest] = [query, weight];
  });
  return found;
}
