/** The model of a page, loaded once, when it is needed or when the reader agrees. */
import { ModelClient, startWorker } from "../../models/client.js";
import { fromBase64, unpack } from "../../sources/frames.js";

/**
 * What the page says of its model: its manifest and files in blocks, or the address of a model.json beside the page.
 * @typedef {{manifest?: ManifestHead, address?: string}} ModelBlock
 * @typedef {{name: string, licence: string|null, weights: FileHead, tokenizer: FileHead|null}} ManifestHead  checked in the worker
 * @typedef {{file: string, size: number}} FileHead
 * @typedef {{manifest: ManifestHead, base: string|null}} Described  base: the address of the folder; null: in the page
 */

/** Says that a model is not loaded yet: how much there is to load, once the reader agrees. */
export class NotLoaded extends Error {
  /** @param {ManifestHead} manifest @param {number} bytes */
  constructor(manifest, bytes) {
    super(`To read other sentences here, ${manifest.name} is loaded once and kept by this browser.`);
    this.manifest = manifest;
    this.bytes = bytes;
  }
}

const ASKED = 5e6; // bytes: what is larger is loaded when the reader agrees

export class PageModel {
  /** @type {Promise<ModelClient>|null} */
  #loaded = null;
  /** @type {Promise<Described>|null} */
  #described = null;
  /** @type {AbortController|null} */
  #loading = null;
  isAgreed = false;
  isLoaded = false;

  /** @param {Document} page @param {Parameters<ModelClient["open"]>[0]} wasm @param {(said: News|null) => void} news of the loading; null at its end */
  constructor(page, wasm, news) {
    this.page = page;
    this.wasm = wasm;
    this.news = news;
    /** @type {ModelBlock} */
    this.block = unpack(fromBase64(this.#text("regard-model"))).header;
    const script = new TextDecoder().decode(fromBase64(this.#text("regard-worker")));
    this.client = new ModelClient(startWorker({ script }));
  }

  /** The client, once the model is loaded; throws `NotLoaded` where the reader has to agree first. */
  ready() {
    this.#loaded ??= this.#load().catch((error) => {
      this.#loaded = null;
      throw error;
    });
    return this.#loaded;
  }

  /** Ends the loading; what is there stays. */
  cancel() {
    this.#loading?.abort();
  }

  async #load() {
    const { manifest, base } = await this.describe();
    const { weights, tokenizer } = manifest;
    const missing = base === null ? 0 : weights.size + (tokenizer?.size ?? 0) - (await this.client.keptBytes(manifest));
    if (missing > ASKED && !this.isAgreed) throw new NotLoaded(manifest, missing);
    this.#loading = new AbortController();
    this.news({ message: `Loading ${manifest.name}.` });
    const from = (/** @type {FileHead} */ { file }, /** @type {string} */ block) => (base === null ? { blocks: this.#blocks(block) } : { address: new URL(file, base).href });
    try {
      const files = { manifest, weights: from(weights, "regard-weights"), tokenizer: tokenizer && from(tokenizer, "regard-tokenizer") };
      await this.client.open(this.wasm, files, { signal: this.#loading.signal, news: this.news });
      this.isLoaded = true;
      return this.client;
    } finally {
      this.news(null);
    }
  }

  /** The manifest, of the page or from its address. */
  describe() {
    this.#described ??= this.#fetchManifest().catch((error) => {
      this.#described = null;
      throw error;
    });
    return this.#described;
  }

  /** @returns {Promise<Described>} */
  async #fetchManifest() {
    const { manifest, address = "" } = this.block;
    if (manifest) {
      if (this.page.readyState === "loading") await new Promise((go) => this.page.addEventListener("DOMContentLoaded", go, { once: true }));
      return { manifest, base: null };
    }
    const base = new URL(address, this.page.baseURI).href;
    if (base.startsWith("file:"))
      throw new Error("A page that is opened from disk may not load other files. Open it from a web server, for example python -m http.server --bind 127.0.0.1 in its folder.");
    const reply = await fetch(base).catch(() => null);
    if (!reply?.ok) throw new Error(`The model could not be loaded from ${base}: ${reply ? `the server answered ${reply.status}` : "there is no connection"}.`);
    const content = await reply.json().catch(() => null);
    if (typeof content?.weights?.size !== "number") throw new Error(`${base} is not the manifest of a model.`);
    return { manifest: content, base };
  }

  /** @param {string} id */
  #text(id) {
    return this.page.getElementById(id)?.textContent ?? "";
  }

  /** The parts of a file, regard-weights-0 and so on. They leave the page: the worker has them then. @param {string} name */
  #blocks(name) {
    const blocks = [];
    for (let part = this.page.getElementById(`${name}-0`); part; part = this.page.getElementById(`${name}-${blocks.length}`)) {
      blocks.push(part.textContent ?? "");
      part.remove();
    }
    return blocks;
  }
}
