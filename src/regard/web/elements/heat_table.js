/** A table whose cells are coloured: numbers or words by layer and head, or by layer and token; and the same as SVG. */
import { element } from "./elements.js";
import { shortened } from "./words.js";

const [CELL, ROW, LETTER] = [44, 22, 6.6]; // pixels in a figure
const LONGEST = 9; // letters of a word in a cell

/**
 * value   from −1 to 1, for the colour; null: not computed yet
 * @typedef {{text: string, value: number|null, title: string, strong?: boolean}} Cell
 * @typedef {{title: string, corner: string, rows: string[], columns: string[], cells: Cell[][]}} HeatMap  cells[row][column]
 */

/** @param {HeatMap} map @param {Colours} colours */
export function heatTable({ title, corner, rows, columns, cells }, colours) {
  const table = element(
    "table",
    { class: "regard-heat" },
    element("caption", { class: "regard-unseen", text: title }),
    element("thead", {}, element("tr", {}, element("td", { text: corner }), columns.map((text) => element("th", { scope: "col", title: text, text: shortened(text, LONGEST) })))),
    element("tbody", {}, rows.map((text, row) => element("tr", {}, element("th", { scope: "row", text }), cells[row].map((cell) => cellElement(cell, colours))))),
  );
  return element("div", { class: "regard-heat-scroll", role: "region", tabindex: "0", "aria-label": title }, table);
}

/** @param {Cell} cell @param {Colours} colours */
function cellElement({ text, value, title, strong }, colours) {
  const el = element("td", { title, "data-strong": strong || null, "data-waits": value === null || null }, strong ? element("b", { text: shortened(text, LONGEST) }) : shortened(text || "·", LONGEST));
  if (value !== null) {
    const fill = colours.signed(value);
    el.style.setProperty("background", fill);
    el.style.setProperty("color", colours.contrast(fill));
  }
  return el;
}

/** @param {HeatMap} map @param {Colours} colours @param {(text: string) => string} escaped */
export function heatSvg({ corner, rows, columns, cells }, colours, escaped) {
  const left = LETTER * Math.max(corner.length, ...rows.map((text) => text.length)) + 12;
  const text = (/** @type {string} */ what, /** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ more) => `<text x="${x}" y="${y}" font-size="12" ${more}>${escaped(what)}</text>`;
  const parts = [text(corner, 4, 16, `fill="${colours.muted}"`)];
  columns.forEach((column, at) => parts.push(text(shortened(column, 6), left + (at + 0.5) * CELL, 16, `text-anchor="middle" fill="${colours.muted}"`)));
  cells.forEach((line, row) => {
    const y = 24 + row * ROW;
    parts.push(text(rows[row], left - 6, y + 15, `text-anchor="end" fill="${colours.muted}"`));
    line.forEach(({ text: word, value, title, strong }, at) => {
      const fill = value === null ? colours.hidden : colours.signed(value);
      parts.push(`<rect x="${left + at * CELL}" y="${y}" width="${CELL - 1}" height="${ROW - 1}" fill="${fill}"><title>${escaped(title)}</title></rect>`);
      parts.push(text(shortened(word, 6), left + (at + 0.5) * CELL, y + 15, `text-anchor="middle" fill="${colours.contrast(fill)}"${strong ? ' font-weight="700"' : ""}`));
    });
  });
  return { width: left + columns.length * CELL + 8, height: 32 + rows.length * ROW, parts };
}
