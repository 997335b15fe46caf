// One task of benchmarks/web.py in Node: node web.js WEB TASK [sizes] > {"milliseconds": …, "check": …}.
// WEB is the folder of the page's modules, of this commit or of one before the kernels. Times are of the processor: that
// of others who use the machine is left out.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [web, task, ...sizes] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(web, path)).href);
const hasKernel = existsSync(join(web, "engine/node.js"));
if (hasKernel) await load("engine/node.js");
const WARM = 300; // milliseconds: until the browser's second compiler is done
const ROUNDS = 15;

/** The same numbers every time, −1 to 1. */
function chance(seed) {
  let state = seed;
  return () => ((state = (state * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff) * 2 - 1;
}
const next = chance(1);
const numbers = (count, size = 1) => Float32Array.from({ length: count }, () => next() * size);

/** The bits of float16, of numbers in its range. */
function half(number) {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, number);
  const bits = view.getUint32(0);
  const exponent = ((bits >> 23) & 255) - 112;
  return exponent <= 0 ? 0 : ((bits >> 16) & 0x8000) | (exponent << 10) | ((bits >> 13) & 1023);
}

function processorTime() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** A layer as a one-file page stores it, decoded anew each time: nothing of the last round is known. */
async function mapOf(count, cells) {
  const [layers, { framed }] = await Promise.all([load("sources/layer.js"), load("sources/frames.js")]);
  const stored = () => framed(Uint16Array.from(numbers(count * 64, 1.5), half), [1, count, 64], "f2");
  const [q, k] = [stored(), stored()];
  const region = { rows: [0, count], columns: [0, count], shape: [cells, cells], pool: "mean" };
  return {
    before: () => layers.layerFrom({ header: { heads: [0], key_heads: [0], scale: 0.125 }, arrays: { q, k } }),
    work: (layer) =>
      hasKernel
        ? layers.pooledWeights(layer, 0, region)
        : layers.tileOf((query, from, to, into) => layers.weightsOfRow(layer, 0, query, from, to, into), region),
    check: (cells) => cells.reduce((sum, one) => sum + one, 0),
  };
}

/** One token through a block of MiniLM's size. */
async function block() {
  const [blocks, { framed }] = await Promise.all([load("maths/block.js"), load("sources/frames.js")]);
  const [width, wide, heads] = [384, 1536, 12];
  const shapes = { w_q: [width, width], w_k: [width, width], w_v: [width, width], w_o: [width, width], w_up: [wide, width], w_down: [width, wide] };
  const vectors = { b_q: width, b_k: width, b_v: width, b_o: width, b_up: wide, b_down: width, norm_1: width, norm_1_bias: width, norm_2: width, norm_2_bias: width };
  const arrays = Object.fromEntries([
    ...Object.entries(shapes).map(([name, [out, into]]) => [name, framed(numbers(out * into, 0.05), [out, into])]),
    ...Object.entries(vectors).map(([name, size]) => [name, framed(numbers(size), [size])]),
  ]);
  const norm = { kind: "layer", epsilon: 1e-12 };
  const of = blocks.blockFrom({ header: { heads, key_heads: heads, norm_first: false, activation: "gelu", norms: { norm_1: norm, norm_2: norm } }, arrays });
  const [x, concatenated] = [numbers(width), numbers(width)];
  return {
    work: () => {
      const input = blocks.inputOf(of, x);
      for (let head = 0; head < heads; head++) for (const letter of ["q", "k", "v"]) blocks.projectedTo(of, letter, head, input);
      return blocks.afterHeads(of, x, concatenated);
    },
    check: ({ result }) => result.reduce((sum, one) => sum + Math.abs(one), 0),
  };
}

/** activation-free x · Wᵀ, the weight of this type. */
async function linear(rows, width, out, type) {
  const { kernel } = await load("engine/kernel.js");
  const bytes = { f32: 4, f16: 2, q8_0: 34 / 32, q4_1: 20 / 32 }[type];
  const stored = Uint8Array.from({ length: width * out * bytes }, () => 128 + 127 * next());
  // Scales of blocks, and exponents of float16, in the middle of their range.
  const step = { f16: 2, q8_0: 34, q4_1: 20 }[type];
  for (let at = 1; step && at < stored.length; at += step) stored[at] = 0x30;
  for (let at = 3; type === "q4_1" && at < stored.length; at += step) stored[at] = 0xb4;
  const given = type === "f32" ? numbers(width * out) : type === "f16" ? new Uint16Array(stored.buffer) : stored;
  const weight = kernel().tensor(type, [out, width], given);
  const x = kernel().tensor("f32", [rows, width], numbers(rows * width));
  return { work: () => kernel().scope(() => kernel().numbers(kernel().linear({ x, weight }))[0]), check: Number };
}

async function attention(heads, count, size, type) {
  const { kernel } = await load("engine/kernel.js");
  const [queries, keys, values] = [0, 1, 2].map(() => kernel().tensor(type, [heads, count, size], numbers(heads * count * size)));
  return { work: () => kernel().scope(() => kernel().numbers(kernel().attend({ queries, keys }, values))[0]), check: Number };
}

const TASKS = {
  tile: () => mapOf(512, 512),
  map: (count) => mapOf(Number(count), 512),
  block,
  linear: (rows, width, out, type) => linear(Number(rows), Number(width), Number(out), type),
  attention: (heads, count, size, type) => attention(Number(heads), Number(count), Number(size), type),
};

const { before = () => null, work, check } = await TASKS[task](...sizes);
let took = 0;
let found = null;
let calls = 0;
for (; took < WARM; calls++) {
  const given = before();
  const start = processorTime();
  found = await work(given);
  took += processorTime() - start;
}
const times = [];
if (took / calls > 5000) times.push(took / calls); // warm long before it ended
const together = Math.max(1, Math.round(20 / (took / calls)));
for (let round = 0; times.length < ROUNDS && (round === 0 || times[0] < 5000); round++) {
  const given = Array.from({ length: together }, before);
  const start = processorTime();
  for (const one of given) await work(one);
  times.push((processorTime() - start) / together);
}
times.sort((one, other) => one - other);
process.stdout.write(JSON.stringify({ milliseconds: times[times.length >> 2], check: check(found) }));
