/** Weights flow into the weighted sum: ribbons as wide as the weights. */
import { drawn } from "../../elements/elements.js";
import { digitsFor, largestOf, printedCount, printedNumber } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";
import { FEW } from "./vector.js";

const ROW = 34;
const THICKEST = 26;
const FONT = "system-ui, sans-serif";

/**
 * A weight of null is that of a masked key.
 * @param {{words: string[], weights: (number|null)[], output: ArrayLike<number>|null, rest: number, restCount: number}} what
 * @param {number} width @param {Colours} colours @param {boolean} moving
 */
export function flowDiagram({ words, weights, output, rest, restCount }, width, colours, moving) {
  const rows = words.map((text, place) => {
    const [weight, word] = [weights[place], shortened(text, width < 480 ? 9 : 16)];
    return { word, weight: weight ?? 0, number: weight === null ? "masked" : printedNumber(weight, 2) };
  });
  if (restCount > 0) rows.push({ word: `${printedCount(restCount)} others`, weight: rest, number: printedNumber(rest, 2) });
  const narrow = width < 520;
  const left = Math.min(130, Math.max(46, ...rows.map(({ word }) => word.length * 7.4))) + 10;
  const numbers = left + (narrow ? 40 : 52);
  const box = narrow ? 96 : Math.min(210, width * 0.28);
  const [from, to] = [numbers + 8, width - box];
  const height = rows.length * ROW + 34;
  const middle = 26 + (rows.length * ROW) / 2;
  const total = rows.reduce((sum, { weight }) => sum + weight, 0) || 1;
  const widest = Math.min(THICKEST * 1.6, rows.length * ROW * 0.5);
  const thick = (/** @type {number} */ weight) => Math.max(weight * widest, weight > 0 ? 0.75 : 0);
  let arrives = middle - rows.reduce((sum, { weight }) => sum + thick(weight), 0) / 2;
  const ribbons = rows.map(({ word, weight, number }, place) => {
    const y = 26 + ROW * (place + 0.5);
    const wide = thick(weight);
    const end = (arrives + wide / 2).toFixed(1);
    arrives += wide;
    const bend = (from + to) / 2;
    const path = { d: `M${from} ${y}C${bend} ${y} ${bend} ${end} ${to} ${end}`, fill: "none" };
    const ribbon = { ...path, stroke: colours.accent, "stroke-opacity": 0.45, "stroke-width": wide.toFixed(2) };
    const line = { ...path, stroke: colours.ground, "stroke-width": Math.max(1, wide * 0.18).toFixed(2) };
    const isMasked = number === "masked";
    return [
      label(word, left, y + 4, "end", weight / total < 0.005 ? colours.muted : colours.ink, 13),
      label(number, numbers, y + 4, "end", isMasked ? colours.muted : colours.ink, isMasked ? 11 : 12),
      weight > 0 ? drawn("path", ribbon) : null,
      weight > 0.02 && moving ? drawn("path", { ...line, class: "regard-flow-moving" }) : null,
    ];
  });
  const said = rows.map(({ word, number }) => `${word} ${number}`).join(", ");
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  return drawn(
    "svg",
    { ...size, class: "regard-flow", role: "img", "font-family": FONT, "aria-label": `Weights flow into the sum: ${said}` },
    label("weight", numbers, 12, "end", colours.muted, 11),
    label("Σ weight · v", to + box / 2, 12, "middle", colours.muted, 11),
    ribbons,
    drawn("rect", { x: to, y: middle - 24, width: box - 4, height: 48, rx: 8, fill: colours.soft, stroke: colours.accent }),
    sumOf(output, to, middle, box - 4, colours),
  );
}

/**
 * @param {ArrayLike<number>|null} output @param {number} left @param {number} middle @param {number} width
 * @param {Colours} colours
 */
function sumOf(output, left, middle, width, colours) {
  if (!output) return [label("sum", left + width / 2, middle + 5, "middle", colours.ink, 13)];
  if (output.length <= FEW) {
    const digits = Math.max(2, digitsFor(output));
    const texts = Array.from(output, (one) => printedNumber(one, digits));
    const size = Math.min(13, (width - 16) / (texts.join(" ").length * 0.55));
    if (size >= 9) return [label(texts.join("  "), left + width / 2, middle + 5, "middle", colours.ink, size)];
    const half = Math.ceil(texts.length / 2);
    return [texts.slice(0, half), texts.slice(half)].map((some, line) =>
      label(some.join("  "), left + width / 2, middle - 4 + line * 17, "middle", colours.ink, 12),
    );
  }
  const top = largestOf(output) || 1;
  const step = (width - 16) / output.length;
  return [true, false].map((up) => {
    const bars = Array.from(output, (one, place) => {
      const [size, x] = [(Math.abs(one) / top) * 19, (left + 8 + place * step).toFixed(2)];
      if (one > 0 !== up || size <= 0.1) return "";
      return `M${x} ${middle}v${(up ? -size : size).toFixed(2)}h${(step * 0.84).toFixed(2)}V${middle}z`;
    });
    return drawn("path", { d: bars.join(""), fill: colours.signed(up ? 0.8 : -0.8) });
  });
}

/**
 * @param {string} text @param {number} x @param {number} y @param {string} anchor @param {string} fill
 * @param {number} size
 */
function label(text, x, y, anchor, fill, size) {
  return drawn("text", { x, y, "text-anchor": anchor, fill, "font-size": size, text });
}
