/**
 * Weights to pixels: a table of 256 colours, one look-up per cell.
 *
 * @typedef {{top: number, colour: "linear"|"log", colours: Colours, name?: string, isPooled?: boolean}} Scale
 *   isPooled: the upper end is that of pooled cells; single weights can be larger
 * @typedef {import("./geometry.js").Tile & {weight: Float32Array}} PaintedTile
 */
import { hasMask } from "../../maths/masking.js";
import { isHidden, partOf } from "./geometry.js";

const DECADES = 4; // of a logarithmic scale
const LAST = 255;

/** @type {WeakMap<object, Uint32Array>} */
const packed = new WeakMap();

const LONG = 128; // tokens from which the weights of a causal text differ by powers of ten along the rows

/**
 * The colour scale: chosen, or by the text. In a long causal text most weight is on the first token and in the first
 * rows; on a linear scale everything else is white.
 * @param {{colour: "linear"|"log"|null}} chosen @param {{causal?: boolean, tokens: string[]}} description
 * @returns {"linear"|"log"}
 */
export function colourOf({ colour }, { causal, tokens }) {
  return colour ?? (causal && tokens.length >= LONG ? "log" : "linear");
}

/** Index of a weight's colour. @param {number} weight @param {Scale} scale */
export function stepOfWeight(weight, { top, colour }) {
  if (!(weight > 0)) return 0;
  const share = colour === "log" ? 1 + Math.log10(weight / top) / DECADES : weight / top;
  return share <= 0 ? 0 : share >= 1 ? LAST : Math.round(share * LAST);
}

/** The CSS colour of a weight. @param {number} weight @param {Scale} scale */
export function colourOfWeight(weight, scale) {
  const at = stepOfWeight(weight, scale) * 3;
  const bytes = scale.colours.bytes.subarray(at, at + 3);
  return `#${Array.from(bytes, (/** @type {number} */ part) => part.toString(16).padStart(2, "0")).join("")}`;
}

/** Lower end of the scale. @param {Scale} scale */
export function bottomOf({ top, colour }) {
  return colour === "log" ? top / 10 ** DECADES : 0;
}

/**
 * One 32-bit pixel per cell; masked cells have their own colour.
 * @param {PaintedTile} tile @param {Scale} scale @param {Masking} masking @param {Uint32Array} pixels
 */
export function paint(tile, scale, masking, pixels) {
  const table = packedColours(scale.colours);
  const { weight } = tile;
  const count = weight.length;
  if (scale.colour === "log") {
    const slope = LAST / (DECADES * Math.LN10);
    const shift = LAST - Math.log(scale.top) * slope + 0.5;
    for (let place = 0; place < count; place++) {
      const step = weight[place] > 0 ? Math.log(weight[place]) * slope + shift : 0;
      pixels[place] = table[step <= 0 ? 0 : step >= LAST ? LAST : step | 0];
    }
  } else {
    const slope = LAST / scale.top;
    for (let place = 0; place < count; place++) {
      const step = weight[place] * slope + 0.5;
      pixels[place] = table[step >= LAST ? LAST : step | 0];
    }
  }
  if (hasMask(masking)) paintHidden(tile, masking, pixels, table[256]);
}

/**
 * The image of a tile; repainted only when the scale changes.
 * @param {import("./tiles.js").Loaded} tile @param {Scale} scale @param {Masking} masking
 */
export function pictureOf(tile, scale, masking) {
  const [rows, columns] = tile.shape;
  const canvas = tile.picture?.canvas ?? makeCanvas(columns, rows);
  paintOn(canvas, tile, scale, masking);
  tile.picture = { canvas, scale };
  return canvas;
}

/**
 * A canvas with one pixel per cell.
 * @param {HTMLCanvasElement|OffscreenCanvas} canvas @param {PaintedTile} tile @param {Scale} scale
 * @param {Masking} masking
 */
export function paintOn(canvas, tile, scale, masking) {
  const [rows, columns] = tile.shape;
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  const drawing = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = drawing.createImageData(columns, rows);
  paint(tile, scale, masking, new Uint32Array(image.data.buffer));
  drawing.putImageData(image, 0, 0);
}

/** @param {PaintedTile} tile @param {Masking} masking @param {Uint32Array} pixels @param {number} hidden */
function paintHidden(tile, masking, pixels, hidden) {
  const [rows, columns] = tile.shape;
  for (let row = 0; row < rows; row++) {
    const down = partOf(tile.rows, rows, row);
    const hide = (/** @type {number} */ column) => {
      const isMasked = isHidden(masking, down, partOf(tile.columns, columns, column));
      if (isMasked) pixels[row * columns + column] = hidden;
      return isMasked;
    };
    if (masking.visible) for (let column = 0; column < columns; column++) hide(column);
    if (masking.visible) continue;
    // Otherwise masked cells are contiguous at both ends of a row.
    for (let column = columns - 1; column >= 0 && hide(column); column--);
    for (let column = 0; masking.window && column < columns && hide(column); column++);
  }
}

/** @param {Colours} colours */
function packedColours(colours) {
  const known = packed.get(colours);
  if (known) return known;
  const bytes = new Uint8Array(257 * 4);
  for (let step = 0; step < 256; step++) bytes.set([...colours.bytes.subarray(step * 3, step * 3 + 3), 255], step * 4);
  bytes.set([...[1, 3, 5].map((place) => parseInt(colours.hidden.slice(place, place + 2), 16)), 255], 1024);
  const table = new Uint32Array(bytes.buffer);
  packed.set(colours, table);
  return table;
}

/** @param {number} width @param {number} height */
function makeCanvas(width, height) {
  if (typeof OffscreenCanvas !== "undefined") return new OffscreenCanvas(width, height);
  return Object.assign(document.createElement("canvas"), { width, height });
}
