/**
 * One vote per head: the word that a given word attends to most. The same rules as regard/reading/votes.py, kept equal by
 * fixtures (tests/web/fixtures.py). Sinks and the word itself are set aside; a head whose largest weight of all is on a sink
 * abstains, and its vote is its next choice; ties abstain without a vote, and words without weight get none.
 */

const TIE = 1e-6; // relative difference that single precision cannot resolve

/**
 * @typedef {{word: number|null, weight: number, abstains: boolean}} Vote  word: its position
 * @typedef {HeadPlace & Vote} HeadVote
 */

/**
 * The vote of one head.
 * @param {ArrayLike<number>} row weights by word
 * @param {{sinks?: Iterable<number>, own?: number|null}} [aside] positions; own is null where queries are not among the keys
 * @returns {Vote}
 */
export function voteOf(row, { sinks = [], own = null } = {}) {
  const set = new Set(sinks);
  let [word, weight, second, inSinks] = [-1, 0, 0, -1];
  for (let place = 0; place < row.length; place++) {
    if (set.has(place)) inSinks = Math.max(inSinks, row[place]);
    else if (place === own) continue;
    else if (row[place] > weight) [word, weight, second] = [place, row[place], weight];
    else second = Math.max(second, row[place]);
  }
  if (word < 0 || second >= weight * (1 - TIE)) return { word: null, weight: 0, abstains: true };
  const largest = own === null ? weight : Math.max(weight, row[own]);
  return { word, weight, abstains: inSinks >= largest * (1 - TIE) };
}

/** @param {HeadPlace} head */
export function nameOf({ layer, head }) {
  return `${layer}.${head}`;
}

/** @param {string} name @returns {HeadPlace} */
export function headOf(name) {
  const [layer, head] = name.split(".").map(Number);
  return { layer, head };
}

/** How many votes each word has. @param {Vote[]} votes @param {number} words @returns {number[]} */
export function countsOf(votes, words) {
  const counts = Array(words).fill(0);
  for (const { word } of votes) if (word !== null) counts[word] += 1;
  return counts;
}
