/** What can be shown instead of one head's weights, and in which words. */
import { byUnits } from "../elements/words.js";

/** Measures over all layers, which have neither layer nor head. @param {Measure} measure */
export function isOverLayers(measure) {
  return measure === "mean" || measure === "rollout";
}

/** The measure that is shown; an address may name one that this page does not have. @param {Pick<Chosen, "measure">} chosen @param {Description} description @returns {Measure} */
export function measureOf({ measure }, description) {
  return (description.measures ?? []).includes(measure) ? measure : "weight";
}

/** @param {Measure} measure @param {Description} description */
export function nameOfMeasure(measure, description) {
  return {
    weight: "Weights",
    norm: description.w_o ? "‖weight · v · W_O‖" : "‖weight · v‖",
    mean: "Mean of all layers and heads",
    rollout: "Rollout through all layers",
  }[measure];
}

/** What a measure says, in one sentence. @param {Measure} measure @param {Description} description */
export function saidOfMeasure(measure, description) {
  return {
    weight: "",
    norm: `How much each word contributes: the length of its weighted value${description.w_o ? " after W_O" : ""}. A large weight can rest on a small value.`,
    mean: `The mean of the weights of all ${description.layers * description.heads} heads.`,
    rollout: "Attention followed through all layers, half of each step staying with the word itself (Abnar and Zuidema, 2020).",
  }[measure];
}

/** Between a word and what it attends to. @param {Measure} measure */
export function verbOf(measure) {
  return {
    weight: " looks most at ",
    norm: " takes most from ",
    mean: " looks most, on average, at ",
    rollout: " draws most on ",
  }[measure];
}

/**
 * ‖Σ weight · v · W_O‖ between units: √(Σ w_j w_k · product_jk) over the tokens j, k of a key.
 * @param {{data: ArrayLike<number>, shape: number[]}} weight  tokens of `left` × tokens of `right`
 * @param {Float32Array} gram products of one head, word after word @param {TokenRange[]} left @param {TokenRange[]} right
 * @param {number[][]} words all words of the text
 */
export function normsByUnits(weight, gram, left, right, words) {
  const productOf = productsBy(gram, words);
  const tokens = right.flatMap(({ first, last }) =>
    Array.from({ length: last - first }, (_, piece) => ({ first: first + piece, last: first + piece + 1 })),
  );
  const rows = byUnits(weight, left, tokens); // averaged over the query's pieces
  const found = new Float32Array(left.length * right.length);
  const start = right[0]?.first ?? 0;
  left.forEach((_, line) => {
    right.forEach(({ first, last }, place) => {
      let sum = 0;
      for (let one = first; one < last; one++)
        for (let other = first; other < last; other++)
          sum +=
            rows[line * tokens.length + one - start] * rows[line * tokens.length + other - start] * productOf(one, other);
      found[line * right.length + place] = Math.sqrt(Math.max(sum, 0));
    });
  });
  return found;
}

/** The product of two tokens of one word. @param {Float32Array} gram @param {number[][]} words */
export function productsBy(gram, words) {
  /** @type {number[][]} per token: its word's first token, size, and place in `gram` */
  const about = [];
  let at = 0;
  for (const [first, last] of words) {
    for (let token = first; token < last; token++) about[token] = [first, last - first, at];
    at += (last - first) ** 2;
  }
  return (/** @type {number} */ one, /** @type {number} */ other) => {
    const [first, size, start] = about[one];
    return gram[start + (one - first) * size + (other - first)];
  };
}
