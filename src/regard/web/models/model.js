/** A model that reads texts and, if it is causal, writes: a tokeniser and layers with real weights, as `regard/models/model.py`. */
import { kernel } from "../engine/kernel.js";
import { roundingErrorOf } from "./certificate.js";
import { ForwardPass, changedStates } from "./forward.js";
import { layersFrom } from "./layers.js";
import { pauses } from "../sources/pause.js";
import { Reading } from "./reading.js";
import { sampler } from "./sampler.js";
import { tokenizerFileOf } from "./tokenizers/gguf_vocabulary.js";
import { Tokeniser } from "./tokenizers/tokeniser.js";
import { nextLogits, normed } from "./transformer.js";
import { Weights } from "./weights.js";

/**
 * @typedef {import("./manifest.js").Manifest} Manifest
 * @typedef {import("./transformer.js").LayerChange} LayerChange
 * @typedef {{queries: number[], keys: number[], layers?: number[]|null, heads?: [number, number][]|null}} Blocked
 * @typedef {{silenced: [number, number][], blocked: Blocked|null, layer: number, head: number, divisor: number|null, temperature: number, mask: "model"|"none"|"causal"}} Changes
 *   silenced heads (layer, head), tokens that may not attend to others, in some layers or heads or everywhere, and one head's divisor, temperature
 *   and mask, for all tokens
 * @typedef {import("./sampler.js").Sampling & {tokens?: number, stop?: string[], onToken?: (text: string) => void, signal?: AbortSignal}} Writing
 */

const NO_WRITING = "This model is bidirectional, or has no language-model head: it cannot write. Use a causal model such as smollm2.";

export class Model {
  /** See certificate.js; null before `measureRounding`, and where no weights were rounded. @type {number|null} */
  roundingError = null;

  /**
   * @param {Manifest} manifest @param {Tensor} file the bytes of the weights, in the kernel's memory
   * @param {unknown} [tokenizer] a tokenizer.json, parsed; a GGUF file has its own
   */
  constructor(manifest, file, tokenizer) {
    this.manifest = manifest;
    this.weights = new Weights(file, manifest.weights.file, manifest.tensors);
    this.layers = layersFrom(manifest.transformer, this.weights);
    if (!tokenizer && !this.weights.metadata) throw new Error("The manifest of the model names no tokenizer.");
    this.tokeniser = new Tokeniser(tokenizer ?? tokenizerFileOf(/** @type {Record<string, unknown>} */ (this.weights.metadata)));
    this.weights.metadata = null; // the vocabulary, once more
    const { size } = this.tokeniser;
    const rows = this.layers.embedding.shape[0];
    if (size > rows) throw new Error(`The tokenizer has ${size} tokens, the embedding ${rows}: they belong to different models.`);
  }

  get name() {
    return this.manifest.name;
  }

  get width() {
    return this.layers.width;
  }

  /** Whether each token sees only itself and earlier ones. */
  get causal() {
    return this.layers.encoders[0].attention.causal;
  }

  /** Whether it gives probabilities of the next token. */
  get writes() {
    return this.causal && this.layers.head !== null;
  }

  /** @param {string} text @param {{signal?: AbortSignal}} [how] @returns {Promise<Reading>} */
  async read(text, { signal } = {}) {
    const encoded = this.tokeniser.encode(text);
    this.#checkLength(encoded.ids.length);
    const pass = new ForwardPass(this.layers, encoded.ids.length);
    await pass.append(encoded.ids, pauses(signal));
    return new Reading(this, text, encoded, pass);
  }

  /**
   * The prompt and up to `tokens` generated tokens as one reading; `given` is the number of prompt tokens.
   * @param {string} prompt @param {Writing} [how]
   */
  async generate(prompt, { tokens = 64, stop = [], onToken, signal, ...sampling } = {}) {
    if (!this.writes) throw new Error(NO_WRITING);
    if (!(Number.isInteger(tokens) && tokens > 0)) throw new Error(`The number of tokens is ${tokens}; expected an integer from 1.`);
    const sample = sampler(sampling);
    const encoded = this.tokeniser.encode(prompt);
    const count = encoded.ids.length;
    this.#checkLength(count, tokens);
    this.#checkRotary(count, tokens);
    const pass = new ForwardPass(this.layers, count + tokens, { keepCache: true });
    try {
      const pause = pauses(signal);
      await pass.append(encoded.ids, pause);
      const stream = new TextStream(this.tokeniser, stop, onToken);
      for (let written = 0; written < tokens; written++) {
        const id = sample(pass.logits());
        await pass.append([id], pause);
        if (this.manifest.ends.includes(id) || stream.endsWith(id)) break;
      }
      return this.#written(prompt, encoded, pass);
    } finally {
      pass.release();
    }
  }

  /** @param {string} prompt @param {import("./tokenizers/tokeniser.js").Encoded} given @param {ForwardPass} pass */
  #written(prompt, given, pass) {
    const count = given.ids.length;
    const { text: spelled, encoded } = this.tokeniser.spell(pass.ids);
    const end = encoded.spans[count - 1][1]; // of the prompt, as its tokens spell it, in code points
    const shift = Array.from(prompt).length - end;
    /** @type {import("./tokenizers/tokeniser.js").Encoded} */
    const whole = {
      ids: pass.ids,
      texts: [...given.texts, ...encoded.texts.slice(count)],
      spans: [...given.spans, ...encoded.spans.slice(count).map(([start, stop]) => /** @type {[number, number]} */ ([start + shift, stop + shift]))],
      special: [...given.special, ...encoded.special.slice(count)],
      joined: [...given.joined, ...encoded.joined.slice(count)],
    };
    return new Reading(this, prompt + Array.from(spelled).slice(end).join(""), whole, pass, count);
  }

  /**
   * One vector of length 1 per text, (text, width): the mean over its tokens.
   * @param {string[]} texts @param {{signal?: AbortSignal}} [how]
   */
  async embed(texts, { signal } = {}) {
    const { width } = this;
    const vectors = new Float32Array(texts.length * width);
    for (const [place, text] of texts.entries()) {
      const { ids } = this.tokeniser.encode(text);
      this.#checkLength(ids.length);
      const pass = new ForwardPass(this.layers, ids.length);
      await pass.append(ids, pauses(signal));
      vectors.set(this.#meanState(pass.states[pass.states.length - 1]), place * width);
    }
    return vectors;
  }

  /** The mean of states after the last layer and its norm, of length 1. @param {Float32Array} states */
  #meanState(states) {
    const { width } = this;
    const rows = this.lastNorm(states);
    const mean = new Float64Array(width);
    for (let at = 0; at < rows.length; at++) mean[at % width] += rows[at];
    const length = Math.hypot(...mean) || 1;
    return mean.map((number) => number / length);
  }

  /** The logits of the next token after states of the last layer, (token, vocabulary). @param {Float32Array} states (token, width) */
  nextLogits(states) {
    return kernel().scope(() => kernel().floats(nextLogits(this.layers, kernel().tensor("f32", [states.length / this.width, this.width], states))));
  }

  /** States after the last layer through the last norm, where there is one. @param {Float32Array} states (token, width) */
  lastNorm(states) {
    const { norm } = this.layers;
    return norm ? kernel().scope(() => kernel().floats(normed(norm, kernel().tensor("f32", [states.length / this.width, this.width], states)))) : states;
  }

  /**
   * The states of a reading, computed again from the first layer that is changed on.
   * @param {Reading} reading @param {Partial<Changes>} changes @param {AbortSignal} [signal]
   * @param {(layer: number, heads: import("./forward.js").LayerArrays) => void} [onHeads] gets what the heads of each of these layers computed
   */
  async changedStates(reading, { silenced = [], blocked = null, layer = 0, head = 0, divisor = null, temperature = 1, mask = "model" }, signal, onHeads) {
    const { encoders } = this.layers;
    const changesHead = divisor !== null || temperature !== 1 || mask !== "model";
    const blockedHeads = (/** @type {number} */ at) => blockedIn(blocked, at, encoders[at].attention.heads);
    const changed = [...silenced.map(([of]) => of), ...(changesHead ? [layer] : []), ...Array.from(encoders.keys()).filter((at) => blockedHeads(at).length)];
    if (!changed.length) return reading.states;
    const first = Math.min(...changed);
    const changeOf = (/** @type {number} */ at) => ({
      silenced: silenced.filter(([of]) => of === at).map(([, one]) => one),
      head: changesHead && at === layer ? { head, divisor, temperature, mask } : null,
      blocked: blocked && blockedHeads(at).length ? { ...blocked, heads: blockedHeads(at) } : null,
    });
    const later = await changedStates(this.layers, reading.states[first], first, changeOf, pauses(signal), onHeads);
    return [...reading.states.slice(0, first + 1), ...later];
  }

  /**
   * The last states of a reading, (token, width), with the output of one head, or the hidden state of one token before a layer, from another text.
   * @param {Reading} reading @param {Reading} other of equally many tokens @param {number} layer @param {{head: number}|{token: number}} what @param {AbortSignal} [signal]
   */
  async patchedStates(reading, other, layer, what, signal) {
    const patched = "head" in what ? { heads: [what.head], outputs: other.layers[layer].outputs } : null;
    let state = reading.states[layer];
    if ("token" in what) {
      state = state.slice();
      state.set(other.state(layer, what.token), what.token * this.width);
    }
    const later = await changedStates(this.layers, state, layer, (at) => (at === layer ? { patched } : null), pauses(signal));
    return later[later.length - 1];
  }

  /** Computes what rounding the weights changes, which certificates say from then on. */
  measureRounding() {
    this.roundingError = roundingErrorOf(this);
  }

  release() {
    this.weights.release();
  }

  /** @param {number} count @param {number} [more] to be generated */
  #checkLength(count, more = 0) {
    if (!count) throw new Error("The text has no tokens; expected a text with at least one.");
    const { longest } = this.manifest;
    if (count + more <= longest) return;
    const came = `The text has ${count} tokens${more ? `, and ${more} more are to be generated` : ""}`;
    const fix = more ? "Generate fewer tokens, or shorten the text" : "Read it in parts";
    throw Object.assign(new Error(`${came}; ${this.name} reads at most ${longest}. ${fix}, or use a model that reads more.`), { tokens: count + more });
  }

  /** Cached keys would be wrong beyond the length at which LongRoPE changes its frequencies. @param {number} count @param {number} more */
  #checkRotary(count, more) {
    for (const { attention } of this.layers.encoders) {
      const after = attention.rotary?.longAfter ?? null;
      if (after !== null && count <= after && after < count + more)
        throw new Error(`Generating tokens ${count} to ${count + more} with ${this.name}, whose RoPE frequencies change at ${after}, is not supported. Generate at most ${after - count} tokens.`);
    }
  }
}

/** The heads of a layer in which an edge is blocked. @param {Blocked|null} blocked @param {number} layer @param {number} count of its heads */
export function blockedIn(blocked, layer, count) {
  if (!blocked) return [];
  if (blocked.heads) return blocked.heads.filter(([of]) => of === layer).map(([, head]) => head);
  return !blocked.layers || blocked.layers.includes(layer) ? Array.from({ length: count }, (_, head) => head) : [];
}

/** The text of generated tokens, passed on whenever it ends in a complete character, and stop texts in it. */
class TextStream {
  /** @type {number[]} */
  #ids = [];
  #passed = "";

  /** @param {Tokeniser} tokeniser @param {string[]} stops @param {((text: string) => void)|undefined} onToken */
  constructor(tokeniser, stops, onToken) {
    this.tokeniser = tokeniser;
    this.stops = stops;
    this.onToken = onToken;
  }

  /** Adds a token; whether the text now contains a stop text. @param {number} id */
  endsWith(id) {
    if (!this.stops.length && !this.onToken) return false;
    this.#ids.push(id);
    const text = this.tokeniser.decode(this.#ids);
    if (this.onToken && !text.endsWith("\ufffd") && text.length > this.#passed.length) {
      this.onToken(text.slice(this.#passed.length));
      this.#passed = text;
    }
    return this.stops.some((stop) => text.includes(stop));
  }
}
