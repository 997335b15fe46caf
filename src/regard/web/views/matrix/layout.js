/** Size of the matrix on the screen. */
import { LARGEST_CELL } from "./geometry.js";
import { marginsFor } from "./labels.js";

const SIDE_BY_SIDE = 760; // pixels of width from which the readout is beside the matrix
const PANEL = 304; // width of the readout
const LEAST = 120; // minimum side, so that a single row can be zoomed

/**
 * The plot within its canvas, and the size of the canvas.
 * @param {string[]} tokens
 * @param {import("./geometry.js").Size} whole
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
