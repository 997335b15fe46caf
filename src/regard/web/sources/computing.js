/**
 * Weights computed where somebody looks, from the queries and keys of one layer and the normaliser of each row:
 * weight = exp(score − normaliser). Long work lets the page breathe.
 *
 * @typedef {{queries: Float32Array, keys: Float32Array, values: Float32Array|null, normaliser: Float32Array,
 *   rows: number, count: number, heads: number, keyHeads: number, size: number, valueSize: number, scale: number,
 *   softcap: number|null, seen: (head: number, query: number) => number[][],
 *   allowed: ((head: number, query: number, key: number) => boolean)|null,
 *   added: ((head: number, query: number, key: number) => number)|null}} Layer
 *   rows counts queries, count keys; `seen` gives the intervals of keys that a query may see, `allowed` says which of
 *   them, `added` is the bias of a score
 */

const PATIENCE = 12; // milliseconds of work before the page may draw

/**
 * The weights of one query of one head on the keys [from, to).
 * @param {Layer} layer @param {number} head @param {number} query
 * @param {number} [from] @param {number} [to] @param {Float32Array} [into]
 */
export function weightsOfRow(layer, head, query, from = 0, to = layer.count, into = new Float32Array(to - from)) {
  into.fill(0);
  const normaliser = layer.normaliser[head * layer.rows + query];
  if (!Number.isFinite(normaliser)) return into; // a query that may see no key
  for (const [first, last] of layer.seen(head, query)) {
    const stop = Math.min(to, last);
    for (let key = Math.max(from, first); key < stop; key++) {
      if (layer.allowed && !layer.allowed(head, query, key)) continue;
      into[key - from] = Math.exp(scoreOf(layer, head, query, key) - normaliser);
    }
  }
  return into;
}

/**
 * The score of a query and a key, as the softmax takes it.
 * @param {Layer} layer @param {number} head @param {number} query @param {number} key
 */
function scoreOf(layer, head, query, key) {
  const { queries, keys, size } = layer;
  const asks = (head * layer.rows + query) * size;
  const answers = (keyHeadOf(layer, head) * layer.count + key) * size;
  let score = 0;
  for (let part = 0; part < size; part++) score += queries[asks + part] * keys[answers + part];
  score *= layer.scale;
  if (layer.softcap) score = layer.softcap * Math.tanh(score / layer.softcap);
  return layer.added ? score + layer.added(head, query, key) : score;
}

/** The head of the keys that a head of queries shares. @param {{heads: number, keyHeads: number}} layer @param {number} head */
export function keyHeadOf(layer, head) {
  return Math.floor((head * layer.keyHeads) / layer.heads);
}

/**
 * A region pooled into cells; cell i covers rows floor(a + i·(b − a)/r) … floor(a + (i + 1)·(b − a)/r).
 * @param {Layer} layer @param {number} head @param {{rows: number[], columns: number[], shape: number[], pool?: string}} asked
 * @param {AbortSignal} [signal]
 */
export async function tileOf(layer, head, { rows, columns, shape, pool = "mean" }, signal) {
  const [height, width] = shape;
  const cells = new Float32Array(height * width);
  const columnEdges = edges(columns, width);
  const row = new Float32Array(columns[1] - columns[0]);
  const rowEdges = edges(rows, height);
  const breathe = breathing(signal);
  for (let line = 0; line < height; line++) {
    for (let query = rowEdges[line]; query < rowEdges[line + 1]; query++) {
      await breathe();
      weightsOfRow(layer, head, query, columns[0], columns[1], row);
      for (let cell = 0; cell < width; cell++) {
        let pooled = 0;
        const start = columnEdges[cell] - columns[0];
        const stop = columnEdges[cell + 1] - columns[0];
        for (let key = start; key < stop; key++)
          pooled = pool === "max" ? Math.max(pooled, row[key]) : pooled + row[key];
        const at = line * width + cell;
        if (pool === "max") cells[at] = Math.max(cells[at], pooled);
        else cells[at] += pooled / ((stop - start) * (rowEdges[line + 1] - rowEdges[line]));
      }
    }
  }
  return cells;
}

/**
 * What each token receives, how evenly it looks (entropy, in nats) and how far, for some heads.
 * @param {Layer} layer @param {number[]} heads @param {number} shift the key that the first query belongs to
 * @param {AbortSignal} [signal]
 */
export async function alongOf(layer, heads, shift, signal) {
  const { count, rows } = layer;
  const received = new Float32Array(heads.length * count);
  const entropy = new Float32Array(heads.length * rows);
  const distance = new Float32Array(heads.length * rows);
  const row = new Float32Array(count);
  const breathe = breathing(signal);
  for (let place = 0; place < heads.length; place++) {
    for (let query = 0; query < rows; query++) {
      await breathe();
      weightsOfRow(layer, heads[place], query, 0, count, row);
      let even = 0;
      let far = 0;
      for (let key = 0; key < count; key++) {
        const weight = row[key];
        if (!(weight > 0)) continue;
        received[place * count + key] += weight;
        even -= weight * Math.log(weight);
        far += weight * Math.abs(query + shift - key);
      }
      entropy[place * rows + query] = even;
      distance[place * rows + query] = far;
    }
  }
  return { received, entropy, distance };
}

/**
 * The strongest links of the mean of some heads, strongest first.
 * @param {Layer} layer @param {{heads: number[], count: number, itself?: boolean, shift?: number, aside?: Set<number>}} asked
 * @param {AbortSignal} [signal]
 */
export async function linksOf(layer, { heads, count, itself = false, shift = 0, aside = new Set() }, signal) {
  /** @type {number[][]} query, key, weight */
  let found = [];
  let least = 0;
  const mean = new Float32Array(layer.count);
  const row = new Float32Array(layer.count);
  const breathe = breathing(signal);
  for (let query = 0; query < layer.rows; query++) {
    await breathe();
    mean.fill(0);
    for (const head of heads) {
      weightsOfRow(layer, head, query, 0, layer.count, row);
      for (let key = 0; key < layer.count; key++) mean[key] += row[key] / heads.length;
    }
    for (let key = 0; key < layer.count; key++) {
      if (!(mean[key] > least) || aside.has(key) || (!itself && key === query)) continue;
      found.push([query, key, mean[key]]);
    }
    if (found.length > 4 * count + 1000) {
      found = found.sort(stronger).slice(0, count);
      least = found[found.length - 1][2];
    }
  }
  return found.sort(stronger).slice(0, count);
}

/** @param {number[]} one @param {number[]} other */
function stronger(one, other) {
  return other[2] - one[2] || one[0] - other[0] || one[1] - other[1];
}

/** @param {number[]} range @param {number} cells */
function edges([from, to], cells) {
  return Array.from({ length: cells + 1 }, (_, cell) => Math.floor(from + (cell * (to - from)) / cells));
}

/** Waits a moment where work has lasted; stops it where nobody waits any longer. @param {AbortSignal} [signal] */
export function breathing(signal) {
  let since = performance.now();
  return async () => {
    if (performance.now() - since < PATIENCE) return;
    await new Promise((go) => setTimeout(go, 0));
    signal?.throwIfAborted();
    since = performance.now();
  };
}
