/** A worker and the page's client of it, over a channel as in a browser. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { readFile } from "node:fs/promises";
import { ModelClient } from "../../../src/regard/web/models/client.js";
import { serve } from "../../../src/regard/web/models/worker.js";
import { FOLDER } from "./support.js";

const WASM = await readFile(new URL("../../../src/regard/web/engine/regard.wasm", import.meta.url));
const base64 = (path) => readFileSync(path).toString("base64");
const ports = [];
after(() => ports.forEach((port) => port.close()));

function startClient() {
  const { port1, port2 } = new MessageChannel();
  ports.push(port1, port2);
  serve(port1);
  return new ModelClient(port2);
}

/** The files of a model, as a one-file page holds them. */
function filesOf(name, { change = (manifest) => manifest, cut = Infinity } = {}) {
  const manifest = change(JSON.parse(readFileSync(`${FOLDER}/${name}/model.json`, "utf8")));
  const blocks = (file) => file && { blocks: [base64(`${FOLDER}/${name}/${file.file}`).slice(0, cut)] };
  return { manifest, weights: blocks(manifest.weights), tokenizer: blocks(manifest.tokenizer) };
}

test("a model is opened, reads, answers and writes", async () => {
  const client = startClient();
  const said = [];
  assert.deepEqual(await client.open(WASM, filesOf("LlamaForCausalLM"), { news: (news) => said.push(news) }), { name: "LlamaForCausalLM", writes: true, kept: true });
  const { source, description, close } = await client.read("the kids left");
  assert.equal(description.text, "the kids left");
  const { arrays } = await source.ask("row", { layer: 1, heads: [0], query: 2 });
  assert.ok(Math.abs(arrays.weight.data.reduce((sum, weight) => sum + weight) - 1) < 1e-6);
  const pieces = [];
  const written = await client.write("the kids", { tokens: 5, temperature: 1, seed: 4 }, { news: ({ text }) => pieces.push(text) });
  assert.equal(written.description.given, 2);
  assert.ok(written.description.text.startsWith("the kids") && pieces.length > 0);
  assert.ok((await client.memory()) > 0);
  close();
  await assert.rejects(source.ask("statistics"), /This reading is closed/);
});

test("what is cancelled ends, and the next question is answered", async () => {
  const client = startClient();
  await client.open(WASM, filesOf("LlamaForCausalLM"));
  const gone = new AbortController();
  const writing = client.write("the kids", { tokens: 50 }, { signal: gone.signal, news: () => gone.abort() });
  await assert.rejects(writing, { name: "AbortError" });
  assert.equal((await client.read("the lions")).description.text, "the lions");
});

test("a text that is too long is refused, with how much fits", async () => {
  const client = startClient();
  await client.open(WASM, filesOf("LlamaForCausalLM"));
  const text = "the kids were scared of the lions ".repeat(15_000); // 105,000 tokens
  await assert.rejects(client.read(text), (error) => {
    assert.match(error.message, /The text has 105\d{3} tokens; LlamaForCausalLM reads at most 61\. Read it in parts/);
    assert.ok(error.details.fits > 100 && error.details.fits < 400);
    return true;
  });
  await assert.rejects(client.read("   "), /expected a text with at least one/);
});

test("broken, wrong and unknown models are refused in a sentence", async () => {
  const encoder = (manifest) => manifest.transformer.encoders[0];
  const cases = [
    [{ cut: 4000 }, /the page is truncated/],
    [{ change: (manifest) => ({ ...manifest, format: 7 }) }, /written in format 7; this page reads 1/],
    [{ change: (manifest) => ({ ...manifest, longest: "64" }) }, /The manifest of the model is broken: longest is .*64.*; expected an integer/],
    [{ change: (manifest) => (delete manifest.transformer.head, (manifest.transformer.decoders = [{}]), manifest) }, /A model with transformer\.decoders is not computed in a page/],
    [{ change: (manifest) => ((encoder(manifest).attention.alibi = { kind: "Alibi" }), manifest) }, /A model with transformer\.encoders\.0\.attention\.alibi is not computed in a page/],
    [{ change: (manifest) => ((encoder(manifest).kind = "Mamba"), manifest) }, /transformer\.encoders\.0\.kind is .*Mamba.*; expected Encoder/],
    [{ change: (manifest) => ((encoder(manifest).attention.heads = 5), manifest) }, /heads/],
  ];
  for (const [how, sentence] of cases) await assert.rejects(startClient().open(WASM, filesOf("LlamaForCausalLM", how)), sentence);
  const mixed = { ...filesOf("LlamaForCausalLM"), tokenizer: filesOf("small-encoder").tokenizer };
  await assert.rejects(startClient().open(WASM, mixed), /tokenizer\.json/);
});

test("questions before a model is there are refused", async () => {
  await assert.rejects(startClient().read("the"), /The model is not loaded/);
});
