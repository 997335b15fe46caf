// Tokenisers without the library: bad files, hostile texts, and bytes. tests/web/tokenizers compares with the library.
import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenizerFileOf } from "../../src/regard/web/models/tokenizers/gguf_vocabulary.js";
import { utf16Spans } from "../../src/regard/web/models/tokenizers/code_points.js";
import { Tokeniser, wordsOf } from "../../src/regard/web/models/tokenizers/tokeniser.js";
import { BYTE_LETTERS, decodeUtf8 } from "../../src/regard/web/models/tokenizers/utf8.js";

const METADATA = {
  "tokenizer.ggml.model": "gpt2",
  "tokenizer.ggml.pre": "smollm",
  "tokenizer.ggml.tokens": [...BYTE_LETTERS, "aa", "aaaa", "ĠĠ", "ĠĠĠĠ", "<|end|>"],
  "tokenizer.ggml.merges": ["a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ"],
  "tokenizer.ggml.token_type": [...BYTE_LETTERS.map(() => 1), 1, 1, 1, 1, 3],
};
const BERT = {
  added_tokens: [],
  normalizer: { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
  pre_tokenizer: { type: "BertPreTokenizer" },
  post_processor: null,
  decoder: { type: "WordPiece", prefix: "##", cleanup: true },
  model: {
    type: "WordPiece",
    vocab: { "[UNK]": 0, a: 1, "##a": 2, "##b": 3, é: 4 },
    unk_token: "[UNK]",
    continuing_subword_prefix: "##",
    max_input_chars_per_word: 100,
  },
}; // prettier-ignore
const bpe = new Tokeniser(tokenizerFileOf(METADATA));

test("an unknown part is an error that names it", () => {
  const changes = [
    [{ normalizer: { type: "Precompiled" } }, /normalizer "Precompiled".*not supported.*BertNormalizer/],
    [{ pre_tokenizer: { type: "Metaspace" } }, /pre-tokenizer "Metaspace".*not supported/],
    [{ pre_tokenizer: { type: "Sequence", pretokenizers: [{ type: "UnicodeScripts" }] } }, /"UnicodeScripts"/],
    [{ pre_tokenizer: { type: "Split", pattern: { Regex: "\\w+" }, behavior: "Isolated" } }, /Split with the pattern.*w\+/],
    [{ pre_tokenizer: { type: "Split", pattern: { Regex: "[\\s\\S]" }, behavior: "Removed" } }, /behavior "Removed"/],
    [{ pre_tokenizer: { type: "ByteLevel", add_prefix_space: true } }, /ByteLevel with another model/],
    [{ post_processor: { type: "RobertaProcessing" } }, /post-processor "RobertaProcessing"/],
    [{ decoder: { type: "CTC" } }, /decoder "CTC"/],
    [{ model: { type: "Unigram" } }, /model "Unigram"/],
    [{ model: { ...BERT.model, unk_token: "<missing>" } }, /unk_token "<missing>".*vocabulary/],
    [{ model: { ...BERT.model, vocab: { "[UNK]": -1 } } }, /id -1/],
    [{ model: { type: "BPE", vocab: {}, merges: [] }, pre_tokenizer: null }, /BPE without the pre-tokenizer ByteLevel/],
    [{ model: { type: "BPE", vocab: { a: 0 }, merges: [["a", "b"]] } }, /"b", which is not in its vocabulary/],
    [{ model: { type: "BPE", vocab: { a: 0 }, merges: ["a b c"] } }, /"a b c".*not a pair/],
    [{ model: { type: "BPE", vocab: {}, merges: [], byte_fallback: true } }, /byte_fallback true/],
    [{ model: { ...BERT.model, type: "BPE", merges: [] } }, /continuing_subword_prefix "##"/],
    [{ model: { type: "BPE", vocab: {}, merges: [], dropout: 0.1 } }, /dropout 0\.1/],
    [{ model: { type: "constructor" } }, /model "constructor"/],
    [{ added_tokens: {} }, /added tokens.*expected a list/],
    [{ normalizer: { type: "BertNormalizer", lowercase: "yes" } }, /lowercase "yes", expected true or false/],
  ]; // prettier-ignore
  for (const [change, message] of changes) assert.throws(() => new Tokeniser({ ...BERT, ...change }), { message });
  for (const file of [null, [], "text", undefined]) assert.throws(() => new Tokeniser(file), /expected an object/);
});

test("GGUF metadata that cannot be read is an error that says what", () => {
  const changes = [
    [{ model: "llama" }, /tokenizer "llama".*not supported/],
    [{ pre: "deepseek" }, /pre-tokenizer "deepseek".*Known are smollm/],
    [{ tokens: undefined }, /no tokenizer\.ggml\.tokens/],
    [{ tokens: ["a", "a"] }, /occurs twice/],
    [{ merges: ["a  b"] }, /not a pair/],
    [{ token_type: new Array(999).fill(1) }, /token_type/],
    [{ add_bos_token: true, bos_token_id: 999 }, /bos_token_id is 999/],
  ];
  for (const [change, message] of changes) {
    const named = Object.entries(change).map(([name, value]) => [`tokenizer.ggml.${name}`, value]);
    assert.throws(() => new Tokeniser(tokenizerFileOf({ ...METADATA, ...Object.fromEntries(named) })), { message });
  }
});

test("letters of several tokens are one word, as letters", () => {
  for (const text of ["أهلا", "שלום", "😀", "👩‍👩‍👧", "नमस्ते"]) {
    const encoded = bpe.encode(`a ${text} b`);
    assert.ok(encoded.texts.some((part) => /^<[0-9A-F]{2}/.test(part)));
    assert.ok(wordsOf(encoded, `a ${text} b`).every((word) => !word.text.includes("<")));
  }
  const encoded = bpe.encode("a أهلا b");
  assert.deepEqual(wordsOf(encoded, "a أهلا b").map((word) => word.text), ["a", "␣", "أهلا", "␣", "b"]); // prettier-ignore
});

test("spans count code points, and are converted to positions of a string", () => {
  const text = "😀a 😀";
  const { spans } = bpe.encode(text);
  assert.deepEqual(spans.at(-1), [3, 4]);
  assert.equal(text.slice(...utf16Spans(text, spans).at(-1)), "😀");
});

// Quadratic time would take minutes.
test("long words, runs and hostile texts are encoded and decoded", () => {
  const bert = new Tokeniser(BERT);
  const parts = ["a", " ", "\n", "'", "1", "é", "\u0301\u0316", "😀", "<|", "<|end|>", " \n", "ab ", "漢"];
  for (const part of parts) {
    const text = `${part.repeat(100_000)}x`;
    const { ids, spans } = bpe.encode(text);
    assert.equal(bpe.decode(ids, { special: true }), text);
    assert.equal(spans.at(-1)[1], Array.from(text).length);
    assert.equal(bert.encode(text).spans.at(-1)[1], Array.from(text).length);
  }
  assert.equal(bpe.encode("a".repeat(100_000)).ids.length, 25_000);
});

test("a text is cut after a whole word, and to nothing where one character has too many tokens", () => {
  assert.equal(bpe.beginning("b b b b b b", 7), "b b b b");
  assert.equal(bpe.beginning("😀", 3), "");
});

test("invalid bytes become replacement characters, one per maximal part of a character", () => {
  for (const bytes of [[0xed, 0xa0], [0xed, 0xa0, 0x80], [0xe0, 0x80], [0xf0, 0x90], [0xf4, 0x90], [0xc0, 0x80], [0xef, 0xbb, 0xbf, 65]]) {
    const { text, lengths, valid } = decodeUtf8(bytes);
    assert.equal(text, new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes)), String(bytes));
    assert.equal(lengths.reduce((sum, length) => sum + length, 0), bytes.length); // prettier-ignore
    assert.equal(valid, !text.includes("\ufffd"));
  } // prettier-ignore
});
