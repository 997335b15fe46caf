/** What is said of the votes. Pure functions. */
import { isMasked, maskingOf } from "../../maths/masking.js";
import { printedNumber } from "../../maths/numbers.js";
import { headOf } from "../../maths/votes.js";
import { nameOfHead } from "../../page/state.js";
import { shortened, sinksOf } from "../../elements/words.js";

/** A part of a sentence; strong parts are words and numbers. @typedef {{text: string, strong?: boolean, next?: boolean}} Part  next: begins a line */

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

/** How many layers have voted. @param {number} now @param {number} all */
export function layersText(now, all) {
  if (now === all) return `All ${all} layers have voted. Drag to replay.`;
  return now === 0 ? `No layer has voted: ${all} to come.` : `${now} of ${all} layers ${now === 1 ? "has" : "have"} voted.`;
}

/** "[CLS] or [SEP]", or “The”. @param {Unit[]} units */
function sinkNames(units) {
  return sinksOf(units).listed.replace(/ and /g, " or ");
}

/** What one head does. @param {import("./model.js").Ballot} ballot @param {string} name */
export function sayHead({ description, units, votes }, name) {
  const { layer, head } = headOf(name);
  const vote = votes.find((one) => one.layer === layer && one.head === head);
  if (!vote) return "";
  const word = vote.word === null ? "no word more than another" : `${shortened(units[vote.word].text, 30)} (${printedNumber(vote.weight, 2)})`;
  const rest = vote.abstains && vote.word !== null ? `, but more at ${sinkNames(units)}` : "";
  return `${nameOfHead(vote, description)} looks at ${word}${rest}`;
}

/**
 * The legend: entries with the key of their dots, if they have one. `word` ends the sentence.
 * @param {import("./model.js").Ballot} ballot @param {Pick<import("./model.js").Scene, "layers"|"counted"|"apart"|"asker"|"changed">} scene
 * @returns {{key?: "first"|"abstains"|"changed", text: string, word?: string}[]}
 */
export function legendOf({ description, units, votes }, { layers, counted: now, apart, asker, changed }) {
  const voted = new Set(layers.slice(0, now));
  const voting = votes.filter(({ layer }) => voted.has(layer));
  const resting = voting.filter(({ abstains, word }) => abstains && word !== null).length;
  const ties = voting.filter(({ word }) => word === null).length;
  const masks = layers.map((layer) => maskingOf(description, { layer }));
  const asking = units[asker];
  const isHidden = (/** @type {Unit} */ unit) => !unit.special && masks.every((masking) => isMasked(masking, [asking.first, asking.last], [unit.first, unit.last]));
  return [
    { key: "first", text: "looks here most" },
    ...(resting ? [{ key: /** @type {const} */ ("abstains"), text: `${resting} of ${voting.length} abstain: they look at ${sinkNames(units)} most${apart ? "" : ", and here next"}` }] : []),
    ...(ties ? [{ text: `${ties} ${ties === 1 ? "is" : "are"} undecided` }] : []),
    ...(changed.size ? [{ key: /** @type {const} */ ("changed"), text: `${changed.size} changed their word` }] : []),
    ...(units.some(isHidden) ? [{ text: "Grey words are hidden from ", word: asking.text }] : []),
  ];
}

/** What votes are, for whoever asks. @param {import("./model.js").Ballot} ballot */
export function explanationOf({ description, votes }) {
  const model = description.model && description.model !== "given" ? description.model : "this model";
  return [
    `A language model reads a sentence with many small parts, called heads: ${model} has ${votes.length}. In each head every word looks at the other words and takes something from them. That is attention.`,
    "Each dot is one head. It falls on the word that the marked word looks at most. Heads disagree, because each looks for something else: the word before, the noun a pronoun stands for, the verb.",
    "A dot says where a head looks, not why the model answers as it does.",
  ];
}
