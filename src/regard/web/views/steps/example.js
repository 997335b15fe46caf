/** A small example that needs no model: "The cat sat" of the documentation, with every number editable. */
import { framed } from "../../sources/frames.js";
import { projectedHead, stepsOf } from "./model.js";

const eye = () => [
  [1, 0, 0, 0],
  [0, 1, 0, 0],
  [0, 0, 1, 0],
  [0, 0, 0, 1],
];

/** @type {import("./model.js").Numbers & {tokens: string[]}} */
const THE_CAT_SAT = {
  tokens: ["The", "cat", "sat"],
  embedding: [
    [1, 0, 1, 0],
    [0, 1, 0, 1],
    [1, 1, 1, 1],
  ],
  w_q: [eye()],
  w_k: [eye()],
  w_v: [eye()],
  w_o: eye(),
};

/** What the steps read of a description. */
export const SMALL_EXAMPLE = /** @type {Description} */ (/** @type {unknown} */ ({
  tokens: THE_CAT_SAT.tokens,
  layers: 1,
  heads: 1,
  first_query: 0,
  causal: false,
  has: ["row", "vectors"],
  editable: THE_CAT_SAT,
}));

/** Answers `row` and `vectors` from the numbers. @returns {Source} */
export function exampleSource() {
  const { queries, keys, values } = projectedHead(THE_CAT_SAT, 0);
  const scale = keys[0].length ** -0.5;
  const matrix = (/** @type {ArrayLike<number>[]} */ rows) => framed(Float32Array.from(rows.flatMap((row) => Array.from(row))), [rows.length, rows[0].length]);
  return {
    /** @returns {Promise<Frame>} */
    async ask(kind, parameters = {}) {
      const { query } = parameters;
      if (kind === "vectors") return { header: { scale }, arrays: { q: matrix([queries[query]]), k: matrix(keys), v: matrix(values) } };
      const { weight } = stepsOf({ query: queries[query], keys, values, scale, own: query });
      return { header: { query }, arrays: { weight: framed(Float32Array.from(weight), [1, weight.length]) } };
    },
  };
}
