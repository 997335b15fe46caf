/** The exact weight of one cell, requested in small blocks, which are cached. */
const SIDE = 16;
const MOST_KEPT = 256;
const WAIT = 40; // milliseconds the pointer rests before a query

/**
 * @param {{source: Source, whole: import("./geometry.js").Size, lifetime: Lifetime,
 *   whose: () => {layer: number, head: number, measure?: string}, came: () => void}} options
 */
export function makeExact({ source, whole, lifetime, whose, came }) {
  /** @type {Map<string, Float32Array|string>} weights, or why there are none */
  const kept = new Map();
  /** @type {{key: string, request: AbortController}|null} */
  let asked = null;
  let stop = () => {};
  lifetime.add(() => asked?.request.abort());

  /** @param {number} row @param {number} column */
  function blockOf(row, column) {
    const { layer, head, measure } = whose();
    const [top, left] = [row - (row % SIDE), column - (column % SIDE)];
    const rows = [top, Math.min(whole.rows, top + SIDE)];
    const columns = [left, Math.min(whole.columns, left + SIDE)];
    return { layer, head, measure, rows, columns, key: `${layer}/${head}/${measure} ${top} ${left}` };
  }

  /** @param {ReturnType<typeof blockOf>} block */
  async function load({ layer, head, measure, rows, columns, key }) {
    const request = new AbortController();
    asked = { key, request };
    try {
      const shape = [rows[1] - rows[0], columns[1] - columns[0]];
      const of = measure && measure !== "weight" ? { measure } : {};
      const parameters = { layer, head, rows, columns, shape, pool: "mean", quality: "exact", ...of };
      const { arrays } = await source.ask("tile", parameters, { signal: request.signal });
      if (request.signal.aborted) return;
      keep(key, arrays.weight.toFloat32());
    } catch (error) {
      if (request.signal.aborted) return;
      keep(key, /** @type {Error} */ (error).message);
    }
    if (asked?.request === request) asked = null;
    came();
  }

  /** @param {string} key @param {Float32Array|string} answer */
  function keep(key, answer) {
    kept.set(key, answer);
    for (const old of kept.keys()) {
      if (kept.size <= MOST_KEPT) break;
      kept.delete(old);
    }
  }

  return {
    /** The weight, an error message, or null while loading. @param {number} row @param {number} column */
    at(row, column) {
      const block = blockOf(row, column);
      const found = kept.get(block.key);
      if (typeof found === "string") return found;
      if (found)
        return found[(row - block.rows[0]) * (block.columns[1] - block.columns[0]) + column - block.columns[0]];
      if (asked?.key !== block.key) {
        asked?.request.abort();
        asked = null;
        stop();
        stop = lifetime.after(WAIT, () => load(block));
      }
      return null;
    },
  };
}
