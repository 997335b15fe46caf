/** The visible part of the matrix as SVG and as a table. */
import { svgText } from "../../page/export.js";
import { printedCount, printedNumber } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";
import { isHidden, partOf } from "./geometry.js";
import { LABEL_ROOM } from "./labels.js";
import { colourOfWeight } from "./pixels.js";

const MOST_CELLS = 64; // along a side, drawn as rectangles
const MOST_ROWS = 512; // of a table

/** @param {import("./geometry.js").Picture} what as it is drawn @param {HTMLCanvasElement} canvas @param {string} title */
export function matrixSvg(what, canvas, title) {
  const { view, shown } = what;
  const cells = Math.max(shown.rows[1] - shown.rows[0], shown.columns[1] - shown.columns[0]);
  if (cells > MOST_CELLS || view.size < LABEL_ROOM) return pictureSvg(canvas, title);
  return cellsSvg(what, title);
}

/** @param {import("./geometry.js").Picture} what @param {string} title */
function cellsSvg({ shown, scale, colours, tokens, queryTokens, weightAt, masking }, title) {
  const side = 40;
  const [rows, columns] = [span(shown.rows), span(shown.columns)];
  const queries = rows.map((place) => shortened(queryTokens[place], 16));
  const keys = columns.map((place) => shortened(tokens[place], 16));
  const left = Math.max(...queries.map((name) => name.length)) * 7.6 + 16;
  const top = Math.max(...keys.map((name) => name.length)) * 5.6 + 52;
  const written = (/** @type {string} */ where, /** @type {string} */ text, fill = colours.ink) =>
    `<text ${where} fill="${fill}">${svgText(text)}</text>`;
  const parts = [written('x="12" y="22" font-size="15" font-weight="600"', title)];
  queries.forEach((name, place) => {
    const y = top + (place + 0.5) * side + 4;
    parts.push(written(`x="${left - 8}" y="${y}" text-anchor="end" font-size="13"`, name));
  });
  keys.forEach((name, place) => {
    const x = left + (place + 0.5) * side + 3;
    parts.push(written(`transform="translate(${x} ${top - 8}) rotate(-53)" font-size="13"`, name));
  });
  for (const [down, row] of rows.entries()) {
    for (const [across, column] of columns.entries()) {
      const hidden = isHidden(masking, [row, row + 1], [column, column + 1]);
      const weight = weightAt(row, column) ?? 0;
      const fill = hidden ? colours.hidden : colourOfWeight(weight, scale);
      const [x, y] = [left + across * side, top + down * side];
      parts.push(`<rect x="${x + 0.5}" y="${y + 0.5}" width="${side - 1}" height="${side - 1}" fill="${fill}"/>`);
      if (hidden) continue;
      const where = `x="${x + side / 2}" y="${y + side / 2 + 4}" text-anchor="middle" font-size="12"`;
      parts.push(written(where, printedNumber(weight, 2), colours.contrast(fill)));
    }
  }
  return svgDocument(left + columns.length * side + 60, top + rows.length * side + 16, title, colours.ground, parts);
}

/** @param {HTMLCanvasElement} canvas @param {string} title */
function pictureSvg(canvas, title) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const image = `<image width="${width}" height="${height}" href="${canvas.toDataURL("image/png")}"/>`;
  return svgDocument(width, height, title, "none", [image]);
}

/**
 * An SVG document with a title.
 * @param {number} width @param {number} height @param {string} title @param {string} ground @param {string[]} parts
 */
function svgDocument(width, height, title, ground, parts) {
  const [across, down] = [Math.ceil(width), Math.ceil(height)];
  const size = `width="${across}" height="${down}" viewBox="0 0 ${across} ${down}"`;
  const start = `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" font-family="system-ui, sans-serif">`;
  const background = `<rect width="100%" height="100%" fill="${ground}"/>`;
  return `${start}<title>${svgText(title)}</title>${background}${parts.join("")}</svg>`;
}

/**
 * Queries down, keys across; pooled cells name their range, masked ones are blank.
 * @param {import("./geometry.js").Picture} what @param {string} title
 * @param {number} coarse tokens a cell
 */
export function matrixTable({ shown, tokens, queryTokens, drawnWeight, masking }, title, coarse) {
  const parts = (/** @type {number[]} */ [first, last]) => {
    const found = [];
    for (let place = first; place < last && found.length < MOST_ROWS; place += coarse) found.push(place);
    return found;
  };
  const name = (/** @type {number} */ place, /** @type {string[]} */ words) =>
    coarse === 1
      ? String(words[place])
      : `${printedCount(place)}–${printedCount(Math.min(words.length, place + coarse) - 1)}`;
  const [rows, columns] = [parts(shown.rows), parts(shown.columns)];
  const cell = (/** @type {number} */ row, /** @type {number} */ column) =>
    isHidden(masking, [row, row + coarse], [column, column + coarse]) ? null : drawnWeight(row, column);
  return {
    title,
    columns: ["query \\ key", ...columns.map((column) => name(column, tokens))],
    rows: rows.map((row) => [name(row, queryTokens), ...columns.map((column) => cell(row, column))]),
  };
}

/**
 * The largest visible weights, largest first.
 * @param {import("./tiles.js").Loaded[]} tiles the coarsest first; of these the finest are looked through
 * @param {{rows: number[], columns: number[]}} shown @param {number} most
 */
export function strongestIn(tiles, shown, most) {
  /** @type {{rows: number[], columns: number[], weight: number}[]} */
  const found = [];
  for (const tile of tiles) {
    const [height, width] = tile.shape;
    const inside = (/** @type {number[]} */ [first, last], /** @type {number[]} */ range) =>
      last > range[0] && first < range[1];
    for (let down = 0; down < height; down++) {
      const rows = partOf(tile.rows, height, down);
      if (!inside(rows, shown.rows)) continue;
      for (let across = 0; across < width; across++) {
        const weight = tile.weight[down * width + across];
        if (found.length === most && weight <= found[most - 1].weight) continue;
        const columns = partOf(tile.columns, width, across);
        if (!(weight > 0) || !inside(columns, shown.columns)) continue;
        found.push({ rows, columns, weight });
        found.sort((one, other) => other.weight - one.weight);
        found.length = Math.min(found.length, most);
      }
    }
  }
  return found;
}

/** The positions of a range. @param {number[]} range */
export function span([first, last]) {
  return Array.from({ length: last - first }, (_, place) => first + place);
}
