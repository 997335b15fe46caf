/**
 * The maths of attention: score → scaled → capped → biased → masked → weight. The only place in JavaScript where the
 * stages and the softmax are computed; fixtures generated from Python (tests/web/fixtures.py) keep both equal.
 *
 * @typedef {{scale: number, softcap?: number|null, bias?: ArrayLike<number>|null,
 *   visible?: ArrayLike<number|boolean>|null, sink?: number|null, temperature?: number}} ScoreOptions
 * @typedef {{score: Float64Array, scaled: Float64Array, capped: Float64Array|null, biased: Float64Array|null,
 *   masked: Float64Array, weight: Float64Array}} Stages
 * @typedef {{max: number, sum: number}} RowState  sum of exp(factor · (logit − max)), sink included
 */

/** @param {number} scaled @param {number|null|undefined} softcap */
export function cap(scaled, softcap) {
  return softcap ? softcap * Math.tanh(scaled / softcap) : scaled;
}

/**
 * All stages of one query's scores. At a temperature other than 1, logits are divided by it before the softmax.
 * @param {ArrayLike<number>} scores q · k of each key
 * @param {ScoreOptions} options
 * @returns {Stages}
 */
export function scoreStages(scores, { scale, softcap, bias, visible, sink, temperature = 1 }) {
  const score = Float64Array.from(scores);
  const scaled = score.map((one) => one * scale);
  const capped = softcap ? scaled.map((one) => cap(one, softcap)) : null;
  const biased = bias ? (capped ?? scaled).map((one, key) => one + bias[key]) : null;
  const hide = (/** @type {Float64Array} */ row) => row.map((one, key) => (!visible || visible[key] ? one : -Infinity));
  const masked = hide(biased ?? capped ?? scaled);
  const weight = scalesLast({ scale, softcap, biased: Boolean(bias), sink })
    ? softmax(hide(score), { factor: scale / temperature })
    : softmax(masked, { factor: 1 / temperature, sink });
  return { score, scaled, capped, biased, masked, weight };
}

/**
 * Whether the softmax may take the raw scores and scale their differences. With large scores this keeps every digit:
 * score − row max is exact where both are, and rounding the scaled scores first is not.
 * @param {{scale: number, softcap?: number|null, biased: boolean, sink?: number|null}} options
 */
export function scalesLast({ scale, softcap, biased, sink }) {
  return scale > 0 && !softcap && !biased && (sink === null || sink === undefined);
}

/**
 * exp(factor · (logit − row max)) / row sum. −∞ gets weight 0; where every logit is −∞, all weights are 0.
 * @param {ArrayLike<number>} logits
 * @param {{factor?: number, sink?: number|null}} [options] the sink is an extra logit with no value
 */
export function softmax(logits, { factor = 1, sink = null } = {}) {
  const state = rowState(logits, factor, sink);
  return Float64Array.from(logits, (logit) => weightOf(logit, state, factor));
}

/**
 * @param {ArrayLike<number>} logits @param {number} factor @param {number|null} [sink]
 * @returns {RowState}
 */
export function rowState(logits, factor, sink = null) {
  let max = sink ?? -Infinity;
  for (let key = 0; key < logits.length; key++) if (logits[key] > max) max = logits[key];
  let sum = sink === null || max === -Infinity ? 0 : Math.exp(factor * (sink - max));
  for (let key = 0; key < logits.length; key++)
    if (logits[key] !== -Infinity) sum += Math.exp(factor * (logits[key] - max));
  return { max, sum };
}

/** @param {number} logit @param {RowState} state @param {number} factor */
export function weightOf(logit, { max, sum }, factor) {
  return logit === -Infinity ? 0 : Math.exp(factor * (logit - max)) / sum;
}
