/** A table whose cells are coloured: numbers or words by layer and head, or by layer and token. */
import { element } from "./elements.js";
import { shortened } from "./words.js";

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
  const fill = value === null ? null : colours.signed(value);
  const attributes = { title, "data-strong": strong || null, "data-waits": value === null || null };
  const style = fill && { background: fill, color: colours.contrast(fill) };
  const shown = shortened(text || "·", LONGEST);
  return element("td", { ...attributes, style }, strong ? element("b", { text: shown }) : shown);
}
