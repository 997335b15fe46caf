/** Which heads are struck out, which others are struck out for comparison, and what is said of the change. Pure functions. */

import { countsOf, nameOf } from "../../maths/votes.js";
import { changedHeads, choicesOf, placed, tallied, votesOf } from "../vote/model.js";
import { pileShape } from "../vote/piles.js";

/** @typedef {import("../vote/result.js").Part} Part */

/** Heads in an address: "3.1,5.2". @param {unknown} text @param {Description} description @returns {HeadPlace[]} */
export function headsFrom(text, { layers, heads }) {
  const pairs = String(text ?? "").split(",").map((pair) => pair.split(".").map(Number));
  return pairs.filter(([layer, head]) => layer >= 0 && layer < layers && head >= 0 && head < heads).map(([layer, head]) => ({ layer, head }));
}

/** @param {HeadPlace[]} heads */
export function textOf(heads) {
  const order = [...heads].sort((one, other) => one.layer - other.layer || one.head - other.head);
  return order.length ? order.map(({ layer, head }) => `${layer}.${head}`).join(",") : undefined;
}

/** With one head struck out, or not any more. @param {HeadPlace[]} struck @param {HeadPlace} head */
export function toggled(struck, head) {
  const is = (/** @type {HeadPlace} */ other) => other.layer === head.layer && other.head === head.head;
  return struck.some(is) ? struck.filter((other) => !is(other)) : [...struck, head];
}

/**
 * As many other heads, in the same layers as far as there are some: what any heads would change.
 * @param {HeadPlace[]} struck @param {HeadPlace[]} all @returns {HeadPlace[]|null} null where too few are left
 */
export function controlFor(struck, all) {
  const taken = new Set(struck.map(({ layer, head }) => `${layer}.${head}`));
  const free = all.filter(({ layer, head }) => !taken.has(`${layer}.${head}`));
  /** @type {HeadPlace[]} */
  const control = [];
  for (const { layer, head } of struck) {
    const heads = free.filter((one) => one.layer === layer);
    const from = heads.length ? heads : free;
    const [next] = from.sort((one, other) => distance(one, head) - distance(other, head) || one.layer - other.layer);
    if (!next) return null;
    control.push(next);
    free.splice(free.indexOf(next), 1);
  }
  return control;
}

/** From a head to the right, around the end of the layer. @param {HeadPlace} one @param {number} head */
function distance(one, head) {
  return one.head > head ? one.head - head : 1000 + one.head;
}

/** The heads that look most at the word with the most votes, and those that abstain. @param {HeadVote[]} votes @param {Unit[]} units */
export function groupsOf(votes, units) {
  /** @type {Map<number, HeadPlace[]>} */
  const words = new Map();
  for (const { layer, head, word } of votes) if (word !== null) words.set(word, [...(words.get(word) ?? []), { layer, head }]);
  const most = [...words].sort(([one, ones], [other, others]) => others.length - ones.length || one - other).slice(0, 2);
  const groups = most.map(([word, heads]) => ({ text: `The ${heads.length} that look at ${units[word].text}`, heads }));
  const resting = votes.filter(({ abstains, word }) => abstains && word !== null).map(({ layer, head }) => ({ layer, head }));
  return resting.length ? [...groups, { text: `The ${resting.length} that abstain`, heads: resting }] : groups;
}

/**
 * How many heads after a change look at another word.
 * @param {{changed: number, of: number, word: string}} count of: heads of the later layers @returns {Part[]}
 */
export function saidOfVotes({ changed, of, word }) {
  if (!of) return [{ text: "No layer comes after: only the result can change." }];
  const heads = of === 1 ? "1 head" : `${of} heads`;
  if (!changed) return [{ text: "None", strong: true }, { text: ` of the ${heads} in later layers changes the word that “${word}” looks at.` }];
  return [{ text: `${changed} of ${heads}`, strong: true }, { text: ` in later layers now ${changed === 1 ? "looks" : "look"} from “${word}” to another word.` }];
}

/** "3 heads look". @param {number} count */
export function headsLook(count) {
  return count === 0 ? "no head looks" : count === 1 ? "1 head looks" : `${count} heads look`;
}

/** The votes after a change: layers before it stay as they are. @param {HeadVote[]} votes @param {Frame} frame @param {Unit[]} units @param {number} asker */
export function votesAfter(votes, { header, arrays }, units, asker) {
  const data = arrays.weight.toFloat32(); // (layer, head, word)
  const [, count, words] = arrays.weight.shape;
  const later = header.layers.map((/** @type {number} */ layer, /** @type {number} */ place) => {
    const rows = data.subarray(place * count * words, (place + 1) * count * words);
    return { layer, heads: Array.from({ length: count }, (_, head) => head).filter((head) => !Number.isNaN(rows[head * words])), rows };
  });
  const changed = new Map(votesOf(later, units, asker).map((vote) => [nameOf(vote), vote]));
  return votes.map((vote) => changed.get(nameOf(vote)) ?? vote);
}

/**
 * What is drawn of the votes after a change: struck heads lie in the tray, counts are compared with those before.
 * @param {HeadVote[]} votes without the change @param {{votes: HeadVote[], struck: Set<string>}} after @param {{keys: string[], layers: number[]}} words
 * @returns {import("../vote/draw.js").Scene}
 */
export function sceneAfter(votes, { votes: after, struck }, { keys, layers }) {
  const dots = placed(after, { layers, counted: layers.length, apart: false }).map((dot) => (struck.has(nameOf(dot)) ? { ...dot, where: /** @type {const} */ ("tray") } : dot));
  const isChanged = after !== votes || struck.size > 0;
  return {
    dots,
    layers,
    shape: pileShape(dots, keys.length, { width: 24, height: 84 }),
    counts: tallied(dots, keys.length),
    changed: changedHeads(after, choicesOf(votes, keys), keys),
    before: isChanged ? new Map(countsOf(votes, keys.length).map((count, word) => [keys[word], count])) : null,
    guess: null,
    open: true,
  };
}
