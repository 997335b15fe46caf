// Reads a text of so many tokens in Node, with a model of the page or with onnxruntime-web, one thread:
//   node web_models.js page FOLDER TOKENS          FOLDER as regard.viewer.web_model writes it
//   node web_models.js onnx FILE TOKENS MODULE     MODULE: ort.wasm.min.mjs
// > {"milliseconds": …, "check": …}. Times are of the processor.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [peer, path, tokens, module] = process.argv.slice(2);
const count = Number(tokens);
const ids = Array.from({ length: count }, (_, place) => (place === 0 ? 101 : place === count - 1 ? 102 : 2000 + 37 * place));
const WARM = 5;
const ROUNDS = 15;

/** Every layer's queries, keys, values and outputs are kept, as for a reading. */
async function page() {
  const web = (name) => import(new URL(`../src/regard/web/${name}`, import.meta.url).href);
  await web("engine/node.js");
  const [{ kernel }, { manifestFrom }, { Model }, { ForwardPass }] = await Promise.all(["engine/kernel.js", "models/manifest.js", "models/model.js", "models/forward.js"].map(web));
  const manifest = manifestFrom(JSON.parse(readFileSync(join(path, "model.json"), "utf8")));
  const bytes = readFileSync(join(path, manifest.weights.file));
  const tokenizer = JSON.parse(readFileSync(join(path, manifest.tokenizer.file), "utf8"));
  const model = new Model(manifest, kernel().tensor("u8", [bytes.length], bytes), tokenizer);
  return async () => {
    const pass = new ForwardPass(model.layers, count);
    await pass.append(ids);
    return pass.states.at(-1);
  };
}

/** The states after the last layer alone. */
async function onnx() {
  const ort = await import(pathToFileURL(module).href);
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(readFileSync(path), { executionProviders: ["wasm"] });
  const feed = {
    ids: new ort.Tensor("int64", BigInt64Array.from(ids, BigInt), [1, count]),
    positions: new ort.Tensor("int64", BigInt64Array.from(ids, (_, place) => BigInt(place)), [1, count]),
    mask: new ort.Tensor("int32", new Int32Array(count).fill(1), [1, count]),
  };
  return async () => Object.values(await session.run(feed))[0].data;
}

const work = await { page, onnx }[peer]();
const times = [];
let states = null;
for (let round = -WARM; round < ROUNDS; round++) {
  const before = process.cpuUsage();
  states = await work();
  const { user, system } = process.cpuUsage(before);
  if (round >= 0) times.push((user + system) / 1000);
}
times.sort((one, other) => one - other);
process.stdout.write(JSON.stringify({ milliseconds: times[ROUNDS >> 2], check: Array.from(states.slice(0, 384)).reduce((sum, one) => sum + Math.abs(one), 0) }));
