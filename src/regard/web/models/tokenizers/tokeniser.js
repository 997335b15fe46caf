/**
 * Text to tokens and back, with readable token texts, spans in the text, and the words that tokens make up: the same as
 * `regard/models/tokens.py` and `regard/reading/words.py`, kept equal by tests/web/tokenizers. Spans are in code
 * points, as in Python; `utf16Spans` of code_points.js turns them into positions of a JavaScript string.
 */
import { CLASSES, SPACE } from "./characters.js";
import { AlignedText, codesOf } from "./code_points.js";
import { Engine } from "./engine.js";
import { LETTER_BYTES, bytesOf, decodeUtf8 } from "./utf8.js";

/** @typedef {[number, number]} Span */
/**
 * A text as tokens: every list has one entry per token.
 * @typedef {object} Encoded
 * @property {number[]} ids
 * @property {string[]} texts readable: ing for ##ing, the for Ġthe
 * @property {Span[]} spans in code points, without leading white space; empty for added tokens
 * @property {boolean[]} special [CLS], <|im_start|> and the like, added or in the text
 * @property {boolean[]} joined continues the word of the token before
 */
/**
 * A word, a punctuation mark or a special token: the tokens [first, last).
 * @typedef {{text: string, first: number, last: number, special: boolean}} Word
 */

/** @type {Record<string, string>} */
const VISIBLE = { " ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍" };
const IN_WORDS = /^[\p{L}\p{N}\p{M}]/u; // by the engine's Unicode version, as in Python by Python's
const BYTE = /^<0x[0-9A-Fa-f]{2}>$/;

/** A token starts a new word unless it is `joined`; punctuation is a word of its own. */
export class Tokeniser {
  /** @type {Map<string, string>} */
  #parts = new Map();

  /** @param {unknown} file a tokenizer.json, parsed */
  constructor(file) {
    this.engine = new Engine(file);
    const { model, added, decodesBytes, hasDecoder } = this.engine;
    const isWhole = model.type === "WordLevel" && !hasDecoder; // the library puts spaces between tokens
    /** Byte-level BPE, WordPiece with ##, whole words, or spaces as ▁. @type {"bytes"|"pieces"|"words"|"spaces"} */
    this.spelling = model.type === "WordPiece" ? "pieces" : isWhole ? "words" : decodesBytes ? "bytes" : "spaces";
    /** @type {Set<number>} */
    this.specials = new Set(
      added.filter((token) => token.special && token.content !== model.unknown).map(({ id }) => id),
    );
  }

  /** The size of the vocabulary: the largest token id plus 1. */
  get size() {
    let largest = -1;
    for (const ids of [this.engine.names.keys(), this.engine.addedNames.keys()])
      for (const id of ids) largest = Math.max(largest, id);
    return largest + 1;
  }

  /**
   * The tokens of a text, with the special tokens that the model adds unless `special` is false.
   * @param {string} text @param {{special?: boolean}} [options]
   * @returns {Encoded}
   */
  encode(text, { special = true } = {}) {
    return this.#encoded(text, this.engine.encode(text, special));
  }

  /**
   * Tokens as text; special ones are left out unless `special` is true.
   * @param {ArrayLike<number>} ids @param {{special?: boolean}} [options]
   */
  decode(ids, { special = false } = {}) {
    return this.engine.decode(ids, special);
  }

  /**
   * The text of generated tokens, and the tokens with their spans in it. Encoding that text may give other tokens: a
   * model need not generate those that the tokeniser would choose.
   * @param {ArrayLike<number>} numbers
   * @returns {{text: string, encoded: Encoded}}
   */
  spell(numbers) {
    const ids = Array.from(numbers);
    const tokens = ids.map((id) => this.token(id));
    /** @type {number[]} */
    const bytes = [];
    const ends = tokens.map((token, position) => {
      const plain = this.specials.has(ids[position]) && ["bytes", "spaces"].includes(this.spelling);
      for (const byte of plain ? bytesOf(token) : this.#bytes(token, position === 0)) bytes.push(byte);
      return bytes.length;
    });
    const { text, lengths } = decodeUtf8(bytes);
    const positions = lengths.flatMap((length, position) => Array.from({ length }, () => position));
    positions.push(lengths.length);
    const starts = [0, ...ends].slice(0, -1);
    const encoded = this.#encoded(text, {
      ids,
      tokens,
      starts: starts.map((start) => positions[start]),
      stops: ends.map((end, token) => (end > starts[token] ? positions[end - 1] + 1 : positions[end])),
      added: ids.map(() => false),
    });
    return { text, encoded };
  }

  /**
   * The text, cut after the last word with which it has at most `longest` tokens.
   * @param {string} text @param {number} longest
   */
  beginning(text, longest) {
    let encoded = this.encode(text);
    let keep = longest - encoded.special.filter(Boolean).length;
    for (; text && encoded.ids.length > longest; keep--) {
      const letters = new Letters(text);
      const stops = encoded.spans.filter((_, token) => !encoded.special[token]).map(([, stop]) => stop);
      const stop = stops[Math.min(keep, stops.length - 1) - 1] ?? 0; // not even one character has so few tokens
      let start = stop; // of the last word, a part of which may have other tokens
      while (start > 0 && !letters.isBlank(start - 1)) start--;
      const [, end] = letters.trimmed(0, start);
      text = letters.slice(0, end === 0 || end === start || letters.isBlank(stop) ? stop : end);
      encoded = this.encode(text);
    }
    return text;
  }

  /** A token as in the vocabulary: ##ing, Ġthe. @param {number} id */
  token(id) {
    return this.engine.nameOf(id) ?? "";
  }

  /**
   * A token alone in readable form, and whether it begins a word: ["the", true], ["ing", false].
   * @param {number} id
   * @returns {[string, boolean]}
   */
  piece(id) {
    const token = this.token(id);
    if (this.specials.has(id)) return [token, true];
    if (this.spelling === "pieces") return [token.replace(/^##/, ""), !token.startsWith("##")];
    const { text } = decodeUtf8(this.#bytes(token, false));
    const bare = text.startsWith(" ") ? text.slice(1) : text;
    return [visible(bare) || VISIBLE[" "], bare !== text];
  }

  /** The id of a token of the vocabulary. @param {string} token */
  number(token) {
    return this.engine.idOf(token) ?? null;
  }

  /** @param {string} text @param {import("./engine.js").Encoding} encoding @returns {Encoded} */
  #encoded(text, { ids, tokens, starts, stops, added }) {
    const letters = new Letters(text);
    const special = ids.map((id, token) => added[token] || this.specials.has(id));
    const spans = starts.map((start, token) => letters.stripped(start, stops[token]));
    const texts = tokens.map((token, at) => (special[at] ? token : this.#text(token, letters, spans[at])));
    const isWord = (/** @type {number} */ at) => at > 0 && !special[at] && !special[at - 1];
    const joined = ids.map((_, at) => isWord(at) && this.#joined(letters, tokens, spans, at));
    return { ids, texts, spans, special, joined };
  }

  /**
   * Whether a token continues the word before it.
   * @param {Letters} letters @param {string[]} tokens @param {Span[]} spans @param {number} position
   */
  #joined(letters, tokens, spans, position) {
    if (this.spelling === "pieces") return tokens[position].startsWith("##");
    const [earlier, before] = spans[position - 1];
    const [start, stop] = spans[position];
    if (start < before || (start === earlier && stop === before)) return true; // pieces of one character
    if (start > before || start === stop) return false;
    return IN_WORDS.test(letters.slice(before - 1, before)) && IN_WORDS.test(letters.slice(start, start + 1));
  }

  /**
   * The readable form: the text as typed, or hexadecimal bytes for a part of a character.
   * @param {string} token @param {Letters} letters @param {Span} span
   */
  #text(token, letters, [start, stop]) {
    if (token === this.engine.model.unknown) return token;
    const part = this.#partOfCharacter(token);
    if (part) return part;
    let typed = letters.slice(start, stop);
    // The library's span of a byte covers all unknown characters around it.
    if (this.spelling === "spaces" && BYTE.test(token)) typed = String.fromCharCode(parseInt(token.slice(3, 5), 16));
    else if (!letters.areBlank(start, stop)) return typed;
    return visible(typed) || token;
  }

  /** The bytes of a token that is not whole characters, in hexadecimal; empty for others. @param {string} token */
  #partOfCharacter(token) {
    let part = this.#parts.get(token);
    if (part !== undefined) return part;
    const bytes = this.spelling === "pieces" ? [] : this.#bytes(token, false);
    const first = bytes.findIndex((byte) => byte !== 32);
    const hex = bytes.slice(first).map((byte) => byte.toString(16).padStart(2, "0").toUpperCase());
    part = decodeUtf8(bytes).valid ? "" : `<${hex.join(" ")}>`;
    this.#parts.set(token, part);
    return part;
  }

  /** The bytes of a token in a text. @param {string} token @param {boolean} first @returns {number[]} */
  #bytes(token, first) {
    if (this.spelling === "bytes")
      return Array.from(token).flatMap((letter) => LETTER_BYTES.get(letter) ?? Array.from(bytesOf(letter)));
    if (this.spelling === "pieces")
      return Array.from(bytesOf(token.startsWith("##") ? token.slice(2) : (first ? "" : " ") + token));
    if (this.spelling === "words") return Array.from(bytesOf((first ? "" : " ") + token));
    if (BYTE.test(token)) return [parseInt(token.slice(3, 5), 16)];
    return Array.from(bytesOf(token.replaceAll("▁", " ")));
  }
}

/** A text by code points, lone surrogates as they came. White space is what Python's str.isspace() says. */
class Letters {
  /** @param {string} text */
  constructor(text) {
    this.codes = codesOf(text);
    this.text = new AlignedText(text, this.codes, this.codes, this.codes);
  }

  /** @param {number} start @param {number} stop */
  slice(start, stop) {
    return this.text.stringOf(start, stop);
  }

  /** @param {number} position */
  isBlank(position) {
    const code = this.codes[position];
    return (CLASSES[code] & SPACE) !== 0 || (code >= 0x1c && code <= 0x1f);
  }

  /** Without white space before and after. @param {number} start @param {number} stop @returns {Span} */
  trimmed(start, stop) {
    while (start < stop && this.isBlank(start)) start++;
    while (start < stop && this.isBlank(stop - 1)) stop--;
    return [start, stop];
  }

  /** Whether all is white space, or nothing is there. @param {number} start @param {number} stop */
  areBlank(start, stop) {
    while (start < stop && this.isBlank(start)) start++;
    return start >= stop;
  }

  /**
   * The span without leading white space; one of white space only is unchanged.
   * @param {number} start @param {number} stop
   * @returns {Span}
   */
  stripped(start, stop) {
    return this.areBlank(start, stop) ? [start, stop] : [this.trimmed(start, stop)[0], stop];
  }
}

/** @param {string} text */
function visible(text) {
  return Array.from(text, (letter) => VISIBLE[letter] ?? letter).join("");
}

/** Tokens joined into words, spelled as in the text. @param {Encoded} encoded @param {string} text @returns {Word[]} */
export function wordsOf({ ids, texts, spans, special, joined }, text) {
  const letters = new Letters(text);
  /** @type {Word[]} */
  const words = [];
  let first = 0;
  let stop = 0;
  for (let position = 0; position < ids.length; position++) {
    stop = Math.max(position === first ? 0 : stop, spans[position][1]);
    const next = position + 1;
    if (next < ids.length && joined[next] && !special[next] && !special[first]) continue;
    const typed = special[first] ? "" : letters.slice(...letters.trimmed(spans[first][0], stop));
    words.push({ text: typed || texts.slice(first, next).join(""), first, last: next, special: special[first] });
    first = next;
  }
  return words;
}
