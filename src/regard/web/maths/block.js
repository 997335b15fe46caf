/**
 * One transformer block, for one token: projections and their positions, W_O, residuals, norms, the feed-forward. The only
 * place in JavaScript where they are computed; fixtures from Python keep both equal.
 *
 * @typedef {ArrayLike<number>} Vector
 * @typedef {{data: Float32Array, shape: number[]}} Matrix  W of x · W, stored as models store it, (out, in): its columns one after the other
 * @typedef {{kind: "layer"|"rms", epsilon: number, weight: Vector, bias: Vector|null}} Norm
 * @typedef {{frequencies: number[], long_frequencies: number[]|null, long_after: number|null, interleaved: boolean,
 *   factor: number}} Rotary
 * @typedef {{heads: number, keyHeads: number, normFirst: boolean, activation: string, rotary: Rotary|null,
 *   weight: (name: string) => Matrix|null, bias: (name: string) => Vector|null, norm: (name: string) => Norm|null}} Block
 */

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
  const columns = columnsOfHead(block, letter, head);
  const found = linear(/** @type {Matrix} */ (block.weight(letter)), input, block.bias(letter), columns);
  return letter === "v" ? found : normed(found, block.norm(`${letter}_norm`));
}

/**
 * A query or key turned by its position (RoPE): every pair (a, b) by the angle position · frequency.
 * @param {Vector} vector @param {number} position @param {Rotary} rotary @param {number} count tokens of the text
 */
export function turned(vector, position, rotary, count) {
  const found = Float64Array.from(vector);
  anglesOf(position, rotary, count).forEach((angle, pair) => {
    const [a, b] = pairOf(pair, rotary);
    const [cosine, sine] = [Math.cos(angle) * rotary.factor, Math.sin(angle) * rotary.factor];
    found[a] = vector[a] * cosine - vector[b] * sine;
    found[b] = vector[b] * cosine + vector[a] * sine;
  });
  return found;
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
  const w = block.weight("o");
  const projected = w ? linear(w, concatenated, block.bias("o")) : Float64Array.from(concatenated);
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
  const act = ACTIVATIONS[/** @type {keyof typeof ACTIVATIONS} */ (block.activation)];
  const up = linear(/** @type {Matrix} */ (block.weight("up")), input, block.bias("up"));
  const gate = block.weight("gate");
  const gated = gate && linear(gate, input, block.bias("gate"));
  const hidden = gated ? up.map((one, place) => act(gated[place]) * one) : up.map(act);
  return { hidden, output: linear(/** @type {Matrix} */ (block.weight("down")), hidden, block.bias("down")) };
}

/** x · W + b, or only some columns of it. @param {Matrix} matrix @param {Vector} x @param {Vector|null} bias @param {number[]} [columns] */
export function linear(matrix, x, bias, [first, last] = [0, matrix.shape[0]]) {
  const [, width] = matrix.shape;
  const found = new Float64Array(last - first);
  for (let column = first; column < last; column++) {
    let sum = bias ? bias[column] : 0;
    for (let place = 0, at = column * width; place < width; place++, at++) sum += matrix.data[at] * x[place];
    found[column - first] = sum;
  }
  return found;
}

/** One column of W. @param {Matrix} matrix @param {number} place */
export function columnOfMatrix({ data, shape }, place) {
  return data.subarray(place * shape[1], (place + 1) * shape[1]);
}

/** Layer norm or RMS norm; unchanged without one. @param {Vector} x @param {Norm|null} norm */
export function normed(x, norm) {
  if (!norm) return Float64Array.from(x);
  const { mean, size } = momentsOf(x, norm);
  return Float64Array.from(x, (one, place) => ((one - mean) / size) * norm.weight[place] + (norm.bias?.[place] ?? 0));
}

/** What a norm subtracts and divides by. @param {Vector} x @param {Norm} norm */
export function momentsOf(x, { kind, epsilon }) {
  const count = x.length;
  let mean = 0;
  if (kind === "layer") for (let place = 0; place < count; place++) mean += x[place] / count;
  let square = 0;
  for (let place = 0; place < count; place++) square += (x[place] - mean) ** 2 / count;
  return { mean, size: Math.sqrt(square + epsilon) };
}

/** @param {Vector} one @param {Vector} other */
export function plus(one, other) {
  return Float64Array.from(one, (number, place) => number + other[place]);
}

/** @type {Record<string, (x: number) => number>} */
export const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
  tanh: Math.tanh,
  quick_gelu: (x) => x / (1 + Math.exp(-1.702 * x)),
};

/** The error function: its series near 0, the continued fraction of erfc elsewhere. @param {number} x */
export function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 2.5) {
    let [term, sum] = [size, size];
    for (let place = 1; Math.abs(term) > 1e-17 * Math.abs(sum) && place < 100; place++) {
      term *= -(size * size) / place;
      sum += term / (2 * place + 1);
    }
    return Math.sign(x) * (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let place = 60; place > 0; place--) fraction = place / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-size * size) / ((size + fraction) * Math.sqrt(Math.PI)));
}
