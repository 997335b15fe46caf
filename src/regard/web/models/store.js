/**
 * Files of models: loaded once, checked by SHA-256, and kept in the browser.
 *
 * They are kept in the origin private file system. A download is appended to its file while it arrives, so that it goes
 * on after a closed tab where it ended, and a kept file is read into the kernel's memory without a copy; the Cache API
 * and IndexedDB store whole responses or values only. Where there is no such storage (private windows, pages from disk),
 * a model is loaded again each time.
 *
 * @typedef {import("./manifest.js").ModelFile} ModelFile
 * @typedef {{signal?: AbortSignal, onProgress?: (bytes: number) => void}} How
 *
 * What TypeScript's library of workers has, and its library of pages has not.
 * @typedef {{read: (to: Uint8Array, options: {at: number}) => number, write: (from: Uint8Array, options: {at: number}) => number,
 *   getSize: () => number, truncate: (size: number) => void, flush: () => void, close: () => void}} AccessHandle
 * @typedef {FileSystemFileHandle & {createSyncAccessHandle: () => Promise<AccessHandle>}} WorkerFile
 */
import { kernel } from "../engine/kernel.js";
import { megabytes } from "../maths/numbers.js";

const FOLDER = "regard-models";
const PIECE = 1 << 22; // letters of base64 that are decoded at once, a multiple of 4

/** Bytes of a file that are kept, complete or not. @param {ModelFile} file */
export async function keptBytes(file) {
  try {
    const folder = await folderOfModels();
    const handle = await folder.getFileHandle(file.sha256);
    return Math.min((await handle.getFile()).size, file.size);
  } catch {
    return 0; // none, or no storage
  }
}

/**
 * A file, from the browser's storage as far as it is there.
 * @param {ModelFile} file @param {string} address @param {How} [how]
 * @returns {Promise<{bytes: Tensor, kept: boolean}>} kept: whether it is there the next time
 */
export async function loadFile(file, address, { signal, onProgress = () => {} } = {}) {
  signal?.throwIfAborted();
  const storage = await openStorage(file);
  const bytes = kernel().tensor("u8", [file.size]);
  try {
    const start = storage.readTo(bytes);
    if (start < file.size) await download({ file, address, bytes, storage, signal, onProgress }, start);
    else onProgress(start);
    checkDigest(file, bytes);
    return { bytes, kept: storage.isKept };
  } catch (error) {
    kernel().release(bytes);
    if (error instanceof WrongFile) storage.clear();
    throw error;
  } finally {
    storage.close();
  }
}

/** A file that a page holds in base64. @param {ModelFile} file @param {string[]} blocks each of whole bytes @returns {Tensor} */
export function fileFromBlocks(file, blocks) {
  const bytes = kernel().tensor("u8", [file.size]);
  try {
    let at = 0;
    for (const block of blocks)
      for (let start = 0; start < block.length; start += PIECE) {
        const letters = atob(block.slice(start, start + PIECE));
        if (at + letters.length > file.size) throw new WrongFile(`${file.file} in this page is larger than ${file.size} bytes, which its manifest says.`);
        const to = bytesOf(bytes);
        for (let place = 0; place < letters.length; place++) to[at++] = letters.charCodeAt(place);
      }
    if (at < file.size) throw new WrongFile(`${file.file} in this page has ${at} of ${file.size} bytes: the page is truncated. Write or download it again.`);
    checkDigest(file, bytes);
    return bytes;
  } catch (error) {
    kernel().release(bytes);
    throw error;
  }
}

/** A file that is not the one that its manifest names. */
class WrongFile extends Error {}

/** @param {ModelFile} file @param {Tensor} bytes */
function checkDigest({ file, sha256 }, bytes) {
  const digest = kernel().sha256(bytes);
  if (digest === sha256) return;
  throw new WrongFile(`${file} is not the file that its manifest names: its SHA-256 begins with ${digest.slice(0, 8)}, expected ${sha256.slice(0, 8)}. It was changed, or damaged on the way; it is not kept. Load it again.`);
}

/**
 * @typedef {{file: ModelFile, address: string, bytes: Tensor, storage: Storage, signal?: AbortSignal, onProgress: (bytes: number) => void}} Download
 * @param {Download} download @param {number} start bytes that are there
 */
async function download({ file, address, bytes, storage, signal, onProgress }, start) {
  let at = start;
  try {
    const reply = await answerFrom(address, file, start, signal);
    if (reply.status !== 206) at = 0; // the server begins at the beginning
    onProgress(at);
    const reader = /** @type {ReadableStream<Uint8Array>} */ (reply.body).getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      if (at + piece.value.length > file.size) {
        void reader.cancel();
        throw new WrongFile(`${file.file} is larger than ${file.size} bytes, which its manifest says: another file is at ${address}.`);
      }
      bytesOf(bytes).set(piece.value, at);
      storage.write(piece.value, at);
      at += piece.value.length;
      onProgress(at);
    }
  } catch (error) {
    if (signal?.aborted || !(error instanceof TypeError)) throw error;
    throw ended(file, at, storage.isKept, error); // the network failed
  }
  if (at < file.size) throw ended(file, at, storage.isKept);
}

/** @param {string} address @param {ModelFile} file @param {number} start @param {AbortSignal|undefined} signal @returns {Promise<Response>} */
async function answerFrom(address, file, start, signal) {
  const reply = await fetch(address, { signal, headers: start ? { Range: `bytes=${start}-` } : {} });
  const begins = reply.headers.get("Content-Range")?.match(/^bytes (\d+)-/)?.[1];
  if (start && (reply.status === 416 || (reply.status === 206 && Number(begins) !== start))) return answerFrom(address, file, 0, signal);
  if (!reply.ok || !reply.body) throw new Error(`${file.file} could not be loaded from ${address}: the server answered ${reply.status}.`);
  return reply;
}

/** @param {ModelFile} file @param {number} at @param {boolean} isKept @param {unknown} [cause] */
function ended(file, at, isKept, cause) {
  const next = isKept ? "It continues there when you load it again." : "Load it again.";
  return new Error(`The download of ${file.file} ended after ${megabytes(at)} of ${megabytes(file.size)}. ${next}`, { cause });
}

/** Valid until memory is allocated. @param {Tensor} tensor */
function bytesOf(tensor) {
  return /** @type {Uint8Array} */ (kernel().numbers(tensor));
}

/** One file of the browser's storage; without storage, nothing is there and nothing is kept. */
class Storage {
  /** @param {ModelFile} file @param {AccessHandle|null} handle */
  constructor(file, handle) {
    this.file = file;
    this.handle = handle;
  }

  /** Whether what is written is there the next time. */
  get isKept() {
    return this.handle !== null;
  }

  /** Reads what is there; the number of bytes. @param {Tensor} bytes */
  readTo(bytes) {
    return this.handle ? this.handle.read(bytesOf(bytes), { at: 0 }) : 0;
  }

  /** @param {Uint8Array} piece @param {number} at */
  write(piece, at) {
    try {
      this.handle?.write(piece, { at });
    } catch {
      this.clear(); // the storage is full: the model works without it
      this.close();
    }
  }

  clear() {
    this.handle?.truncate(0);
  }

  close() {
    this.handle?.flush();
    this.handle?.close();
    this.handle = null;
  }
}

/** @param {ModelFile} file */
async function openStorage(file) {
  try {
    const folder = await folderOfModels();
    const stored = /** @type {WorkerFile} */ (await folder.getFileHandle(file.sha256, { create: true }));
    return new Storage(file, await stored.createSyncAccessHandle());
  } catch {
    return new Storage(file, null); // no storage, or another tab writes the file
  }
}

async function folderOfModels() {
  return (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
}
