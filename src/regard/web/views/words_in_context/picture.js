/** Words in context as SVG. */
import { svgText } from "../../page/export.js";
import { printedNumber } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";
import { pathAlong, pointsOf } from "./along.js";
import { BARS, barsOf } from "./bars.js";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, 'Noto Sans', sans-serif";

/** @param {{units: Unit[], queries: Unit[], along: import("./weights.js").Along, word: import("./weights.js").AttentionOfWord, aside: boolean, colours: Colours}} scene */
export function wordPicture({ units, queries, along, word, aside, colours }) {
  const name = shortened(units[word.place].text);
  const { given, taken, most } = barsOf({ units, queries, word, aside });
  const height = 60 + BARS * 26 + 150;
  const column = (/** @type {string} */ title, /** @type {{place: number, weight: number, unit: Unit}[]} */ bars, /** @type {number} */ x) => [
    `<text x="${x}" y="34" font-weight="600">${svgText(title)}</text>`,
    ...bars.flatMap(({ weight, unit }, place) => {
      const y = 52 + place * 26;
      return [
        `<text x="${x}" y="${y + 15}" font-size="14">${svgText(shortened(unit.text, 16))}</text>`,
        `<rect x="${x + 130}" y="${y + 2}" width="${(180 * weight) / most}" height="18" rx="2" fill="${colours.theme === "dark" ? "#3b78b8" : "#7fb0dc"}"/>`,
        `<text x="${x + 365}" y="${y + 15}" font-size="13" text-anchor="end" fill="${colours.muted}">${printedNumber(weight, 3)}</text>`,
      ];
    }),
  ];
  const curve = pointsOf(along.entropy).length || 1;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="840" height="${height}" viewBox="0 0 840 ${height}" font-family="${FONT}" font-size="15" fill="${colours.ink}">`,
    `<rect width="840" height="${height}" fill="${colours.ground}"/>`,
    ...column(`${name} gives to`, given, 24),
    ...column(`${name} receives from`, taken, 440),
    `<text x="24" y="${height - 118}" font-size="13" fill="${colours.muted}">Entropy along the text, up to ${printedNumber(Math.max(...along.entropy, 0), 2)} nats</text>`,
    `<svg x="24" y="${height - 108}" width="792" height="84" viewBox="0 0 ${curve} 84" preserveAspectRatio="none"><path d="${pathAlong(along.entropy, "line", 84)}" fill="none" stroke="${colours.accent}" stroke-width="1.75" vector-effect="non-scaling-stroke"/></svg>`,
    "</svg>",
  ];
  return parts.join("\n") + "\n";
}
