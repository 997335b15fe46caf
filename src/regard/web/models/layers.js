/**
 * The layers of a model with their weights, from the description that `regard/layers/codec.py` writes: only what such a
 * description can say and a page computes; anything else is refused by name.
 *
 * @typedef {import("../engine/kernel.js").Activation} Activation
 * @typedef {{weight: Tensor, bias: Tensor|null}} Linear  weight (out, in)
 * @typedef {{kind: "layer"|"rms", epsilon: number, weight: Tensor, bias: Tensor|null}} Norm
 * @typedef {{frequencies: number[], longFrequencies: number[]|null, longAfter: number|null, interleaved: boolean, factor: number}} Rotary
 * @typedef {{wq: Linear, wk: Linear, wv: Linear, wo: Linear|null, heads: number, keyHeads: number, headDim: number, valueDim: number,
 *   rotary: Rotary|null, qNorm: Norm|null, kNorm: Norm|null, causal: boolean, window: number|null, scale: number,
 *   softcap: number|null}} MultiHead
 * @typedef {{up: Linear, down: Linear, gate: Linear|null, activation: Activation}} FeedForward
 * @typedef {{attention: MultiHead, feedForward: FeedForward, norm1: Norm, norm2: Norm, normFirst: boolean}} Encoder
 * @typedef {{embedding: Tensor, positions: {weight: Tensor, padding: number|null}|null, embeddingNorm: Norm|null, embeddingScale: number,
 *   encoders: Encoder[], norm: Norm|null, head: Linear|null, width: number}} Layers
 * @typedef {import("./manifest.js").Settings} Settings
 * @typedef {import("./weights.js").Weights} Weights
 */

const ACTIVATIONS = /** @type {const} */ (["relu", "gelu", "gelu_tanh", "silu", "tanh", "quick_gelu"]);

/** @param {Settings} settings of a Transformer @param {Weights} weights @returns {Layers} */
export function layersFrom(settings, weights) {
  expectKind(settings, "Transformer");
  for (const name of ["memory_norm", "target_embedding"]) if (settings.has(name)) throw refused(settings, name);
  if (settings.list("decoders").length) throw refused(settings, "decoders");
  const table = settings.part("embedding");
  expectKind(table, "Embedding");
  const embedding = tensorOf(table, "weight", weights, [null, null]);
  const width = embedding.shape[1];
  const encoders = settings.parts("encoders").map((block) => encoderFrom(block, weights, width));
  if (!encoders.length) throw settings.wrong("encoders", "at least one block");
  shareRotary(encoders);
  return {
    embedding,
    positions: settings.has("positions") ? positionsFrom(settings.part("positions"), weights, width) : null,
    embeddingNorm: settings.has("embedding_norm") ? normFrom(settings.part("embedding_norm"), weights, width) : null,
    embeddingScale: settings.number("embedding_scale"),
    encoders,
    norm: settings.has("norm") ? normFrom(settings.part("norm"), weights, width) : null,
    head: settings.has("head") ? linearFrom(settings.part("head"), weights, embedding.shape[0], width) : null,
    width,
  };
}

/** @param {Settings} settings @param {Weights} weights @param {number} width @returns {Encoder} */
function encoderFrom(settings, weights, width) {
  expectKind(settings, "Encoder");
  const fed = settings.part("feed_forward");
  expectKind(fed, "FeedForward");
  const up = linearFrom(fed.part("up"), weights, null, width);
  const hidden = up.weight.shape[0];
  return {
    attention: attentionFrom(settings.part("attention"), weights, width),
    feedForward: {
      up,
      down: linearFrom(fed.part("down"), weights, width, hidden),
      gate: fed.has("gate") ? linearFrom(fed.part("gate"), weights, hidden, width) : null,
      activation: fed.choice("activation", ACTIVATIONS),
    },
    norm1: normFrom(settings.part("norm_1"), weights, width),
    norm2: normFrom(settings.part("norm_2"), weights, width),
    normFirst: settings.flag("norm_first"),
  };
}

/** @param {Settings} settings @param {Weights} weights @param {number} width @returns {MultiHead} */
function attentionFrom(settings, weights, width) {
  expectKind(settings, "MultiHead");
  if (settings.has("alibi")) throw refused(settings, "alibi");
  const heads = settings.integer("heads");
  const keyHeads = settings.has("kv_heads") ? settings.integer("kv_heads") : heads;
  const wq = linearFrom(settings.part("w_q"), weights, null, width);
  const wv = linearFrom(settings.part("w_v"), weights, null, width);
  const [headDim, valueDim] = [wq.weight.shape[0] / heads, wv.weight.shape[0] / keyHeads];
  if (heads % keyHeads || !Number.isInteger(headDim) || !Number.isInteger(valueDim)) throw settings.wrong("heads", `a number of heads that divides ${wq.weight.shape[0]}, and that kv_heads divides`);
  const [causal, window] = [settings.flag("causal"), settings.has("window") ? settings.integer("window", 0) : null];
  if (window !== null && !causal) throw refused(settings, "window");
  return {
    wq,
    wk: linearFrom(settings.part("w_k"), weights, keyHeads * headDim, width),
    wv,
    wo: settings.has("w_o") ? linearFrom(settings.part("w_o"), weights, width, heads * valueDim) : null,
    heads,
    keyHeads,
    headDim,
    valueDim,
    rotary: settings.has("rotary") ? rotaryFrom(settings.part("rotary"), headDim) : null,
    qNorm: settings.has("q_norm") ? normFrom(settings.part("q_norm"), weights, headDim) : null,
    kNorm: settings.has("k_norm") ? normFrom(settings.part("k_norm"), weights, headDim) : null,
    causal,
    window,
    scale: settings.has("scale") ? settings.number("scale") : headDim ** -0.5,
    softcap: settings.has("softcap") ? settings.number("softcap") : null,
  };
}

/** @param {Settings} settings @param {Weights} weights @param {number|null} outputs @param {number} inputs @returns {Linear} */
function linearFrom(settings, weights, outputs, inputs) {
  expectKind(settings, "Linear");
  const weight = tensorOf(settings, "weight", weights, [outputs, inputs]);
  return { weight, bias: settings.has("bias") ? tensorOf(settings, "bias", weights, [weight.shape[0]]) : null };
}

/** @param {Settings} settings @param {Weights} weights @param {number} width @returns {Norm} */
function normFrom(settings, weights, width) {
  const kind = settings.choice("kind", ["LayerNorm", "RMSNorm"]);
  const weight = tensorOf(settings, "weight", weights, [width]);
  const bias = settings.has("bias") ? tensorOf(settings, "bias", weights, [width]) : null;
  return { kind: kind === "LayerNorm" ? "layer" : "rms", epsilon: settings.number("epsilon"), weight, bias };
}

/** @param {Settings} settings @param {Weights} weights @param {number} width */
function positionsFrom(settings, weights, width) {
  expectKind(settings, "Learned");
  const padding = settings.has("padding") ? settings.integer("padding", 0) : null;
  return { weight: tensorOf(settings, "weight", weights, [null, width]), padding };
}

/** @param {Settings} settings @param {number} headDim @returns {Rotary} */
function rotaryFrom(settings, headDim) {
  expectKind(settings, "Rotary");
  const dim = settings.integer("dim", 2, headDim);
  if (dim % 2) throw settings.wrong("dim", "an even number");
  const [base, pairs] = [settings.number("base"), dim / 2];
  return {
    frequencies: settings.has("frequencies") ? settings.numbers("frequencies", pairs) : Array.from({ length: pairs }, (_, pair) => base ** ((-2 * pair) / dim)),
    longFrequencies: settings.has("long_frequencies") ? settings.numbers("long_frequencies", pairs) : null,
    longAfter: settings.has("long_after") ? settings.integer("long_after", 0) : null,
    interleaved: settings.flag("interleaved"),
    factor: settings.number("attention_factor"),
  };
}

/** Equal positions of several blocks become one object, whose cosines and sines are computed once. @param {Encoder[]} encoders */
function shareRotary(encoders) {
  /** @type {Map<string, Rotary>} */
  const different = new Map();
  for (const { attention } of encoders) {
    if (!attention.rotary) continue;
    const key = JSON.stringify(attention.rotary);
    attention.rotary = different.get(key) ?? attention.rotary;
    different.set(key, attention.rotary);
  }
}

/** @param {Settings} settings @param {string} name @param {Weights} weights @param {(number|null)[]} shape */
function tensorOf(settings, name, weights, shape) {
  return weights.tensor(settings.part(name).text("array"), shape);
}

/** @param {Settings} settings @param {string} kind */
function expectKind(settings, kind) {
  if (settings.text("kind") !== kind) throw settings.wrong("kind", kind);
}

/** @param {Settings} settings @param {string} name */
function refused(settings, name) {
  return new Error(`A model with ${settings.path ? `${settings.path}.` : ""}${name} is not computed in a page.`);
}
