/** How matrices are written: x · W with W of (width, head_dim), or x · Wᵀ as some lectures do. The numbers computed are the same. */

/** As the commands name them. */
export const PRODUCTS = /** @type {const} */ (["x W", "x W^T"]);

/** @param {Chosen} chosen */
export function isTransposed({ steps_product: product }) {
  return product === PRODUCTS[1];
}

/** A formula as the lecture writes it: W_Q becomes W_Qᵀ, its columns rows. @param {string} text @param {boolean} transposed */
export function asWritten(text, transposed) {
  if (!transposed) return text;
  return text.replace(/([·×] W_[A-Za-z0-9]+)(?!ᵀ)/g, "$1ᵀ").replace(/column (\d+) of W_/g, "row $1 of W_");
}

/** "384 × 32", of W as it is written. @param {number|string} rows @param {number|string} columns @param {boolean} transposed */
export function shapeOf(rows, columns, transposed) {
  return transposed ? `${columns} × ${rows}` : `${rows} × ${columns}`;
}

/** @template T @param {T[][]} matrix @returns {T[][]} */
export function transposeOf(matrix) {
  return (matrix[0] ?? []).map((_, column) => matrix.map((row) => row[column]));
}
