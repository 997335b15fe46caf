/** The page's side of a model that runs in a worker: see messages.d.ts. */
import { loadKernel } from "../engine/kernel.js";
import { unpack } from "../sources/frames.js";

/**
 * @typedef {import("./messages.js").Tasks} Tasks
 * @typedef {import("./messages.js").Task} Task
 * @typedef {import("./messages.js").Request} Request
 * @typedef {import("./messages.js").Reply} Reply
 * @typedef {{signal?: AbortSignal, news?: (said: News) => void}} How
 * @typedef {{take: (result: Tasks[Task]["gives"]) => void, fail: (error: Error) => void, news?: (said: News) => void}} Waiting
 * @typedef {import("./messages.js").Port<Reply, Request> & {onerror?: unknown, terminate?: () => void}} WorkerPort
 */

/**
 * A worker from a script of one file, or from the address of models/worker.js. Both begin as a Blob, which is all that
 * the page's policy allows; from an address it imports the modules as they are.
 * @param {{script: string}|{address: string}} from @returns {WorkerPort}
 */
export function startWorker(from) {
  const isModule = "address" in from;
  const content = isModule ? `import ${JSON.stringify(new URL(from.address, location.href).href)};` : from.script;
  const blob = URL.createObjectURL(new Blob([content], { type: "text/javascript" }));
  try {
    return /** @type {WorkerPort} */ (/** @type {unknown} */ (new Worker(blob, isModule ? { type: "module" } : {})));
  } finally {
    setTimeout(() => URL.revokeObjectURL(blob), 10_000); // a module worker loads it later
  }
}

export class ModelClient {
  /** @type {Map<number, Waiting>} */
  #waiting = new Map();
  #count = 0;

  /** @param {WorkerPort} worker */
  constructor(worker) {
    this.worker = worker;
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = () => this.#failAll("The worker that runs the model stopped: there may not be enough memory. Reload the page.");
  }

  /**
   * Loads a model. @param {Parameters<typeof loadKernel>[0]} wasm the kernel, as the page loads it
   * @param {Omit<Tasks["open"]["asks"], "module">} files @param {How} [how]
   */
  async open(wasm, files, how) {
    const { module } = await loadKernel(wasm);
    return this.#send("open", { module, ...files }, how);
  }

  /** Bytes of the model's files that this browser has. @param {unknown} manifest */
  async keptBytes(manifest) {
    return (await this.#send("kept", { manifest })).bytes;
  }

  /** @param {string} text @param {How} [how] */
  async read(text, how) {
    return this.#other(await this.#send("read", { text }, how));
  }

  /** The model continues a text. @param {string} text @param {Tasks["write"]["asks"]["options"]} options @param {How} [how] */
  async write(text, options, how) {
    return this.#other(await this.#send("write", { text, options }, how));
  }

  /** Bytes of the kernel's memory in the worker. */
  async memory() {
    return (await this.#send("memory", {})).bytes;
  }

  /** Ends the worker; what it was asked fails. */
  end() {
    this.worker.terminate?.();
    this.#failAll("The model was closed.");
  }

  /** @param {Tasks["read"]["gives"]} opened @returns {Other} */
  #other({ reading, description }) {
    return {
      description,
      source: { ask: async (kind, parameters = {}, how = {}) => unpack((await this.#send("ask", { reading, kind, parameters }, how)).frame) },
      close: () => void this.#send("close", { reading }).catch(() => {}),
    };
  }

  /**
   * @template {Task} Name @param {Name} task @param {Tasks[Name]["asks"]} asked @param {How} [how]
   * @returns {Promise<Tasks[Name]["gives"]>}
   */
  #send(task, asked, { signal, news } = {}) {
    return new Promise((take, fail) => {
      if (signal?.aborted) return fail(signal.reason);
      const id = ++this.#count;
      const abort = () => {
        this.#waiting.delete(id);
        this.worker.postMessage({ cancel: id });
        fail(signal?.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
      const settled = () => signal?.removeEventListener("abort", abort);
      this.#waiting.set(id, {
        take: (result) => (settled(), take(result)),
        fail: (error) => (settled(), fail(error)),
        news,
      });
      this.worker.postMessage(/** @type {Request} */ (/** @type {unknown} */ ({ id, task, ...asked })));
    });
  }

  /** @param {Reply} reply */
  #receive(reply) {
    const waiting = this.#waiting.get(reply.id);
    if (!waiting) {
      if ("result" in reply && "reading" in reply.result) this.worker.postMessage({ id: ++this.#count, task: "close", reading: reply.result.reading }); // cancelled too late
      return;
    }
    if ("news" in reply) return waiting.news?.(reply.news);
    this.#waiting.delete(reply.id);
    if ("result" in reply) return waiting.take(reply.result);
    const { message, ...details } = reply.error;
    waiting.fail(Object.assign(new Error(message), { details }));
  }

  /** @param {string} message */
  #failAll(message) {
    for (const { fail } of this.#waiting.values()) fail(new Error(message));
    this.#waiting.clear();
  }
}
