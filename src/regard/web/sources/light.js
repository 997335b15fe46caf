/** Answers from the strongest keys of each query alone: what light pages hold. What is not among them counts as 0. */

/** @param {any} arrays @param {number} count @param {number} head @param {number} query */
export function lightRow(arrays, count, head, query) {
  const row = new Float32Array(count);
  for (const [key, weight] of strongest(arrays, count, head, query)) row[key] = weight;
  return row;
}

/** @param {any} arrays @param {number} count @param {any} asked */
export function lightTile(arrays, count, { head, rows, columns, shape, pool = "mean" }) {
  const [height, width] = shape;
  const cells = new Float32Array(height * width);
  const cellOf = (/** @type {number} */ at, /** @type {number[]} */ [from, to], /** @type {number} */ parts) => {
    let cell = Math.min(Math.floor(((at - from) * parts) / (to - from)), parts - 1);
    while (cell + 1 < parts && Math.floor(from + ((cell + 1) * (to - from)) / parts) <= at) cell += 1;
    while (cell > 0 && Math.floor(from + (cell * (to - from)) / parts) > at) cell -= 1;
    return cell;
  };
  const sizeOf = (/** @type {number} */ cell, /** @type {number[]} */ [from, to], /** @type {number} */ parts) =>
    Math.floor(from + ((cell + 1) * (to - from)) / parts) - Math.floor(from + (cell * (to - from)) / parts);
  for (let query = rows[0]; query < rows[1]; query++) {
    const line = cellOf(query, rows, height);
    for (const [key, weight] of strongest(arrays, count, head, query)) {
      if (key < columns[0] || key >= columns[1]) continue;
      const cell = cellOf(key, columns, width);
      const at = line * width + cell;
      if (pool === "max") cells[at] = Math.max(cells[at], weight);
      else cells[at] += weight / (sizeOf(line, rows, height) * sizeOf(cell, columns, width));
    }
  }
  return cells;
}

/** @param {any} arrays @param {number[]} heads */
export function lightAlong(arrays, heads) {
  /** @type {Record<string, Float32Array>} */
  const found = {};
  for (const name of ["received", "entropy", "distance"]) {
    const all = arrays[name].toFloat32();
    const count = arrays[name].shape[1];
    found[name] = new Float32Array(heads.length * count);
    heads.forEach((head, place) => found[name].set(all.subarray(head * count, (head + 1) * count), place * count));
  }
  return found;
}

/**
 * @param {any} arrays @param {number} count
 * @param {{heads: number[], count: number, itself?: boolean, shift?: number, aside?: Set<number>}} asked
 */
export function lightLinks(arrays, count, { heads, count: wanted, itself = false, shift = 0, aside = new Set() }) {
  /** @type {number[][]} */
  const found = [];
  const rows = arrays.index.shape[1];
  for (let query = 0; query < rows; query++) {
    /** @type {Map<number, number>} */
    const mean = new Map();
    for (const head of heads) {
      for (const [key, weight] of strongest(arrays, count, head, query))
        mean.set(key, (mean.get(key) ?? 0) + weight / heads.length);
    }
    for (const [key, weight] of mean)
      if (!aside.has(key) && (itself || key !== query + shift)) found.push([query, key, weight]);
  }
  return found.sort((one, other) => other[2] - one[2] || one[0] - other[0] || one[1] - other[1]).slice(0, wanted);
}

/** @param {any} arrays @param {number} count @param {number} head @param {number} query */
function* strongest({ index, weight }, count, head, query) {
  const [, rows, top] = index.shape;
  weight.numbers ??= weight.toFloat32();
  const start = (head * rows + query) * top;
  for (let place = start; place < start + top; place++) {
    if (weight.numbers[place] > 0 && index.data[place] < count) yield [index.data[place], weight.numbers[place]];
  }
}
