/** What the map shows: from its place, its tiles and what is chosen to one picture. Pure functions. */
import { roundedUp } from "../../maths/numbers.js";
import { drawnAt } from "./draw.js";
import { cellsShown, LARGEST_CELL, levelFor, tilesOver, wholeTile } from "./geometry.js";
import { strongestIn } from "./figure.js";
import { marginsFor } from "./labels.js";
import { coarseness } from "./tiles.js";

const SIDE_BY_SIDE = 760; // pixels of width from which the readout is beside the matrix
const PANEL = 304; // width of the readout
const LEAST = 120; // minimum side, so that a single row can be zoomed

/**
 * @typedef {{row: number, column: number}} Cell
 * @typedef {{rows: number, columns: number}} Whole
 */

/**
 * Everything that a frame shows but for colours and texts; the best fitting tiles come last, on top.
 * @param {{view: import("./geometry.js").Placed, plot: import("./geometry.js").Picture["plot"], ratio: number, whole: Whole}} placed
 * @param {{find: (tile: any) => import("./tiles.js").Loaded|undefined, all: import("./tiles.js").Loaded[]}} tiles  that have come
 */
export function frameOf({ view, plot, ratio, whole }, tiles) {
  const shown = cellsShown(view, whole, plot);
  const level = levelFor(view.size, ratio);
  const sharp = tilesOver(level, shown, whole);
  const here = (sharp.length ? sharp : [wholeTile(whole)]).map(tiles.find).filter((tile) => tile !== undefined);
  const single = tiles.all.filter((tile) => coarseness(tile) === 1);
  const loaded = [...tiles.all.filter((tile) => !here.includes(tile)), ...here];
  const finest = 1 / (view.size * ratio);
  return {
    view,
    plot,
    ratio,
    shown,
    level,
    sharp,
    here,
    tiles: loaded,
    finest,
    whole,
    drawnWeight: (/** @type {number} */ row, /** @type {number} */ column) => drawnAt(loaded, row, column, finest)?.weight ?? null,
    weightAt: (/** @type {number} */ row, /** @type {number} */ column) => drawnAt(single, row, column, 0)?.weight ?? null,
  };
}

/**
 * The colour scale of a whole map, at every zoom: a colour keeps its meaning. Weights are at most 1 despite rounding.
 * @param {import("./tiles.js").Loaded} coarsest @param {Whole} whole @param {{measure: string, pool: string}} of
 */
export function scaleFor(coarsest, whole, { measure, pool }) {
  const [largest] = strongestIn([coarsest], { rows: [0, whole.rows], columns: [0, whole.columns] }, 1);
  return { top: Math.min(measure === "norm" ? Infinity : 1, roundedUp(largest?.weight ?? 0)), isPooled: coarseness(coarsest) > 1 && pool === "mean" };
}

/** The region between two cells: first and last row, first and last column. @param {Cell} one @param {Cell} other @param {Whole} whole @param {number} step */
export function between(one, other, whole, step = 1) {
  const range = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ most) => [Math.min(a, b), Math.min(most, Math.max(a, b) + step)];
  return [...range(one.row, other.row, whole.rows), ...range(one.column, other.column, whole.columns)];
}

/** The nearest cell of the matrix. @param {number} row @param {number} column @param {Whole} whole @returns {Cell} */
export function inside(row, column, whole) {
  return { row: Math.min(Math.max(row, 0), whole.rows - 1), column: Math.min(Math.max(column, 0), whole.columns - 1) };
}

/** The middle of a region, and what lies around it. @param {number[]} rows @param {number[]} columns */
export function aroundRegion(rows, columns) {
  const middle = (/** @type {number[]} */ [first, last]) => Math.floor((first + last - 1) / 2);
  const wider = (/** @type {number[]} */ [first, last]) => [first - 4 * (last - first), last + 4 * (last - first)];
  return { cell: { row: middle(rows), column: middle(columns) }, region: [...wider(rows), ...wider(columns)] };
}

/**
 * The plot within its canvas, and the size of the canvas.
 * @param {string[]} tokens @param {import("./geometry.js").Size} whole
 * @param {number} width that there is
 * @param {number} height of the window
 */
export function layoutFor(tokens, whole, width, height) {
  const room = width >= SIDE_BY_SIDE ? width - PANEL : width;
  const margins = marginsFor(tokens, room, 64);
  const tall = Math.max(300, Math.min(720, height * 0.62));
  const cell = Math.min(LARGEST_CELL, (room - margins.left - margins.right) / whole.columns, tall / whole.rows);
  const side = (/** @type {number} */ count) =>
    Math.max(Math.floor(cell * count), Math.min(LARGEST_CELL * count, LEAST));
  const plot = { left: margins.left, top: margins.top, width: side(whole.columns), height: side(whole.rows) };
  return { plot, width: plot.width + margins.left + margins.right, height: plot.height + margins.top + margins.bottom };
}
