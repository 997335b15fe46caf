/** Decoders: from tokens back to text. */
import { booleanOf, choose, listOf, optionalString, wrong } from "./components.js";
import { LETTER_BYTES, bytesOf, decodeUtf8 } from "./utf8.js";

/** @typedef {import("./components.js").Component} Component */
/** `bytes`: tokens are bytes. @typedef {{steps: (tokens: string[]) => string[], bytes: boolean}} Decoder */

const CLEANUP = [
  [" .", "."], [" ?", "?"], [" !", "!"], [" ,", ","], [" ' ", "'"], [" n't", "n't"], [" 'm", "'m"],
  [" do not", " don't"], [" 's", "'s"], [" 've", "'ve"], [" 're", "'re"],
]; // prettier-ignore

const MAKERS = {
  /** @param {Component} component @returns {Decoder} */
  WordPiece(component) {
    const prefix = optionalString(component, "prefix");
    if (prefix === null) throw wrong(component, "prefix", "a string");
    const cleanup = booleanOf(component, "cleanup");
    const spaced = (/** @type {string} */ token, /** @type {number} */ position) =>
      position === 0 ? token : token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
    const changes = cleanup ? CLEANUP : [];
    const clean = (/** @type {string} */ text) => changes.reduce((cleaned, [from, to]) => cleaned.replaceAll(from, to), text);
    return { steps: (tokens) => tokens.map((token, position) => clean(spaced(token, position))), bytes: false };
  },
  /** @returns {Decoder} */
  ByteLevel: () => ({ steps: (tokens) => [decodeUtf8(tokens.flatMap(tokenBytes)).text], bytes: true }),
  /** @returns {Decoder} */
  Fuse: () => ({ steps: (tokens) => [tokens.join("")], bytes: false }),
  /** @param {Component} component @returns {Decoder} */
  Sequence(component) {
    const decoders = listOf(component, "decoders").map(makerOf);
    return {
      steps: (tokens) => decoders.reduce((result, { steps }) => steps(result), tokens),
      bytes: decoders.some(({ bytes }) => bytes),
    };
  },
};

/** @param {unknown} value */
function makerOf(value) {
  const [make, component] = choose("decoder", value, MAKERS);
  return make(component);
}

/** @param {unknown} value @returns {{decode: (tokens: string[]) => string, bytes: boolean}} */
export function decoderOf(value) {
  if (value === null || value === undefined) return { decode: (tokens) => tokens.join(" "), bytes: false };
  const { steps, bytes } = makerOf(value);
  return { decode: (tokens) => steps(tokens).join(""), bytes };
}

/** The bytes of a token of letters for bytes; another token is text. @param {string} token */
function tokenBytes(token) {
  const bytes = Array.from(token, (letter) => LETTER_BYTES.get(letter));
  return bytes.every((byte) => byte !== undefined) ? /** @type {number[]} */ (bytes) : Array.from(bytesOf(token));
}
