/** Small maps of heads, requested one layer at a time when the first of them scrolls into view. */
import { largestOf } from "../../numbers.js";
import { keptLayers } from "../../state.js";
import { paint } from "../matrix/pixels.js";

const SIDE = 48; // cells along a side
const MOST_ASKED = 2;

/**
 * @param {{source: any, description: any, colours: any, lifetime: import("../../lifetime.js").Lifetime,
 *   came: (layer: number) => void, failed: (error: Error) => void}} options
 */
export function makeMaps({ source, description, colours, lifetime, came, failed }) {
  /** @type {Map<number, any>} */
  const layers = new Map();
  /** @type {Map<number, Promise<void>>} */
  const asked = new Map();
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
    if (asked.has(layer)) return /** @type {Promise<void>} */ (asked.get(layer));
    working += 1;
    const done = source
      .ask("thumbnails", { layer, shape: [SIDE, SIDE] }, { signal: request.signal })
      .then(({ header, arrays }) => {
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
    asked.set(layer, done);
    return done;
  }

  return {
    /** @param {number} layer */
    want(layer) {
      if (asked.has(layer) || waiting.includes(layer) || !keptLayers(description).includes(layer)) return;
      waiting.push(layer);
      next();
    },
    all: () => Promise.all(keptLayers(description).map(load)),
    /** @param {number} layer */
    sampled: (layer) => layers.get(layer)?.sampled ?? null,
    /**
     * Draws the map of a head, shaded up to its own largest weight. Returns whether the map is loaded.
     * @param {HTMLCanvasElement} canvas
     * @param {number} layer
     * @param {number} head
     */
    draw(canvas, layer, head) {
      const found = layers.get(layer);
      const slot = found ? found.heads.indexOf(head) : -1;
      if (slot < 0) return false;
      const { rows, columns } = found;
      const weight = found.weight.subarray(slot * rows * columns, (slot + 1) * rows * columns);
      if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
      const drawing = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
      const image = drawing.createImageData(columns, rows);
      const scale = { top: largestOf(weight) || 1, colour: /** @type {"linear"} */ ("linear"), colours };
      const [queries, keys] = [
        description.query_tokens?.length ?? description.tokens.length,
        description.tokens.length,
      ];
      const tile = /** @type {any} */ ({ weight, shape: [rows, columns], rows: [0, queries], columns: [0, keys] });
      paint(tile, scale, description, new Uint32Array(image.data.buffer));
      drawing.putImageData(image, 0, 0);
      return true;
    },
  };
}
