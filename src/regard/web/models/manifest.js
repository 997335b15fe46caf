/**
 * What a model is: the model.json that `regard/viewer/web_model.py` writes. A manifest may come from anywhere: every
 * setting is checked when it is read, and a wrong one is one sentence.
 *
 * @typedef {{file: string, size: number, sha256: string}} ModelFile
 * @typedef {{name: string, kind: string, licence: string|null, longest: number, ends: number[], precision: string, weights: ModelFile,
 *   tokenizer: ModelFile|null, tensors: Record<string, import("./weights.js").TensorPlace>|null, reference: string|null,
 *   transformer: Settings, stages: unknown[], parameters: number, formulas: Record<string, string>[], compared: string[]}} Manifest
 * reference: the text whose outputs, by the model before its weights were rounded, are among the weights
 */
import { describe } from "./tokenizers/components.js";

const FORMAT = 1;
const MOST = 2 ** 31 - 1; // no count or size in a model is larger
const LARGEST_FILE = 2 ** 32 - 2 ** 24; // bytes that the kernel's memory can hold

/** @param {unknown} content of model.json, parsed @returns {Manifest} */
export function manifestFrom(content) {
  const settings = new Settings(content, "");
  const format = settings.integer("format", 0);
  if (format !== FORMAT) throw new Error(`This model is written in format ${format}; this page reads ${FORMAT}. Write it again with the same version of Regard.`);
  const tensors = settings.has("tensors") ? settings.part("tensors") : null;
  const tokenizer = settings.has("tokenizer") ? settings.part("tokenizer") : null;
  return {
    name: settings.text("name"),
    kind: settings.text("kind"),
    licence: settings.has("licence") ? settings.text("licence") : null,
    longest: settings.integer("longest"),
    ends: settings.integers("ends"),
    precision: settings.text("precision"),
    weights: fileFrom(settings.part("weights")),
    tokenizer: tokenizer && fileFrom(tokenizer),
    tensors: tensors && Object.fromEntries(tensors.names.map((name) => [name, placeFrom(tensors.part(name))])),
    reference: settings.has("reference") ? settings.text("reference") : null,
    transformer: settings.part("transformer"),
    stages: settings.list("stages"),
    parameters: settings.number("parameters"),
    formulas: settings.parts("formulas").map((block) => Object.fromEntries(block.names.map((name) => [name, block.text(name)]))),
    compared: settings.list("compared").map(String),
  };
}

/** @param {Settings} settings @returns {ModelFile} */
function fileFrom(settings) {
  const [file, sha256] = [settings.text("file"), settings.text("sha256")];
  if (!/^[\w.() -]+$/.test(file) || /^\.+$/.test(file)) throw settings.wrong("file", "the name of a file in the same folder");
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw settings.wrong("sha256", "64 hexadecimal digits");
  return { file, sha256, size: settings.integer("size", 1, LARGEST_FILE) };
}

/** @param {Settings} settings @returns {import("./weights.js").TensorPlace} */
function placeFrom(settings) {
  return { name: settings.text("name"), ...(settings.has("heads") ? { heads: settings.integer("heads") } : {}) };
}

/** Values by name, each checked by type and range when it is read. */
export class Settings {
  /** @param {unknown} values @param {string} path of this part, for messages */
  constructor(values, path) {
    if (typeof values !== "object" || values === null || Array.isArray(values))
      throw new Error(`The manifest of the model is broken: ${path || "it"} is ${describe(values)}; expected an object.`);
    /** @type {Record<string, unknown>} */
    this.values = /** @type {any} */ (values);
    this.path = path;
  }

  get names() {
    return Object.keys(this.values);
  }

  /** Whether a value is there, and not null. @param {string} name */
  has(name) {
    return Object.hasOwn(this.values, name) && this.values[name] !== null;
  }

  /** @param {string} name @param {number} [least] @param {number} [most] */
  integer(name, least = 1, most = MOST) {
    return /** @type {number} */ (this.#checked(name, (value) => Number.isInteger(value) && Number(value) >= least && Number(value) <= most, `an integer from ${least} to ${most}`));
  }

  /** A finite number that is not negative. @param {string} name */
  number(name) {
    return /** @type {number} */ (this.#checked(name, (value) => typeof value === "number" && Number.isFinite(value) && value >= 0, "a number that is not negative"));
  }

  /** @param {string} name */
  flag(name) {
    return /** @type {boolean} */ (this.#checked(name, (value) => typeof value === "boolean", "true or false"));
  }

  /** @param {string} name */
  text(name) {
    return /** @type {string} */ (this.#checked(name, (value) => typeof value === "string", "a string"));
  }

  /** @template {string} T @param {string} name @param {readonly T[]} choices @returns {T} */
  choice(name, choices) {
    return /** @type {T} */ (this.#checked(name, (value) => choices.includes(/** @type {T} */ (value)), `one of ${choices.join(", ")}`));
  }

  /** @param {string} name */
  list(name) {
    return /** @type {unknown[]} */ (this.#checked(name, Array.isArray, "a list"));
  }

  /** @param {string} name @returns {number[]} */
  integers(name) {
    const isCount = (/** @type {unknown} */ value) => Number.isSafeInteger(value) && Number(value) >= 0;
    return /** @type {number[]} */ (this.#checked(name, (value) => Array.isArray(value) && value.every(isCount), "a list of integers"));
  }

  /** @param {string} name @param {number} count @returns {number[]} */
  numbers(name, count) {
    const fits = (/** @type {unknown} */ value) => Array.isArray(value) && value.length === count && value.every(Number.isFinite);
    return /** @type {number[]} */ (this.#checked(name, fits, `a list of ${count} numbers`));
  }

  /** An object inside. @param {string} name */
  part(name) {
    return new Settings(Object.hasOwn(this.values, name) ? this.values[name] : undefined, this.path ? `${this.path}.${name}` : name);
  }

  /** Objects in a list. @param {string} name */
  parts(name) {
    return this.list(name).map((value, place) => new Settings(value, `${this.path ? `${this.path}.` : ""}${name}.${place}`));
  }

  /** @param {string} name @param {string} expected */
  wrong(name, expected) {
    const value = Object.hasOwn(this.values, name) ? this.values[name] : undefined;
    return new Error(`The manifest of the model is broken: ${this.path ? `${this.path}.` : ""}${name} is ${describe(value)}; expected ${expected}.`);
  }

  /** @param {string} name @param {(value: unknown) => boolean} fits @param {string} expected */
  #checked(name, fits, expected) {
    const value = Object.hasOwn(this.values, name) ? this.values[name] : undefined;
    if (!fits(value)) throw this.wrong(name, expected);
    return value;
  }
}
