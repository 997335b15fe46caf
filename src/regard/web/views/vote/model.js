/** The votes as dots: who votes for which word, and what there is to draw. Pure functions. */
import { countsOf, nameOf, voteOf } from "../../maths/votes.js";
import { keptLayers } from "../../page/state.js";
import { numbered, unitOf, unitsOf } from "../../elements/words.js";
import { pileShape } from "./piles.js";

/**
 * What the view knows of one text.
 * votes       none before they are asked for
 * before      the votes of the text before; compared: whether the two texts are compared
 * @typedef {{description: Description, units: Unit[], keys: string[], votes: HeadVote[],
 *   before: {heads: Map<string, string>, counts: Map<string, number>}|null, compared: boolean}} Ballot
 * @typedef {ReturnType<typeof sceneOf>} Scene
 */

const SHARED = 0.7; // of the words, in texts that are compared

/** @param {Description} description @returns {Ballot} */
export function ballotOf(description) {
  const units = unitsOf(description, "word");
  return { description, units, keys: keysOf(units), votes: [], before: null, compared: false };
}

/** Another text: its votes are compared with these if the votes are shown and the texts are alike. @param {Ballot} ballot @param {Description} description @param {boolean} isOpen @returns {Ballot} */
export function withText({ votes, keys, units }, description, isOpen) {
  const counts = new Map(countsOf(votes, units.length).map((count, word) => [keys[word], count]));
  const next = ballotOf(description);
  return { ...next, votes, before: { heads: choicesOf(votes, keys), counts }, compared: isOpen && isAlike(counts.keys(), next.keys) };
}

/** The word whose attention is shown: the chosen one, or the one that says most. @param {Unit[]} units @param {Chosen} chosen @param {Description} description */
export function askerOf(units, { query }, { start }) {
  const chosen = unitOf(units, query);
  return chosen >= 0 && !units[chosen].sink ? chosen : unitOf(units, start?.query ?? null);
}

/**
 * What there is to draw.
 * vote_open   whether the votes are shown; vote_guess: the word that was guessed, by its key
 * vote_layers how many layers have voted, null for all; vote_apart: heads that abstain lie in the tray
 * @param {Ballot} ballot @param {Chosen} chosen @param {{width: number, height: number}} room for one pile, in pixels
 */
export function sceneOf({ description, units, keys, votes, before, compared }, chosen, room) {
  const layers = keptLayers(description);
  const counted = Math.min(chosen.vote_layers ?? Infinity, layers.length);
  const apart = Boolean(chosen.vote_apart);
  const dots = placed(votes, { layers, counted, apart });
  const guess = (chosen.vote_guess ?? null) === null ? -1 : keys.indexOf(String(chosen.vote_guess));
  return {
    open: Boolean(chosen.vote_open),
    asker: askerOf(units, chosen, description),
    guess: guess < 0 ? null : guess,
    layers,
    counted,
    apart,
    dots,
    counts: tallied(dots, units.length),
    shape: pileShape(dots, units.length, room),
    changed: compared && before ? changedHeads(votes, before.heads, keys) : /** @type {Set<string>} */ (new Set()),
    before: (compared && before?.counts) || null,
  };
}

/** The head that looks most at a word, among those that vote for it. @param {HeadVote[]} votes @param {number} word */
export function bestVote(votes, word) {
  const mine = votes.filter((vote) => vote.word === word);
  return mine.length ? mine.reduce((best, vote) => (best.weight >= vote.weight ? best : vote)) : null;
}

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
  return countsOf(dots.filter(({ where }) => where === "word"), words);
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

/** Names by which words are found again in another text: "the", "the:2", whatever their case. @param {Unit[]} units @returns {string[]} */
export function keysOf(units) {
  return numbered(units.map(({ text }) => text.toLowerCase()));
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
