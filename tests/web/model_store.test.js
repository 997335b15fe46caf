/** Files of models: loaded, resumed, checked and kept, with a sentence for whatever can go wrong. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { beforeEach, test } from "node:test";
import { kernel } from "../../src/regard/web/engine/kernel.js";
import { fileFromBlocks, keptBytes, loadFile } from "../../src/regard/web/models/store.js";

const BYTES = Uint8Array.from({ length: 300_000 }, (_, place) => (place * 31) % 251);
const FILE = { file: "weights.safetensors", size: BYTES.length, sha256: createHash("sha256").update(BYTES).digest("hex") };
const ADDRESS = "http://models.test/weights.safetensors";
let stored; // files of the browser's storage, by name
let requests; // the ranges that were asked for

/** The origin private file system, as far as it is used. */
function storage({ full = Infinity } = {}) {
  const handle = (name) => ({
    getFile: async () => ({ size: stored.get(name).length }),
    createSyncAccessHandle: async () => ({
      read: (to, { at }) => {
        const part = stored.get(name).subarray(at, at + to.length);
        to.set(part);
        return part.length;
      },
      write: (from, { at }) => {
        if (at + from.length > full) throw new DOMException("full", "QuotaExceededError");
        const grown = new Uint8Array(Math.max(stored.get(name).length, at + from.length));
        grown.set(stored.get(name));
        grown.set(from, at);
        stored.set(name, grown);
      },
      truncate: (size) => stored.set(name, stored.get(name).slice(0, size)),
      flush: () => {},
      close: () => {},
    }),
  });
  const folder = {
    getFileHandle: async (name, { create = false } = {}) => {
      if (!stored.has(name) && !create) throw new DOMException("none", "NotFoundError");
      if (!stored.has(name)) stored.set(name, new Uint8Array());
      return handle(name);
    },
  };
  return { getDirectory: async () => ({ getDirectoryHandle: async () => folder }) };
}

/** A web server; `cut`: the connection ends there; `ranges`: whether it sends parts. */
function serve({ bytes = BYTES, cut = Infinity, ranges = true, status = 200, breaks = false } = {}) {
  globalThis.fetch = async (address, { headers = {}, signal } = {}) => {
    assert.equal(address, ADDRESS);
    const start = ranges ? Number(headers.Range?.match(/bytes=(\d+)-/)?.[1] ?? 0) : 0;
    requests.push(headers.Range ?? null);
    if (status !== 200) return new Response("no", { status });
    let at = start;
    const body = new ReadableStream({
      pull(stream) {
        if (signal?.aborted) return stream.error(signal.reason);
        const stop = Math.min(at + 65_536, bytes.length, cut);
        if (at < stop) stream.enqueue(bytes.slice(at, stop));
        at = stop;
        if (at >= Math.min(bytes.length, cut)) return breaks ? stream.error(new TypeError("network error")) : stream.close();
      },
    });
    return new Response(body, start ? { status: 206, headers: { "Content-Range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` } } : { status: 200 });
  };
}

const browser = (of) => Object.defineProperty(globalThis, "navigator", { value: of, configurable: true });
const contentOf = ({ bytes }) => Uint8Array.from(kernel().numbers(bytes));

beforeEach(() => {
  stored = new Map();
  requests = [];
  browser({ storage: storage() });
});

test("a file is loaded with progress, and then from the storage", async () => {
  serve();
  const progress = [];
  const first = await loadFile(FILE, ADDRESS, { onProgress: (bytes) => progress.push(bytes) });
  assert.deepEqual(contentOf(first), BYTES);
  assert.ok(first.kept && progress[0] === 0 && progress.at(-1) === FILE.size && progress.length > 3);
  assert.equal(await keptBytes(FILE), FILE.size);
  assert.deepEqual(contentOf(await loadFile(FILE, ADDRESS)), BYTES);
  assert.equal(requests.length, 1);
});

test("a download that ended goes on where it ended", async () => {
  for (const breaks of [false, true]) {
    stored.clear();
    requests.length = 0;
    serve({ cut: 200_000, breaks });
    await assert.rejects(loadFile(FILE, ADDRESS), /ended after 0 MB of 0 MB\. It continues there when you load it again\./);
    const there = await keptBytes(FILE);
    assert.ok(there > 100_000 && there <= 200_000);
    serve();
    assert.deepEqual(contentOf(await loadFile(FILE, ADDRESS)), BYTES);
    assert.deepEqual(requests, [null, `bytes=${there}-`]);
  }
});

test("cancelling keeps what is there", async () => {
  serve();
  const gone = new AbortController();
  const loading = loadFile(FILE, ADDRESS, { signal: gone.signal, onProgress: (bytes) => bytes > 100_000 && gone.abort() });
  await assert.rejects(loading, { name: "AbortError" });
  assert.ok((await keptBytes(FILE)) > 100_000);
});

test("a server without ranges begins again", async () => {
  serve({ cut: 200_000 });
  await assert.rejects(loadFile(FILE, ADDRESS));
  serve({ ranges: false });
  assert.deepEqual(contentOf(await loadFile(FILE, ADDRESS)), BYTES);
});

test("a changed file is refused and not kept", async () => {
  const changed = BYTES.slice();
  changed[1234] ^= 1;
  serve({ bytes: changed });
  await assert.rejects(loadFile(FILE, ADDRESS), /weights\.safetensors is not the file that its manifest names: its SHA-256 begins with [0-9a-f]{8}, expected [0-9a-f]{8}\./);
  assert.equal(await keptBytes(FILE), 0);
  serve({ bytes: new Uint8Array(FILE.size + 1) });
  await assert.rejects(loadFile(FILE, ADDRESS), /larger than 300000 bytes, which its manifest says: another file is at/);
  assert.equal(await keptBytes(FILE), 0);
  serve();
  assert.deepEqual(contentOf(await loadFile(FILE, ADDRESS)), BYTES);
});

test("a file damaged in the storage is loaded again after the refusal", async () => {
  serve();
  await loadFile(FILE, ADDRESS);
  stored.get(FILE.sha256)[7] ^= 1;
  await assert.rejects(loadFile(FILE, ADDRESS), /not the file/);
  assert.deepEqual(contentOf(await loadFile(FILE, ADDRESS)), BYTES);
});

test("a refusal of the server is said", async () => {
  serve({ status: 404 });
  await assert.rejects(loadFile(FILE, ADDRESS), /could not be loaded from http:\/\/models\.test\/weights\.safetensors: the server answered 404/);
});

test("without storage, or where it is full, the model works and is not kept", async () => {
  for (const of of [{}, { storage: storage({ full: 100_000 }) }]) {
    browser(of);
    serve();
    const loaded = await loadFile(FILE, ADDRESS);
    assert.deepEqual(contentOf(loaded), BYTES);
    assert.equal(loaded.kept, false);
    assert.equal(await keptBytes(FILE), 0);
  }
});

test("blocks of a page are put together and checked", () => {
  const block = (part) => Buffer.from(part).toString("base64");
  const blocks = [block(BYTES.subarray(0, 99_999)), block(BYTES.subarray(99_999))];
  assert.deepEqual(contentOf({ bytes: fileFromBlocks(FILE, blocks) }), BYTES);
  assert.throws(() => fileFromBlocks(FILE, blocks.slice(0, 1)), /has 99999 of 300000 bytes: the page is truncated/);
  assert.throws(() => fileFromBlocks(FILE, [...blocks, "AAAA"]), /larger than 300000 bytes/);
  assert.throws(() => fileFromBlocks(FILE, [blocks[0], block(BYTES.subarray(99_999).toReversed())]), /not the file/);
});
