/**
 * One transformer block, for one token: projections and their positions, W_O, residuals, norms, the feed-forward, each
 * step by the kernel. Matrices are multiplied in single precision, as Python does; fixtures keep both equal.
 *
 * @typedef {ArrayLike<number>} Vector
 * @typedef {{data: Float32Array, shape: number[]}} Matrix  W of x · W, stored as models store it, (out, in): its columns one after the other
 * @typedef {{kind: "layer"|"rms", epsilon: number, weight: Vector, bias: Vector|null}} Norm
 * @typedef {{frequencies: number[], long_frequencies: number[]|null, long_after: number|null, interleaved: boolean,
 *   factor: number}} Rotary
 * @typedef {import("../engine/kernel.js").Activation} Activation
 * @typedef {{heads: number, keyHeads: number, normFirst: boolean, activation: Activation, rotary: Rotary|null,
 *   weight: (name: string) => Matrix|null, bias: (name: string) => Float32Array|null, norm: (name: string) => Norm|null}} Block
 */
import { kernel, part } from "../engine/kernel.js";

/** The answer to `block`. @param {Frame} frame @returns {Block} */
export function blockFrom({ header, arrays }) {
  /** @type {Map<string, any>} */
  const decoded = new Map();
  const array = (/** @type {string} */ name) => {
    if (!decoded.has(name)) decoded.set(name, arrays[name] ? { data: arrays[name].toFloat32(), shape: arrays[name].shape } : null);
    return decoded.get(name);
  };
  return {
    heads: header.heads,
    keyHeads: header.key_heads,
    normFirst: header.norm_first,
    activation: header.activation,
    rotary: header.rotary ?? null,
    weight: (name) => array(`w_${name}`),
    bias: (name) => array(`b_${name}`)?.data ?? null,
    norm: (name) =>
      header.norms[name] ? { ...header.norms[name], weight: array(name).data, bias: array(`${name}_bias`)?.data ?? null } : null,
  };
}

/** What the projections of a layer get: the token's vector, normed first in a pre-norm block. @param {Block} block @param {Vector} x */
export function inputOf(block, x) {
  return block.normFirst ? normed(x, block.norm("norm_1")) : Float64Array.from(x);
}

/**
 * The columns of W that belong to a head, as [first, last).
 * @param {Block} block @param {"q"|"k"|"v"} letter @param {number} head
 */
export function columnsOfHead(block, letter, head) {
  const matrix = /** @type {Matrix} */ (block.weight(letter));
  const heads = letter === "q" ? block.heads : block.keyHeads;
  const size = matrix.shape[0] / heads;
  const own = letter === "q" ? head : Math.floor((head * block.keyHeads) / block.heads);
  return [own * size, (own + 1) * size];
}

/**
 * q, k or v of one head before positions: x · W + b, normed where the model norms queries and keys.
 * @param {Block} block @param {"q"|"k"|"v"} letter @param {number} head @param {Vector} input of `inputOf`
 */
export function projectedTo(block, letter, head, input) {
  const found = linear(block, letter, input, { columns: columnsOfHead(block, letter, head) });
  return letter === "v" ? found : normed(found, block.norm(`${letter}_norm`));
}

/**
 * A query or key turned by its position (RoPE): every pair (a, b) by the angle position · frequency.
 * @param {Vector} vector @param {number} position @param {Rotary} rotary @param {number} count tokens of the text
 */
export function turned(vector, position, rotary, count) {
  const angles = anglesOf(position, rotary, count);
  return kernel().scope(() => {
    const [cosines, sines] = [Math.cos, Math.sin].map((of) =>
      kernel().tensor("f64", [1, angles.length], angles.map((angle) => of(angle) * rotary.factor)),
    );
    const x = kernel().tensor("f64", [1, 1, vector.length], vector);
    return kernel().doubles(kernel().rotary({ x, cosines, sines, interleaved: rotary.interleaved }));
  });
}

/** The angle of each pair, in radians. @param {number} position @param {Rotary} rotary @param {number} count */
export function anglesOf(position, rotary, count) {
  const isLong = rotary.long_after !== null && rotary.long_after !== undefined && count > rotary.long_after;
  return /** @type {number[]} */ (isLong ? rotary.long_frequencies : rotary.frequencies).map((speed) => position * speed);
}

/** The components of a pair. @param {number} pair @param {Rotary} rotary */
export function pairOf(pair, rotary) {
  return rotary.interleaved ? [2 * pair, 2 * pair + 1] : [pair, pair + rotary.frequencies.length];
}

/**
 * Everything after the heads: × W_O, + x, norm, feed-forward, + residual, norm; the last ones only where W of the
 * feed-forward is known.
 * @param {Block} block @param {Vector} x the token's vector before the block @param {Vector} concatenated outputs of all heads
 */
export function afterHeads(block, x, concatenated) {
  const projected = block.weight("o") ? linear(block, "o", concatenated) : Float64Array.from(concatenated);
  const sum = plus(x, projected);
  const attended = block.normFirst ? sum : normed(sum, block.norm("norm_1"));
  if (!block.weight("up")) return { projected, attended };
  const fed = feedForward(block, block.normFirst ? normed(attended, block.norm("norm_2")) : attended);
  const after = plus(attended, fed.output);
  return {
    projected,
    attended,
    hidden: fed.hidden,
    fed_forward: fed.output,
    result: block.normFirst ? after : normed(after, block.norm("norm_2")),
  };
}

/** @param {Block} block @param {Vector} input */
function feedForward(block, input) {
  const { activation } = block;
  const hidden = block.weight("gate")
    ? linear(block, "gate", input, { activation, times: linear(block, "up", input) })
    : linear(block, "up", input, { activation });
  return { hidden, output: linear(block, "down", hidden) };
}

/**
 * activation(x · W + b) · times, or only some columns of it.
 * @param {Block} block @param {string} name @param {Vector} x
 * @param {{columns?: number[], activation?: Activation, times?: Vector}} [how]
 */
function linear(block, name, x, { columns, activation, times } = {}) {
  const { data, shape } = /** @type {Matrix} */ (block.weight(name));
  const shift = block.bias(name);
  const [first, last] = columns ?? [0, shape[0]];
  return kernel().scope(() =>
    kernel().doubles(
      kernel().linear({
        x: kernel().tensor("f32", [1, x.length], x),
        weight: part(kernel().held(data, "f32", shape), 0, first, last),
        bias: shift && part(kernel().held(shift, "f32", [shape[0]]), 0, first, last),
        times: times && kernel().tensor("f32", [1, times.length], times),
        activation,
      }),
    ),
  );
}

/** One column of W. @param {Matrix} matrix @param {number} place */
export function columnOfMatrix({ data, shape }, place) {
  return data.subarray(place * shape[1], (place + 1) * shape[1]);
}

/** Layer norm or RMS norm; unchanged without one. @param {Vector} x @param {Norm|null} norm */
export function normed(x, norm) {
  if (!norm) return Float64Array.from(x);
  const { kind, epsilon } = norm;
  return kernel().scope(() => {
    const [weight, bias] = [norm.weight, norm.bias].map((numbers) => numbers && kernel().tensor("f64", [x.length], numbers));
    return kernel().doubles(kernel().norm({ x: kernel().tensor("f64", [1, x.length], x), weight, bias, kind, epsilon }));
  });
}

/** @param {Vector} one @param {Vector} other */
export function plus(one, other) {
  return Float64Array.from(one, (number, place) => number + other[place]);
}
