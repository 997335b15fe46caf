/**
 * The state shared by all views, and its address.
 *
 * @typedef {{view: string|null, layer: number, head: number, heads: number[]|null, query: number|null, key: number|null,
 *   region: number[]|null, by: "word"|"token", sinks: boolean, pool: "mean"|"max", colour: "linear"|"log"|null,
 *   measure: Measure, pointed: [number|null, number|null]|null,
 *   [own: string]: any}} Chosen
 * @typedef {{get: () => Chosen, set: (patch: Partial<Chosen>) => void,
 *   listen: (react: (now: Chosen, before: Chosen) => void, names?: string[]) => () => void}} State  names: of keys; without
 *   them every change counts
 */
import { unitOf, unitsOf } from "../elements/words.js";

/** @type {Chosen} */
export const UNCHOSEN = Object.freeze({
  view: null, // the first suitable one
  layer: 0,
  head: 0,
  heads: null, // several heads, in views that show them; null: only `head`
  query: null, // token positions
  key: null,
  region: null, // of the matrix: first row, last row, first column, last column
  by: "word",
  sinks: true, // false sets them aside
  pool: "mean",
  colour: null, // linear, or logarithmic where the text is long and causal
  pointed: null, // query and key under the pointer, [token|null, token|null], in all pictures; not part of the address
  measure: "weight", // or ‖weight · v · W_O‖, the mean over all layers, rollout
});

/** @param {Partial<Chosen>} [start] @returns {State} */
export function makeState(start = {}) {
  /** @type {Chosen} */
  let chosen = Object.freeze({ ...UNCHOSEN, ...start });
  /** @type {Set<(now: Chosen, before: Chosen) => void>} */
  const listeners = new Set();
  return {
    get: () => chosen,
    set(patch) {
      const before = chosen;
      const changed = Object.entries(patch).some(([name, value]) => !same(before[name], value));
      if (!changed) return;
      chosen = Object.freeze({ ...before, ...patch });
      const now = chosen;
      for (const react of [...listeners]) if (listeners.has(react)) react(now, before);
    },
    listen(react, names) {
      const changed = (/** @type {Chosen} */ now, /** @type {Chosen} */ before) =>
        (!names || names.some((name) => !same(now[name], before[name]))) && react(now, before);
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
  };
}

/** The layers that can be shown: a page may hold only some. @param {Description} description @returns {number[]} */
export function keptLayers({ kept, layers }) {
  return kept?.layers ?? Array.from({ length: Math.max(layers ?? 1, 1) }, (_, layer) => layer);
}

/** The heads that can be shown: a page may hold only some. @param {Description} description @returns {number[]} */
export function keptHeads({ kept, heads }) {
  return kept?.heads ?? Array.from({ length: Math.max(heads ?? 1, 1) }, (_, head) => head);
}

/** Whether the page holds a head. @param {HeadPlace} head @param {Description} description */
export function isKept({ layer, head }, description) {
  return keptLayers(description).includes(layer) && keptHeads(description).includes(head);
}

/** All heads, layer after layer. @param {number} layers @param {number} heads @returns {HeadPlace[]} */
export function headsOf(layers, heads) {
  return Array.from({ length: layers * heads }, (_, at) => ({ layer: Math.floor(at / heads), head: at % heads }));
}

/** The model's number of a layer: of a watched model, a reading may hold only some. @param {Description} description @param {number} layer */
export function numberOfLayer({ layer_numbers }, layer) {
  return layer_numbers?.[layer] ?? layer;
}

/** The model's number of a head. @param {Description} description @param {number} head */
export function numberOfHead({ head_numbers }, head) {
  return head_numbers?.[head] ?? head;
}

/** Whether a layer needs naming: there are several, or it is not the model's first. @param {Description} description */
export function hasLayers(description) {
  return description.layers > 1 || numberOfLayer(description, 0) > 0;
}

/** Whether a head needs naming. @param {Description} description */
export function hasHeads(description) {
  return description.heads > 1 || numberOfHead(description, 0) > 0;
}

/** "Layer 3, head 5". @param {HeadPlace} head @param {Description} description */
export function nameOfHead({ layer, head }, description) {
  const number = numberOfHead(description, head);
  return hasLayers(description) ? `Layer ${numberOfLayer(description, layer)}, head ${number}` : `Head ${number}`;
}

/**
 * The state restricted to what exists: an address may come from another text.
 * @param {Partial<Chosen>} given @param {Description} description
 * @returns {Partial<Chosen>}
 */
export function fitted(given, description) {
  const tokens = description.tokens?.length ?? 0;
  const [layers, heads] = [keptLayers(description), keptHeads(description)];
  const fits = { ...given };
  const within = (/** @type {any} */ value, /** @type {number} */ count) =>
    Number.isInteger(value) && value >= 0 && value < count;
  if ("layer" in fits && !layers.includes(/** @type {number} */ (fits.layer))) fits.layer = layers[0];
  if ("head" in fits && !heads.includes(/** @type {number} */ (fits.head))) fits.head = heads[0];
  if (fits.heads) {
    const kept = [...new Set(fits.heads.filter((head) => heads.includes(head)))].sort((a, b) => a - b);
    fits.heads = kept.length ? kept : null;
  }
  if (fits.query !== undefined && !within(fits.query, tokens)) fits.query = null;
  if (fits.key !== undefined && !within(fits.key, tokens)) fits.key = null;
  if (fits.region) {
    const [r0, r1, c0, c1] = fits.region;
    const valid = fits.region.length === 4 && fits.region.every((edge) => edge >= 0 && edge <= tokens);
    if (!valid || r0 >= r1 || c0 >= c1) fits.region = null;
  }
  return fits;
}

/**
 * What changes with another text: words are found by their names. It opens at its own start, unless a head was chosen by hand: then that
 * head stays, and the word if it is there.
 * @param {Chosen} chosen @param {Description} before @param {Description} after @returns {Partial<Chosen>}
 */
export function carriedOver(chosen, before, after) {
  /** @type {Partial<Chosen>} */
  const carried = { roles_asked: null };
  for (const name of ["query", "key"]) {
    const token = chosen[name];
    if (token === null || before.tokens?.[token] === after.tokens?.[token]) continue;
    carried[name] = tokenOfName(nameOfToken(token, before), after) ?? null;
  }
  if (before.tokens?.length !== after.tokens?.length) carried.region = null;
  const { start } = before;
  const untouched = start && /** @type {const} */ (["layer", "head", "query"]).every((name) => chosen[name] === start[name]);
  return untouched && after.start && !chosen.heads ? { ...carried, ...after.start } : carried;
}

/**
 * The address of a state, `#layer=4&head=7&query=they`; what the page opens with is omitted.
 * @param {Chosen} chosen @param {Description} description
 */
export function addressOf(chosen, description) {
  const parts = [];
  /** @type {Chosen} */
  const usual = { ...UNCHOSEN, ...description.start };
  for (const [name, value] of Object.entries(chosen)) {
    if (name === "pointed" || value === undefined || same(value, usual[name]) || (value === null && (usual[name] ?? null) === null)) continue;
    parts.push(`${encoded(name)}=${value === null ? "" : encoded(written(name, value, description))}`);
  }
  return parts.length ? `#${parts.join("&")}` : "";
}

/** The parts of an address by name. @param {string} address @returns {Record<string, string>} */
export function partsOf(address) {
  const pairs = address.replace(/^#/, "").split("&").filter(Boolean);
  return Object.fromEntries(
    pairs.map((pair) => {
      const [name, ...rest] = pair.split("=");
      return [decoded(name), decoded(rest.join("="))];
    }),
  );
}

/**
 * The state in an address; missing and invalid parts are omitted.
 * @param {string} address @param {Description} description @returns {Partial<Chosen>}
 */
export function stateOf(address, description) {
  const values = Object.entries(partsOf(address)).map(([name, text]) => [name, read(name, text, description)]);
  return fitted(Object.fromEntries(values.filter(([name, value]) => name && value !== undefined)), description);
}

/**
 * A token's name in an address: its word, `they:2` for the second one, or its position if the word is unsuitable.
 * @param {number} token @param {Description} description
 */
export function nameOfToken(token, description) {
  const units = unitsOf(description, "word");
  const place = unitOf(units, token);
  const text = place < 0 ? "" : units[place].text;
  if (!/^[^\s:\d&=#\p{C}]{1,40}$/u.test(text) || units[place].first !== token) return String(token);
  let count = 0;
  for (let before = 0; before <= place; before++) if (units[before].text === text) count += 1;
  return count === 1 ? text : `${text}:${count}`;
}

/** The token named in an address; undefined if there is none. @param {string} name @param {Description} description */
export function tokenOfName(name, description) {
  if (/^\d+$/.test(name)) return Number(name);
  const [, text, which] = /^(.*?)(?::(\d+))?$/s.exec(name) ?? [];
  const units = unitsOf(description, "word");
  const folded = text.toLowerCase();
  const exact = units.filter((unit) => unit.text === text);
  const found = exact.length ? exact : units.filter((unit) => unit.text.toLowerCase() === folded);
  return found[Number(which ?? 1) - 1]?.first;
}

const NUMBERS = ["layer", "head"];
const LISTS = ["heads", "region"];
const TOKENS = ["query", "key"];
/** @type {Record<string, string[]>} */
const CHOICES = {
  by: ["word", "token"],
  pool: ["mean", "max"],
  colour: ["linear", "log"],
  measure: ["weight", "norm", "mean", "rollout"],
};

/** @param {string} name @param {any} value @param {Description} description */
function written(name, value, description) {
  if (TOKENS.includes(name)) return nameOfToken(value, description);
  if (name === "layer") return String(numberOfLayer(description, value));
  if (name === "head") return String(numberOfHead(description, value));
  if (name === "heads") return value.map((/** @type {number} */ head) => numberOfHead(description, head)).join(",");
  if (LISTS.includes(name)) return value.join(",");
  if (name === "sinks") return value ? "counted" : "aside";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** @param {string} name @param {string} text @param {Description} description */
function read(name, text, description) {
  if (text === "" && TOKENS.includes(name)) return null;
  if (TOKENS.includes(name)) return tokenOfName(text, description);
  if (NUMBERS.includes(name)) return /^\d{1,6}$/.test(text) ? placeOf(Number(text), description[name === "layer" ? "layer_numbers" : "head_numbers"]) : undefined;
  if (name === "heads" && /^\d+(,\d+)*$/.test(text)) return text.split(",").map((one) => placeOf(Number(one), description.head_numbers) ?? -1);
  if (LISTS.includes(name)) return /^[\d.]+(,[\d.]+)*$/.test(text) ? text.split(",").map(Number) : undefined;
  if (name === "sinks") return text === "aside" ? false : text === "counted" ? true : undefined;
  if (Object.hasOwn(CHOICES, name)) return CHOICES[name].includes(text) ? text : undefined;
  if (name === "view") return /^[a-z_]+$/.test(text) ? text : undefined;
  if (!/^[a-z]+(_[a-z]+)+$/.test(name)) return undefined; // a view's own keys are prefixed with its name
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The position of a number of the model; undefined if it is not among those of the reading. @param {number} number @param {number[]|undefined} numbers */
function placeOf(number, numbers) {
  if (!numbers) return number;
  const place = numbers.indexOf(number);
  return place < 0 ? undefined : place;
}

/** @param {string} text */
export function encoded(text) {
  // Commas and colons stay readable.
  return encodeURIComponent(text).replace(/%2C/g, ",").replace(/%3A/g, ":");
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text.replace(/\+/g, " "));
  } catch {
    return text;
  }
}

/** @param {unknown} one @param {unknown} other */
function same(one, other) {
  return one === other || (typeof one === "object" && JSON.stringify(one) === JSON.stringify(other));
}
