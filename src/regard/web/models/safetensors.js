/**
 * Safetensors files: 8 bytes of length, a JSON header, then the numbers without gaps. Every claim of the header is
 * compared with the size of the file: see `regard/models/files/safetensors_file.py`, which says the same.
 */
import { describe } from "./tokenizers/components.js";

/** @typedef {import("../engine/kernel.js").Type} Type */
/** @typedef {{type: Type, shape: number[], start: number, stop: number}} StoredTensor  start, stop: bytes from the beginning of the file */

/** @type {Record<string, number>} bytes of a number */
const SIZES = { F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U64: 8, U32: 4, U16: 2, U8: 1, BOOL: 1, F8_E4M3: 1, F8_E5M2: 1, F8_E8M0: 1, C64: 8 }; // prettier-ignore
/** @type {Record<string, Type>} what is computed with */
const FLOATS = { F32: "f32", F16: "f16", BF16: "bf16" };
const LONGEST_HEADER = 2 ** 25; // bytes
const MOST_AXES = 16;
export const TRUNCATED = "It may be truncated: load it again.";

/**
 * The tensors of a file by name.
 * @param {Uint8Array} file all its bytes @param {string} name of the file, for messages
 * @returns {Map<string, StoredTensor>}
 */
export function tensorsOfSafetensors(file, name) {
  const broken = (/** @type {string} */ why, fix = "") => new Error(`${name} is broken: ${why}.${fix && ` ${fix}`}`);
  if (file.length < 8) throw broken(`it has ${file.length} bytes; a safetensors file begins with 8 bytes for the length of its header`);
  const length = Number(new DataView(file.buffer, file.byteOffset, 8).getBigUint64(0, true));
  if (length > Math.min(LONGEST_HEADER, file.length - 8)) {
    const allowed = length > file.length - 8 ? `the file has ${file.length}` : `at most ${LONGEST_HEADER} are read`;
    throw broken(`its header claims ${length} bytes, ${allowed}`, TRUNCATED);
  }
  const first = 8 + length;
  const entries = objectIn(file.subarray(8, first));
  if (!entries) throw broken("its header is not a JSON object");
  /** @type {{name: string, type: string, shape: number[], start: number, stop: number}[]} */
  const stored = [];
  for (const [tensor, entry] of Object.entries(entries)) {
    if (tensor === "__metadata__") continue;
    const { dtype, shape, data_offsets: offsets } = Object(entry);
    const short = describe(tensor);
    if (typeof dtype !== "string" || !Object.hasOwn(SIZES, dtype)) throw broken(`tensor ${short} is of type ${describe(dtype)}, which is not a type of safetensors`);
    if (!areCounts(shape) || shape.length > MOST_AXES) throw broken(`tensor ${short} has shape ${describe(shape)}`);
    if (!areCounts(offsets) || offsets.length !== 2 || offsets[0] > offsets[1]) throw broken(`tensor ${short} has data_offsets ${describe(offsets)}`);
    const [start, stop] = offsets;
    if (stop > file.length - first) throw broken(`tensor ${short} ends at byte ${stop} of the data, which has ${file.length - first}`, TRUNCATED);
    if (shape.reduce((all, size) => all * size, SIZES[dtype]) !== stop - start)
      throw broken(`tensor ${short} of shape ${shape.join(" × ")} in ${dtype} does not take ${stop - start} bytes`);
    stored.push({ name: tensor, type: dtype, shape, start: first + start, stop: first + stop });
  }
  // Tensors cover the data without overlaps or gaps.
  let end = first;
  let before = "the header";
  for (const { name: tensor, start, stop } of stored.sort((one, other) => one.start - other.start || one.stop - other.stop)) {
    if (start < end) throw broken(`tensors ${describe(before)} and ${describe(tensor)} overlap`);
    if (start > end) throw broken(`${start - end} bytes before tensor ${describe(tensor)} belong to no tensor`);
    [end, before] = [stop, tensor];
  }
  if (end < file.length) throw broken(`its last ${file.length - end} bytes belong to no tensor`);
  const tensors = new Map();
  for (const { name: tensor, type, ...place } of stored) {
    if (!Object.hasOwn(FLOATS, type)) throw new Error(`Tensor ${describe(tensor)} of ${name} is of type ${type}; a page computes with ${Object.keys(FLOATS).join(", ")}.`);
    tensors.set(tensor, { ...place, type: FLOATS[type] });
  }
  return tensors;
}

/** @param {Uint8Array} bytes @returns {Record<string, unknown>|null} */
function objectIn(bytes) {
  try {
    const value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** @param {unknown} value @returns {value is number[]} */
function areCounts(value) {
  return Array.isArray(value) && value.every((number) => Number.isSafeInteger(number) && number >= 0);
}
