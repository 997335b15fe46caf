/**
 * The stages of one query's scores: score → scaled → capped → biased → masked → weight, computed by the kernel in double
 * precision.
 *
 * @typedef {{scale: number, softcap?: number|null, bias?: ArrayLike<number>|null,
 *   visible?: ArrayLike<number|boolean>|null, sink?: number|null, temperature?: number}} ScoreOptions
 * @typedef {{score: Float64Array, scaled: Float64Array, capped: Float64Array|null, biased: Float64Array|null,
 *   masked: Float64Array, weight: Float64Array}} Stages
 * @typedef {{max: number, sum: number}} RowState  sum of exp(factor · (logit − max)), sink included
 * @typedef {{factor?: number, sink?: number|null}} SoftmaxOptions  the sink is an extra logit with no value
 */
import { kernel } from "../engine/kernel.js";

/**
 * All stages of one query's scores. At a temperature other than 1, logits are divided by it before the softmax.
 * @param {ArrayLike<number>} scores q · k of each key
 * @param {ScoreOptions} options
 * @returns {Stages}
 */
export function scoreStages(scores, { scale, softcap, bias, visible, sink = null, temperature = 1 }) {
  const score = Float64Array.from(scores);
  const { scaled, capped, biased, masked } = kernel().scope(() => {
    const given = {
      ...asKeys(score),
      scale,
      softcap,
      bias: bias ? row("f64", bias) : null,
      mask: visible ? row("u8", Uint8Array.from(score, (_, key) => Number(Boolean(visible[key])))) : null,
    };
    const stage = (/** @type {import("../engine/kernel.js").Stage} */ name) => kernel().doubles(kernel().tile(given, name));
    return { scaled: stage("scaled"), capped: softcap ? stage("capped") : null, biased: bias ? stage("biased") : null, masked: stage("masked") };
  });
  // Raw scores where nothing is added to them: score − row max is exact where both are, and scaling first is not.
  const isRaw = scale > 0 && !softcap && !bias && sink === null;
  const weight = isRaw
    ? softmax(score.map((one, key) => (masked[key] === -Infinity ? -Infinity : one)), { factor: scale / temperature })
    : softmax(masked, { factor: 1 / temperature, sink });
  return { score, scaled, capped, biased, masked, weight };
}

/**
 * exp(factor · (logit − row max)) / row sum. −∞ gets weight 0; where every logit is −∞, all weights are 0.
 * @param {ArrayLike<number>} logits @param {SoftmaxOptions} [options]
 */
export function softmax(logits, options = {}) {
  return kernel().scope(() => kernel().doubles(kernel().tile(logitScores(logits, options), "weight")));
}

/** The row max and the row sum of a softmax. @param {ArrayLike<number>} logits @param {SoftmaxOptions} [options] @returns {RowState} */
export function rowState(logits, options = {}) {
  return kernel().scope(() => {
    const { rowMax, rowSum } = kernel().statistics(logitScores(logits, options), ["rowMax", "rowSum"]);
    const { factor = 1, sink = null } = options;
    // With a sink, the kernel compares logits that are multiplied already.
    return { max: kernel().doubles(rowMax)[0] / (sink === null ? 1 : factor), sum: kernel().doubles(rowSum)[0] };
  });
}

/** Scores whose softmax is that of the logits: hidden ones are masked, because 0 · ∞ is not a number. @param {ArrayLike<number>} logits @param {SoftmaxOptions} options */
function logitScores(logits, { factor = 1, sink = null }) {
  const visible = Uint8Array.from(logits, (logit) => Number(logit !== -Infinity));
  return {
    ...asKeys(Float64Array.from(logits, (logit) => (logit === -Infinity ? 0 : logit))),
    scale: factor,
    mask: visible.includes(0) ? row("u8", visible) : null,
    sinks: sink === null ? null : kernel().tensor("f64", [1], [factor * sink]),
  };
}

/** Keys of one number each, whose scores with the query 1 are these. @param {Float64Array} scores */
function asKeys(scores) {
  return { queries: kernel().tensor("f64", [1, 1, 1], [1]), keys: kernel().tensor("f64", [1, scores.length, 1], scores) };
}

/** One head and one query. @param {"f64"|"u8"} type @param {ArrayLike<number>} numbers */
function row(type, numbers) {
  return kernel().tensor(type, [1, 1, numbers.length], numbers);
}
