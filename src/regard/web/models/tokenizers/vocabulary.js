/** Models: they cut a piece of text into tokens of a vocabulary. */
import { makeBpe } from "./bpe.js";
import { codesOf } from "./code_points.js";
import { choose, componentOf, describe, optionalString, wrong } from "./components.js";

/** @typedef {import("./components.js").Component} Component */
/**
 * The tokens of a piece; `firsts` and `lasts` are the code points of the piece that each token covers.
 * @typedef {{ids: number[], firsts: number[], lasts: number[]}} Tokens
 */
/**
 * @typedef {object} Model
 * @property {"WordPiece"|"WordLevel"|"BPE"} type
 * @property {Map<string, number>} vocabulary
 * @property {string|null} unknown the token of what is not in the vocabulary
 * @property {(piece: string) => Tokens} tokenize
 */

const LARGEST_ID = 2 ** 26; // a pair of ids is one exact number in bpe.js
const MAKERS = { WordPiece: makeWordPiece, WordLevel: makeWordLevel, BPE: makeBpe };

/** @param {unknown} value @returns {Model} */
export function modelOf(value) {
  const [make, component] = choose("model", value, MAKERS);
  return make(component, vocabularyOf(component));
}

/** @param {Component} component @returns {Map<string, number>} */
function vocabularyOf(component) {
  const vocabulary = new Map();
  for (const [token, id] of Object.entries(componentOf("vocabulary", component.vocab))) {
    if (!Number.isInteger(id) || Number(id) < 0 || Number(id) >= LARGEST_ID)
      throw new Error(`The token ${describe(token)} has the id ${describe(id)}, expected 0 to ${LARGEST_ID - 1}.`);
    vocabulary.set(token, id);
  }
  return vocabulary;
}

/** @param {Component} component @param {Map<string, number>} vocabulary @returns {[string, number]} */
function unknownOf(component, vocabulary) {
  const token = optionalString(component, "unk_token");
  const id = token === null ? undefined : vocabulary.get(token);
  if (token === null || id === undefined) throw wrong(component, "unk_token", "a token of its vocabulary");
  return [token, id];
}

/** Whole words. @param {Component} component @param {Map<string, number>} vocabulary @returns {Model} */
function makeWordLevel(component, vocabulary) {
  const [unknown, unknownId] = unknownOf(component, vocabulary);
  /** @param {string} piece @returns {Tokens} */
  const tokenize = (piece) => ({ ids: [vocabulary.get(piece) ?? unknownId], firsts: [0], lasts: [codesOf(piece).length - 1] });
  return { type: "WordLevel", vocabulary, unknown, tokenize };
}

/**
 * From the left, the longest part of the word that is in the vocabulary.
 * @param {Component} component @param {Map<string, number>} vocabulary
 * @returns {Model}
 */
function makeWordPiece(component, vocabulary) {
  const [unknown, unknownId] = unknownOf(component, vocabulary);
  const prefix = optionalString(component, "continuing_subword_prefix");
  const longestWord = component.max_input_chars_per_word;
  if (prefix === null) throw wrong(component, "continuing_subword_prefix", "a string");
  if (typeof longestWord !== "number") throw wrong(component, "max_input_chars_per_word", "a number");
  const pieces = [...vocabulary].filter(([token]) => token.startsWith(prefix));
  const continuing = new Map(pieces.map(([token, id]) => [token.slice(prefix.length), id]));
  const longest = [...vocabulary.keys()].reduce((most, token) => Math.max(most, token.length), 0);
  return {
    type: "WordPiece",
    vocabulary,
    unknown,
    tokenize(piece) {
      const letters = Array.from(piece);
      const whole = { ids: [unknownId], firsts: [0], lasts: [letters.length - 1] };
      /** @type {Tokens} */
      const tokens = { ids: [], firsts: [], lasts: [] };
      if (letters.length > longestWord) return whole;
      for (let start = 0; start < letters.length;) {
        const candidates = start === 0 ? vocabulary : continuing;
        let stop = Math.min(letters.length, start + longest);
        let part = letters.slice(start, stop).join("");
        while (stop > start && !candidates.has(part)) part = part.slice(0, -letters[--stop].length);
        if (stop === start) return whole;
        tokens.ids.push(/** @type {number} */ (candidates.get(part)));
        tokens.firsts.push(start);
        tokens.lasts.push(stop - 1);
        start = stop;
      }
      return tokens;
    },
  };
}
