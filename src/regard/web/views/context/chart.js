/** The cosine of two vectors, layer by layer. */
import { drawn, element } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [44, 16, 14, 40];

/**
 * @param {{cosine: number, distance: number}[]} moves @param {number} width @param {Colours} colours @param {number} chosen layer
 */
export function movesChart(moves, width, colours, chosen) {
  const height = 190;
  const least = Math.min(0, ...moves.map(({ cosine }) => cosine));
  const x = (/** @type {number} */ place) => LEFT + ((width - LEFT - RIGHT) * place) / Math.max(moves.length - 1, 1);
  const y = (/** @type {number} */ cosine) => TOP + ((height - TOP - BOTTOM) * (1 - cosine)) / (1 - least);
  const text = (/** @type {number} */ at, /** @type {number} */ down, /** @type {string} */ said, more = {}) =>
    drawn("text", { x: at, y: down, "font-size": 12, fill: colours.muted, text: said, ...more });
  const levels = [1, 0.5, 0, ...(least < -0.2 ? [Math.floor(least * 2) / 2] : [])].filter((level) => level >= least);
  const every = Math.ceil(moves.length / Math.max(1, Math.floor((width - LEFT - RIGHT) / 46)));
  const named = (/** @type {number} */ place) => (place === 0 ? "start" : String(place - 1));
  const path = moves.map(({ cosine }, place) => `${place ? "L" : "M"}${x(place).toFixed(1)} ${y(cosine).toFixed(1)}`).join("");
  return drawn(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`, width, height, class: "regard-context-chart", role: "img", "font-family": "system-ui, sans-serif",
      "aria-label": `Cosine of the two vectors: ${moves.map(({ cosine }, place) => `${named(place)} ${printedNumber(cosine, 2)}`).join(", ")}`,
    },
    levels.map((level) => drawn("path", { d: `M${LEFT} ${y(level)}H${width - RIGHT}`, stroke: colours.rule })),
    levels.map((level) => text(LEFT - 8, y(level) + 4, printedNumber(level, 1), { "text-anchor": "end" })),
    moves.map((_, place) => (place % every && place !== moves.length - 1 ? null : text(x(place), height - BOTTOM + 18, named(place), { "text-anchor": "middle" }))),
    text(width - RIGHT, height - 4, "after layer", { "text-anchor": "end" }),
    chosen >= 0 ? drawn("path", { d: `M${x(chosen + 1)} ${TOP}V${height - BOTTOM}`, stroke: colours.accent, "stroke-dasharray": "3 4" }) : null,
    drawn("path", { d: path, fill: "none", stroke: colours.accent, "stroke-width": 2.5, "stroke-linejoin": "round" }),
    moves.map(({ cosine }, place) =>
      drawn("circle", { cx: x(place), cy: y(cosine), r: moves.length > 16 ? 3 : 4.5, fill: colours.accent }, drawn("title", { text: `${place ? `after layer ${place - 1}` : "before the first layer"}: cosine ${printedNumber(cosine, 3)}` })),
    ),
    moves.length <= 13 ? moves.map(({ cosine }, place) => text(x(place), y(cosine) + (cosine > 0.85 ? 20 : -10), printedNumber(cosine, 2), { "text-anchor": place ? "middle" : "start", fill: colours.ink })) : null,
  ); // prettier-ignore
}

/** The same numbers as a table. @param {{cosine: number, distance: number}[]} moves */
export function movesTable(moves) {
  const cell = (/** @type {number} */ number) => element("td", { class: "regard-number", text: printedNumber(number, 3) });
  const headings = ["State", "Cosine", "Distance"].map((text, place) =>
    element("th", { scope: "col", class: place ? "regard-number" : null, text }),
  );
  const rows = moves.map(({ cosine, distance }, place) => {
    const text = place ? `after layer ${place - 1}` : "before the first layer";
    return element("tr", {}, element("th", { scope: "row", text }), cell(cosine), cell(distance));
  });
  const [head, body] = [element("thead", {}, element("tr", {}, headings)), element("tbody", {}, rows)];
  const table = element("table", { class: "regard-table regard-context-numbers" }, head, body);
  return element("details", { class: "regard-details" }, element("summary", { text: "These numbers as a table" }), table);
}
