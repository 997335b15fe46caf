/**
 * GGUF files: metadata by name, and tensors, whose weights stay quantised. Counts and lengths in the header are claims
 * of the file: each is compared with the bytes that are left before anything is read. See `regard/models/files/gguf.py`.
 */
import { TRUNCATED } from "./safetensors.js";
import { describe } from "./tokenizers/components.js";

const MAGIC = 0x46554747; // "GGUF"
const VERSIONS = [2, 3];
const STRING = 8;
const ARRAY = 9;
/** @type {Record<number, [number, (view: DataView, at: number) => number]>} bytes, and how a number is read, by type */
const NUMBERS = {
  0: [1, (view, at) => view.getUint8(at)],
  1: [1, (view, at) => view.getInt8(at)],
  2: [2, (view, at) => view.getUint16(at, true)],
  3: [2, (view, at) => view.getInt16(at, true)],
  4: [4, (view, at) => view.getUint32(at, true)],
  5: [4, (view, at) => view.getInt32(at, true)],
  6: [4, (view, at) => view.getFloat32(at, true)],
  7: [1, (view, at) => Number(view.getUint8(at) !== 0)],
  10: [8, (view, at) => Number(view.getBigUint64(at, true))],
  11: [8, (view, at) => Number(view.getBigInt64(at, true))],
  12: [8, (view, at) => view.getFloat64(at, true)],
};
const MOST_AXES = 4;
const DEEPEST = 4; // arrays of arrays
const ALIGNMENT = 32; // bytes, unless the metadata says otherwise
const MOST_VALUES = 2 ** 21; // in all arrays of the metadata
const LONGEST_STRING = 2 ** 24; // bytes
const LEAST_ENTRY = 13; // bytes of the smallest entry of the metadata, and of a tensor
const LEAST_TENSOR = 24;

/**
 * The types of tensors that a page computes with, by their number in the file: numbers and bytes per block.
 * @typedef {import("../engine/kernel.js").Type|"q4_0"} StoredType
 * @type {Record<number, {type: StoredType, count: number, bytes: number}>}
 */
const TYPES = {
  0: { type: "f32", count: 1, bytes: 4 },
  1: { type: "f16", count: 1, bytes: 2 },
  2: { type: "q4_0", count: 32, bytes: 18 },
  3: { type: "q4_1", count: 32, bytes: 20 },
  8: { type: "q8_0", count: 32, bytes: 34 },
  30: { type: "bf16", count: 1, bytes: 2 },
};
const KNOWN = Object.values(TYPES).map(({ type }) => type.toUpperCase());
/** @type {Record<number, string>} of which people speak */
const OTHERS = { 6: "Q5_0", 7: "Q5_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 20: "IQ4_NL", 23: "IQ4_XS", 39: "MXFP4" };

/**
 * @param {Uint8Array} file all its bytes @param {string} name of the file, for messages
 * @returns {{metadata: Record<string, unknown>, tensors: Map<string, {type: StoredType, shape: number[], start: number, stop: number}>}}
 */
export function contentOfGguf(file, name) {
  return new Cursor(file, name).content();
}

/** A position in the file. */
class Cursor {
  #at = 0;
  #values = 0; // in all arrays read so far
  #text = new TextDecoder("utf-8", { fatal: true });

  /** @param {Uint8Array} file @param {string} name */
  constructor(file, name) {
    this.file = file;
    this.name = name;
    this.view = new DataView(file.buffer, file.byteOffset, file.length);
  }

  content() {
    if (this.file.length < 24) throw this.#broken(`it has ${this.file.length} bytes; the header of a GGUF file has at least 24`);
    if (this.#u32("the magic number") !== MAGIC) throw this.#broken("it does not begin with GGUF", "");
    const version = this.#u32("the version");
    if (!VERSIONS.includes(version)) {
      const kind = VERSIONS.includes(version >>> 24) ? "big-endian" : `of version ${version}`;
      throw new Error(`${this.name} is a GGUF file that is ${kind}; known are little-endian versions ${VERSIONS.join(" and ")}.`);
    }
    const [tensorCount, entryCount] = [this.#u64("its counts"), this.#u64("its counts")];
    this.#room(tensorCount, LEAST_TENSOR, "tensors");
    this.#room(entryCount, LEAST_ENTRY, "entries of metadata");
    /** @type {Map<string, unknown>} */
    const metadata = new Map();
    for (let entry = 0; entry < entryCount; entry++) {
      const name = this.#string("a name in the metadata");
      if (metadata.has(name)) throw this.#broken(`${describe(name)} occurs twice in its metadata`);
      metadata.set(name, this.#value(this.#u32(`the type of ${describe(name)}`), name, 0));
    }
    const stored = new Map();
    for (let tensor = 0; tensor < tensorCount; tensor++) {
      const name = this.#string("the name of a tensor");
      if (stored.has(name)) throw this.#broken(`tensor ${describe(name)} occurs twice`);
      stored.set(name, this.#tensor(name));
    }
    const alignment = metadata.get("general.alignment") ?? ALIGNMENT;
    if (typeof alignment !== "number" || !(alignment >= 1 && alignment <= 2 ** 20) || !Number.isInteger(Math.log2(alignment)))
      throw this.#broken(`its alignment is ${describe(alignment)}, which is not a power of two up to a million`);
    const first = Math.ceil(this.#at / alignment) * alignment;
    this.#checkPlaces(stored, first);
    const tensors = new Map();
    for (const [name, { type, shape, offset, bytes }] of stored) tensors.set(name, { type: type.type, shape, start: first + offset, stop: first + offset + bytes });
    return { metadata: Object.fromEntries(metadata), tensors };
  }

  /** @param {string} name */
  #tensor(name) {
    const short = describe(name);
    const axes = this.#u32(`the axes of ${short}`);
    if (!(axes > 0 && axes <= MOST_AXES)) throw this.#broken(`tensor ${short} claims ${axes} axes; expected 1 to ${MOST_AXES}`);
    const shape = Array.from({ length: axes }, () => this.#u64(`the shape of ${short}`)).reverse();
    const count = shape.reduce((all, size) => all * size, 1);
    if (!(count > 0 && count < 2 ** 53)) throw this.#broken(`tensor ${short} claims shape ${shape.join(" × ")}`);
    const kind = this.#u32(`the type of ${short}`);
    const type = TYPES[kind];
    if (!type) throw new Error(`Tensor ${short} of ${this.name} is stored as ${OTHERS[kind] ?? `ggml type ${kind}`}; a page computes with ${KNOWN.join(", ")}. Use another quantisation.`);
    if (shape[axes - 1] % type.count) throw this.#broken(`rows of tensor ${short} have ${shape[axes - 1]} numbers, not a multiple of ${type.count}`);
    return { type, shape, offset: this.#u64(`the offset of ${short}`), bytes: (count / type.count) * type.bytes };
  }

  /** Every tensor is inside the file, without overlaps. @param {Map<string, {offset: number, bytes: number}>} tensors @param {number} first */
  #checkPlaces(tensors, first) {
    let end = 0;
    let before = "";
    for (const [name, { offset, bytes }] of [...tensors].sort((one, other) => one[1].offset - other[1].offset)) {
      const [stop, data] = [offset + bytes, Math.max(this.file.length - first, 0)];
      if (stop > data) throw this.#broken(`tensor ${describe(name)} ends at byte ${stop} of the data, which has ${data}`);
      if (offset < end) throw this.#broken(`tensors ${describe(before)} and ${describe(name)} overlap`);
      [end, before] = [stop, name];
    }
  }

  /** @param {number} kind @param {string} name @param {number} depth @returns {unknown} */
  #value(kind, name, depth) {
    if (kind === STRING) return this.#string(describe(name));
    if (kind === ARRAY) return this.#array(name, depth + 1);
    const [number] = this.#numbers(kind, 1, name);
    return kind === 7 ? number !== 0 : number;
  }

  /** @param {string} name @param {number} depth @returns {unknown[]} */
  #array(name, depth) {
    const short = describe(name);
    if (depth > DEEPEST) throw this.#broken(`${short} nests arrays more than ${DEEPEST} levels deep`);
    const [kind, count] = [this.#u32(`the type of ${short}`), this.#u64(`the length of ${short}`)];
    this.#values += count;
    if (kind === STRING) {
      this.#room(count, 8, `strings in ${short}`);
      return Array.from({ length: count }, () => this.#string(`a string in ${short}`));
    }
    if (kind === ARRAY) {
      this.#room(count, 12, `arrays in ${short}`);
      return Array.from({ length: count }, () => this.#array(name, depth + 1));
    }
    return this.#numbers(kind, count, name);
  }

  /** @param {number} kind @param {number} count @param {string} name */
  #numbers(kind, count, name) {
    if (!Object.hasOwn(NUMBERS, kind)) throw this.#broken(`${describe(name)} is of type ${kind}, which is not a type of GGUF`);
    const [bytes, read] = NUMBERS[kind];
    this.#room(count, bytes, `numbers in ${describe(name)}`);
    const start = this.#take(count * bytes, describe(name));
    return Array.from({ length: count }, (_, place) => read(this.view, start + place * bytes));
  }

  /** @param {string} what */
  #string(what) {
    const length = this.#u64(what);
    const left = this.file.length - this.#at;
    if (length > left) throw this.#broken(`${what} claims ${length} bytes; ${left} are left`);
    if (length > LONGEST_STRING) throw this.#broken(`${what} claims ${length} bytes, more than ${LONGEST_STRING}`);
    const start = this.#take(length, what);
    try {
      return this.#text.decode(this.file.subarray(start, start + length));
    } catch {
      throw this.#broken(`${what} is not UTF-8 text`);
    }
  }

  /** @param {string} what */
  #u32(what) {
    return this.view.getUint32(this.#take(4, what), true);
  }

  /** @param {string} what */
  #u64(what) {
    return Number(this.view.getBigUint64(this.#take(8, what), true));
  }

  /** Where so many bytes begin; they are read. @param {number} count @param {string} what */
  #take(count, what) {
    if (count > this.file.length - this.#at) throw this.#broken(`it ends in the middle of ${what}`);
    this.#at += count;
    return this.#at - count;
  }

  /** @param {number} count @param {number} each @param {string} what */
  #room(count, each, what) {
    const left = this.file.length - this.#at;
    if (count * each > left) throw this.#broken(`it claims ${count} ${what}; ${left} bytes are left`);
    if (this.#values > MOST_VALUES) throw this.#broken(`it claims ${count} ${what}; at most ${MOST_VALUES} values are read`);
  }

  /** @param {string} why @param {string} [fix] */
  #broken(why, fix = TRUNCATED) {
    return new Error(`${this.name} is broken: ${why}.${fix && ` ${fix}`}`);
  }
}
