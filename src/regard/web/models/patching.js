/** Activation patching and the logit lens by a model in the page: the same answers as `regard/viewer/patching.py` gives. */
import { framed } from "../sources/frames.js";
import { pauses } from "../sources/pause.js";
import { rowsAt } from "../maths/rows.js";

/** @typedef {import("./reading.js").Reading} Reading */

const LONGEST = 256; // tokens of a text that is patched, or looked at through the lens
const LONGEST_TEXT = 4000; // characters
const ROWS = 64; // tokens whose logits are computed at once

/** The text that activations are taken from, of equally many tokens. @param {Reading} reading @param {string} text @param {AbortSignal} [signal] */
export async function otherText({ model, count }, text, signal) {
  checkLength(count);
  if (text.length > LONGEST_TEXT) throw new Error(`The other text has ${text.length} characters; at most ${LONGEST_TEXT} are allowed.`);
  const there = model.tokeniser.encode(text).ids.length;
  if (there !== count)
    throw new Error(
      `The other text has ${there} ${there === 1 ? "token" : "tokens"}, this one ${count}: activations are taken token by token, so both need equally many. Replace words by others of as many pieces.`,
    );
  return model.read(text, { signal });
}

/**
 * The effect of taking one layer's activations from another text: of each head, or of the hidden state of each token before the layer. 0: nothing
 * changes; 1: the answer is that of the other text.
 * @param {Reading} reading @param {Reading} other @param {{by: "head"|"position", layer: number, query: number}} asked @param {AbortSignal} [signal]
 */
export async function patchingOf(reading, other, { by, layer, query }, signal) {
  const { model, count } = reading;
  const { heads } = model.layers.encoders[layer].attention;
  const { share, measured } = shareOfTheWay(reading, other, query);
  const effect = new Float32Array(by === "head" ? heads : count);
  for (let at = 0; at < effect.length; at++) {
    const states = await model.patchedStates(reading, other, layer, by === "head" ? { head: at } : { token: at }, signal);
    effect[at] = share(rowsAt(states, model.width, [query]));
  }
  return { header: { layer, by, query, measured }, arrays: { effect: framed(effect, [effect.length]) } };
}

/** How far a last state is on the way from this text's answer to the other's; and what the answer is. @param {Reading} reading @param {Reading} other @param {number} query */
function shareOfTheWay({ model, states }, other, query) {
  const last = states.length - 1;
  const ends = [states, other.states].map((of) => rowsAt(of[last], model.width, [query]));
  if (model.writes) {
    const [here, there] = ends.map((state) => model.nextLogits(state));
    const answers = [here, there].map((logits) => logits.reduce((best, logit, id) => (logit > logits[best] ? id : best), 0));
    const difference = (/** @type {Float32Array} */ logits) => logits[answers[1]] - logits[answers[0]];
    if (answers[0] !== answers[1]) {
      const [start, end] = [difference(here), difference(there)];
      const tokens = answers.map((id) => {
        const [text, begins] = model.tokeniser.piece(id);
        return { text, begins };
      });
      return { share: (/** @type {Float32Array} */ state) => (difference(model.nextLogits(state)) - start) / (end - start), measured: { kind: "logits", tokens } };
    }
  }
  const [start, end] = ends.map((state) => Float64Array.from(model.lastNorm(state)));
  const way = end.map((number, place) => number - start[place]);
  const product = (/** @type {Float64Array} */ one) => one.reduce((sum, number, place) => sum + number * way[place], 0);
  const share = (/** @type {Float32Array} */ state) => product(Float64Array.from(model.lastNorm(state), (number, place) => number - start[place])) / Math.max(product(way), 1e-30);
  return { share, measured: { kind: "state" } };
}

/** The most likely next token after every layer, the embedding first, its probability, and the rank of the token that follows. @param {Reading} reading @param {AbortSignal} [signal] */
export async function lensOf({ model, encoded: { ids }, states, count }, signal) {
  checkLength(count);
  const [probability, rank] = [new Float32Array(states.length * count), new Float32Array(states.length * count).fill(NaN)];
  /** @type {string[][]} */
  const tops = [];
  for (const [layer, state] of states.entries()) {
    tops.push([]);
    for await (const { token, logits } of logitsAfter(model, state, count, signal)) {
      const top = logits.reduce((best, logit, id) => (logit > logits[best] ? id : best), 0);
      tops[layer].push(model.tokeniser.piece(top)[0]);
      probability[layer * count + token] = likelihoodIn(logits, top).probability;
      if (token + 1 < count) rank[layer * count + token] = likelihoodIn(logits, ids[token + 1]).rank;
    }
  }
  return { header: { tops }, arrays: { probability: framed(probability, [states.length, count]), rank: framed(rank, [states.length, count]) } };
}

/**
 * The logits after each of the first tokens, computed for some at a time.
 * @param {import("./model.js").Model} model @param {Float32Array} state @param {number} count
 * @param {AbortSignal} [signal]
 */
export async function* logitsAfter(model, state, count, signal) {
  const pause = pauses(signal);
  for (let first = 0; first < count; first += ROWS) {
    await pause();
    const stop = Math.min(first + ROWS, count);
    const rows = model.nextLogits(state.subarray(first * model.width, stop * model.width));
    const size = rows.length / (stop - first);
    for (let token = first; token < stop; token++)
      yield { token, logits: rows.subarray((token - first) * size, (token - first + 1) * size) };
  }
}

/** The probability of a token, and its rank from 0. @param {Float32Array} logits @param {number} id */
export function likelihoodIn(logits, id) {
  const [own, top] = [logits[id], logits.reduce((most, logit) => Math.max(most, logit), -Infinity)];
  const probability = Math.exp(own - top) / logits.reduce((sum, logit) => sum + Math.exp(logit - top), 0);
  return { probability, rank: logits.reduce((larger, logit) => larger + Number(logit > own), 0) };
}

/** @param {number} count */
function checkLength(count) {
  if (count > LONGEST) throw new Error(`The text has ${count} tokens; this is computed for at most ${LONGEST}.`);
}
