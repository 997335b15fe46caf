/**
 * A training run as recorded: pure functions from the recorded arrays to what is drawn at one snapshot.
 *
 * @typedef {ReturnType<typeof filmOf>} Film
 */
import { headsOf } from "../page/state.js";

const NAMED_FROM = 0.5; // a head is labelled with a relation from this accuracy on

/** @param {Frame} frame */
export function filmOf({ header: recorded, arrays }) {
  const header = /** @type {import("../description.js").TrainingHeader} */ (recorded);
  const { steps, layers, heads, relations, probes } = header;
  const numbers = Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, array.toFloat32()]));
  for (const [name, array] of Object.entries(arrays))
    if (array.dtype === "u1") numbers[name] = numbers[name].map((weight) => weight / header.largest_weight);
  const snapshots = steps.length;
  const placeOf = (/** @type {number} */ at, /** @type {HeadPlace} */ { layer, head }) => (at * layers + layer) * heads + head;

  /** Accuracy of a head's largest weight for a relation; NaN where it was not asked for. */
  const accuracy = (/** @type {number} */ at, /** @type {HeadPlace} */ one, /** @type {number} */ relation) =>
    numbers.head_accuracy[placeOf(at, one) * relations.length + relation];

  /** @param {string} name @param {number} at @param {HeadPlace} one */
  function matrixOf(name, at, one) {
    const array = arrays[name];
    if (!array) return null;
    const [rows, columns] = array.shape.slice(-2);
    const start = placeOf(at, one) * rows * columns;
    return { data: numbers[name].subarray(start, start + rows * columns), rows, columns };
  }

  return {
    ...header,
    snapshots,
    all: headsOf(layers, heads),
    accuracy,
    matrixOf,
    /** Mean entropy of a head, in nats. @param {number} at @param {HeadPlace} one */
    entropy: (at, one) => numbers.entropy[placeOf(at, one)],
    /** Attention weights (query, key) of a probe. @param {number} at @param {number} probe @param {HeadPlace} one */
    weights(at, probe, one) {
      const size = probes[probe].tokens.length ** 2;
      const start = placeOf(at, one) * size;
      return numbers[`weights_${probe}`].subarray(start, start + size);
    },
  };
}

/** The relation that a head answers best; null below `NAMED_FROM`. @param {Film} film @param {number} at @param {HeadPlace} one */
export function roleOf(film, at, one) {
  const found = bestOf(film.relations.map((_, relation) => film.accuracy(at, one, relation)));
  return found && found.value >= NAMED_FROM ? { relation: film.relations[found.place], accuracy: found.value } : null;
}

/** The head that answers a relation best; null without a case. @param {Film} film @param {number} at @param {number} relation */
export function bestHead(film, at, relation) {
  const found = bestOf(film.all.map((one) => film.accuracy(at, one, relation)));
  return found ? { ...film.all[found.place], accuracy: found.value } : null;
}

/** For every relation, the accuracy of its best head at each snapshot. @param {Film} film */
export function specialisation(film) {
  return film.relations.map((name, relation) => ({
    name,
    values: film.steps.map((_, at) => bestHead(film, at, relation)?.accuracy ?? NaN),
  }));
}

/** The head worth looking at first: the best one of the last snapshot. @param {Film} film */
export function firstHead(film) {
  const last = film.snapshots - 1;
  const scores = film.all.map((one) => roleOf(film, last, one)?.accuracy ?? NaN);
  return film.all[bestOf(scores)?.place ?? 0];
}

/**
 * What is shown: a snapshot, a text, a head and a query; and whether the film plays.
 * @typedef {{at: number, probe: number, one: HeadPlace, query: number, playing: boolean}} Shown
 * @param {Film} film @returns {Shown}
 */
export function openingOf(film) {
  return { at: film.snapshots - 1, probe: 0, one: firstHead(film), query: firstQuery(film, 0), playing: false };
}

/** The query worth seeing first: one with a right key. @param {Film} film @param {number} probe */
export function firstQuery(film, probe) {
  const { keys, tokens } = film.probes[probe];
  const found = keys.findLastIndex((key, query) => key >= 0 && key !== query);
  return found < 0 ? tokens.length - 1 : found;
}

/** Play, from the start where the film has ended; or pause. @param {Film} film @param {Shown} shown @returns {Shown} */
export function toggledPlay(film, shown) {
  return { ...shown, at: !shown.playing && shown.at >= film.snapshots - 1 ? 0 : shown.at, playing: !shown.playing };
}

/** The next snapshot of a film that plays; after the last it stops. @param {Film} film @param {Shown} shown @returns {Shown} */
export function nextOf(film, shown) {
  return shown.at >= film.snapshots - 1 ? { ...shown, playing: false } : { ...shown, at: shown.at + 1 };
}

/** The snapshot at which right answers rise fastest: where something is learned. @param {Film} film */
export function steepest(film) {
  let [found, rise] = [0, 0];
  for (let at = 1; at < film.snapshots; at++) {
    const gained = Number(film.answers[at]) - Number(film.answers[at - 1]);
    if (gained > rise) [found, rise] = [at, gained];
  }
  return found;
}

/**
 * What is not learned at the end of the run, in a sentence; empty where every relation has a head, or more than half of the answers
 * are right. @param {Film} film
 */
export function notLearned(film) {
  const last = film.snapshots - 1;
  const missing = film.relations.filter((_, relation) => (bestHead(film, last, relation)?.accuracy ?? 0) < NAMED_FROM);
  if (Number(film.answers[last]) >= NAMED_FROM || (film.relations.length && !missing.length)) return "";
  const [before, after] = [Number(film.test_loss[0]), Number(film.test_loss[last])];
  const rose = after > before ? ` The loss on test sequences rose from ${before.toFixed(1)} to ${after.toFixed(1)}.` : "";
  return `After ${film.steps[last]} steps the model has not learned the task: ${Math.round(100 * Number(film.answers[last]))}% of its answers are right.${rose} Train it for more steps.`;
}

/** @param {number[]} values */
function bestOf(values) {
  let place = -1;
  values.forEach((value, at) => {
    if (!Number.isNaN(value) && (place < 0 || value > values[place])) place = at;
  });
  return place < 0 ? null : { place, value: values[place] };
}
