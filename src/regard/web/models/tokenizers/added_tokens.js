/** Tokens that are looked for in the text before the model sees it, such as [MASK] and <|im_start|>. */
import { CLASSES, SPACE, WORD } from "./characters.js";
import { AlignedText } from "./code_points.js";
import { booleanOf, componentOf, describe } from "./components.js";

/**
 * @typedef {object} AddedToken
 * @property {number} id
 * @property {string} content
 * @property {boolean} single only where it is a whole word
 * @property {boolean} left with the white space before it
 * @property {boolean} right with the white space after it
 * @property {boolean} normalized is looked for in the normalized text
 * @property {boolean} special is left out when decoding
 */
/**
 * A part of a text: an added token, or null for what is between two.
 * @typedef {{token: AddedToken|null, start: number, stop: number}} Part
 */

/**
 * @param {unknown} list `added_tokens` of a tokenizer.json
 * @param {Map<string, number>} vocabulary of the model; tokens that are not in it have the ids after it, in their order
 * @returns {AddedToken[]}
 */
export function addedTokensOf(list, vocabulary) {
  if (!Array.isArray(list))
    throw new Error(`The added tokens of the tokenizer are ${describe(list)}, expected a list.`);
  /** @type {Map<string, AddedToken>} */
  const tokens = new Map();
  let next = vocabulary.size;
  for (const value of list) {
    const component = componentOf("added token", value);
    const { content } = component;
    if (typeof content !== "string") throw new Error(`The added token ${describe(value)} has no content.`);
    if (!content) continue;
    tokens.set(content, {
      id: tokens.get(content)?.id ?? vocabulary.get(content) ?? next++,
      content,
      single: booleanOf(component, "single_word"),
      left: booleanOf(component, "lstrip"),
      right: booleanOf(component, "rstrip"),
      normalized: booleanOf(component, "normalized"),
      special: booleanOf(component, "special"),
    });
  }
  return [...tokens.values()];
}

/**
 * Cuts a text at added tokens: from the left, the longest first.
 * @param {[string, AddedToken][]} spellings the text of each token
 * @returns {(text: AlignedText) => Part[]}
 */
export function finderOf(spellings) {
  if (!spellings.length) return (text) => [{ token: null, start: 0, stop: text.length }];
  const tokens = new Map(spellings);
  if (tokens.size < spellings.length)
    throw new Error("Two added tokens of the tokenizer have the same normalized text.");
  const longestFirst = [...tokens.keys()].sort((left, right) => right.length - left.length);
  const pattern = new RegExp(longestFirst.map(literal).join("|"), "gu");
  return (text) => {
    /** @type {Part[]} */
    const parts = [];
    let done = 0;
    let position = 0; // in code points, of `unit`
    let unit = 0;
    for (const match of text.string.matchAll(pattern)) {
      while (unit < match.index) unit += text.codes[position++] > 0xffff ? 2 : 1;
      let start = position;
      while (unit < match.index + match[0].length) unit += text.codes[position++] > 0xffff ? 2 : 1;
      let stop = position;
      const token = /** @type {AddedToken} */ (tokens.get(match[0]));
      if (token.single && (is(text, start - 1, WORD) || is(text, stop, WORD))) continue;
      if (token.left) while (start > done && is(text, start - 1, SPACE)) start--;
      if (token.right) while (is(text, stop, SPACE)) stop++;
      if (done < start) parts.push({ token: null, start: done, stop: start });
      parts.push({ token, start, stop });
      done = stop;
    }
    if (done < text.length) parts.push({ token: null, start: done, stop: text.length });
    return parts;
  };
}

/** @param {AlignedText} text @param {number} position @param {number} kind */
function is(text, position, kind) {
  return position >= 0 && position < text.length && (CLASSES[text.codes[position]] & kind) !== 0;
}

/** A regular expression that matches a text. @param {string} content */
function literal(content) {
  return content.replace(/[\\^$.*+?()[\]{}|/-]/g, (letter) => `\\x${letter.charCodeAt(0).toString(16)}`);
}
