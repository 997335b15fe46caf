/**
 * A tokenizer.json at work: the same ids and offsets as the `tokenizers` library, without padding and truncation.
 * Offsets are in code points of the text, as in Python.
 */
import { addedTokensOf, finderOf } from "./added_tokens.js";
import { AlignedText } from "./code_points.js";
import { componentOf } from "./components.js";
import { decoderOf } from "./decoders.js";
import { normalizerOf } from "./normalizers.js";
import { postProcessorOf } from "./post_processors.js";
import { preTokenizerOf } from "./pre_tokenizers.js";
import { modelOf } from "./vocabulary.js";

/**
 * What was added by the tokenizer is `added`.
 * @typedef {{ids: number[], tokens: string[], starts: number[], stops: number[], added: boolean[]}} Encoding
 */

const CACHED_PIECES = 2 ** 15;
const CACHED_LENGTH = 64; // longer pieces hardly repeat

export class Engine {
  /** @param {unknown} file a tokenizer.json, parsed */
  constructor(file) {
    const parts = componentOf("file", file);
    this.normalize = normalizerOf(parts.normalizer);
    this.model = modelOf(parts.model);
    this.preTokenizer = preTokenizerOf(parts.pre_tokenizer);
    this.postProcess = postProcessorOf(parts.post_processor);
    const decoder = decoderOf(parts.decoder);
    this.hasDecoder = Boolean(parts.decoder);
    this.decoder = decoder.decode;
    /** Whether the decoder reads tokens as bytes. */
    this.decodesBytes = decoder.bytes;
    if ((this.model.type === "BPE") !== this.preTokenizer.byteLevel)
      throw new Error("BPE without the pre-tokenizer ByteLevel, or ByteLevel with another model, is not supported.");
    this.added = addedTokensOf(parts.added_tokens ?? [], this.model.vocabulary);
    const normalized = this.added.filter((token) => token.normalized);
    const spellings = normalized.map((token) => this.normalize(AlignedText.of(token.content)).string);
    /** @type {Map<string, number>} */
    this.addedIds = new Map(this.added.map((token) => [token.content, token.id]));
    /** @type {Map<number, string>} */
    this.addedNames = new Map(this.added.map((token) => [token.id, token.content]));
    normalized.forEach((token, index) => this.addedNames.set(token.id, spellings[index]));
    /** @type {Map<number, string>} */
    this.names = new Map([...this.model.vocabulary].map(([token, id]) => [id, token]));
    this.specials = new Set(this.added.filter((token) => token.special).map((token) => token.content));
    this.findRaw = finderOf(this.added.filter((token) => !token.normalized).map((token) => [token.content, token]));
    this.findNormalized = finderOf(normalized.map((token, index) => [spellings[index], token]));
    /** @type {Map<string, import("./vocabulary.js").Tokens>} */
    this.cache = new Map();
  }

  /**
   * @param {string} text
   * @param {boolean} special with the tokens that the model expects around a text
   * @returns {Encoding}
   */
  encode(text, special) {
    /** @type {Encoding} */
    const encoding = { ids: [], tokens: [], starts: [], stops: [], added: [] };
    const raw = AlignedText.of(text);
    for (const part of this.findRaw(raw)) {
      if (part.token) this.#push(encoding, part.token.id, raw, part.start, part.stop);
      else this.#encodePart(encoding, this.normalize(raw.slice(part.start, part.stop)));
    }
    return this.postProcess(encoding, special);
  }

  /** @param {Encoding} encoding @param {AlignedText} text */
  #encodePart(encoding, text) {
    /** @type {import("./pre_tokenizers.js").Emit} */
    const emit = (piece, start, stop) => this.#encodePiece(encoding, piece, start, stop);
    for (const { token, start, stop } of this.findNormalized(text)) {
      if (token) this.#push(encoding, token.id, text, start, stop);
      else this.preTokenizer.cut(text, start, stop, emit);
    }
  }

  /** @param {Encoding} encoding @param {AlignedText} text @param {number} start @param {number} stop */
  #encodePiece(encoding, text, start, stop) {
    if (start === stop) return;
    const string = text.stringOf(start, stop);
    let tokens = this.cache.get(string);
    if (!tokens) {
      tokens = this.model.tokenize(string);
      if (string.length <= CACHED_LENGTH && this.cache.size < CACHED_PIECES) this.cache.set(string, tokens);
    }
    for (let position = 0; position < tokens.ids.length; position++) {
      encoding.ids.push(tokens.ids[position]);
      encoding.tokens.push(/** @type {string} */ (this.names.get(tokens.ids[position])));
      encoding.starts.push(text.starts[start + tokens.firsts[position]]);
      encoding.stops.push(text.stops[start + tokens.lasts[position]]);
      encoding.added.push(false);
    }
  }

  /**
   * @param {Encoding} encoding @param {number} id @param {AlignedText} text @param {number} start @param {number} stop
   */
  #push(encoding, id, text, start, stop) {
    encoding.ids.push(id);
    encoding.tokens.push(text.stringOf(start, stop));
    encoding.starts.push(text.starts[start]);
    encoding.stops.push(text.stops[stop - 1]);
    encoding.added.push(false);
  }

  /** The token of an id. @param {number} id */
  nameOf(id) {
    return this.addedNames.get(id) ?? this.names.get(id);
  }

  /** The id of a token. @param {string} name */
  idOf(name) {
    return this.addedIds.get(name) ?? this.model.vocabulary.get(name);
  }

  /** @param {ArrayLike<number>} ids @param {boolean} special with special tokens */
  decode(ids, special) {
    /** @type {string[]} */
    const tokens = [];
    for (const id of Array.from(ids)) {
      const token = this.nameOf(id);
      if (token !== undefined && (special || !this.specials.has(token))) tokens.push(token);
    }
    return this.decoder(tokens);
  }
}
