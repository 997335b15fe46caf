/** The worker that runs a model, so that typing never waits for it: see messages.d.ts for what it is asked. */
import { kernel, loadKernel } from "../engine/kernel.js";
import { pack } from "../sources/frames.js";
import { manifestFrom } from "./manifest.js";
import { Model } from "./model.js";
import { modelSource } from "./source.js";
import { fileFromBlocks, keptBytes, loadFile } from "./store.js";

/**
 * @typedef {import("./messages.js").Tasks} Tasks
 * @typedef {import("./messages.js").Task} Task
 * @typedef {import("./messages.js").Request} Request
 * @typedef {import("./messages.js").Reply} Reply
 * @typedef {import("./messages.js").FileFrom} FileFrom
 * @typedef {import("./manifest.js").ModelFile} ModelFile
 * @typedef {{signal: AbortSignal, news: (said: News) => void}} How
 */

/** One model and its readings, behind a port. @param {import("./messages.js").Port<Request, Reply>} port */
export function serve(port) {
  /** @type {Model|null} */
  let model = null;
  /** @type {Map<number, ReturnType<typeof modelSource>>} */
  const readings = new Map();
  let count = 0;
  /** @type {Map<number, AbortController>} */
  const running = new Map();

  function opened() {
    if (!model) throw new Error("The model is not loaded.");
    return model;
  }

  /** @param {import("./reading.js").Reading} reading */
  function keep(reading) {
    const source = modelSource(reading);
    readings.set(++count, source);
    return { reading: count, description: source.description };
  }

  /** @type {{[Name in Task]: (asked: Tasks[Name]["asks"], how: How) => Promise<Tasks[Name]["gives"]>}} */
  const tasks = {
    async kept({ manifest }) {
      const { weights, tokenizer } = manifestFrom(manifest);
      return { bytes: (await keptBytes(weights)) + (tokenizer ? await keptBytes(tokenizer) : 0) };
    },
    async open({ module, manifest, weights, tokenizer }, how) {
      await loadKernel(module);
      model?.release();
      model = null;
      const loaded = await loadModel(manifestFrom(manifest), weights, tokenizer, how);
      model = loaded.model;
      return { name: model.name, writes: model.writes, kept: loaded.kept };
    },
    read: async ({ text }, { signal }) => keep(await withRoom(opened(), text, () => opened().read(text, { signal }))),
    async write({ text, options }, { signal, news }) {
      let [written, tokens] = ["", 0];
      const onToken = (/** @type {string} */ piece) => {
        written += piece;
        tokens += 1;
        const most = options.tokens ?? 64;
        news({ text: written, progress: tokens / most, message: `${opened().name} is writing: ${tokens} of at most ${most} tokens.` });
      };
      return keep(await opened().generate(text, { ...options, signal, onToken }));
    },
    async ask({ reading, kind, parameters }, { signal }) {
      const source = readings.get(reading);
      if (!source) throw new Error("This reading is closed.");
      const { header, arrays } = await source.ask(kind, parameters, { signal });
      return { frame: pack(header, arrays) };
    },
    async close({ reading }) {
      readings.delete(reading);
      return {};
    },
    memory: async () => ({ bytes: kernel().bytes }),
  };

  /** @template {Task} Name @param {{id: number, task: Name} & Tasks[Name]["asks"]} request */
  async function run({ id, task, ...asked }) {
    const cancel = new AbortController();
    running.set(id, cancel);
    const news = (/** @type {News} */ said) => port.postMessage({ id, news: said });
    try {
      const result = await tasks[task](/** @type {Tasks[Name]["asks"]} */ (/** @type {unknown} */ (asked)), { signal: cancel.signal, news });
      port.postMessage({ id, result }, "frame" in result ? [/** @type {ArrayBuffer} */ (result.frame)] : []);
    } catch (error) {
      const { message, name, tokens, fits } = /** @type {import("./messages.js").Failure} */ (error);
      port.postMessage({ id, error: { message: message || String(error), name, tokens, fits } });
    } finally {
      running.delete(id);
    }
  }

  port.onmessage = ({ data }) => {
    if ("cancel" in data) running.get(data.cancel)?.abort();
    else void run(data);
  };
}

/** @param {import("./manifest.js").Manifest} manifest @param {FileFrom} weights @param {FileFrom|null} tokenizer @param {How} how */
async function loadModel(manifest, weights, tokenizer, { signal, news }) {
  const { name } = manifest;
  const size = manifest.weights.size;
  let shown = -1;
  const onProgress = (/** @type {number} */ bytes) => {
    const percent = Math.floor((100 * bytes) / size);
    if (percent === shown) return;
    shown = percent;
    news({ message: `Loading ${name}: ${percent} %.`, progress: bytes / size });
  };
  let content = null;
  if (manifest.tokenizer && tokenizer) {
    const { bytes } = await fileOf(manifest.tokenizer, tokenizer, { signal });
    content = jsonIn(/** @type {Uint8Array} */ (kernel().numbers(bytes)), manifest.tokenizer.file);
    kernel().release(bytes);
  }
  const { bytes, kept } = await fileOf(manifest.weights, weights, { signal, onProgress });
  try {
    const model = new Model(manifest, bytes, content);
    model.measureRounding();
    return { model, kept };
  } catch (error) {
    kernel().release(bytes);
    throw error;
  }
}

/** @param {ModelFile} file @param {FileFrom} from @param {import("./store.js").How} how */
async function fileOf(file, from, how) {
  return "address" in from ? loadFile(file, from.address, how) : { bytes: fileFromBlocks(file, from.blocks), kept: true };
}

/** @param {Uint8Array} bytes @param {string} name @returns {unknown} */
function jsonIn(bytes, name) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new Error(`${name} is not JSON.`);
  }
}

/** Says of a text that is too long how much of it can be read. @template Result @param {Model} model @param {string} text @param {() => Promise<Result>} read */
async function withRoom(model, text, read) {
  try {
    return await read();
  } catch (error) {
    if (error instanceof Error && "tokens" in error) throw Object.assign(error, { fits: model.tokeniser.beginning(text, model.manifest.longest).length });
    throw error;
  }
}

// In a worker, which has no document; tests import this module without one, in Node.
if (typeof document === "undefined" && "WorkerGlobalScope" in globalThis) serve(/** @type {import("./messages.js").Port<Request, Reply>} */ (/** @type {unknown} */ (globalThis)));
