/**
 * Pre-tokenizers: they cut a text into pieces, and no token reaches across two of them. The regular expressions are
 * scanned by hand with the library's character classes, in linear time.
 */
import { CLASSES, LETTER, NUMBER, NUMERIC, PUNCTUATION, SPACE, WORD } from "./characters.js";
import { AlignedText } from "./code_points.js";
import { booleanOf, choose, describe, listOf, requireOneOf } from "./components.js";

/** @typedef {import("./components.js").Component} Component */
/**
 * Takes the code points [start, stop) of a text.
 * @typedef {(text: AlignedText, start: number, stop: number) => void} Emit
 */
/**
 * Hands the pieces of a part of a text over, in their order.
 * @typedef {(text: AlignedText, start: number, stop: number, emit: Emit) => void} Cut
 */
/**
 * The end of the match that begins at `position`, which is before `stop`.
 * @typedef {(codes: Uint32Array, position: number, stop: number) => number} Scan
 */
/** `byteLevel`: tokens are of bytes. @typedef {{cut: Cut, byteLevel: boolean}} PreTokenizer */

const GPT2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
/** Llama's and Qwen's, which differ in how many digits stay together. @param {string} digits */
const llama = (digits) =>
  String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}${digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
export const PATTERNS = { gpt2: GPT2, llama3: llama("{1,3}"), qwen2: llama("") };
/** @type {Record<string, Scan>} */
const SCANS = {
  [PATTERNS.gpt2]: scanGpt2,
  [PATTERNS.llama3]: (codes, position, stop) => scanLlama(codes, position, stop, 3),
  [PATTERNS.qwen2]: (codes, position, stop) => scanLlama(codes, position, stop, 1),
  [String.raw`[\s\S]`]: (_, position) => position + 1,
};

const MAKERS = {
  BertPreTokenizer: () => plain(separate(SPACE, PUNCTUATION)),
  Whitespace: () => plain(chain([separate(SPACE, 0), scan(runOfWords)])), // \w+|[^\w\s]+
  WhitespaceSplit: () => plain(separate(SPACE, 0)),
  /** @param {Component} component */
  Digits: (component) => plain(booleanOf(component, "individual_digits") ? separate(0, NUMERIC) : scan(runOfDigits)),
  /** @param {Component} component */
  Split(component) {
    const pattern = /** @type {{Regex?: unknown}|null} */ (component.pattern ?? null)?.Regex;
    if (typeof pattern !== "string" || !Object.hasOwn(SCANS, pattern))
      throw new Error(`The pre-tokenizer Split with the pattern ${describe(component.pattern)} is not supported.`);
    requireOneOf(component, "behavior", ["Isolated"]);
    return plain(scan(SCANS[pattern])); // the whole text matches, so `invert` changes nothing
  },
  /** @param {Component} component @returns {PreTokenizer} */
  ByteLevel(component) {
    const prefixed = booleanOf(component, "add_prefix_space") ? [prefix] : [];
    const scanned = booleanOf(component, "use_regex", true) ? [scan(scanGpt2)] : [];
    return { cut: chain([...prefixed, ...scanned]), byteLevel: true };
  },
  /** @param {Component} component @returns {PreTokenizer} */
  Sequence(component) {
    const steps = listOf(component, "pretokenizers").map(preTokenizerOf);
    if (steps.slice(0, -1).some(({ byteLevel }) => byteLevel))
      throw new Error("A pre-tokenizer after ByteLevel is not supported.");
    return { cut: chain(steps.map(({ cut }) => cut)), byteLevel: steps.some(({ byteLevel }) => byteLevel) };
  },
};

/** @param {unknown} value @returns {PreTokenizer} */
export function preTokenizerOf(value) {
  if (value === null || value === undefined) return plain(chain([]));
  const [make, component] = choose("pre-tokenizer", value, MAKERS);
  return make(component);
}

/** @param {Cut} cut @returns {PreTokenizer} */
function plain(cut) {
  return { cut, byteLevel: false };
}

/** Each step cuts the pieces of the step before. @param {Cut[]} steps @returns {Cut} */
function chain([first, ...others]) {
  if (!first) return (text, start, stop, emit) => emit(text, start, stop);
  if (!others.length) return first;
  const rest = chain(others);
  return (text, start, stop, emit) => first(text, start, stop, (piece, from, to) => rest(piece, from, to, emit));
}

/**
 * Cut at characters of a class, `removed` or each a piece of its own.
 * @param {number} removed @param {number} isolated
 * @returns {Cut}
 */
function separate(removed, isolated) {
  return (text, start, stop, emit) => {
    let first = start;
    for (let position = start; position < stop; position++) {
      const kind = CLASSES[text.codes[position]];
      if (!(kind & (removed | isolated))) continue;
      if (first < position) emit(text, first, position);
      if (!(kind & removed)) emit(text, position, position + 1);
      first = position + 1;
    }
    if (first < stop) emit(text, first, stop);
  };
}

/** Cut into the matches of an expression that matches everywhere. @param {Scan} next @returns {Cut} */
function scan(next) {
  return (text, start, stop, emit) => {
    for (let position = start; position < stop;) {
      const end = next(text.codes, position, stop);
      emit(text, position, end);
      position = end;
    }
  };
}

/** A blank before the piece, which belongs to its first character. @type {Cut} */
function prefix(text, start, stop, emit) {
  if (start === stop || text.codes[start] === 32) return emit(text, start, stop);
  const whole = text.slice(start, stop);
  const [codes, starts, stops] = [whole.codes, whole.starts, whole.stops].map((part) => {
    const longer = new Uint32Array(part.length + 1);
    longer.set(part, 1);
    longer[0] = part[0];
    return longer;
  });
  codes[0] = 32;
  emit(new AlignedText(` ${whole.string}`, codes, starts, stops), 0, codes.length);
}

/** @type {Scan} */
function runOfWords(codes, position, stop) {
  return run(codes, position, stop, WORD, CLASSES[codes[position]] & WORD);
}

/** @type {Scan} */
function runOfDigits(codes, position, stop) {
  return run(codes, position, stop, NUMERIC, CLASSES[codes[position]] & NUMERIC);
}

/**
 * The end of the characters whose bits of `mask` are `value`.
 * @param {Uint32Array} codes @param {number} position @param {number} stop @param {number} mask @param {number} value
 */
function run(codes, position, stop, mask, value) {
  while (position < stop && (CLASSES[codes[position]] & mask) === value) position++;
  return position;
}

const SYMBOL_MASK = SPACE | LETTER | NUMBER; // symbols have none of these

/** @type {Scan} */
function scanGpt2(codes, position, stop) {
  const contraction = codes[position] === 39 ? contractionAt(codes, position, stop, false) : 0;
  if (contraction) return position + contraction;
  const first =
    codes[position] === 32 && position + 1 < stop && !(CLASSES[codes[position + 1]] & SPACE) ? position + 1 : position;
  const kind = CLASSES[codes[first]];
  if (kind & LETTER) return run(codes, first, stop, LETTER, LETTER);
  if (kind & NUMBER) return run(codes, first, stop, NUMBER, NUMBER);
  if (!(kind & SPACE)) return run(codes, first, stop, SYMBOL_MASK, 0);
  return endOfSpaces(codes, position, stop);
}

/** @param {Uint32Array} codes @param {number} position @param {number} stop @param {number} digits */
function scanLlama(codes, position, stop, digits) {
  const contraction = codes[position] === 39 ? contractionAt(codes, position, stop, true) : 0;
  if (contraction) return position + contraction;
  const kind = CLASSES[codes[position]];
  const next = position + 1 < stop ? CLASSES[codes[position + 1]] : SPACE;
  if (kind & LETTER || (!(kind & NUMBER) && !isLineBreak(codes[position]) && next & LETTER))
    return run(codes, position + 1, stop, LETTER, LETTER);
  if (kind & NUMBER) return run(codes, position, Math.min(stop, position + digits), NUMBER, NUMBER);
  if (!(kind & SPACE) || (codes[position] === 32 && !(next & SYMBOL_MASK))) {
    let end = run(codes, position + 1, stop, SYMBOL_MASK, 0);
    while (end < stop && isLineBreak(codes[end])) end++;
    return end;
  }
  let end = run(codes, position, stop, SPACE, SPACE) - 1;
  while (end >= position && !isLineBreak(codes[end])) end--;
  return end >= position ? end + 1 : endOfSpaces(codes, position, stop);
}

/** \s+(?!\S)|\s+ : the blank before a word is left to the word. @type {Scan} */
function endOfSpaces(codes, position, stop) {
  const end = run(codes, position, stop, SPACE, SPACE);
  return end < stop && end > position + 1 ? end - 1 : end;
}

/** @param {number} code */
function isLineBreak(code) {
  return code === 10 || code === 13;
}

/**
 * The length of 's, 't, 're, 've, 'm, 'll or 'd, or 0.
 * @param {Uint32Array} codes @param {number} position @param {number} stop @param {boolean} anyCase
 */
function contractionAt(codes, position, stop, anyCase) {
  let letters = String.fromCodePoint(...codes.subarray(position + 1, Math.min(position + 3, stop)));
  if (anyCase) letters = letters.toLowerCase().replace(/^ſ/, "s"); // the long s too, as in Oniguruma
  if (/^[stmd]/.test(letters)) return 2;
  return /^(re|ve|ll)/.test(letters) ? 3 : 0;
}
