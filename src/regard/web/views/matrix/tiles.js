/**
 * Tiles of the matrix: requested, cached, evicted. Outdated requests are cancelled; the most recent tiles stay.
 *
 * @typedef {import("./geometry.js").Tile} Tile
 * @typedef {{layer: number, head: number, pool: "mean"|"max", measure?: string}} Whose
 * `done`: no better version is coming; `exact`: none is possible.
 * @typedef {Tile & {weight: Float32Array, done: boolean, exact: boolean, sampled: string|null, picture?: {canvas: HTMLCanvasElement|OffscreenCanvas, scale: import("./pixels.js").Scale}}} Loaded
 */
import { wholeTile } from "./geometry.js";

const MOST_ASKED = 6; // concurrent queries
const MOST_KEPT = 144; // tiles; one of 256 × 256 cells takes half a megabyte with its image
// Tokens along a side up to which the exact answer is about as fast as a sampled one.
const EXACT_AT_ONCE = 8192;

/**
 * @param {{ask: (kind: string, parameters: Record<string, unknown>, options: import("../../sources/served.js").Options) => Promise<Frame>,
 *   whole: import("./geometry.js").Size,
 *   came: (tile: Loaded) => void, failed: (error: Error) => void}} options
 */
export function makeTiles({ ask, whole, came, failed }) {
  /** @type {Map<string, Loaded>} */
  const kept = new Map();
  /** @type {Map<string, AbortController>} */
  const asked = new Map();
  /** @type {Map<string, string>} what could not be had, by key */
  const refused = new Map();
  /** @type {{tile: Tile, whose: Whose, key: string}[]} */
  let wanted = [];

  /** @param {Whose} whose @param {Tile} tile */
  function find(whose, tile) {
    return kept.get(keyOf(whose, tile));
  }

  /** @param {Whose} whose @param {Tile[]} tiles the most important first */
  function want(whose, tiles) {
    wanted = tiles.map((tile) => ({ tile, whose, key: keyOf(whose, tile) }));
    const keys = new Set(wanted.map(({ key }) => key));
    for (const [key, request] of asked) {
      if (keys.has(key)) continue;
      request.abort();
      asked.delete(key);
    }
    for (const { key } of wanted) touch(key);
    next();
  }

  function next() {
    for (const quality of ["first", "exact"]) {
      for (const one of wanted) {
        if (asked.size >= MOST_ASKED) return;
        if (!asked.has(one.key) && !refused.has(one.key) && qualityFor(one) === quality) load(one, quality);
      }
    }
  }

  /** @param {{tile: Tile, whose: Whose, key: string}} one */
  function qualityFor({ tile, whose, key }) {
    const known = kept.get(key);
    if (known?.done) return null;
    const side = Math.max(tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]);
    if (side <= EXACT_AT_ONCE) return "exact";
    if (!known) return "first";
    // Large tiles come from the cells of the exact pass over the whole matrix: run it alone.
    return side === Math.max(whole.rows, whole.columns) || find(whose, wholeTile(whole))?.done ? "exact" : null;
  }

  /** @param {{tile: Tile, whose: Whose, key: string}} one @param {string} quality */
  async function load({ tile, whose, key }, quality) {
    const request = new AbortController();
    asked.set(key, request);
    try {
      const options = { signal: request.signal, inBackground: kept.has(key) };
      const { measure, ...of } = whose;
      const asks = { ...of, ...tile, quality, ...(measure && measure !== "weight" ? { measure } : {}) };
      const { header, arrays } = await ask("tile", asks, options);
      if (request.signal.aborted) return;
      const weight = arrays.weight.toFloat32();
      const exact = header.exact !== false;
      const done = quality === "exact" || exact;
      const loaded = { ...tile, weight, done, exact, sampled: header.sampled ?? null };
      kept.set(key, loaded);
      forget();
      came(loaded);
    } catch (error) {
      if (request.signal.aborted) return;
      refused.set(key, String(/** @type {Error} */ (error).message));
      failed(/** @type {Error} */ (error));
    } finally {
      if (asked.get(key) === request) {
        asked.delete(key);
        next();
      }
    }
  }

  /** @param {string} key */
  function touch(key) {
    const known = kept.get(key);
    if (!known) return;
    kept.delete(key);
    kept.set(key, known);
  }

  function forget() {
    for (const key of kept.keys()) {
      if (kept.size <= MOST_KEPT) return;
      kept.delete(key);
    }
  }

  return {
    find,
    want,
    /** Retry failed tiles. */
    retry() {
      refused.clear();
      next();
    },
    /** Loaded tiles of one head, coarsest first. @param {Whose} whose */
    all(whose) {
      const prefix = `${prefixOf(whose)} `;
      return [...kept]
        .filter(([key]) => key.startsWith(prefix))
        .map(([, tile]) => tile)
        .sort((a, b) => coarseness(b) - coarseness(a));
    },
    get waiting() {
      return asked.size;
    },
    get size() {
      return kept.size;
    },
    end() {
      wanted = [];
      for (const request of asked.values()) request.abort();
      asked.clear();
      kept.clear();
    },
  };
}

/** Tokens per cell of a tile. @param {Tile} tile */
export function coarseness(tile) {
  return Math.max((tile.columns[1] - tile.columns[0]) / tile.shape[1], (tile.rows[1] - tile.rows[0]) / tile.shape[0]);
}

/** @param {Whose} whose @param {Tile} tile */
function keyOf(whose, tile) {
  return `${prefixOf(whose)} ${tile.rows} ${tile.columns} ${tile.shape}`;
}

/** @param {Whose} whose */
function prefixOf({ layer, head, pool, measure = "weight" }) {
  return `${layer}/${head}/${pool}/${measure}`;
}
