/**
 * Position of the matrix on the screen, and the tiles it needs. Pure functions.
 *
 * A view is the cell at the top left of the plot and the size of a cell in pixels.
 * @typedef {{x: number, y: number, size: number}} Placed
 * @typedef {{width: number, height: number}} Plot
 * @typedef {{rows: number, columns: number}} Size of the matrix: queries and keys
 * @typedef {{rows: number[], columns: number[], shape: number[]}} Tile
 * @typedef {{view: Placed, plot: Plot & {left: number, top: number}, ratio: number, shown: {rows: number[], columns: number[]}, level: number,
 *   sharp: Tile[], here: import("./tiles.js").Loaded[], tiles: import("./tiles.js").Loaded[], finest: number,
 *   scale: import("./pixels.js").Scale, colours: Colours, description: Description, masking: Masking, whole: Size, tokens: string[],
 *   queryTokens: string[], chosen: {query: number|null, key: number|null}, region: number[]|null,
 *   cursor: {row: number, column: number}|null, focused: boolean, drawnWeight: (row: number, column: number) => number|null,
 *   weightAt: (row: number, column: number) => number|null}} Picture  all that is drawn
 */

import { isMasked } from "../../maths/masking.js";

const TILE = 256; // cells along a side of a tile
export const WHOLE = 512; // cells of the map of the whole matrix
export const LARGEST_CELL = 88; // pixels

/** The whole matrix, fitted to the plot. @param {Size} whole @param {Plot} plot @returns {Placed} */
export function wholeView(whole, plot) {
  return { x: 0, y: 0, size: smallestCell(whole, plot) };
}

/** @param {Size} whole @param {Plot} plot */
export function smallestCell(whole, plot) {
  return Math.min(LARGEST_CELL, plot.width / whole.columns, plot.height / whole.rows);
}

/** The nearest size of a cell that can be shown. @param {number} size @param {Size} whole @param {Plot} plot */
function sizeWithin(size, whole, plot) {
  const least = smallestCell(whole, plot);
  return Math.min(Math.max(size, least), Math.max(LARGEST_CELL, least));
}

/**
 * The nearest view without needless empty margins.
 * @param {Placed} view @param {Size} whole @param {Plot} plot
 * @returns {Placed}
 */
export function within(view, whole, plot) {
  const size = sizeWithin(view.size, whole, plot);
  const inside = (/** @type {number} */ first, /** @type {number} */ count, /** @type {number} */ pixels) =>
    Math.max(0, Math.min(first, count - pixels / size));
  return { x: inside(view.x, whole.columns, plot.width), y: inside(view.y, whole.rows, plot.height), size };
}

/**
 * Zoomed about a fixed pixel.
 * @param {Placed} view @param {number} factor @param {{x: number, y: number}} at @param {Size} whole @param {Plot} plot
 */
export function zoomed(view, factor, at, whole, plot) {
  const size = sizeWithin(view.size * factor, whole, plot);
  const moved = 1 / view.size - 1 / size;
  return within({ x: view.x + at.x * moved, y: view.y + at.y * moved, size }, whole, plot);
}

/**
 * Moved by some pixels.
 * @param {Placed} view @param {number} right @param {number} down @param {Size} whole @param {Plot} plot
 */
export function panned(view, right, down, whole, plot) {
  return within({ ...view, x: view.x - right / view.size, y: view.y - down / view.size }, whole, plot);
}

/** Fitted to a region. @param {number[]} region @param {Size} whole @param {Plot} plot */
export function regionView([r0, r1, c0, c1], whole, plot) {
  const size = Math.min(plot.width / Math.max(c1 - c0, 1e-9), plot.height / Math.max(r1 - r0, 1e-9), LARGEST_CELL);
  const x = (c0 + c1) / 2 - plot.width / size / 2;
  const y = (r0 + r1) / 2 - plot.height / size / 2;
  return within({ x, y, size }, whole, plot);
}

/**
 * Moved as little as needed to show a cell.
 * @param {Placed} view @param {number} row @param {number} column @param {Size} whole @param {Plot} plot
 */
export function following(view, row, column, whole, plot) {
  const nearer = (/** @type {number} */ first, /** @type {number} */ cell, /** @type {number} */ pixels) => {
    const shown = pixels / view.size;
    const margin = Math.min(1, shown / 4);
    return Math.min(Math.max(first, cell + 1 + margin - shown), Math.max(cell - margin, 0));
  };
  return within({ ...view, x: nearer(view.x, column, plot.width), y: nearer(view.y, row, plot.height) }, whole, plot);
}

/**
 * The cell at a pixel of the plot; null outside.
 * @param {Placed} view @param {number} x @param {number} y @param {Size} whole @param {Plot} plot
 */
export function cellAt(view, x, y, whole, plot) {
  if (x < 0 || y < 0 || x >= plot.width || y >= plot.height) return null;
  const row = Math.floor(view.y + y / view.size);
  const column = Math.floor(view.x + x / view.size);
  return row < whole.rows && column < whole.columns ? { row, column } : null;
}

/** The visible cells. @param {Placed} view @param {Size} whole @param {Plot} plot */
export function cellsShown(view, whole, plot) {
  const range = (/** @type {number} */ first, /** @type {number} */ count, /** @type {number} */ pixels) => [
    Math.max(0, Math.floor(first)),
    Math.min(count, Math.ceil(first + pixels / view.size - 1e-9)),
  ];
  return { rows: range(view.y, whole.rows, plot.height), columns: range(view.x, whole.columns, plot.width) };
}

/** Level of detail at which a cell is at least one device pixel. @param {number} size @param {number} ratio */
export function levelFor(size, ratio) {
  return Math.max(0, Math.ceil(-Math.log2(size * ratio) - 1e-9));
}

/** The map of the whole matrix. @param {Size} whole @returns {Tile} */
export function wholeTile({ rows, columns }) {
  return { rows: [0, rows], columns: [0, columns], shape: [Math.min(rows, WHOLE), Math.min(columns, WHOLE)] };
}

/**
 * The tiles of a level that cover the visible cells, from the middle outwards.
 * @param {number} level @param {{rows: number[], columns: number[]}} shown @param {Size} whole
 * @returns {Tile[]}
 */
export function tilesOver(level, shown, whole) {
  if (WHOLE * 2 ** level >= Math.max(whole.rows, whole.columns)) return []; // the whole map is as sharp
  const side = TILE * 2 ** level;
  const places = (/** @type {number[]} */ [first, last]) => {
    const found = [];
    for (let place = Math.floor(first / side); place * side < last; place++) found.push(place);
    return found;
  };
  const part = (/** @type {number} */ place, /** @type {number} */ count) => [
    place * side,
    Math.min(count, (place + 1) * side),
  ];
  const cells = (/** @type {number[]} */ [first, last]) => Math.ceil((last - first) / 2 ** level);
  const tiles = [];
  for (const down of places(shown.rows)) {
    for (const across of places(shown.columns)) {
      const [rows, columns] = [part(down, whole.rows), part(across, whole.columns)];
      tiles.push({ rows, columns, shape: [cells(rows), cells(columns)] });
    }
  }
  const middle = (/** @type {number[]} */ [first, last]) => (first + last) / 2;
  const away = (/** @type {Tile} */ tile) =>
    Math.hypot(middle(tile.rows) - middle(shown.rows), middle(tile.columns) - middle(shown.columns));
  return tiles.sort((one, other) => away(one) - away(other));
}

/** Token range of one cell of a tile. @param {number[]} range @param {number} parts @param {number} part */
export function partOf([first, last], parts, part) {
  const edge = (/** @type {number} */ place) => Math.floor(first + (place * (last - first)) / parts);
  return [edge(part), Math.max(edge(part + 1), edge(part) + 1)];
}

/** The cell of a tile that contains a token. @param {number[]} range @param {number} parts @param {number} token */
export function partWith([first, last], parts, token) {
  let part = Math.min(parts - 1, Math.floor(((token - first) * parts) / (last - first)));
  while (part + 1 < parts && token >= partOf([first, last], parts, part + 1)[0]) part += 1;
  while (part > 0 && token < partOf([first, last], parts, part)[0]) part -= 1;
  return part;
}

/**
 * Round tick positions, about this many pixels apart.
 * @param {number} first @param {number} last @param {number} size @param {number} apart
 */
export function ticks(first, last, size, apart) {
  const least = apart / size;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least) ?? 10 * power);
  const found = [];
  for (let place = Math.ceil(first / step) * step; place < last; place += step) found.push(place);
  return found;
}

/**
 * Whether all weights of these rows and columns are masked.
 * @param {Masking} masking @param {number[]} rows @param {number[]} columns
 */
export function isHidden(masking, [firstRow, lastRow], [firstColumn, lastColumn]) {
  const shift = masking.first_query ?? 0; // the position of query 0
  return isMasked(masking, [firstRow + shift, lastRow + shift], [firstColumn, lastColumn]);
}
