/**
 * Frames, the wire format of every answer: `uint32 header length | JSON header | arrays`, little-endian. The body and each
 * array in it are aligned to 8 bytes.
 *
 * @typedef {Float32Array|Int32Array|Uint8Array|Uint16Array} Numbers
 * @typedef {{dtype: string, shape: number[], offset: number}} ArrayPlace
 * @typedef {{data: Numbers, shape: number[], dtype: string,
 *            toFloat32: () => Float32Array}} FrameArray
 * @typedef {Record<string, any>} Header  see `viewer/queries.py` for what each answer has
 * @typedef {{header: Header, arrays: Record<string, FrameArray>}} Frame
 */

const KINDS = { f4: Float32Array, f2: Uint16Array, i4: Int32Array, u1: Uint8Array, u2: Uint16Array };
const ALIGNMENT = 8;

/** Parse a frame; the arrays are views of the buffer. @param {ArrayBuffer|ArrayBufferView} given @returns {Frame} */
export function unpack(given) {
  const { buffer, start, size } = whole(given);
  if (size < 4) throw new Error(`A frame needs at least 4 bytes; got ${size}.`);
  const length = new DataView(buffer, start, 4).getUint32(0, true);
  if (4 + length > size) throw new Error(`The frame's header length is ${length}, but the frame has only ${size} bytes.`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, start + 4, length)));
  /** @type {Record<string, FrameArray>} */
  const arrays = {};
  for (const [name, about] of Object.entries(header.arrays ?? {})) {
    arrays[name] = arrayAt(buffer, start + 4 + length, size - 4 - length, name, about);
  }
  return { header, arrays };
}

/**
 * Build a frame, the inverse of `unpack`. Arrays are {data, shape, dtype?}.
 * @param {Header} header @param {Record<string, {data: Numbers, shape: number[], dtype?: string}>} arrays
 * @returns {ArrayBuffer}
 */
export function pack(header, arrays = {}) {
  /** @type {Record<string, ArrayPlace>} */
  const about = {};
  let offset = 0;
  for (const [name, array] of Object.entries(arrays)) {
    about[name] = { dtype: array.dtype ?? kindOf(array.data), shape: array.shape, offset };
    offset += padded(array.data.byteLength);
  }
  const text = new TextEncoder().encode(JSON.stringify({ ...header, arrays: about }));
  const length = padded(4 + text.length) - 4;
  const bytes = new Uint8Array(4 + length + offset);
  new DataView(bytes.buffer).setUint32(0, length, true);
  bytes.fill(0x20, 4, 4 + length);
  bytes.set(text, 4);
  for (const [name, array] of Object.entries(arrays)) {
    const { buffer, byteOffset, byteLength } = array.data;
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), 4 + length + about[name].offset);
  }
  return bytes.buffer;
}

/**
 * An array as in a parsed frame, for sources that compute their answers.
 * @param {Numbers} data @param {number[]} shape
 * @returns {FrameArray}
 */
export function framed(data, shape, dtype = kindOf(data)) {
  return { data, shape, dtype, toFloat32: () => asFloat32(data, dtype) };
}

/** Decode a float16 (IEEE 754 binary16). @param {number} bits */
export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

/** Encode as float16, rounded to nearest, of numbers from 0 to 1. @param {ArrayLike<number>} numbers @returns {FrameArray["data"]} */
export function toHalf(numbers) {
  return Uint16Array.from(numbers, (number) => {
    if (!(number > 2 ** -25)) return 0;
    const exponent = Math.max(-14, Math.floor(Math.log2(number)));
    const steps = Math.round(number / 2 ** (exponent - 10)); // 1,024 to 2,048; fewer of a subnormal number
    return exponent === -14 && steps < 1024 ? steps : ((exponent + 15) << 10) + steps - 1024; // 2,048 carries over
  });
}

/** Encode as base64. @param {ArrayBuffer} buffer */
export function toBase64(buffer) {
  const bytes = new Uint8Array(buffer);
  let letters = "";
  for (let start = 0; start < bytes.length; start += 32768) letters += String.fromCharCode(...bytes.subarray(start, start + 32768));
  return btoa(letters);
}

/** Decode base64. @param {string} text */
export function fromBase64(text) {
  const letters = atob(text.trim());
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes.buffer;
}

/** @param {ArrayBuffer|ArrayBufferView} given @returns {{buffer: ArrayBuffer, start: number, size: number}} */
function whole(given) {
  if (ArrayBuffer.isView(given)) {
    // Typed arrays need aligned offsets: an unaligned view is copied.
    if (given.byteOffset % ALIGNMENT === 0) {
      return { buffer: /** @type {ArrayBuffer} */ (given.buffer), start: given.byteOffset, size: given.byteLength };
    }
    const copied = new Uint8Array(given.buffer, given.byteOffset, given.byteLength).slice();
    return { buffer: copied.buffer, start: 0, size: copied.byteLength };
  }
  return { buffer: given, start: 0, size: given.byteLength };
}

/** @param {ArrayBuffer} buffer @param {number} body @param {number} room @param {string} name @param {ArrayPlace} about */
function arrayAt(buffer, body, room, name, about) {
  const Kind = KINDS[/** @type {keyof typeof KINDS} */ (about.dtype)];
  if (!Kind) throw new Error(`Array ${name} has the unknown dtype ${about.dtype}.`);
  const count = about.shape.reduce((/** @type {number} */ all, /** @type {number} */ one) => all * one, 1);
  if (about.offset < 0 || about.offset + count * Kind.BYTES_PER_ELEMENT > room) {
    throw new Error(`Array ${name} extends past the end of its frame.`);
  }
  return framed(new Kind(buffer, body + about.offset, count), about.shape, about.dtype);
}

/** @type {Float32Array|null} */
let halves = null;

/** @param {Numbers} data @param {string} dtype */
function asFloat32(data, dtype) {
  if (data instanceof Float32Array) return data;
  if (dtype !== "f2") return Float32Array.from(data);
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => fromHalf(bits));
  const numbers = new Float32Array(data.length);
  for (let place = 0; place < data.length; place++) numbers[place] = halves[data[place]];
  return numbers;
}

/** @param {Numbers} data */
function kindOf(data) {
  const kinds = { Float32Array: "f4", Int32Array: "i4", Uint8Array: "u1", Uint16Array: "u2" };
  return kinds[/** @type {keyof typeof kinds} */ (data.constructor.name)];
}

/** @param {number} size */
function padded(size) {
  return Math.ceil(size / ALIGNMENT) * ALIGNMENT;
}
