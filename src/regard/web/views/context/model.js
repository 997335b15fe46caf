/** Two words compared: in two texts, or in one. Pure functions. */
import { dot, lengthOf } from "../../maths/numbers.js";
import { strongest } from "../../maths/links.js";
import { isMasked, maskingOf } from "../../maths/masking.js";
import { keptHeads, keptLayers, tokenOfName } from "../../page/state.js";
import { unitOf, unitsOf } from "../../elements/words.js";
import { swapped } from "../guess/model.js";

/** Pairs of texts in which the same word means something else. */
export const PAIRS = [
  { name: "Apple: phones or pie", texts: ["Love Apple phones", "Love apple pie"], word: "apple" },
  {
    name: "they: kids or lions",
    texts: ["The kids were scared of the lions, so they left right away.", "The lions were scared of the kids, so they left right away."],
    word: "they",
  },
  { name: "keys: to a door or of a piano", texts: ["Keys on the table belong to Sarah", "She presses the black keys of the piano"], word: "keys" },
];

/** The pair that begins with a text. @param {string} text */
export function pairOf(text) {
  return PAIRS.find(({ texts }) => texts[0].toLowerCase() === text.trim().toLowerCase()) ?? null;
}

/** @typedef {{layer: number, head: number, query: number}} Selection */

/**
 * Layer, head and word on the right: chosen, or as on the left.
 * @param {Chosen} chosen @param {string|null} word on the left @param {Description} of what is on the right @param {boolean} isOther whether that is another text
 * @returns {Selection}
 */
export function selectionThere(chosen, word, of, isOther) {
  const fits = (/** @type {number[]} */ kept, /** @type {number} */ own, /** @type {number} */ same) => (kept.includes(own) ? own : kept.includes(same) ? same : kept[0]);
  const { context_word: name } = chosen;
  const named = typeof name === "string" || typeof name === "number" ? tokenOfName(String(name), of) : undefined;
  return {
    layer: fits(keptLayers(of), chosen.context_layer, chosen.layer),
    head: fits(keptHeads(of), chosen.context_head, chosen.head),
    query: named !== undefined && named < of.tokens.length ? named : isOther ? sameWord(word, of) : otherWord(word, of),
  };
}

/** The word on the left: the chosen one; at first one that both texts have. @param {number|null} query @param {Description} description @param {Description|null} other */
export function queryHere(query, description, other) {
  const isChosen = query !== null && query !== description.start?.query;
  return (other && !isChosen ? sharedWord(description, other) : null) ?? query ?? sameWord(null, description);
}

const SHOWN = 4; // words listed
const TEXT = 160; // words of the text

/**
 * What a pane shows: the words of its text with their weights, the strongest of them, and what sinks take.
 * @param {{description: Description, layer: number, query: number, measure: Measure}} shown @param {ArrayLike<number>|null} weights
 */
export function paneOf({ description, layer, query, measure }, weights) {
  const units = unitsOf(description, "word");
  const own = unitOf(units, query);
  const usable = weights?.length === units.length ? weights : null;
  const most = measure === "norm" && usable ? Math.max(...Array.from(usable), 1e-9) : 1;
  const masking = maskingOf(description, { layer, measure });
  const asker = units[own];
  const words = units.slice(0, TEXT).map((unit, place) => ({
    place,
    unit,
    weight: usable ? usable[place] : null,
    share: usable ? Math.min(1, usable[place] / most) : 0,
    isHidden: own >= 0 && isMasked(masking, [asker.first, asker.last], [unit.first, unit.last]),
  }));
  const best = usable ? strongest(usable, SHOWN, { skip: (place) => units[place].sink || place === own }) : [];
  return {
    words,
    own,
    name: asker?.text ?? "",
    isCut: units.length > TEXT,
    bars: best.map((place) => ({ text: units[place].text, weight: usable?.[place] ?? 0, share: Math.min(1, (usable?.[place] ?? 0) / most) })),
    sinks: units.filter((unit) => unit.sink),
    taken: usable && measure !== "norm" ? units.reduce((sum, unit, place) => sum + (unit.sink ? usable[place] : 0), 0) : null,
  };
}

/** The text that is compared with one at first: that of the pair, or the same with its nouns swapped; empty where neither is there. @param {string} text */
export function comparedText(text) {
  return pairOf(text)?.texts[1] ?? swapped(text) ?? "";
}

/** In one text, the word that another is compared with at first: the first other word of some length. @param {string|null} text @param {Description} description */
function otherWord(text, description) {
  const units = unitsOf(description, "word").filter((unit) => !unit.sink && !unit.special && unit.text.toLowerCase() !== text?.toLowerCase());
  return (units.find((unit) => /^[\p{L}\p{N}]{4,}$/u.test(unit.text)) ?? units[0])?.first ?? sameWord(text, description);
}

/**
 * How far two vectors are apart at every layer, as `Reading.moved` computes it.
 * @param {Float32Array} here (layer + 1, piece, width) @param {Float32Array} there @param {number[]} shapeHere @param {number[]} shapeThere
 * @returns {{cosine: number, distance: number}[]|null} null where the two are of different sizes
 */
export function movesOf(here, there, shapeHere, shapeThere) {
  const [layers, , width] = shapeHere;
  if (shapeThere[0] !== layers || shapeThere[2] !== width) return null;
  return Array.from({ length: layers }, (_, layer) => {
    const [one, other] = [meanOf(here, shapeHere, layer), meanOf(there, shapeThere, layer)];
    const apart = Float64Array.from(one, (number, place) => number - other[place]);
    const lengths = lengthOf(one) * lengthOf(other);
    return { cosine: dot(one, other) / Math.max(lengths, Number.MIN_VALUE), distance: lengthOf(apart) };
  });
}

/** The mean over a word's pieces at one layer. @param {Float32Array} states @param {number[]} shape @param {number} layer */
function meanOf(states, [, pieces, width], layer) {
  const mean = new Float64Array(width);
  for (let piece = 0; piece < pieces; piece++)
    for (let place = 0; place < width; place++) mean[place] += states[(layer * pieces + piece) * width + place] / pieces;
  return mean;
}

/** The position of a word in another text: the same spelling, else a word that is not set aside. @param {string|null} text @param {Description} description */
function sameWord(text, description) {
  const units = unitsOf(description, "word");
  const folded = text?.toLowerCase() ?? null;
  const found = units.find((unit) => unit.text.toLowerCase() === folded) ?? units.find((unit) => unit.first === description.start?.query);
  return (found ?? units.find((unit) => !unit.sink && !unit.special) ?? units[0])?.first ?? 0;
}

/** The first word that both texts have, the pair's own before others; null if they share none. @param {Description} one @param {Description} other */
function sharedWord(one, other) {
  const own = pairOf(one.text ?? "")?.word;
  const there = new Set(unitsOf(other, "word").map((unit) => unit.text.toLowerCase()));
  const usable = unitsOf(one, "word").filter((unit) => !unit.sink && !unit.special && /[\p{L}\p{N}]/u.test(unit.text) && there.has(unit.text.toLowerCase()));
  const found = usable.find((unit) => unit.text.toLowerCase() === own) ?? usable.sort((a, b) => b.text.length - a.text.length)[0];
  return found?.first ?? null;
}

/** What the chart shows, in one sentence. @param {{cosine: number}[]} moves @param {string} one @param {string} other @param {boolean} sameText */
export function saidOfMoves(moves, one, other, sameText) {
  const [first, last] = [moves[0].cosine, moves[moves.length - 1].cosine];
  const names = one.toLowerCase() === other.toLowerCase() ? `the two vectors of “${one}”` : `the vectors of “${one}” and “${other}”`;
  const number = (/** @type {number} */ cosine) => cosine.toFixed(2).replace("-", "−");
  const start = one.toLowerCase() === other.toLowerCase() && first > 0.999 ? "Before the first layer they are the same" : `Before the first layer the cosine of ${names} is ${number(first)}`;
  if (sameText && first > 0.999 && last > 0.999) return "This is the same word in the same text: choose another word, or another text on the right.";
  const moved = first - last;
  const turn = moved > 0.1 ? "the context has moved them apart" : moved > 0.02 ? "the context has moved them a little apart" : moved < -0.02 ? "the context has brought them together" : "the context has hardly moved them";
  return `${start}; after the last layer ${first > 0.999 ? `the cosine of ${names}` : "it"} is ${number(last)}: ${turn}.`;
}
