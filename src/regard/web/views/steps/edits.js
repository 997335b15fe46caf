/** Changes of a small example: from its numbers to the next ones, which are new arrays. Pure functions. */

/** @typedef {import("../../description.js").Editable} Editable */
/** A matrix of the example; head: of those that each head has. @typedef {{name: "embedding"|"w_o"}|{name: "w_q"|"w_k"|"w_v", head: number}} MatrixPlace */

const LARGEST = 1e6;

/** @param {Editable} numbers @param {MatrixPlace} place */
export function matrixAt(numbers, place) {
  return /** @type {number[][]} */ ("head" in place ? numbers[place.name][place.head] : numbers[place.name]);
}

/** @param {Editable} numbers @param {MatrixPlace} place @param {[number, number]} at row and column @param {number} value @returns {Editable} */
export function withEntry(numbers, place, [row, column], value) {
  const matrix = matrixAt(numbers, place).map((entries, down) => (down === row ? entries.with(column, value) : entries));
  return { ...numbers, [place.name]: "head" in place ? numbers[place.name].with(place.head, matrix) : matrix };
}

/** @param {Editable} numbers @param {number} word @param {string} text @returns {Editable} */
export function withName(numbers, word, text) {
  return { ...numbers, tokens: numbers.tokens.with(word, text.trim() || "·") };
}

/** One more word, whose embedding is zero. @param {Editable} numbers @returns {Editable} */
export function withWord({ tokens, embedding, ...rest }) {
  return { ...rest, tokens: [...tokens, "word"], embedding: [...embedding, embedding[0].map(() => 0)] };
}

/** @param {Editable} numbers @param {number} word @returns {Editable} */
export function withoutWord({ tokens, embedding, ...rest }, word) {
  return { ...rest, tokens: tokens.toSpliced(word, 1), embedding: embedding.toSpliced(word, 1) };
}

/** A number as it is typed; null where it is none. @param {string} text */
export function typedNumber(text) {
  const number = Number(text.replace("−", "-").replace(",", "."));
  return text.trim() !== "" && Math.abs(number) <= LARGEST ? number : null;
}

/** The number an arrow key changes to; null for other keys. @param {string} text @param {{key: string, shiftKey: boolean}} event */
export function steppedNumber(text, { key, shiftKey }) {
  const number = Number(text) + (key === "ArrowUp" ? 1 : -1) * (shiftKey ? 0.1 : 1);
  return (key === "ArrowUp" || key === "ArrowDown") && Number.isFinite(number) ? Number(number.toFixed(6)) : null;
}
