/** Models of the fixtures, opened from their folders. */
import { readFileSync } from "node:fs";
import "../../../src/regard/web/engine/node.js";
import { kernel } from "../../../src/regard/web/engine/kernel.js";
import { manifestFrom } from "../../../src/regard/web/models/manifest.js";
import { Model } from "../../../src/regard/web/models/model.js";
import { unpack } from "../../../src/regard/web/sources/frames.js";

export const FOLDER = process.env.REGARD_FIXTURES;

export function openModel(name) {
  const folder = `${FOLDER}/${name}`;
  const manifest = manifestFrom(JSON.parse(readFileSync(`${folder}/model.json`, "utf8")));
  const bytes = readFileSync(`${folder}/${manifest.weights.file}`);
  const tokenizer = manifest.tokenizer && JSON.parse(readFileSync(`${folder}/${manifest.tokenizer.file}`, "utf8"));
  return new Model(manifest, kernel().tensor("u8", [bytes.length], bytes), tokenizer);
}

/** What Python computed: a header, and arrays by name. */
export function expectedOf(name) {
  const { header, arrays } = unpack(new Uint8Array(readFileSync(`${FOLDER}/${name}/expected.bin`)));
  return { ...header, array: (of) => arrays[of]?.data, shape: (of) => arrays[of].shape };
}

/** The largest difference, relative to the largest number. */
export function difference(found, expected) {
  if (found.length !== expected.length) return Infinity;
  let [largest, size] = [0, 0];
  for (let at = 0; at < found.length; at++) {
    const apart = Math.abs(found[at] - expected[at]);
    if (!(apart <= largest)) largest = apart;
    size = Math.max(size, Math.abs(expected[at]));
  }
  return largest / size;
}
