/** The weights of a model: the bytes of its file in the kernel's memory, and tensors in them, in the types of the file. */
import { kernel } from "../engine/kernel.js";
import { contentOfGguf } from "./gguf.js";
import { tensorsOfSafetensors } from "./safetensors.js";

/** @typedef {{name: string, heads?: number}} TensorPlace  heads: llama.cpp interleaves the two halves of each head's rows */

const GGUF = [0x47, 0x47, 0x55, 0x46]; // how such a file begins
const Q4_0 = 18; // bytes of a block of 32 weights
const Q4_1 = 20;

export class Weights {
  /** @type {Map<string, Tensor>} */
  #tensors = new Map();
  /** @type {Tensor[]} */
  #copies = [];

  /**
   * @param {Tensor} file its bytes, u8: they belong to these weights from now on
   * @param {string} name of the file
   * @param {Record<string, TensorPlace>|null} [places] where each array of the model is in the file; null: by its own name
   */
  constructor(file, name, places = null) {
    this.file = file;
    this.name = name;
    this.places = places;
    const bytes = this.#bytes();
    const isGguf = GGUF.every((byte, place) => bytes[place] === byte);
    const content = isGguf ? contentOfGguf(bytes, name) : { metadata: null, tensors: tensorsOfSafetensors(bytes, name) };
    /** Of a GGUF file. @type {Record<string, unknown>|null} */
    this.metadata = content.metadata;
    this.stored = content.tensors;
  }

  /**
   * An array of the model, which has to be of this shape; null stands for any size.
   * @param {string} name @param {(number|null)[]} shape @returns {Tensor}
   */
  tensor(name, shape) {
    const place = this.places && Object.hasOwn(this.places, name) ? this.places[name] : { name };
    const stored = this.stored.get(place.name);
    if (!stored) throw new Error(`${this.name} has no tensor ${place.name}, which the model needs.`);
    if (stored.shape.length !== shape.length || shape.some((size, axis) => size !== null && size !== stored.shape[axis]))
      throw new Error(`${this.name} does not fit the model: tensor ${place.name} has shape ${stored.shape.join(" × ")}; expected ${shape.map((size) => size ?? "any").join(" × ")}.`);
    let tensor = this.#tensors.get(name);
    if (!tensor) {
      if (place.heads) this.#restoreRows(stored, place.heads);
      tensor = this.#opened(stored);
      this.#tensors.set(name, tensor);
    }
    return tensor;
  }

  release() {
    for (const copy of this.#copies) kernel().release(copy);
    kernel().release(this.file);
  }

  /** Valid until memory is allocated. */
  #bytes() {
    return /** @type {Uint8Array} */ (kernel().numbers(this.file));
  }

  /** @param {{type: import("./gguf.js").StoredType, shape: number[], start: number, stop: number}} stored @returns {Tensor} */
  #opened({ type, shape, start, stop }) {
    if (type !== "q4_0") {
      const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((all, size) => all * size, 1));
      return { address: this.file.address + start, type, shape, strides };
    }
    // Blocks of scale · (number − 8) as blocks of scale · number + shift: exactly the same weights.
    const copy = kernel().keep(kernel().tensor("q4_1", shape));
    this.#copies.push(copy);
    const to = /** @type {Uint8Array} */ (kernel().numbers(copy));
    const from = this.#bytes().subarray(start, stop);
    for (let read = 0, write = 0; read < from.length; read += Q4_0, write += Q4_1) {
      const shift = timesMinusEight(from[read] | (from[read + 1] << 8));
      if (shift === null) throw new Error(`${this.name} has a block of Q4_0 with a scale that a page cannot compute with.`);
      to.set([from[read], from[read + 1], shift & 255, shift >> 8], write);
      to.set(from.subarray(read + 2, read + Q4_0), write + 4);
    }
    return copy;
  }

  /** Rows of W_Q or W_K in the order of the hub, in place. @param {{shape: number[], start: number, stop: number}} stored @param {number} heads */
  #restoreRows({ shape: [rows], start, stop }, heads) {
    const half = rows / heads / 2;
    if (!Number.isInteger(half)) throw new Error(`${this.name} does not fit the model: ${rows} rows are not a multiple of 2 · ${heads} heads.`);
    const bytes = this.#bytes().subarray(start, stop);
    const width = bytes.length / rows;
    const before = bytes.slice();
    for (let row = 0; row < rows; row++) {
      const [head, side, pair] = [Math.floor(row / half / 2), Math.floor(row / half) % 2, row % half];
      const from = ((head * half + pair) * 2 + side) * width;
      bytes.set(before.subarray(from, from + width), row * width);
    }
  }
}

/** A number in half precision times −8, also in half precision, by its bits; null where it is out of range. @param {number} bits */
function timesMinusEight(bits) {
  const [sign, exponent, fraction] = [bits & 0x8000, (bits >> 10) & 31, bits & 1023];
  if (exponent > 27) return null;
  if (exponent > 0) return (sign ^ 0x8000) | ((exponent + 3) << 10) | fraction;
  let [power, size] = [0, fraction * 8]; // in steps of 2⁻²⁴, the smallest subnormal
  for (; size >= 2048; size /= 2) power++;
  return (sign ^ 0x8000) | (size < 1024 ? size : ((power + 1) << 10) | (size - 1024));
}
