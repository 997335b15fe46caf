/**
 * Classes of code points as the `tokenizers` library has them. Its parts use four Unicode tables, from version 8 to 17;
 * an engine's \p{L} is of another version again (4,644 more letters in Node 20, 143 other punctuation marks, 514 other
 * marks), so the classes come from a table measured with the library.
 */
import { CLASS_RUNS, CLASS_VALUES, LETTERS, ORDER_RUNS, ORDER_VALUES } from "./unicode_table.js";

export const LETTER = 1; // \p{L} of Oniguruma
export const NUMBER = 2; // \p{N} of Oniguruma
export const SPACE = 4; // White_Space, the same everywhere
export const PUNCTUATION = 8; // what BertPreTokenizer isolates
export const CONTROL = 16; // what BertNormalizer removes as not printable
export const NONSPACING = 32; // what it removes as accents
export const WORD = 64; // \w of Rust's regular expressions
export const NUMERIC = 128; // what Digits separates

/** The bits of each code point. */
export const CLASSES = expand(CLASS_RUNS, CLASS_VALUES);
const ORDER = expand(ORDER_RUNS, ORDER_VALUES);

/** @param {string} runs @param {number[]} values */
function expand(runs, values) {
  const table = new Uint8Array(0x110000);
  let code = 0;
  for (const [, length, letter] of runs.matchAll(/(\d*)([^\d\s])/g)) {
    const stop = code + Number(length || 1);
    table.fill(values[LETTERS.indexOf(letter)], code, stop);
    code = stop;
  }
  return table;
}

/** The canonical combining class, which orders marks after a letter. @param {number} code */
export function combiningClass(code) {
  return ORDER[code];
}

// From U+10000 on, what decomposes in Unicode 9, the library's version; engines know 21 later ones and more to come.
const DECOMPOSED = [
  [0x1109a, 0x110ab], [0x1112e, 0x1112f], [0x1134b, 0x1134c], [0x114bb, 0x114be], [0x115ba, 0x115bb],
  [0x1d15e, 0x1d1c0], [0x2f800, 0x2fa1d],
]; // prettier-ignore

/** The canonical decomposition. @param {number} code */
export function decompose(code) {
  const letter = String.fromCodePoint(code);
  if (code >= 0x10000 && !DECOMPOSED.some(([first, last]) => code >= first && code <= last)) return letter;
  return letter.normalize("NFD");
}

// Capitals of Unicode 16 and 17, which the library knows and not every engine: first, last, distance of the small letter.
const LATER_CAPITALS = [
  [0x1c89, 0x1c89, 1], [0xa7cb, 0xa7cb, -42343], [0xa7cc, 0xa7cc, 1], [0xa7ce, 0xa7ce, 1], [0xa7d2, 0xa7d2, 1],
  [0xa7d4, 0xa7d4, 1], [0xa7da, 0xa7da, 1], [0xa7dc, 0xa7dc, -42561], [0x10d50, 0x10d65, 32], [0x16ea0, 0x16eb8, 27],
]; // prettier-ignore

/** The small letter of a character alone, so Σ is σ also at the end of a word. @param {number} code */
export function lowercaseOf(code) {
  const later = code < 0x1c89 ? undefined : LATER_CAPITALS.find(([first, last]) => code >= first && code <= last);
  return later ? String.fromCodePoint(code + later[2]) : String.fromCodePoint(code).toLowerCase();
}

const IDEOGRAPHS = [
  [0x4e00, 0x9fff], [0x3400, 0x4dbf], [0x20000, 0x2a6df], [0x2a700, 0x2b81f], [0x2b920, 0x2ceaf], [0xf900, 0xfaff],
  [0x2f800, 0x2fa1f],
]; // prettier-ignore

/** @param {number} code */
export function isIdeograph(code) {
  return IDEOGRAPHS.some(([first, last]) => code >= first && code <= last);
}
