/** Rows of numbers, (row, width) in one array. */

/** Some rows, copied. @param {Float32Array} numbers @param {number} width @param {number[]} rows */
export function rowsAt(numbers, width, rows) {
  const copy = new Float32Array(rows.length * width);
  rows.forEach((row, place) => copy.set(numbers.subarray(row * width, (row + 1) * width), place * width));
  return copy;
}

/** All rows of an answer's matrix. @param {FrameArray} matrix */
export function rowsOf({ shape, toFloat32 }) {
  const data = toFloat32();
  return Array.from({ length: shape[0] }, (_, row) => data.subarray(row * shape[1], (row + 1) * shape[1]));
}

/** (token, head · size) as (head, token, size), a copy. @param {Float32Array} rows @param {number} heads @param {number} size */
export function headsFirst(rows, heads, size) {
  const count = rows.length / (heads * size);
  const copy = new Float32Array(rows.length);
  for (let head = 0, to = 0; head < heads; head++)
    for (let token = 0, from = head * size; token < count; token++, from += heads * size)
      for (let place = 0; place < size; place++) copy[to++] = rows[from + place];
  return copy;
}
