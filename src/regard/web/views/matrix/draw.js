/** Draws the matrix on its canvas: tiles, grid lines, numbers in cells, and the selection. */
import { printedNumber } from "../../maths/numbers.js";
import { isHidden, partWith } from "./geometry.js";
import { drawLabels } from "./labels.js";
import { colourOfWeight, pictureOf } from "./pixels.js";
import { coarseness } from "./tiles.js";

const LINES_FROM = 9; // cell size in pixels from which grid lines are drawn
export const NUMBERS_FROM = 30; // cell size from which numbers are drawn
const BUDGET = 7; // milliseconds for painting tiles in one frame
const FINER = 4; // cells per pixel up to which a finer tile is drawn while nothing better is loaded

/**
 * Draw one frame; returns whether tiles remain to be painted.
 * @param {CanvasRenderingContext2D} drawing @param {import("./geometry.js").Picture} what
 */
export function drawFrame(drawing, what) {
  const { plot, ratio, colours } = what;
  drawing.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawing.fillStyle = colours.ground;
  drawing.fillRect(0, 0, drawing.canvas.width, drawing.canvas.height);
  drawing.save();
  drawing.beginPath();
  drawing.rect(plot.left, plot.top, plot.width, plot.height);
  drawing.clip();
  const left = drawTiles(drawing, what);
  if (what.view.size >= LINES_FROM) drawLines(drawing, what);
  if (what.view.size >= NUMBERS_FROM) drawNumbers(drawing, what);
  drawChosen(drawing, what);
  drawing.restore();
  drawEdge(drawing, what);
  drawLabels(drawing, what);
  return left;
}

/**
 * A thin outline of the matrix: faint cells would not show its edge.
 * @param {CanvasRenderingContext2D} drawing @param {import("./geometry.js").Picture} what
 */
function drawEdge(drawing, { plot, view, whole, colours }) {
  const width = Math.min(plot.width, (whole.columns - view.x) * view.size);
  const height = Math.min(plot.height, (whole.rows - view.y) * view.size);
  drawing.strokeStyle = colours.rule;
  drawing.lineWidth = 1;
  drawing.strokeRect(plot.left - 0.5, plot.top - 0.5, width + 1, height + 1);
}

/** @param {CanvasRenderingContext2D} drawing @param {import("./geometry.js").Picture} what */
function drawTiles(drawing, { plot, view, ratio, tiles, scale, masking, whole }) {
  const start = performance.now();
  const wanted = 1 / (view.size * ratio); // cells per pixel
  const { x, y } = placesOn({ plot, view });
  let left = false;
  const edge = Math.min(whole.columns, view.x + plot.width / view.size);
  const foot = Math.min(whole.rows, view.y + plot.height / view.size);
  drawing.fillStyle = scale.colours.raised;
  drawing.fillRect(plot.left, plot.top, (edge - view.x) * view.size, (foot - view.y) * view.size);
  for (const tile of tiles) {
    if (tile.columns[0] >= edge || tile.columns[1] <= view.x || tile.rows[0] >= foot || tile.rows[1] <= view.y)
      continue;
    const coarse = coarseness(tile);
    if (coarse * FINER < wanted) continue;
    let picture = tile.picture?.scale === scale ? tile.picture.canvas : null;
    if (!picture && performance.now() - start < BUDGET) picture = pictureOf(tile, scale, masking);
    if (!picture) {
      left = true;
      picture = tile.picture?.canvas ?? null;
    }
    if (!picture) continue;
    const [x0, x1] = tile.columns.map((column) => snapped(x(column), ratio));
    const [y0, y1] = tile.rows.map((row) => snapped(y(row), ratio));
    drawing.imageSmoothingEnabled = coarse * 1.01 < wanted;
    drawing.drawImage(picture, x0, y0, x1 - x0, y1 - y0);
  }
  return left;
}

/** @param {CanvasRenderingContext2D} drawing @param {import("./geometry.js").Picture} what */
function drawLines(drawing, { plot, view, shown, colours, ratio }) {
  drawing.fillStyle = colours.ground;
  const thin = view.size >= 16 ? 1 : 1 / ratio;
  const { x, y } = placesOn({ plot, view });
  const [width, height] = [x(shown.columns[1]) - plot.left, y(shown.rows[1]) - plot.top];
  for (let column = shown.columns[0]; column <= shown.columns[1]; column++)
    drawing.fillRect(snapped(x(column), ratio) - thin / 2, plot.top, thin, height);
  for (let row = shown.rows[0]; row <= shown.rows[1]; row++)
    drawing.fillRect(plot.left, snapped(y(row), ratio) - thin / 2, width, thin);
}

/** @param {CanvasRenderingContext2D} drawing @param {import("./geometry.js").Picture} what */
function drawNumbers(drawing, { plot, view, shown, weightAt, scale, masking }) {
  const unit = unitFor(scale.top);
  const printed = (/** @type {number} */ weight) => (unit ? printedNumber(weight / 10 ** unit, 1) : printedNumber(weight, 2));
  const places = placesOn({ plot, view });
  const size = Math.min(14, Math.max(10, view.size * 0.3));
  drawing.font = `${size}px system-ui, sans-serif`;
  drawing.textAlign = "center";
  drawing.textBaseline = "middle";
  for (let row = shown.rows[0]; row < shown.rows[1]; row++) {
    for (let column = shown.columns[0]; column < shown.columns[1]; column++) {
      if (isHidden(masking, [row, row + 1], [column, column + 1])) continue;
      const weight = weightAt(row, column);
      if (weight === null) continue;
      const text = printed(weight);
      const [x, y] = [places.x(column + 0.5), places.y(row + 0.5) + 0.5];
      const half = drawing.measureText(text).width / 2;
      // A cell that the edge cuts has no room for its number.
      if (x - half < plot.left || x + half > plot.left + plot.width) continue;
      if (y - size / 2 < plot.top || y + size / 2 > plot.top + plot.height) continue;
      drawing.fillStyle = scale.colours.contrast(colourOfWeight(weight, scale));
      drawing.fillText(text, x, y);
    }
  }
}

/** The unit, a power of ten, of numbers in cells where two decimals would show only zeros. @param {number} top */
export function unitFor(top) {
  return top >= 0.05 ? 0 : Math.floor(Math.log10(top * 1.0000001));
}

/**
 * The selected row and column, the region, and the cell under the pointer.
 * @param {CanvasRenderingContext2D} drawing @param {import("./geometry.js").Picture} what
 */
function drawChosen(drawing, { plot, view, chosen, region, cursor, colours, whole, focused }) {
  const { x, y } = placesOn({ plot, view });
  const thick = Math.max(view.size, 2);
  const outlined = (/** @type {[number, number, number, number]} */ box, /** @type {string} */ colour, wide = 1.5) => {
    for (const [stroke, width] of /** @type {[string, number][]} */ ([[colours.ground, wide + 2], [colour, wide]])) {
      drawing.strokeStyle = stroke;
      drawing.lineWidth = width;
      drawing.strokeRect(...box);
    }
  };
  if (chosen.query !== null) outlined([x(0), y(chosen.query), whole.columns * view.size, thick], colours.accent);
  if (chosen.key !== null) outlined([x(chosen.key), y(0), thick, whole.rows * view.size], colours.accent);
  if (region) {
    const [r0, r1, c0, c1] = region;
    drawing.setLineDash([6, 4]);
    outlined([x(c0), y(r0), Math.max((c1 - c0) * view.size, 2), Math.max((r1 - r0) * view.size, 2)], colours.ink);
    drawing.setLineDash([]);
  }
  if (!cursor) return;
  drawing.globalAlpha = 0.55;
  drawing.fillStyle = colours.ink;
  drawing.fillRect(plot.left, y(cursor.row) + thick / 2, Math.max(x(cursor.column) - plot.left - 3, 0), 1);
  drawing.fillRect(x(cursor.column) + thick / 2, plot.top, 1, Math.max(y(cursor.row) - plot.top - 3, 0));
  drawing.globalAlpha = 1;
  const side = Math.max(thick, 7);
  const shift = (side - thick) / 2;
  outlined([x(cursor.column) - shift, y(cursor.row) - shift, side, side], colours.ink, focused ? 2.5 : 1.5);
}

/**
 * The weight drawn at a cell, and how many weights it pools; null if not loaded.
 * @param {import("./tiles.js").Loaded[]} tiles as they are drawn, the last on top
 * @param {number} row @param {number} column
 * @param {number} finest cells a pixel: what is finer than that is not drawn
 */
export function drawnAt(tiles, row, column, finest) {
  for (let place = tiles.length - 1; place >= 0; place--) {
    const tile = tiles[place];
    if (row < tile.rows[0] || row >= tile.rows[1] || column < tile.columns[0] || column >= tile.columns[1]) continue;
    if (coarseness(tile) * FINER < finest) continue;
    const [down, across] = [partWith(tile.rows, tile.shape[0], row), partWith(tile.columns, tile.shape[1], column)];
    return { weight: tile.weight[down * tile.shape[1] + across], tile, down, across };
  }
  return null;
}

/** Where columns and rows begin on the canvas. @param {Pick<import("./geometry.js").Picture, "plot"|"view">} what */
function placesOn({ plot, view }) {
  return {
    x: (/** @type {number} */ column) => plot.left + (column - view.x) * view.size,
    y: (/** @type {number} */ row) => plot.top + (row - view.y) * view.size,
  };
}

/** Aligned to device pixels. @param {number} place @param {number} ratio */
function snapped(place, ratio) {
  return Math.round(place * ratio) / ratio;
}
