/** Normalizers: they change characters and keep for each the characters of the original text that it comes from. */
import {
  CLASSES,
  CONTROL,
  NONSPACING,
  SPACE,
  combiningClass,
  decompose,
  isIdeograph,
  lowercaseOf,
} from "./characters.js";
import { AlignedText } from "./code_points.js";
import { booleanOf, choose } from "./components.js";

/** @typedef {import("./components.js").Component} Component */
/** @typedef {(text: AlignedText) => AlignedText} Normalizer */

const MAKERS = {
  /** @param {Component} component */
  BertNormalizer(component) {
    const lower = booleanOf(component, "lowercase");
    /** @type {[boolean, Normalizer[]][]} */
    const steps = [
      [booleanOf(component, "clean_text"), [clean]],
      [booleanOf(component, "handle_chinese_chars"), [isolateIdeographs]],
      [booleanOf(component, "strip_accents", lower), [sortMarks, removeMarks]],
      [lower, [lowercase]],
    ];
    return chain(steps.flatMap(([used, some]) => (used ? some : [])));
  },
  Lowercase: () => lowercase,
};

/** @param {unknown} value @returns {Normalizer} */
export function normalizerOf(value) {
  if (value === null || value === undefined) return (text) => text;
  const [make, component] = choose("normalizer", value, MAKERS);
  return make(component);
}

/** @param {Normalizer[]} steps @returns {Normalizer} */
function chain(steps) {
  return (text) => steps.reduce((result, step) => step(result), text);
}

/** Collects characters with their origin. */
class Writer {
  /** @param {AlignedText} text @param {number} longest code points that one becomes */
  constructor(text, longest) {
    this.text = text;
    this.length = 0;
    this.codes = new Uint32Array(text.length * longest);
    this.starts = new Uint32Array(text.length * longest);
    this.stops = new Uint32Array(text.length * longest);
  }

  /** @param {number} code @param {number} origin the position of the character that it replaces */
  add(code, origin) {
    this.codes[this.length] = code;
    this.starts[this.length] = this.text.starts[origin];
    this.stops[this.length++] = this.text.stops[origin];
  }

  aligned() {
    return AlignedText.from(this.codes, this.starts, this.stops, this.length);
  }
}

/** Without control characters, and with every kind of white space as a blank. @type {Normalizer} */
function clean(text) {
  const writer = new Writer(text, 1);
  text.codes.forEach((code, position) => {
    if (!(CLASSES[code] & CONTROL)) writer.add(CLASSES[code] & SPACE ? 32 : code, position);
  });
  return writer.aligned();
}

/** Blanks around each ideograph. @type {Normalizer} */
function isolateIdeographs(text) {
  if (text.codes.every((code) => code < 0x3400)) return text;
  const writer = new Writer(text, 3);
  text.codes.forEach((code, position) => {
    const ideograph = isIdeograph(code);
    if (ideograph) writer.add(32, position);
    writer.add(code, position);
    if (ideograph) writer.add(32, position);
  });
  return writer.aligned();
}

/**
 * Canonical decomposition (NFD). As in the library, origins follow the order of the result: the next character that
 * begins a decomposition belongs to the next original character, also where marks were sorted across characters.
 * @type {Normalizer}
 */
function sortMarks(text) {
  if (text.codes.every((code) => code < 0xc0)) return text;
  const writer = new Writer(text, 4); // no canonical decomposition is longer
  /** @typedef {{code: number, first: boolean, order: number}} Part */
  /** @type {Part[]} */
  let pending = [];
  let origin = -1;
  const flush = () => {
    pending.sort((left, right) => left.order - right.order);
    for (const { code, first } of pending) writer.add(code, first ? ++origin : origin);
    pending = [];
  };
  for (const code of text.codes) {
    let first = true;
    for (const letter of code < 0xc0 ? String.fromCharCode(code) : decompose(code)) {
      const part = /** @type {number} */ (letter.codePointAt(0));
      const order = combiningClass(part);
      if (order === 0) flush();
      pending.push({ code: part, first, order });
      first = false;
    }
  }
  flush();
  return writer.aligned();
}

/** Without nonspacing marks: accents. @type {Normalizer} */
function removeMarks(text) {
  const writer = new Writer(text, 1);
  text.codes.forEach((code, position) => {
    if (!(CLASSES[code] & NONSPACING)) writer.add(code, position);
  });
  return writer.aligned();
}

/** @type {Normalizer} */
function lowercase(text) {
  const writer = new Writer(text, 2);
  text.codes.forEach((code, position) => {
    if (code < 0x80) writer.add(code > 64 && code < 91 ? code + 32 : code, position);
    else for (const letter of lowercaseOf(code)) writer.add(/** @type {number} */ (letter.codePointAt(0)), position);
  });
  return writer.aligned();
}
