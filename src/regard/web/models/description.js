/** What a page shows of a reading that a model in the page made: the description that `regard/viewer/describe.py` writes. */
import { weightsOfRows } from "../sources/layer.js";
import { opening } from "./opening.js";
import { utf16Spans } from "./tokenizers/code_points.js";

/** @typedef {import("./reading.js").Reading} Reading */

const FORMAT = 1;
const LONG = 4096; // tokens: a matrix of more than 4096² weights per head is not computed whole unless asked for
const CERTIFIED = 4096; // tokens: certifying a longer reading takes too long
const MEASURED = 1024; // tokens of a text whose means and rollout are computed, as whole matrices
const LONGEST_TITLE = 80;
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/; // eslint-disable-line no-control-regex

/** @param {Reading} reading @param {(layer: number) => import("../sources/layer.js").Layer} layerOf @returns {Description} */
export function describe(reading, layerOf) {
  const { model, encoded, text, count } = reading;
  const { encoders } = model.layers;
  const first = encoders[0].attention;
  const { masks, ofLayer } = masksOf(reading);
  const heads = Math.max(...encoders.map(({ attention }) => attention.heads));
  const isLong = count > LONG;
  return {
    format: FORMAT,
    kind: "reading",
    title: titleOf(text),
    text,
    model: model.name,
    source: model.name,
    tokens: encoded.texts,
    special: placesOf(encoded.special),
    joined: placesOf(encoded.joined),
    words: reading.words.map(({ first, last }) => [first, last]),
    given: reading.given,
    stops: isLong || !text ? null : utf16Spans(text, encoded.spans).map(([, stop]) => stop),
    layers: encoders.length,
    layer_numbers: encoders.map((_, layer) => layer),
    heads: first.heads,
    key_heads: first.keyHeads,
    head_dim: first.headDim,
    value_dim: first.valueDim,
    scale: first.scale,
    softcap: first.softcap,
    mask: expressionOf(first),
    ...masks[0],
    head_numbers: Array.from({ length: heads }, (_, head) => head),
    sinks: reading.sinks,
    queries: count,
    query_tokens: null,
    first_query: 0,
    masks: masks.map((mask) => ({ ...mask, visible: null })),
    mask_of_layer: ofLayer,
    long: isLong,
    certificate: count > CERTIFIED ? null : { ...reading.certificate, unverified: "" },
    has: answered(reading),
    measures: count <= MEASURED ? ["weight", "norm", "mean", "rollout"] : ["weight"],
    w_o: encoders.every(({ attention }) => attention.wo !== null),
    kept: { layers: null, heads: null },
    editable: null,
    lookup: null,
    note: null,
    known: null,
    start: isLong ? null : startOf(reading, layerOf),
    ...(model.causal ? {} : { compared: model.manifest.compared }),
  };
}

/** The kinds of queries that are answered. @param {Reading} reading */
function answered({ count, model }) {
  const kinds = ["tile", "row", "statistics", "thumbnails", "along", "links", "heads_for", "vectors", "architecture", "steps", "states", "block", "embedding"];
  if (count <= LONG) kinds.push("flow", "patching", ...(model.writes ? ["lens"] : []));
  if (model.writes) kinds.push("next", "likelihood");
  if (!model.causal) kinds.push("embed");
  if (count <= MEASURED) kinds.push("value_grams");
  return kinds;
}

/** The different masks, and which of them each layer has. @param {Reading} reading */
function masksOf({ model: { layers } }) {
  /** @type {{causal: boolean, window: number|null}[]} */
  const masks = [];
  const ofLayer = layers.encoders.map(({ attention: { causal, window } }) => {
    const mask = { causal, window: window === null ? null : window + 1 };
    const place = masks.findIndex((other) => other.causal === mask.causal && other.window === mask.window);
    return place < 0 ? masks.push(mask) - 1 : place;
  });
  return { masks, ofLayer };
}

/** @param {import("./layers.js").MultiHead} attention */
function expressionOf({ causal, window }) {
  if (!causal) return null;
  return window === null ? "causal()" : `causal() & window(${window})`;
}

/** Layer, head and query token of the strongest link between content words. @param {Reading} reading @param {(layer: number) => import("../sources/layer.js").Layer} layerOf */
function startOf(reading, layerOf) {
  const { words, model, count } = reading;
  const { layer, head, query } = opening({
    words: words.map(({ text }) => text),
    spans: words.map(({ first, last }) => [first, last]),
    layers: model.layers.encoders.length,
    heads: (of) => model.layers.encoders[of].attention.heads,
    sinks: reading.sinkWords,
    rows: (of, one, first, last) => weightsOfRows(layerOf(of), one, [first, last], [0, count]),
  });
  return { layer, head, query: words[query].first };
}

/** @param {string} text */
function titleOf(text) {
  const words = Array.from(text).slice(0, 4 * LONGEST_TITLE).join("").split(SPACES).filter(Boolean).join(" "); // prettier-ignore
  const letters = Array.from(words);
  return letters.length <= LONGEST_TITLE ? words : `${letters.slice(0, LONGEST_TITLE - 1).join("").trimEnd()}…`;
}

/** @param {boolean[]} flags */
function placesOf(flags) {
  return flags.flatMap((flag, place) => (flag ? [place] : []));
}
