/** Small maps of heads, requested one layer at a time when the first of them scrolls into view. */
import { largestOf } from "../../maths/numbers.js";
import { strongest } from "../../maths/links.js";
import { maskingOf } from "../../maths/masking.js";
import { keptLayers } from "../../page/state.js";
import { partOf } from "../matrix/geometry.js";
import { paintOn } from "../matrix/pixels.js";

const SIDE = 48; // cells along a side
const MOST_ASKED = 2;

/**
 * @param {{source: Source, description: Description, colours: Colours, lifetime: Lifetime,
 *   came: (layer: number) => void, failed: (error: Error) => void}} options
 */
export function makeMaps({ source, description, colours, lifetime, came, failed }) {
  /** @type {Map<number, any>} */
  const layers = new Map();
  /** @type {Set<number>} */
  const asked = new Set();
  /** @type {number[]} */
  const waiting = [];
  const request = new AbortController();
  lifetime.add(() => request.abort());
  let working = 0;

  function next() {
    while (working < MOST_ASKED && waiting.length) load(/** @type {number} */ (waiting.shift()));
  }

  /** @param {number} layer */
  function load(layer) {
    asked.add(layer);
    working += 1;
    source
      .ask("thumbnails", { layer, shape: [SIDE, SIDE] }, { signal: request.signal })
      .then((/** @type {Frame} */ { header, arrays }) => {
        if (lifetime.ended) return;
        const [, rows, columns] = arrays.weight.shape;
        layers.set(layer, {
          weight: arrays.weight.toFloat32(),
          heads: header.heads ?? Array.from({ length: arrays.weight.shape[0] }, (_, head) => head),
          rows,
          columns,
          sampled: header.sampled ?? null,
        });
        came(layer);
      })
      .catch((/** @type {Error} */ error) => {
        if (!request.signal.aborted) failed(error);
      })
      .finally(() => {
        working -= 1;
        next();
      });
  }

  return {
    /** @param {number} layer */
    want(layer) {
      if (asked.has(layer) || waiting.includes(layer) || !keptLayers(description).includes(layer)) return;
      waiting.push(layer);
      next();
    },
    /** @param {number} layer */
    sampled: (layer) => layers.get(layer)?.sampled ?? null,
    /**
     * Draws the map of a head, shaded up to its own largest weight or up to 1. Returns whether the map is loaded.
     * @param {HTMLCanvasElement} canvas @param {number} layer @param {number} head @param {boolean} alike
     */
    draw(canvas, layer, head, alike) {
      const tile = mapOf(layer, head);
      if (!tile) return false;
      const top = alike ? 1 : largestOf(tile.weight) || 1;
      paintOn(canvas, tile, { top, colour: "linear", colours }, maskingOf(description, { layer }));
      return true;
    },
    /**
     * The cell of a map at a position within it, from 0 to 1: its weight and its queries and keys; null while not loaded.
     * @param {number} layer @param {number} head @param {number} across @param {number} down
     */
    at(layer, head, across, down) {
      const tile = mapOf(layer, head);
      if (!tile) return null;
      const [rows, columns] = tile.shape;
      const row = Math.min(Math.max(Math.floor(down * rows), 0), rows - 1);
      const column = Math.min(Math.max(Math.floor(across * columns), 0), columns - 1);
      return cellOf(tile, row, column);
    },
    /** The strongest cell of a map. @param {number} layer @param {number} head @param {(query: number, key: number) => boolean} skip */
    strongest(layer, head, skip) {
      const tile = mapOf(layer, head);
      if (!tile) return null;
      const columns = tile.shape[1];
      const cells = Array.from(tile.weight, (_, place) => cellOf(tile, Math.floor(place / columns), place % columns));
      const [best] = strongest(tile.weight, 1, { skip: (place) => skip(cells[place].queries[0], cells[place].keys[0]) });
      return best === undefined ? null : cells[best];
    },
  };

  /** @param {number} layer @param {number} head @returns {import("../matrix/pixels.js").PaintedTile|null} */
  function mapOf(layer, head) {
    const found = layers.get(layer);
    const slot = found ? found.heads.indexOf(head) : -1;
    if (slot < 0) return null;
    const { rows, columns } = found;
    const queries = description.query_tokens?.length ?? description.queries ?? description.tokens.length;
    const weight = found.weight.subarray(slot * rows * columns, (slot + 1) * rows * columns);
    return { weight, shape: [rows, columns], rows: [0, queries], columns: [0, description.tokens.length] };
  }
}

/** @param {import("../matrix/pixels.js").PaintedTile} tile @param {number} row @param {number} column */
function cellOf(tile, row, column) {
  const [rows, columns] = tile.shape;
  return {
    weight: tile.weight[row * columns + column],
    queries: partOf(tile.rows, rows, row),
    keys: partOf(tile.columns, columns, column),
  };
}
