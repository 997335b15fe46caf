/** Post-processors: they add the special tokens that a model expects around a text, and trim offsets. */
import { CLASSES, SPACE } from "./characters.js";
import { booleanOf, choose, componentOf, describe, listOf } from "./components.js";
import { BYTE_LETTERS } from "./utf8.js";

/** @typedef {import("./components.js").Component} Component */
/** @typedef {import("./engine.js").Encoding} Encoding */
/** @typedef {(encoding: Encoding, special: boolean) => Encoding} PostProcessor */
/** @typedef {{ids: number[], tokens: string[]}} SpecialTokens */

const MAKERS = {
  /** @param {Component} component @returns {PostProcessor} */
  TemplateProcessing(component) {
    const special = componentOf("template", component.special_tokens);
    const parts = listOf(component, "single").map((value) => {
      const { Sequence, SpecialToken } = componentOf("template", value);
      if (Sequence && componentOf("template", Sequence).id === "A") return null;
      return specialTokensOf(special[String(componentOf("template", SpecialToken).id)]);
    });
    return (encoding, added) =>
      join(parts.flatMap((tokens) => (tokens === null ? [encoding] : added ? [encodingOf(tokens)] : [])));
  },
  /** @param {Component} component @returns {PostProcessor} */
  BertProcessing(component) {
    const [first, last] = ["cls", "sep"].map((name) => specialTokenOf(listOf(component, name)));
    return (encoding, added) => (added ? join([encodingOf(first), encoding, encodingOf(last)]) : encoding);
  },
  /** @param {Component} component @returns {PostProcessor} */
  ByteLevel(component) {
    const prefixed = booleanOf(component, "add_prefix_space");
    return booleanOf(component, "trim_offsets")
      ? (encoding) => trimOffsets(encoding, prefixed)
      : (encoding) => encoding;
  },
  /** @param {Component} component @returns {PostProcessor} */
  Sequence(component) {
    const steps = listOf(component, "processors").map(postProcessorOf);
    return (encoding, added) => steps.reduce((result, step) => step(result, added), encoding);
  },
};

/** @param {unknown} value @returns {PostProcessor} */
export function postProcessorOf(value) {
  if (value === null || value === undefined) return (encoding) => encoding;
  const [make, component] = choose("post-processor", value, MAKERS);
  return make(component);
}

/** @param {unknown} value @returns {SpecialTokens} */
function specialTokensOf(value) {
  const component = componentOf("special token", value);
  const [ids, tokens] = [listOf(component, "ids"), listOf(component, "tokens")];
  if (ids.length !== tokens.length) throw new Error(`The special token ${describe(value)} has other ids than tokens.`);
  const pairs = ids.map((id, position) => specialTokenOf([tokens[position], id]));
  return { ids: pairs.flatMap((pair) => pair.ids), tokens: pairs.flatMap((pair) => pair.tokens) };
}

/** @param {unknown[]} pair a token and its id @returns {SpecialTokens} */
function specialTokenOf([token, id]) {
  if (typeof token !== "string" || !Number.isInteger(id))
    throw new Error(`A special token of the tokenizer is ${describe([token, id])}, expected a text and an id.`);
  return { ids: [Number(id)], tokens: [token] };
}

/** @param {SpecialTokens} tokens @returns {Encoding} */
function encodingOf({ ids, tokens }) {
  return { ids, tokens, starts: ids.map(() => 0), stops: ids.map(() => 0), added: ids.map(() => true) };
}

/** @param {Encoding[]} parts @returns {Encoding} */
function join(parts) {
  return {
    ids: parts.flatMap(({ ids }) => ids),
    tokens: parts.flatMap(({ tokens }) => tokens),
    starts: parts.flatMap(({ starts }) => starts),
    stops: parts.flatMap(({ stops }) => stops),
    added: parts.flatMap(({ added }) => added),
  };
}

/**
 * Offsets without the white space of a token, except for the blank that `prefixed` put before a text.
 * @param {Encoding} encoding @param {boolean} prefixed
 */
function trimOffsets(encoding, prefixed) {
  const starts = encoding.tokens.map((token, position) => {
    const [start, stop] = [encoding.starts[position], encoding.stops[position]];
    const leading = countBlanks(Array.from(token));
    const kept = (position === 0 || start === 0) && prefixed && leading === 1;
    return kept ? start : Math.min(start + leading, stop);
  });
  const stops = encoding.tokens.map((token, position) => {
    const stop = encoding.stops[position];
    const trailing = countBlanks(Array.from(token).reverse());
    return stop >= trailing ? Math.max(stop - trailing, starts[position]) : stop;
  });
  return { ...encoding, starts, stops };
}

/** @param {string[]} letters */
function countBlanks(letters) {
  const first = letters.findIndex((letter) => !isBlank(letter));
  return first < 0 ? letters.length : first;
}

/** @param {string} letter */
function isBlank(letter) {
  return letter === BYTE_LETTERS[32] || (CLASSES[/** @type {number} */ (letter.codePointAt(0))] & SPACE) !== 0;
}
