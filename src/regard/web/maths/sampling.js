/** Probabilities of the next token. Pure functions, equal to `Sampling.probabilities` in Python. */
import { softmax } from "./attention.js";

/**
 * The probabilities of the tokens that can be sampled, most likely first. At temperature 0 only the first one can.
 * @param {ArrayLike<number>} logits largest first
 * @param {{temperature?: number, topK?: number|null, topP?: number|null}} [how]
 * @returns {Float64Array}
 */
export function probabilities(logits, { temperature = 1, topK = null, topP = null } = {}) {
  if (temperature === 0) return Float64Array.of(1);
  const count = Math.min(topK ?? logits.length, logits.length);
  const found = softmax(Array.prototype.slice.call(logits, 0, count), { factor: 1 / temperature });
  if (topP === null || topP >= 1) return found;
  let sum = 0;
  let kept = 0;
  while (kept < count && sum < topP) sum += found[kept++];
  return found.slice(0, kept).map((one) => one / sum);
}

/** Entropy in bits: how undecided the model is. @param {ArrayLike<number>} shares */
export function bitsOf(shares) {
  let bits = 0;
  for (let place = 0; place < shares.length; place++) if (shares[place] > 0) bits -= shares[place] * Math.log2(shares[place]);
  return bits;
}
