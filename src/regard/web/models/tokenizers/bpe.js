/**
 * Byte-pair encoding of bytes: the pair of neighbours that comes first in the list of merges becomes one token, until
 * no neighbours are in the list.
 */
import { booleanOf, describe, listOf, optionalString, requireOneOf, wrong } from "./components.js";
import { BYTE_LETTERS, bytesOf } from "./utf8.js";

/** @typedef {import("./components.js").Component} Component */
const RANK = 2 ** 31; // a queue entry is rank · RANK + position: the lowest rank first, then the leftmost pair
const MOST_MERGES = 2 ** 22; // so that entries are exact

/** @param {Component} component @param {Map<string, number>} vocabulary @returns {import("./vocabulary.js").Model} */
export function makeBpe(component, vocabulary) {
  requireOneOf(component, "dropout", [null, 0]);
  requireOneOf(component, "continuing_subword_prefix", [null, ""]);
  requireOneOf(component, "end_of_word_suffix", [null, ""]);
  requireOneOf(component, "byte_fallback", [null, false]);
  const fuse = booleanOf(component, "fuse_unk", false);
  const ignoreMerges = booleanOf(component, "ignore_merges", false);
  const unknown = optionalString(component, "unk_token");
  const unknownId = unknown === null ? undefined : vocabulary.get(unknown);
  const idOfByte = BYTE_LETTERS.map((letter) => vocabulary.get(letter));
  const merges = new Merges(component, vocabulary);
  return {
    type: "BPE",
    vocabulary,
    unknown,
    tokenize(piece) {
      const bytes = bytesOf(piece);
      const positions = codeIndices(bytes);
      if (ignoreMerges) {
        const id = vocabulary.get(Array.from(bytes, (byte) => BYTE_LETTERS[byte]).join(""));
        if (id !== undefined) return { ids: [id], firsts: [0], lasts: [positions[positions.length - 1]] };
      }
      /** @type {number[]} */
      const ids = [];
      /** @type {number[]} */
      const sizes = [];
      let fusing = false;
      for (const byte of bytes) {
        const id = idOfByte[byte] ?? unknownId;
        if (id === undefined && unknown !== null) throw wrong(component, "unk_token", "a token of its vocabulary");
        if (id === undefined) continue; // without unk_token, the library drops the byte
        const isUnknown = idOfByte[byte] === undefined;
        if (isUnknown && fuse && fusing) sizes[sizes.length - 1] += sizeOf(byte);
        else {
          ids.push(id);
          sizes.push(sizeOf(byte));
        }
        fusing = isUnknown;
      }
      merges.apply(ids, sizes);
      return locateTokens(ids, sizes, positions);
    },
  };
}

/**
 * The code points of each token. As in the library, tokens follow each other without gaps, so that those after a
 * dropped byte are placed too far left.
 * @param {number[]} ids @param {number[]} sizes @param {number[]} positions
 */
function locateTokens(ids, sizes, positions) {
  /** @type {import("./vocabulary.js").Tokens} */
  const tokens = { ids, firsts: [], lasts: [] };
  let start = 0;
  for (const size of sizes) {
    tokens.firsts.push(positions[start]);
    start += size;
    tokens.lasts.push(positions[start - 1]);
  }
  return tokens;
}

/** The library counts in bytes of the letters that stand for bytes. @param {number} byte */
function sizeOf(byte) {
  return BYTE_LETTERS[byte] < "\x80" ? 1 : 2;
}

/** For each of these, the position of its code point. @param {Uint8Array} bytes */
function codeIndices(bytes) {
  /** @type {number[]} */
  const positions = [];
  let position = -1;
  for (const byte of bytes) {
    if ((byte & 0xc0) !== 0x80) position++;
    positions.push(position);
    if (sizeOf(byte) === 2) positions.push(position);
  }
  return positions;
}

/** The list of merges, by pair of token ids. */
class Merges {
  /** @param {Component} component @param {Map<string, number>} vocabulary */
  constructor(component, vocabulary) {
    const idOf = (/** @type {string} */ token) => {
      const id = vocabulary.get(token);
      if (id === undefined)
        throw new Error(`The merges of the tokenizer name ${describe(token)}, which is not in its vocabulary.`);
      return id;
    };
    this.count = [...vocabulary.values()].reduce((most, id) => Math.max(most, id), 0) + 1;
    /** @type {Map<number, number>} */
    this.ranks = new Map();
    /** The token that a pair becomes, by rank. @type {number[]} */
    this.merged = [];
    const merges = listOf(component, "merges");
    if (merges.length > MOST_MERGES) throw new Error(`A tokenizer with ${merges.length} merges is not supported.`);
    for (const merge of merges) {
      if (typeof merge === "string" && merge.startsWith("#version")) continue;
      const pair = typeof merge === "string" ? merge.split(" ") : merge;
      if (!Array.isArray(pair) || pair.length !== 2 || pair.some((token) => typeof token !== "string"))
        throw new Error(`${describe(merge)} in the merges of the tokenizer is not a pair of tokens.`);
      this.ranks.set(idOf(pair[0]) * this.count + idOf(pair[1]), this.merged.length);
      this.merged.push(idOf(pair[0] + pair[1]));
    }
  }

  /** Merge neighbours in place; `sizes` are added up. @param {number[]} ids @param {number[]} sizes */
  apply(ids, sizes) {
    const { merged } = this;
    const end = ids.length;
    const after = new Int32Array(end);
    const before = new Int32Array(end);
    const queue = new Queue();
    const enqueue = (/** @type {number} */ left, /** @type {number} */ right) => {
      const rank = this.ranks.get(ids[left] * this.count + ids[right]);
      if (rank !== undefined) queue.push(rank * RANK + left);
    };
    for (let position = 0; position < end; position++) {
      after[position] = position + 1;
      before[position] = position - 1;
      if (position + 1 < end) enqueue(position, position + 1);
    }
    while (queue.length) {
      const entry = queue.pop();
      const left = entry % RANK;
      const right = after[left];
      if (sizes[left] === 0 || right === end) continue;
      const rank = this.ranks.get(ids[left] * this.count + ids[right]);
      const token = merged[(entry - left) / RANK];
      if (rank === undefined || merged[rank] !== token) continue; // stale: a neighbour was merged since
      ids[left] = token;
      sizes[left] += sizes[right];
      sizes[right] = 0;
      after[left] = after[right];
      if (after[left] < end) {
        before[after[left]] = left;
        enqueue(left, after[left]);
      }
      if (before[left] >= 0) enqueue(before[left], left);
    }
    let kept = 0;
    for (let position = 0; position < end; position = after[position]) {
      ids[kept] = ids[position];
      sizes[kept++] = sizes[position];
    }
    ids.length = sizes.length = kept;
  }
}

/** A priority queue of numbers, the smallest first. */
class Queue {
  constructor() {
    /** @type {number[]} */
    this.heap = [];
  }

  get length() {
    return this.heap.length;
  }

  /** @param {number} entry */
  push(entry) {
    const { heap } = this;
    let position = heap.length;
    heap.push(entry);
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (heap[parent] <= entry) break;
      heap[position] = heap[parent];
      position = parent;
    }
    heap[position] = entry;
  }

  pop() {
    const { heap } = this;
    const first = heap[0];
    const entry = /** @type {number} */ (heap.pop());
    if (!heap.length) return first;
    let position = 0;
    for (let child = 1; child < heap.length; child = 2 * position + 1) {
      if (child + 1 < heap.length && heap[child + 1] < heap[child]) child++;
      if (heap[child] >= entry) break;
      heap[position] = heap[child];
      position = child;
    }
    heap[position] = entry;
    return first;
  }
}
