/** The sentence view as SVG, for slides and papers. */
import { svgText } from "../../page/export.js";
import { printedNumber } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";
import { pathOf, strokeOf } from "./lines.js";

const ROW = 30;
const LETTER = 8.2; // approximate width of a character
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, 'Noto Sans', sans-serif";

/**
 * @typedef {{text: string, chosen: boolean, weight: number|null}} Word
 * @param {{left: Word[], right: Word[],
 *   links: import("./lines.js").Link[], heads: number[], apart: boolean, title: string, alone: boolean, colours: Colours}} scene
 */
export function pictureOf({ left, right, links, heads, apart, title, alone, colours }) {
  const widest = (/** @type {Word[]} */ words) =>
    Math.max(60, ...words.map((word) => shortened(word.text).length * LETTER + 20));
  const [first, second] = [widest(left), widest(right)];
  const numbers = 60;
  const [start, end] = [20 + first, 20 + first + 220];
  const width = Math.ceil(end + second + numbers + 20);
  const top = 54;
  const height = top + Math.max(left.length, right.length) * ROW + 20;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT}" font-size="15">`,
    `<title>${svgText(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="${colours.ground}"/>`,
    `<text x="${start - 10}" y="34" text-anchor="end" fill="${colours.muted}" font-size="13">query</text>`,
    `<text x="${end + 10}" y="34" fill="${colours.muted}" font-size="13">key</text>`,
    `<g transform="translate(0 ${top})" fill="none" stroke-linecap="round">`,
  ];
  for (const link of links) {
    const { width: thick, opacity } = strokeOf(link, alone);
    const colour = apart ? colours.head(heads[link.place]) : colours.accent;
    parts.push(
      `<path d="${pathOf(link, ROW, start, end)}" stroke="${colour}" stroke-width="${thick}" stroke-opacity="${opacity}"/>`,
    );
  }
  parts.push("</g>");
  parts.push(
    ...sideOf(left, start - 10, top, "end", -first - 8, colours),
    ...sideOf(right, end + 10, top, "start", second + numbers - 14, colours),
  );
  if (apart) {
    heads.forEach((head, place) => {
      parts.push(
        `<text x="${start + 12 + (place % 5) * 44}" y="${20 + Math.floor(place / 5) * 16}" font-size="12" fill="${colours.head(head)}">■ ${head}</text>`,
      );
    });
  }
  return parts.join("\n") + "\n</svg>\n";
}

/** @param {Word[]} words @param {number} x @param {number} top @param {string} anchor @param {number} numberAt @param {Colours} colours */
function sideOf(words, x, top, anchor, numberAt, colours) {
  return words.flatMap((word, place) => {
    const y = top + (place + 0.5) * ROW + 5;
    const weight = word.chosen ? ' font-weight="700"' : "";
    const lines = [
      `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="${colours.ink}"${weight}>${svgText(shortened(word.text))}</text>`,
    ];
    if (word.weight !== null) {
      const other = anchor === "end" ? "start" : "end";
      lines.push(
        `<text x="${x + numberAt}" y="${y}" text-anchor="${other}" fill="${colours.muted}" font-size="13">${printedNumber(word.weight, 2)}</text>`,
      );
    }
    return lines;
  });
}
