/** Texts as vectors by their spelling, the same as Python's: pieces of three characters, placed by their BLAKE2b hash. */

export const SPELLED = 4096;
const PIECE = 3;

/**
 * How often each piece occurs: three neighbouring characters of a word with its ends, and whole words.
 * @param {string} text
 * @returns {Map<string, number>}
 */
export function piecesOf(text) {
  const folded = text.normalize("NFKC").toLowerCase().replace(/ß/g, "ss");
  const words = folded.match(/[\p{L}\p{M}\p{N}]+/gu) ?? folded.split(/\s+/).filter(Boolean);
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const word of words) {
    const ended = [..."<" + word + ">"];
    const pieces = new Set([ended.join("")]);
    for (let start = 0; start + PIECE <= ended.length; start++) pieces.add(ended.slice(start, start + PIECE).join(""));
    for (const piece of pieces) found.set(piece, (found.get(piece) ?? 0) + 1);
  }
  return found;
}

/** The vector of a text, of length 1; all zeros where there is no character. @param {string} text */
export function spelled(text) {
  const vector = new Float64Array(SPELLED);
  for (const [piece, count] of piecesOf(text)) {
    const number = hashed(new TextEncoder().encode(piece));
    vector[Number(number % BigInt(SPELLED))] += number >> 63n ? count : -count;
  }
  const length = Math.hypot(...vector);
  return length ? vector.map((part) => part / length) : vector;
}

const WORD = (1n << 64n) - 1n;
const START = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const ORDER = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const MIXED = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
];

/**
 * BLAKE2b (RFC 7693) with a digest of 8 bytes, as one number with the first byte in front.
 * @param {Uint8Array} message
 */
export function hashed(message) {
  const state = [...START];
  state[0] ^= 0x01010000n ^ 8n; // no key, 8 bytes
  const blocks = Math.max(1, Math.ceil(message.length / 128));
  for (let block = 0; block < blocks; block++) {
    const part = new Uint8Array(128);
    part.set(message.subarray(block * 128, block * 128 + 128));
    const last = block === blocks - 1;
    compress(state, new BigUint64Array(part.buffer), BigInt(last ? message.length : (block + 1) * 128), last);
  }
  const digest = new DataView(new ArrayBuffer(8));
  digest.setBigUint64(0, state[0], true);
  return digest.getBigUint64(0, false);
}

/** @param {bigint[]} state @param {BigUint64Array} words @param {bigint} count @param {boolean} last */
function compress(state, words, count, last) {
  const v = [...state, ...START];
  v[12] ^= count;
  if (last) v[14] ^= WORD;
  for (let round = 0; round < 12; round++) {
    const order = ORDER[round % 10];
    MIXED.forEach(([a, b, c, d], place) => {
      v[a] = (v[a] + v[b] + words[order[2 * place]]) & WORD;
      v[d] = turned(v[d] ^ v[a], 32n);
      v[c] = (v[c] + v[d]) & WORD;
      v[b] = turned(v[b] ^ v[c], 24n);
      v[a] = (v[a] + v[b] + words[order[2 * place + 1]]) & WORD;
      v[d] = turned(v[d] ^ v[a], 16n);
      v[c] = (v[c] + v[d]) & WORD;
      v[b] = turned(v[b] ^ v[c], 63n);
    });
  }
  for (let place = 0; place < 8; place++) state[place] ^= v[place] ^ v[place + 8];
}

/** @param {bigint} word @param {bigint} by */
function turned(word, by) {
  return ((word >> by) | (word << (64n - by))) & WORD;
}
