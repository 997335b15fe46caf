/** Where dots are: how they pile up on words, lie in rows, and wait in their layers. Pure functions. */
import { nameOf } from "../../maths/votes.js";

/** @typedef {import("./model.js").Dot} Dot */
/** @typedef {{pitch: number, columns: number}} PileShape */

const PITCHES = [14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2]; // pixels between the centres of two dots, largest first
const COLUMNS = 3; // of a pile, at least
const APART = 4; // pixels between votes and the next choices of heads that abstain
const LARGEST_WAITING = 10; // pixels between two dots that wait

/**
 * The largest dots whose highest pile fits; all piles have the same number of columns, so heights can be compared.
 * @param {Dot[]} dots @param {number} words @param {{width: number, height: number}} room for one pile, in pixels
 */
export function pileShape(dots, words, { width, height }) {
  const piles = pilesOf(dots, words);
  const shapes = PITCHES.map((pitch) => ({ pitch, columns: Math.max(2, Math.floor(width / pitch)) })).filter(({ columns }) => columns >= COLUMNS);
  const fits = shapes.find((shape) => piles.every((pile) => pileHeight(pile, shape) <= height));
  return fits ?? shapes[shapes.length - 1];
}

/** Of each word, how many heads choose it first and how many next. @param {HeadVote[]} votes @param {number} words */
export function pilesOf(votes, words) {
  const piles = Array.from({ length: words }, () => [0, 0]);
  for (const { word, abstains } of votes) if (word !== null) piles[word][Number(abstains)] += 1;
  return piles;
}

/** The height of votes below and next choices above them. @param {number[]} counts @param {PileShape} shape */
export function pileHeight(counts, { pitch, columns }) {
  const rows = counts.reduce((sum, count) => sum + Math.ceil(count / columns), 0);
  return rows * pitch + (counts.every(Boolean) ? APART : 0);
}

/**
 * The dots of one word from the bottom up, relative to the middle of the pile's foot: votes first, then next choices.
 * @param {number[]} counts of both @param {PileShape} shape
 * @returns {{x: number, y: number}[]} y grows downwards
 */
export function pile(counts, { pitch, columns }) {
  let foot = 0;
  return counts.flatMap((count, kind) => {
    if (kind && counts[0]) foot += APART;
    const start = foot;
    foot += Math.ceil(count / columns) * pitch;
    return Array.from({ length: count }, (_, place) => {
      const row = Math.floor(place / columns);
      const inRow = Math.min(columns, count - row * columns);
      return { x: ((place % columns) - (inRow - 1) / 2) * pitch, y: -(start + (row + 0.5) * pitch) };
    });
  });
}

/**
 * Dots in rows, filled from the left: the tray, or the heads of a layer that wait.
 * @param {number} count @param {PileShape} shape
 */
function rowsOf(count, { pitch, columns }) {
  return Array.from({ length: count }, (_, place) => ({
    x: ((place % columns) + 0.5) * pitch,
    y: (Math.floor(place / columns) + 0.5) * pitch,
  }));
}

/** The dots that wait: each layer has a slot of the strip, and all of them the same size. @param {Pick<import("./model.js").Scene, "dots"|"layers"|"shape">} scene @param {number} width of the strip */
export function waitingShape({ dots, layers, shape }, width) {
  const most = Math.max(1, ...layers.map((layer) => dots.filter((dot) => dot.layer === layer).length));
  const slot = width / Math.max(layers.length, 1);
  const pitch = Math.min(shape.pitch, LARGEST_WAITING, Math.max(2, slot / Math.ceil(Math.sqrt(most * 1.6) + 0.5)));
  const columns = Math.max(1, Math.min(most, Math.floor((slot * 0.86) / pitch)));
  return { slot, pitch, columns, height: Math.ceil(most / columns) * pitch + 4 };
}

/** The tray is as high as what is in it. @param {Pick<import("./model.js").Scene, "dots"|"shape">} scene @param {number} width */
export function trayHeight({ dots, shape }, width) {
  const count = dots.filter(({ where }) => where === "tray").length;
  return count ? Math.ceil(count / Math.max(1, Math.floor(width / shape.pitch))) * shape.pitch + 8 : 0;
}

/**
 * Where each dot belongs, by the name of its head.
 * @param {Pick<import("./model.js").Scene, "dots"|"layers"|"shape">} scene @param {ReturnType<typeof waitingShape>} waiting
 * @param {{words: {x: number, y: number}[], tray: {x: number, y: number, width: number}, strip: {x: number, y: number}}} at  the feet of the
 *   words' piles, and the corners of tray and strip
 */
export function goalsOf({ dots, layers, shape }, waiting, { words, tray, strip }) {
  /** @type {Map<string, {x: number, y: number, r: number}>} */
  const goals = new Map();
  const put = (/** @type {Dot[]} */ some, /** @type {{x: number, y: number}[]} */ points, /** @type {number} */ pitch, /** @type {{x: number, y: number}} */ from) =>
    points.forEach(({ x, y }, place) => goals.set(nameOf(some[place]), { x: from.x + x, y: from.y + y, r: Math.max(0.8, pitch * 0.41) }));
  words.forEach((foot, word) => {
    const on = dots.filter((dot) => dot.where === "word" && dot.word === word).sort((one, other) => Number(one.abstains) - Number(other.abstains));
    const resting = on.filter(({ abstains }) => abstains).length;
    put(on, pile([on.length - resting, resting], shape), shape.pitch, foot);
  });
  const lying = dots.filter(({ where }) => where === "tray");
  const columns = Math.max(1, Math.floor(tray.width / shape.pitch));
  const indent = Math.max(0, (tray.width - Math.min(lying.length, columns) * shape.pitch) / 2);
  put(lying, rowsOf(lying.length, { pitch: shape.pitch, columns }), shape.pitch, { x: tray.x + indent, y: tray.y + 4 });
  layers.forEach((layer, place) => {
    const waits = dots.filter((dot) => dot.where === "layer" && dot.layer === layer);
    const across = Math.min(waiting.columns, waits.length) * waiting.pitch;
    put(waits, rowsOf(waits.length, waiting), waiting.pitch, { x: strip.x + (place + 0.5) * waiting.slot - across / 2, y: strip.y });
  });
  return goals;
}
