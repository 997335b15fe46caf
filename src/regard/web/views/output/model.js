/** What the output view shows. Pure functions. */
import { printedNumber } from "../../maths/numbers.js";
import { bitsOf, probabilities } from "../../maths/sampling.js";
import { shortened } from "../../elements/words.js";

export const USUAL = Object.freeze({ temperature: 1, topK: null, topP: null });
export const SHOWN = 12; // tokens listed at first
const MOST_K = 100;

/** Temperature, top k and top p: chosen, or as the model is. @param {Chosen} chosen */
export function settingsOf({ output_temperature: temperature, output_top_k: topK, output_top_p: topP }) {
  return {
    temperature: typeof temperature === "number" && temperature >= 0 && temperature <= 5 ? temperature : USUAL.temperature,
    topK: Number.isInteger(topK) && topK >= 1 ? topK : null,
    topP: typeof topP === "number" && topP > 0 && topP < 1 ? topP : null,
  };
}

/** @param {ReturnType<typeof settingsOf>} settings */
export function isUsual({ temperature, topK, topP }) {
  return temperature === 1 && topK === null && topP === null;
}

/** What was changed, for exports. @param {ReturnType<typeof settingsOf>} settings */
export function saidOfSettings({ temperature, topK, topP }) {
  const said = [
    temperature === 1 ? null : `temperature ${printedNumber(temperature, 2)}`,
    topK === null ? null : `top k ${topK}`,
    topP === null ? null : `top p ${printedNumber(topP, 2)}`,
  ];
  return said.filter(Boolean).join(", ");
}

/**
 * The most likely tokens: the probability that the model gives, and the one that sampling uses, 0 if it is cut off.
 * @param {ArrayLike<number>} logits largest first @param {{text: string, begins: boolean}[]} tokens
 * @param {ReturnType<typeof settingsOf>} settings @param {number} count
 */
export function likelyTokens(logits, tokens, settings, count) {
  const plain = probabilities(logits);
  const sampled = probabilities(logits, settings);
  const rows = tokens.slice(0, count).map((token, place) => ({
    ...token,
    probability: plain[place],
    share: sampled[place] ?? 0,
    isKept: place < sampled.length,
  }));
  const rest = (/** @type {ArrayLike<number>} */ all) => Math.max(0, 1 - sumOf(all, Math.min(rows.length, all.length)));
  return { rows, kept: sampled.length, bits: bitsOf(sampled), rest: rest(plain), restShare: rest(sampled), vocabulary: logits.length };
}

/** @param {ArrayLike<number>} numbers @param {number} count */
function sumOf(numbers, count) {
  let sum = 0;
  for (let place = 0; place < count; place++) sum += numbers[place];
  return sum;
}

/** How undecided the model is, in words. @param {number} bits */
export function saidOfBits(bits) {
  const as = 2 ** bits;
  return `${bits.toFixed(1)} bits: as undecided as between ${as < 10 ? as.toFixed(1) : String(Math.round(as))} equally likely tokens`;
}

/** A token alone: one that continues a word begins with a hyphen. @param {{text: string, begins: boolean}} token */
export function nameOfToken({ text, begins }) {
  return begins || !/^[\p{L}\p{N}]/u.test(text) ? text : `-${text}`;
}

/** What is appended to the text for a token. @param {{text: string, begins: boolean}} token */
export function appended({ text, begins }) {
  const plain = text.replace(/⏎/g, "\n").replace(/⇥/g, "\t").replace(/␣/g, " ");
  return begins ? ` ${plain}` : plain;
}

/** Top k of a slider's position; null at its end: no limit. @param {number} place from 1 to MOST_K + 1 */
export function topKAt(place) {
  return place > MOST_K ? null : place;
}
export const LAST_K = MOST_K + 1;

/** How surprising a token was, from 0 (certain) to 1 (ten bits or more). @param {number} probability */
export function surprise(probability) {
  return Number.isNaN(probability) ? 0 : Math.min(1, -Math.log2(Math.max(probability, 1e-12)) / 10);
}

/** Cosines between a text's vector and those of others, most similar first. @param {ArrayLike<number>[]} vectors of length 1, the text's first @param {string[]} texts */
export function similarTexts(vectors, texts) {
  const [own, ...others] = vectors;
  return others
    .map((vector, place) => ({ text: texts[place], place, cosine: sumOf(Float64Array.from(own, (one, at) => one * vector[at]), own.length) }))
    .sort((one, other) => other.cosine - one.cosine || one.place - other.place);
}

const TEXT = 400; // tokens of the text shown at once

/**
 * The tokens of the text around a position, each with what the model expected.
 * @param {Description} description @param {{probability: Float32Array, rank: Float32Array}|null} likelihood @param {number} at
 */
export function textOf({ tokens, joined = [], given }, likelihood, at) {
  const first = Math.max(0, Math.min(at - TEXT / 2, tokens.length - TEXT));
  const joins = new Set(joined);
  const words = tokens.slice(first, first + TEXT).map((text, offset) => {
    const place = first + offset;
    const probability = likelihood ? likelihood.probability[place] : NaN;
    const isKnown = !Number.isNaN(probability);
    const isWritten = given !== null && given !== undefined && place >= given;
    const written = isWritten ? ", written by the model" : "";
    return {
      place,
      text,
      isJoined: joins.has(place),
      isWritten,
      surprise: surprise(probability),
      label: `${shortened(text, 40)}${isKnown ? `, probability ${printedNumber(probability, 3)}` : ""}${written}`,
      title: isKnown ? `probability ${printedNumber(probability, 3)}, number ${Number(likelihood?.rank[place]) + 1} of what was expected${written}` : "",
    };
  });
  return { words, before: first > 0, after: first + TEXT < tokens.length };
}
