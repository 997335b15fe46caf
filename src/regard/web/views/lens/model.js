/** The logit lens as a map, and what it says of one word. Pure functions. */
import { printedNumber } from "../../maths/numbers.js";

/** @typedef {{tops: string[][], probability: ArrayLike<number>, rank: ArrayLike<number>}} Lens  tops[state][token], the embedding first */

/**
 * States down, tokens across: the most likely next token, in bold where it is the one that follows.
 * @param {Lens} lens @param {string[]} tokens @param {string[]} layers names of the layers @param {number[]} shown positions of the tokens
 * @returns {import("../../elements/heat_table.js").HeatMap}
 */
export function mapOf({ tops, probability, rank }, tokens, layers, shown) {
  const count = tokens.length;
  const rows = ["start", ...layers];
  return {
    title: "The most likely next token after each layer",
    corner: "After layer",
    rows,
    columns: shown.map((token) => tokens[token]),
    cells: tops.map((line, state) =>
      shown.map((token) => {
        const share = probability[state * count + token];
        const strong = rank[state * count + token] === 0;
        const place = state ? `After layer ${rows[state]}` : "Before the first layer";
        return { text: line[token], value: share, strong, title: `${place}, “${tokens[token]}”: “${line[token]}” with probability ${printedNumber(share, 3)}${strong ? ", and it does follow" : ""}` };
      }),
    ),
  };
}

/** Where the last answer after a token first appears and stays: the number of layers before it. @param {string[][]} tops @param {number} token */
export function settledAfter(tops, token) {
  let state = tops.length - 1;
  while (state > 0 && tops[state - 1][token] === tops[tops.length - 1][token]) state -= 1;
  return state;
}
