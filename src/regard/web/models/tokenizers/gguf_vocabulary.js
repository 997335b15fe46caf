/** The tokeniser in the metadata of a GGUF file, as a tokenizer.json: see `regard/models/files/gguf_config.py`. */
import { describe } from "./components.js";
import { PATTERNS } from "./pre_tokenizers.js";

const DIGITS_ALONE = ["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"];
const BYTE_LEVEL = ["gpt-2", "gpt2", "phi-2", "default"];
const { llama3, qwen2 } = PATTERNS;
/** @type {Record<string, string>} */
const CUTS = { "llama-bpe": llama3, llama3, "llama-v3": llama3, qwen2 };
const CONTROL = 3;
const USER_DEFINED = 4;

/**
 * A tokenizer.json for `Tokeniser`.
 * @param {Record<string, unknown>} metadata with the names of the file: tokenizer.ggml.tokens
 */
export function tokenizerFileOf(metadata) {
  const model = metadata["tokenizer.ggml.model"];
  if (model !== "gpt2")
    throw new Error(`The tokenizer ${describe(model)} of the GGUF file is not supported: only byte-level BPE (gpt2) is.`);
  const tokens = stringsOf(metadata, "tokens");
  if (new Set(tokens).size < tokens.length) throw new Error("A token occurs twice in tokenizer.ggml.tokens.");
  const merges = stringsOf(metadata, "merges").map((merge) => merge.split(" "));
  const kinds = metadata["tokenizer.ggml.token_type"] ?? [];
  if (!isList(kinds) || kinds.length > tokens.length)
    throw new Error("tokenizer.ggml.token_type of the GGUF file is not a list of one entry per token.");
  const added = [CONTROL, USER_DEFINED].flatMap((kind) =>
    tokens.filter((_, id) => kinds[id] === kind).map((content) => addedToken(content, kind === CONTROL)),
  );
  return {
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: preTokenizerOf(metadata["tokenizer.ggml.pre"] ?? "default"),
    post_processor: metadata["tokenizer.ggml.add_bos_token"]
      ? beginWith(metadata["tokenizer.ggml.bos_token_id"], tokens)
      : null,
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges },
  };
}

/** @param {unknown} value @returns {value is ArrayLike<unknown>} */
function isList(value) {
  return Array.isArray(value) || ArrayBuffer.isView(value);
}

/** @param {Record<string, unknown>} metadata @param {string} name @returns {string[]} */
function stringsOf(metadata, name) {
  const list = metadata[`tokenizer.ggml.${name}`];
  if (!Array.isArray(list) || !list.length || !list.every((value) => typeof value === "string"))
    throw new Error(`The metadata of the GGUF file has no tokenizer.ggml.${name}, a list of strings.`);
  return list;
}

/** @param {unknown} name */
function preTokenizerOf(name) {
  const byteLevel = { type: "ByteLevel", add_prefix_space: false };
  const family = typeof name === "string" ? name : "";
  if (Object.hasOwn(CUTS, family)) {
    const split = { type: "Split", pattern: { Regex: CUTS[family] }, behavior: "Isolated", invert: false };
    return { type: "Sequence", pretokenizers: [split, { ...byteLevel, use_regex: false }] };
  }
  if (BYTE_LEVEL.includes(family)) return byteLevel;
  if (DIGITS_ALONE.includes(family))
    return { type: "Sequence", pretokenizers: [{ type: "Digits", individual_digits: true }, byteLevel] };
  const names = [...DIGITS_ALONE, ...BYTE_LEVEL, ...Object.keys(CUTS)].join(", ");
  throw new Error(`The pre-tokenizer ${describe(name)} of the GGUF file is not supported. Known are ${names}.`);
}

/** @param {string} content @param {boolean} special */
function addedToken(content, special) {
  return { content, special, single_word: false, lstrip: false, rstrip: false, normalized: false };
}

/** @param {unknown} id @param {string[]} tokens */
function beginWith(id, tokens) {
  if (!Number.isInteger(id) || Number(id) < 0 || Number(id) >= tokens.length)
    throw new Error(`tokenizer.ggml.bos_token_id is ${describe(id)}; there are ${tokens.length} tokens.`);
  const token = tokens[Number(id)];
  return {
    type: "TemplateProcessing",
    single: [{ SpecialToken: { id: token, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
    special_tokens: { [token]: { id: token, ids: [id], tokens: [token] } },
  };
}
