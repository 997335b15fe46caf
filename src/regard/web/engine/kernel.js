/**
 * The C++ kernels in the page (native/wasm.cpp): arrays in the memory of a WebAssembly module, and functions over them.
 * `loadKernel` loads the module once; then every function answers at once.
 *
 * @typedef {"f16"|"bf16"|"f32"|"f64"|"u8"|"i32"|"i64"|"q8_0"|"q4_1"} Type  the last two are GGUF's blocks of 32 weights
 * @typedef {"f32"|"f64"} Real  what is computed with
 * @typedef {{address: number, type: Type, shape: number[], strides: number[]}} Tensor
 *   an array of up to four axes; strides count numbers, 0 repeats
 *
 * What decides the scores. Queries are (head, query, size) or (batch, head, query, size), their type is computed with;
 * keys may have fewer heads, which the queries share.
 * bias, mask         (head or 1, query or 1, key or 1): added, or u8, where 0 hides a key
 * relative           (head or 1, span), of the type of the queries: adds relative[i − j + offset + relativeZero]
 * sinks              (head), f64: extra logits without a value
 * first, last        (query), i32: the visible keys, [first, last); a second interval likewise
 * offset             position of the first query among the keys, for distances and `relative`
 * @typedef {{queries: Tensor, keys: Tensor, scale?: number, softcap?: number|null, bias?: Tensor|null, mask?: Tensor|null,
 *   relative?: Tensor|null, relativeZero?: number, sinks?: Tensor|null, first?: Tensor|null, last?: Tensor|null,
 *   secondFirst?: Tensor|null, secondLast?: Tensor|null, offset?: number}} Scores
 *
 * Of every query, (head, query) or (batch, head, query), of the type of the queries; logsumexp is f64.
 * @typedef {"rowMax"|"rowSum"|"logsumexp"|"entropy"|"peak"|"distance"} Statistic
 * @typedef {{rowMax: Tensor, rowSum: Tensor}} RowState  what weights are recomputed from
 * @typedef {keyof typeof STAGES} Stage
 * @typedef {keyof typeof ACTIVATIONS} Activation
 * @typedef {Float32Array|Float64Array|Int32Array|Uint8Array|Uint16Array|BigInt64Array} Numbers
 */

const TYPES = /** @type {const} */ (["f16", "bf16", "f32", "f64", "u8", "i32", "i64", "q8_0", "q4_1"]);
const BYTES = { f16: 2, bf16: 2, f32: 4, f64: 8, u8: 1, i32: 4, i64: 8, q8_0: 34 / 32, q4_1: 20 / 32 };
const ARRAYS = {
  f16: Uint16Array,
  bf16: Uint16Array,
  f32: Float32Array,
  f64: Float64Array,
  u8: Uint8Array,
  i32: Int32Array,
  i64: BigInt64Array,
  q8_0: Uint8Array,
  q4_1: Uint8Array,
};
const STAGES = { score: 0, scaled: 1, capped: 2, biased: 3, masked: 4, weight: 5 };
const POOLS = { sum: 0, max: 1 };
const ACTIVATIONS = { none: 0, relu: 1, gelu: 2, gelu_tanh: 3, silu: 4, tanh: 5, quick_gelu: 6 };
const QUANTISED = 32; // weights of a block
const DESCRIPTION = 10; // integers: address, type, shape, strides
const MOST = 2 ** 32 - 2 ** 16; // bytes that an address can count
const HELD = 96 << 20; // bytes of JavaScript arrays that stay copied

export const NO_SIMD =
  "This browser has no WebAssembly SIMD, which Regard computes with. Current versions of Chrome, Edge, Firefox and Safari have it.";
const NO_MEMORY = "There is not enough memory for this computation.";

/**
 * What the module exports; see native/wasm.cpp.
 * @typedef {{memory: WebAssembly.Memory, _initialize: () => void, allocate: (bytes: number) => number, release: (address: number) => void,
 *   descriptions: () => number,
 *   set_scores: (queries: number, keys: number, scale: number, softcap: number, bias: number, mask: number, relative: number,
 *     relativeZero: number, sinks: number, first: number, last: number, secondFirst: number, secondLast: number, offset: number) => void,
 *   attend: (values: number, output: number, rowMax: number, rowSum: number, logsumexp: number, entropy: number, peak: number,
 *     distance: number, topWeight: number, topIndex: number, top: number) => void,
 *   tile: (rowMax: number, rowSum: number, stage: number, output: number) => void,
 *   pooled: (rowMax: number, rowSum: number, rowEdges: number, rowCells: number, columnEdges: number, columnCells: number,
 *     pool: number, output: number) => void,
 *   column_sums: (rowMax: number, rowSum: number, output: number) => void,
 *   linear: (x: number, weight: number, bias: number, times: number, residual: number, output: number, activation: number) => void,
 *   norm: (x: number, weight: number, bias: number, output: number, epsilon: number, centred: number) => void,
 *   moments: (row: number, count: number, epsilon: number, centred: number, to: number) => void,
 *   rotary: (x: number, cosines: number, sines: number, output: number, interleaved: number) => void,
 *   gather: (matrix: number, rows: number, count: number, output: number) => void,
 *   sha256: (bytes: number, count: number, to: number) => void}} Exports
 */

export class Kernel {
  /** @type {Exports} */ #exports;
  #described = 0; // address
  #count = 0; // descriptions of this call
  /** @type {Set<Tensor>|null} */ #scope = null;
  /** @type {{numbers: object, tensor: Tensor, bytes: number}[]} least recently used first */
  #held = [];

  /** @param {WebAssembly.Module} module can be posted to a worker, which makes its own kernel of it */
  constructor(module) {
    this.module = module;
    this.#exports = /** @type {Exports} */ (/** @type {unknown} */ (new WebAssembly.Instance(module).exports));
    this.#exports._initialize();
    this.#described = this.#exports.descriptions() >>> 0;
  }

  /** Bytes of the module's memory; it grows and never shrinks. */
  get bytes() {
    return this.#exports.memory.buffer.byteLength;
  }

  /**
   * A contiguous array, with these numbers or with what the memory held. It exists until it is released or the scope
   * around it ends.
   * @param {Type} type @param {number[]} shape @param {ArrayLike<number>|Numbers} [numbers] bits for f16 and bf16, bytes for blocks
   * @returns {Tensor}
   */
  tensor(type, shape, numbers) {
    const count = shape.reduce((all, one) => all * one, 1);
    if (isQuantised(type) && shape[shape.length - 1] % QUANTISED) throw new Error(`Rows of ${type} have a multiple of ${QUANTISED} weights; these have ${shape[shape.length - 1]}.`);
    const address = this.#allocate(count * BYTES[type]);
    const tensor = { address, type, shape, strides: contiguous(shape) };
    this.#scope?.add(tensor);
    if (numbers) {
      const to = this.numbers(tensor);
      if (numbers.length !== to.length) throw new Error(`${numbers.length} numbers do not fill the shape ${shape.join(" × ")}.`);
      // Typed arrays convert while they copy.
      /** @type {{set: (from: ArrayLike<number>|Numbers) => void}} */ (to).set(numbers);
    }
    return tensor;
  }

  /** @param {Tensor} tensor */
  release(tensor) {
    this.#scope?.delete(tensor);
    this.#exports.release(tensor.address);
  }

  /**
   * The result of `work`; arrays that it makes are released when it ends, but for those that it keeps.
   * @template Result @param {() => Result} work synchronous @returns {Result}
   */
  scope(work) {
    const outer = this.#scope;
    const made = (this.#scope = new Set());
    try {
      return work();
    } finally {
      this.#scope = outer;
      for (const { address } of made) this.#exports.release(address);
    }
  }

  /** Keeps an array after the scope ends. @param {Tensor} tensor */
  keep(tensor) {
    this.#scope?.delete(tensor);
    return tensor;
  }

  /**
   * A copy of an array that JavaScript keeps and does not change: made once, and again if many others were made since.
   * Valid in this scope.
   * @param {ArrayLike<number>&object} numbers @param {Type} type @param {number[]} shape @returns {Tensor}
   */
  held(numbers, type, shape) {
    const place = this.#held.findIndex((copy) => copy.numbers === numbers && copy.tensor.type === type);
    const found = place < 0 ? { numbers, tensor: this.keep(this.tensor(type, shape, numbers)), bytes: numbers.length * BYTES[type] } : this.#held.splice(place, 1)[0];
    this.#held.push(found);
    let bytes = this.#held.reduce((sum, copy) => sum + copy.bytes, 0);
    // A call needs up to eight at once.
    while (bytes > HELD && this.#held.length > 8) {
      const [oldest] = this.#held.splice(0, 1);
      bytes -= oldest.bytes;
      this.#exports.release(oldest.tensor.address);
    }
    return found.tensor;
  }

  /**
   * The numbers of a contiguous array, in the module's memory: valid until the next array is made or function called,
   * because memory that grows is another.
   * @param {Tensor} tensor @returns {Numbers}
   */
  numbers({ address, type, shape, strides }) {
    if (contiguous(shape).some((step, axis) => shape[axis] > 1 && step !== strides[axis])) throw new Error("These numbers are not contiguous.");
    const count = shape.reduce((all, one) => all * one, 1);
    const length = isQuantised(type) ? count * BYTES[type] : count;
    return new ARRAYS[type](this.#exports.memory.buffer, address, length);
  }

  /** A copy of the numbers, in double precision. @param {Tensor} tensor */
  doubles(tensor) {
    return new Float64Array(/** @type {ArrayLike<number>} */ (this.numbers(tensor)));
  }

  /** A copy of the numbers, in single precision. @param {Tensor} tensor */
  floats(tensor) {
    return new Float32Array(/** @type {ArrayLike<number>} */ (this.numbers(tensor)));
  }

  /** Outputs, weights · values. @param {Scores} scores @param {Tensor} values (key head, key, size) @param {Tensor} [output] (head, query, size) */
  attend(scores, values, output = this.tensor(real(scores.queries), [...scores.queries.shape.slice(0, -1), last(values)])) {
    this.#setScores(scores);
    fits("values", { ...values, shape: values.shape.slice(0, -1) }, scores.keys.shape.slice(0, -1));
    fits("output", output, [...scores.queries.shape.slice(0, -1), last(values)]);
    this.#run(() => this.#exports.attend(this.#describe(values), this.#describe(output), 0, 0, 0, 0, 0, 0, 0, 0, 0));
    return output;
  }

  /**
   * Statistics of every query, and with `values` outputs in the same pass.
   * @template {Statistic} Name @param {Scores} scores @param {Name[]} names @param {Tensor|null} [values]
   * @returns {Record<Name, Tensor> & {output: Tensor|null}}
   */
  statistics(scores, names, values = null) {
    const rows = scores.queries.shape.slice(0, -1);
    const type = real(scores.queries);
    const found = /** @type {Record<Statistic, Tensor>} */ (
      Object.fromEntries(names.map((name) => [name, this.tensor(name === "logsumexp" ? "f64" : type, rows)]))
    );
    const output = values && this.tensor(type, [...rows, last(values)]);
    this.#setScores(scores);
    const at = (/** @type {Statistic} */ name) => found[name]?.address ?? 0;
    this.#run(() =>
      this.#exports.attend(this.#describe(values), this.#describe(output), at("rowMax"), at("rowSum"), at("logsumexp"), at("entropy"), at("peak"), at("distance"), 0, 0, 0),
    );
    return { ...found, output };
  }

  /** The largest weights of every query and their keys, (head, query, count). @param {Scores} scores @param {number} count */
  top(scores, count) {
    const shape = [...scores.queries.shape.slice(0, -1), count];
    const [weight, key] = [this.tensor(real(scores.queries), shape), this.tensor("i64", shape)];
    this.#setScores(scores);
    this.#run(() => this.#exports.attend(0, 0, 0, 0, 0, 0, 0, 0, weight.address, key.address, count));
    return { weight, key };
  }

  /** Any stage of the scores, (head, query, key). @param {Scores} scores @param {Stage} stage @param {RowState|null} [state] for weights */
  tile(scores, stage, state = stage === "weight" ? this.statistics(scores, ["rowMax", "rowSum"]) : null) {
    const output = this.tensor(real(scores.queries), [...scores.queries.shape.slice(0, -1), scores.keys.shape[scores.keys.shape.length - 2]]);
    this.#setScores(scores);
    const { rowMax, rowSum } = this.#addresses(scores, state);
    this.#run(() => this.#exports.tile(rowMax, rowSum, STAGES[stage], output.address));
    return output;
  }

  /**
   * The sum or the largest weight of every cell, (head, row cell, column cell). Cell i has the queries (keys) from
   * edges[i] to edges[i + 1].
   * @param {Scores} scores @param {RowState} state @param {number[]} rowEdges @param {number[]} columnEdges @param {keyof typeof POOLS} pool
   */
  pooled(scores, state, rowEdges, columnEdges, pool) {
    const [rows, columns] = [rowEdges.length - 1, columnEdges.length - 1];
    const { shape } = scores.queries;
    const output = this.tensor(real(scores.queries), [...shape.slice(0, -2), rows, columns]);
    const [of, to] = [this.#edges(rowEdges, shape[shape.length - 2]), this.#edges(columnEdges, scores.keys.shape[scores.keys.shape.length - 2])];
    this.#setScores(scores);
    const { rowMax, rowSum } = this.#addresses(scores, state);
    this.#run(() => this.#exports.pooled(rowMax, rowSum, of.address, rows, to.address, columns, POOLS[pool], output.address));
    return output;
  }

  /** The weight that every key receives, (head, key). @param {Scores} scores @param {RowState} state */
  columnSums(scores, state) {
    const shape = [...scores.queries.shape.slice(0, -2), scores.keys.shape[scores.keys.shape.length - 2]];
    const output = this.tensor(real(scores.queries), shape);
    this.#setScores(scores);
    const { rowMax, rowSum } = this.#addresses(scores, state);
    this.#run(() => this.#exports.column_sums(rowMax, rowSum, this.#describe({ ...output, shape: [...shape, 1], strides: contiguous([...shape, 1]) })));
    return output;
  }

  /**
   * activation(x · weightᵀ + bias) · times + residual, by rows. Double precision if x or the weight has it.
   * @param {{x: Tensor, weight: Tensor, bias?: Tensor|null, times?: Tensor|null, residual?: Tensor|null, activation?: Activation,
   *   output?: Tensor}} given x (row, in), weight (out, in), bias (out), times, residual and output (row, out)
   */
  linear({ x, weight, bias = null, times = null, residual = null, activation = "none", output }) {
    const [rows, out] = [x.shape[0], weight.shape[0]];
    fits("weight", weight, [out, last(x)]);
    if (isQuantised(weight.type) && (weight.strides[0] !== last(weight) || weight.strides[1] !== 1)) throw new Error("A quantised weight has to be contiguous.");
    const to = output ?? this.tensor(x.type === "f64" || weight.type === "f64" ? "f64" : "f32", [rows, out]);
    if (bias) fits("bias", bias, [out]);
    for (const [name, tensor] of /** @type {[string, Tensor|null][]} */ ([["times", times], ["residual", residual], ["output", to]])) // prettier-ignore
      if (tensor) fits(name, tensor, [rows, out]);
    const at = (/** @type {Tensor|null} */ tensor) => this.#describe(tensor);
    this.#run(() => this.#exports.linear(at(x), at(weight), at(bias), at(times), at(residual), at(to), ACTIVATIONS[activation]));
    return to;
  }

  /**
   * Layer norm, or root-mean-square norm, by rows.
   * @param {{x: Tensor, kind: "layer"|"rms", epsilon: number, weight?: Tensor|null, bias?: Tensor|null, output?: Tensor}} given
   */
  norm({ x, kind, epsilon, weight = null, bias = null, output = this.tensor(real(x), x.shape) }) {
    for (const tensor of [weight, bias]) if (tensor) fits("weight", tensor, [last(x)]);
    fits("output", output, x.shape);
    const at = (/** @type {Tensor|null} */ tensor) => this.#describe(tensor);
    this.#run(() => this.#exports.norm(at(x), at(weight), at(bias), at(output), epsilon, Number(kind === "layer")));
    return output;
  }

  /** What a norm subtracts and divides by. @param {ArrayLike<number>} x @param {{kind: "layer"|"rms", epsilon: number}} norm */
  moments(x, { kind, epsilon }) {
    return this.scope(() => {
      const [row, found] = [this.tensor("f64", [x.length], x), this.tensor("f64", [2])];
      this.#run(() => this.#exports.moments(row.address, x.length, epsilon, Number(kind === "layer"), found.address));
      const [mean, size] = this.doubles(found);
      return { mean, size };
    });
  }

  /**
   * Every pair of numbers turned by its token's angle (RoPE); what follows the last pair is copied.
   * @param {{x: Tensor, cosines: Tensor, sines: Tensor, interleaved?: boolean, output?: Tensor}} given
   *   x (head, token, size), cosines and sines (token, pairs); the output may be x itself
   */
  rotary({ x, cosines, sines, interleaved = false, output = this.tensor(real(x), x.shape) }) {
    for (const angles of [cosines, sines]) fits("cosines", angles, [x.shape[x.shape.length - 2], last(cosines)]);
    fits("output", output, x.shape);
    const at = (/** @type {Tensor} */ tensor) => this.#describe(tensor);
    this.#run(() => this.#exports.rotary(at(x), at(cosines), at(sines), at(output), Number(interleaved)));
    return output;
  }

  /** Some rows of a matrix of any type. @param {Tensor} matrix @param {ArrayLike<number>} rows @param {Real} [type] */
  gather(matrix, rows, type = "f32") {
    for (let place = 0; place < rows.length; place++)
      if (!(rows[place] >= 0 && rows[place] < matrix.shape[0])) throw new Error(`Row ${rows[place]} is not one of ${matrix.shape[0]}.`);
    const [output, places] = [this.tensor(type, [rows.length, last(matrix)]), this.tensor("i32", [rows.length], rows)];
    this.#run(() => this.#exports.gather(this.#describe(matrix), places.address, rows.length, this.#describe(output)));
    this.release(places);
    return output;
  }

  /** The SHA-256 digest of a file in the module's memory, in hexadecimal. @param {Tensor} bytes u8 */
  sha256(bytes) {
    return this.scope(() => {
      const digest = this.tensor("u8", [32]);
      this.#run(() => this.#exports.sha256(bytes.address, bytes.shape[0], digest.address));
      return Array.from(/** @type {Uint8Array} */ (this.numbers(digest)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    });
  }

  /** @param {number} bytes */
  #allocate(bytes) {
    const address = bytes < MOST ? this.#exports.allocate(Math.max(1, bytes)) >>> 0 : 0;
    if (!address) throw new Error(NO_MEMORY);
    return address;
  }

  /** Calls the module; it traps when its own memory does not suffice. @param {() => void} call */
  #run(call) {
    try {
      call();
    } catch (error) {
      throw error instanceof WebAssembly.RuntimeError ? new Error(NO_MEMORY, { cause: error }) : error;
    } finally {
      this.#count = 0;
    }
  }

  /** The address of an array's description; 0 without one. @param {Tensor|null|undefined} tensor */
  #describe(tensor) {
    if (!tensor) return 0;
    const address = this.#described + this.#count++ * DESCRIPTION * 4;
    const numbers = new Int32Array(this.#exports.memory.buffer, address, DESCRIPTION);
    const missing = 4 - tensor.shape.length;
    numbers.set([tensor.address, TYPES.indexOf(tensor.type), 1, 1, 1, 1, 0, 0, 0, 0]);
    numbers.set(tensor.shape, 2 + missing);
    numbers.set(tensor.strides, 6 + missing);
    return address;
  }

  /** @param {Scores} scores */
  #setScores(scores) {
    const { queries, keys, bias, mask, relative, sinks, offset = 0, relativeZero = 0 } = scores;
    const rows = queries.shape[queries.shape.length - 2];
    const columns = keys.shape[keys.shape.length - 2];
    const heads = queries.shape[queries.shape.length - 3] ?? 1;
    const keyHeads = keys.shape[keys.shape.length - 3] ?? 1;
    if (last(queries) !== last(keys) || heads % keyHeads || queries.shape.length !== keys.shape.length)
      throw new Error(`Queries of shape ${queries.shape.join(" × ")} do not fit keys of shape ${keys.shape.join(" × ")}.`);
    if (relative) {
      const lowest = offset + relativeZero - (columns - 1);
      if (lowest < 0 || offset + relativeZero + rows > last(relative) || relative.type !== queries.type) throw new Error("`relative` does not fit queries and keys.");
    }
    for (const end of [scores.first, scores.last, scores.secondFirst, scores.secondLast]) if (end) fits("first, last", end, [rows]);
    if (sinks) fits("sinks", sinks, [heads]);
    for (const dense of [bias, mask]) if (dense) covers(dense, [heads, rows, columns]);
    const at = (/** @type {Tensor|null|undefined} */ tensor) => tensor?.address ?? 0;
    const table = relative && { ...relative, shape: [relative.shape[0], 1, 1, last(relative)], strides: [relative.shape[0] > 1 ? relative.strides[0] : 0, 0, 0, 1] };
    this.#run(() =>
      this.#exports.set_scores(
        this.#describe(queries),
        this.#describe(keys),
        scores.scale ?? last(queries) ** -0.5,
        scores.softcap ?? 0,
        this.#describe(bias && broadcast(bias)),
        this.#describe(mask && broadcast(mask)),
        this.#describe(table),
        relativeZero,
        at(sinks),
        at(scores.first),
        at(scores.last),
        at(scores.secondFirst),
        at(scores.secondLast),
        offset,
      ),
    );
  }

  /** @param {Scores} scores @param {RowState|null} state */
  #addresses({ queries }, state) {
    for (const rows of state ? [state.rowMax, state.rowSum] : []) {
      fits("the row state", rows, queries.shape.slice(0, -1));
      if (rows.type !== queries.type) throw new Error(`The row state is ${rows.type}, the queries are ${queries.type}.`);
    }
    return { rowMax: state?.rowMax.address ?? 0, rowSum: state?.rowSum.address ?? 0 };
  }

  /** @param {number[]} edges @param {number} most */
  #edges(edges, most) {
    edges.forEach((edge, place) => {
      if (!(edge > (edges[place - 1] ?? -1) && edge <= most)) throw new Error(`The edges of cells have to rise, from 0 to ${most} at most.`);
    });
    return this.tensor("i64", [edges.length], BigInt64Array.from(edges, BigInt));
  }
}

/** Part of an array, without a copy: along one axis from `first` to `stop`. @param {Tensor} tensor @param {number} axis @param {number} first @param {number} stop @returns {Tensor} */
export function part({ address, type, shape, strides }, axis, first, stop) {
  if (!(first >= 0 && stop >= first && stop <= shape[axis])) throw new Error(`${first} to ${stop} is not within ${shape[axis]}.`);
  const start = address + first * strides[axis] * BYTES[type];
  return { address: start, type, shape: shape.map((size, place) => (place === axis ? stop - first : size)), strides };
}

/** (row, heads · size) as (head, row, size), without a copy. @param {Tensor} tensor @param {number} heads @returns {Tensor} */
export function byHead({ address, type, shape: [rows, width], strides: [row] }, heads) {
  if (width % heads) throw new Error(`A width of ${width} does not divide into ${heads} heads.`);
  return { address, type, shape: [heads, rows, width / heads], strides: [width / heads, row, 1] };
}

/** A matrix with its axes swapped, without a copy. @param {Tensor} tensor @returns {Tensor} */
export function transposed({ address, type, shape: [rows, columns], strides: [row, column] }) {
  return { address, type, shape: [columns, rows], strides: [column, row] };
}

/** @type {Kernel|null} */
let loaded = null;
/** @type {Promise<Kernel>|null} */
let loading = null;

/**
 * Loads the module, once: from an address, from its bytes (as they are or gzipped), or as another thread compiled it.
 * @param {string|ArrayBuffer|ArrayBufferView<ArrayBuffer>|WebAssembly.Module} from
 */
export function loadKernel(from) {
  loading ??= compiled(from).then((module) => (loaded = new Kernel(module)));
  loading.catch(() => (loading = null)); // another attempt may succeed
  return loading;
}

/** The kernel, once it is loaded. */
export function kernel() {
  if (!loaded) throw new Error("The kernel is not loaded.");
  return loaded;
}

/** @param {string|ArrayBuffer|ArrayBufferView<ArrayBuffer>|WebAssembly.Module} from */
async function compiled(from) {
  if (from instanceof WebAssembly.Module) return from;
  if (!hasSimd()) throw new Error(NO_SIMD);
  const bytes = typeof from === "string" ? await fetched(from) : from;
  return WebAssembly.compile(isGzip(bytes) ? await inflated(bytes) : bytes);
}

/** @param {string} address */
async function fetched(address) {
  const reply = await fetch(address);
  if (!reply.ok) throw new Error(`The kernel could not be loaded: the server answered ${reply.status}.`);
  return reply.arrayBuffer();
}

/** Whether this browser has WebAssembly SIMD: a module with one such instruction is valid. */
function hasSimd() {
  const smallest = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
  return typeof WebAssembly === "object" && WebAssembly.validate(Uint8Array.from(smallest));
}

/** @param {ArrayBuffer|ArrayBufferView<ArrayBuffer>} bytes */
function isGzip(bytes) {
  const view = ArrayBuffer.isView(bytes) ? new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new DataView(bytes);
  return view.byteLength > 2 && view.getUint16(0) === 0x1f8b;
}

/** @param {ArrayBuffer|ArrayBufferView<ArrayBuffer>} bytes */
async function inflated(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** @param {Type} type */
function isQuantised(type) {
  return type === "q8_0" || type === "q4_1";
}

/** @param {number[]} shape */
function contiguous(shape) {
  const strides = shape.map(() => 1);
  for (let axis = shape.length - 2; axis >= 0; axis--) strides[axis] = strides[axis + 1] * shape[axis + 1];
  return strides;
}

/** The size of the last axis. @param {Tensor} tensor */
function last({ shape }) {
  return shape[shape.length - 1];
}

/** The type that is computed with. @param {Tensor} tensor @returns {Real} */
function real({ type }) {
  return type === "f64" ? "f64" : "f32";
}

/** @param {string} name @param {Tensor} tensor @param {number[]} shape */
function fits(name, tensor, shape) {
  if (tensor.shape.length !== shape.length || shape.some((size, axis) => size !== tensor.shape[axis]))
    throw new Error(`The shape of ${name} is ${tensor.shape.join(" × ")}; expected ${shape.join(" × ")}.`);
}

/** @param {Tensor} tensor @param {number[]} full of which each axis may be 1 */
function covers({ shape }, full) {
  if (shape.length !== 3 || full.some((size, axis) => shape[axis] !== size && shape[axis] !== 1))
    throw new Error(`A bias or mask of shape ${shape.join(" × ")} does not cover ${full.join(" × ")}.`);
}

/** Axes of one number are repeated. @param {Tensor} tensor @returns {Tensor} */
function broadcast(tensor) {
  return { ...tensor, strides: tensor.strides.map((stride, axis) => (tensor.shape[axis] > 1 ? stride : 0)) };
}
