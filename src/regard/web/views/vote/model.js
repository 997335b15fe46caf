/** The votes as dots: who votes for which word, how dots pile up on words, and what the result says. Pure functions. */
import { countsOf, voteOf } from "../../maths/votes.js";

/** @typedef {import("../../maths/votes.js").HeadVote} HeadVote */
/** A part of a sentence; strong parts are words and numbers. @typedef {{text: string, strong?: boolean, next?: boolean}} Part  next: begins a line */

const PITCHES = [14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2]; // pixels between the centres of two dots, largest first
const COLUMNS = 3; // of a pile, at least
const SHARED = 0.7; // of the words, in texts that are compared
const APART = 4; // pixels between votes and the next choices of heads that abstain

/**
 * The votes of all heads, layer after layer.
 * @param {{layer: number, heads: number[], rows: ArrayLike<number>}[]} answers weights of the asking word, (head, word), per layer
 * @param {Unit[]} units @param {number} asker
 * @returns {HeadVote[]}
 */
export function votesOf(answers, units, asker) {
  const sinks = units.flatMap((unit, place) => (unit.sink ? [place] : []));
  return answers.flatMap(({ layer, heads, rows }) =>
    heads.map((head, slot) => {
      const row = Array.from({ length: units.length }, (_, word) => rows[slot * units.length + word]);
      return { layer, head, ...voteOf(row, { sinks, own: asker }) };
    }),
  );
}

/**
 * Where each dot is: on a word, apart in the tray, or waiting in its layer.
 * @param {HeadVote[]} votes
 * @param {{layers: number[], counted: number, apart: boolean}} shown counted: how many layers have voted; apart: heads that
 *   abstain are not counted
 */
export function placed(votes, { layers, counted, apart }) {
  const waits = new Set(layers.slice(counted));
  return votes.map((vote) => {
    const where = waits.has(vote.layer) ? "layer" : vote.word === null || (apart && vote.abstains) ? "tray" : "word";
    return { ...vote, where: /** @type {"layer"|"tray"|"word"} */ (where) };
  });
}

/** @typedef {ReturnType<typeof placed>[number]} Dot */

/** How many dots are on each word. @param {Dot[]} dots @param {number} words */
export function tallied(dots, words) {
  return countsOf(
    dots.filter(({ where }) => where === "word"),
    words,
  );
}

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

/** The height of votes below and next choices above them. @param {number[]} counts @param {{pitch: number, columns: number}} shape */
export function pileHeight(counts, { pitch, columns }) {
  const rows = counts.reduce((sum, count) => sum + Math.ceil(count / columns), 0);
  return rows * pitch + (counts.every(Boolean) ? APART : 0);
}

/**
 * The dots of one word from the bottom up, relative to the middle of the pile's foot: votes first, then next choices.
 * @param {number[]} counts of both @param {{pitch: number, columns: number}} shape
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
 * @param {number} count @param {{pitch: number, columns: number}} shape
 */
export function rowsOf(count, { pitch, columns }) {
  return Array.from({ length: count }, (_, place) => ({
    x: ((place % columns) + 0.5) * pitch,
    y: (Math.floor(place / columns) + 0.5) * pitch,
  }));
}

/** Whether two texts are the same but for a few words, so that their votes can be compared. @param {Iterable<string>} before @param {string[]} after keys */
export function isAlike(before, after) {
  const there = new Set(before);
  return after.filter((key) => there.has(key)).length >= SHARED * Math.max(after.length, there.size);
}

/** Heads whose word is another than before, by name: "3.1". @param {HeadVote[]} votes @param {Map<string, string>} before @param {string[]} keys */
export function changedHeads(votes, before, keys) {
  const now = choicesOf(votes, keys);
  return new Set([...now].filter(([head, word]) => before.has(head) && before.get(head) !== word).map(([head]) => head));
}

/** The word that each head votes for, by the name of the head. @param {HeadVote[]} votes @param {string[]} keys @returns {Map<string, string>} */
export function choicesOf(votes, keys) {
  return new Map(votes.map(({ layer, head, word }) => [nameOf({ layer, head }), word === null ? "" : keys[word]]));
}

/** @param {HeadPlace} head */
export function nameOf({ layer, head }) {
  return `${layer}.${head}`;
}

/** Names by which words are found again in another text: "the", "the:2", whatever their case. @param {Unit[]} units @returns {string[]} */
export function keysOf(units) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  return units.map(({ text }) => {
    const folded = text.toLowerCase();
    const count = (seen.get(folded) ?? 0) + 1;
    seen.set(folded, count);
    return count === 1 ? folded : `${folded}:${count}`;
  });
}

/**
 * The result in a sentence or two.
 * @param {{counts: number[], texts: string[], asker: number, guess: number|null, heads: number}} result heads: that can vote
 * @returns {Part[]}
 */
export function resultOf({ counts, texts, asker, guess, heads }) {
  const order = counts.map((_, word) => word).filter((word) => counts[word]);
  order.sort((one, other) => counts[other] - counts[one] || one - other);
  const strong = (/** @type {string|number} */ text) => ({ text: String(text), strong: true });
  const plain = (/** @type {string} */ text) => ({ text });
  const near = (/** @type {number} */ word) => (word === asker - 1 ? ", the word before it" : word === asker + 1 ? ", the word after it" : "");
  if (!order.length) return [plain("No head looks at another word yet.")];
  const [top, second] = order;
  const alone = second === undefined || counts[top] > counts[second];
  if (guess === null) {
    const parts = order.slice(0, 3).flatMap((word, place) => [plain(place ? ", " : ""), strong(counts[word]), plain(place ? " at " : " look at "), strong(texts[word])]);
    return [plain(`Of ${counted(heads)}, `), ...parts, plain(".")];
  }
  const agree = counts[guess];
  if (guess === top && alone)
    return [strong(`${agree} of ${counted(heads)}`), plain(` ${agree === 1 ? "agrees" : "agree"} with you: `), strong(texts[guess]), plain(" gets the most votes.")];
  const opening = [plain("You said "), strong(texts[guess]), plain(": "), strong(agree ? `${agree} of ${counted(heads)}` : "no head"), plain(agree > 1 ? " agree." : " agrees.")];
  if (guess === top || counts[guess] === counts[top]) return [...opening, { text: "No word gets more.", next: true }];
  return [...opening, { text: "Most votes, ", next: true }, strong(counts[top]), plain(", go to "), strong(texts[top]), plain(`${near(top)}.`)];
}

/** @param {number} heads */
export function counted(heads) {
  return heads === 1 ? "1 head" : `${heads.toLocaleString("en")} heads`;
}

/** Whether each word follows a space in the text; where a word is not found, it does. @param {string} text @param {Unit[]} units @returns {boolean[]} */
export function spacesOf(text, units) {
  const folded = text.toLowerCase();
  let at = 0;
  return units.map((unit) => {
    if (unit.special) return true;
    const place = folded.indexOf(unit.text.toLowerCase(), at);
    if (place < 0) return true;
    const spaced = place > at || at === 0;
    at = place + unit.text.length;
    return spaced;
  });
}
