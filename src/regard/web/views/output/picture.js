/** Bars with names and numbers, as SVG. */
import { svgText } from "../../page/export.js";
import { printedNumber } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";

/** @param {{name: string, share: number}[]} rows @param {string} title @param {Colours} colours @param {number} [left] room for the names */
export function pictureOf(rows, title, colours, left = 150) {
  const most = Math.max(...rows.map((row) => row.share), 1e-9);
  const [width, height] = [left + 470, 64 + rows.length * 28];
  const lines = rows.map(({ name, share }, place) => {
    const y = 68 + place * 28;
    const bar = `x="${left + 14}" y="${y - 14}" width="${((360 * Math.max(share, 0)) / most).toFixed(1)}" height="18" rx="2"`;
    return (
      `<text x="${left}" y="${y}" text-anchor="end">${svgText(shortened(name, Math.floor(left / 8)))}</text>` +
      `<rect ${bar} fill="${colours.theme === "dark" ? "#3b78b8" : "#7fb0dc"}"/>` +
      `<text x="${width - 24}" y="${y}" text-anchor="end" fill="${colours.muted}" font-size="13">${printedNumber(share, 3)}</text>`
    );
  });
  const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="system-ui, sans-serif" font-size="15" fill="${colours.ink}"><title>${svgText(title)}</title>
<rect width="${width}" height="${height}" fill="${colours.ground}"/><text x="24" y="34" font-weight="600">${svgText(shortened(title, 90))}</text>
${lines.join("\n")}
</svg>
`;
}
