/** The choice of the next token: the same tokens for the same seed as `regard/models/generate.py`. */
import { probabilities } from "../maths/sampling.js";

/** @typedef {{temperature?: number, topK?: number|null, topP?: number|null, seed?: number}} Sampling */

/**
 * A function from logits to a token; each call draws the next random number.
 * @param {Sampling} [how] temperature 0: the most likely token
 * @returns {(logits: Float32Array) => number}
 */
export function sampler({ temperature = 0, topK = null, topP = null, seed = 0 } = {}) {
  if (!(temperature >= 0 && temperature < Infinity)) throw new Error(`The temperature is ${temperature}; expected a number from 0.`);
  if (topK !== null && !(Number.isInteger(topK) && topK > 0)) throw new Error(`top_k is ${topK}; expected an integer from 1.`);
  if (topP !== null && !(topP > 0 && topP <= 1)) throw new Error(`top_p is ${topP}; expected a number above 0, up to 1.`);
  if (!(Number.isSafeInteger(seed) && seed >= 0)) throw new Error(`The seed is ${seed}; expected an integer from 0.`);
  if (temperature === 0) return mostLikely;
  const uniform = uniformNumbers(seed);
  return (logits) => {
    const order = largestFirst(logits);
    const shares = probabilities(Float32Array.from(order.subarray(0, topK ?? order.length), (id) => logits[id]), { temperature, topK, topP });
    const number = uniform();
    let [chosen, sum] = [0, shares[0]];
    while (sum <= number && chosen < shares.length - 1) sum += shares[++chosen];
    return order[chosen];
  };
}

/** The first of the largest logits. @param {Float32Array} logits */
function mostLikely(logits) {
  let best = 0;
  for (let id = 1; id < logits.length; id++) if (logits[id] > logits[best]) best = id;
  return best;
}

const INDICES = 2 ** 20; // a logit's bits and its index fit into the 53 bits of an exact integer

/**
 * The indices of the numbers, largest first; equal ones in their order, NaN last. A sort of plain numbers, each a logit
 * with its index, takes a tenth of the time of one with a comparison.
 * @param {Float32Array} numbers
 */
export function largestFirst(numbers) {
  if (numbers.length > INDICES) throw new Error(`A vocabulary of ${numbers.length} tokens is too large for a page.`);
  const bits = new Uint32Array(Float32Array.from(numbers, (number) => number + 0).buffer); // −0 as 0
  const keys = Float64Array.from(bits, (bit, index) => {
    const rising = Number.isNaN(numbers[index]) ? 0 : (bit >>> 31 ? ~bit : bit | 0x80000000) >>> 0;
    return (0xffffffff - rising) * INDICES + index;
  }).sort();
  return Int32Array.from(keys, (key) => key % INDICES);
}

const WORD = 2n ** 64n;
const WHOLE = 2n ** 128n;
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n;

/** Uniform numbers from [0, 1): NumPy's PCG64 of a SeedSequence, whose bits are the same on every machine. @param {number} seed */
function uniformNumbers(seed) {
  const [high, low, highStep, lowStep] = seedWords(seed);
  const step = ((((highStep * WORD + lowStep) << 1n) | 1n) % WHOLE);
  const next = (/** @type {bigint} */ state) => (state * MULTIPLIER + step) % WHOLE;
  let state = next((next(0n) + high * WORD + low) % WHOLE);
  return () => {
    state = next(state);
    const [upper, lower] = [state / WORD, state % WORD];
    const mixed = upper ^ lower;
    const turn = upper >> 58n;
    const word = ((mixed >> turn) | (mixed << (64n - turn))) % WORD;
    return Number(word >> 11n) * 2 ** -53;
  };
}

/** Four words of 64 bits from a seed, as NumPy's SeedSequence mixes them. @param {number} seed @returns {bigint[]} */
function seedWords(seed) {
  const entropy = [seed >>> 0, Math.floor(seed / 2 ** 32)].slice(0, seed < 2 ** 32 ? 1 : 2);
  const hash = (/** @type {number} */ start, /** @type {number} */ times) => {
    let constant = start;
    return (/** @type {number} */ value) => {
      const mixed = value ^ constant;
      constant = Math.imul(constant, times);
      const product = Math.imul(mixed, constant);
      return (product ^ (product >>> 16)) >>> 0;
    };
  };
  const hashed = hash(0x43b0d7e5, 0x931e8875);
  const pool = Array.from({ length: 4 }, (_, place) => hashed(entropy[place] ?? 0));
  for (let from = 0; from < 4; from++)
    for (let to = 0; to < 4; to++) {
      if (from === to) continue;
      const mixed = Math.imul(0xca01f9dd, pool[to]) - Math.imul(0x4973f715, hashed(pool[from]));
      pool[to] = (mixed ^ ((mixed >>> 0) >>> 16)) >>> 0;
    }
  const drawn = hash(0x8b51f9dd, 0x58f38ded);
  const words = Array.from({ length: 8 }, (_, place) => BigInt(drawn(pool[place % 4])));
  return Array.from({ length: 4 }, (_, place) => words[2 * place] + (words[2 * place + 1] << 32n));
}
