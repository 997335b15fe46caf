/** UTF-8 by hand: the bytes of each character, and GPT-2's letters for bytes. */

const ENCODER = new TextEncoder();

/** GPT-2's letter for each byte: printable bytes are themselves, the others letters from 256 on. */
export const BYTE_LETTERS = byteLetters();
/** @type {Map<string, number>} */
export const LETTER_BYTES = new Map(BYTE_LETTERS.map((letter, byte) => [letter, byte]));

function byteLetters() {
  let others = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCodePoint(printable ? byte : others++);
  });
}

/** @param {string} text @returns {Uint8Array} */
export function bytesOf(text) {
  return ENCODER.encode(text);
}

/**
 * The characters of UTF-8 bytes and the number of bytes of each. What is invalid becomes U+FFFD, one per maximal part
 * of a character, as in Python and Rust.
 * @param {ArrayLike<number>} bytes
 */
export function decodeUtf8(bytes) {
  /** @type {string[]} */
  const parts = [];
  /** @type {number[]} */
  const lengths = [];
  let valid = true;
  for (let position = 0; position < bytes.length;) {
    const first = bytes[position];
    const size = bytesFrom(first);
    let code = size < 2 ? first : first & (0x7f >> size);
    let length = 1;
    for (; length < size && continues(first, length, bytes[position + length]); length++)
      code = (code << 6) | (bytes[position + length] & 0x3f);
    if (length !== size) valid = false;
    parts.push(length === size ? String.fromCodePoint(code) : "\ufffd");
    lengths.push(length);
    position += length;
  }
  return { text: parts.join(""), lengths, valid };
}

/** The number of bytes of a character, by its first byte; 0 for a byte that begins none. @param {number} first */
function bytesFrom(first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/**
 * Whether a byte may follow; the second byte of some characters has a smaller range.
 * @param {number} first @param {number} length so far @param {number|undefined} byte
 */
function continues(first, length, byte) {
  if (byte === undefined || byte < 0x80 || byte > 0xbf) return false;
  if (length > 1) return true;
  if (first === 0xe0) return byte >= 0xa0; // overlong
  if (first === 0xed) return byte < 0xa0; // surrogates
  if (first === 0xf0) return byte >= 0x90; // overlong
  return first !== 0xf4 || byte < 0x90; // beyond U+10FFFF
}
