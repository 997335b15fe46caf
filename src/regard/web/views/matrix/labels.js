/** Words and positions along the sides of the matrix. */
import { printedCount } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";
import { ticks } from "./geometry.js";

export const LABEL_ROOM = 12; // pixels per line of labels
const FONT = "system-ui, sans-serif";
const LONGEST = 14; // characters of a word on an axis
const SLANT = -Math.PI / 3.4;
const HALF_LINE = 6; // pixels
const TITLE = 16; // pixels of the axis titles

/**
 * Space for labels on the left and above.
 * @param {string[]} tokens
 * @param {number} width of everything
 * @param {number} most cells that could have words
 */
export function marginsFor(tokens, width, most) {
  const some = tokens.length <= most ? tokens : tokens.slice(0, 400);
  let letters = 2;
  for (const token of some) letters = Math.max(letters, Math.min(LONGEST, shortened(token, LONGEST).length));
  const digits = printedCount(tokens.length).length;
  const room = Math.max(letters * 6.7, digits * 6.7) + 14;
  const left = Math.min(room + 18, width < 480 ? 84 : 128);
  return {
    left: Math.round(left),
    top: Math.round(Math.min(room, 100) * 0.86 + 30),
    right: width < 480 ? 14 : 40,
    bottom: 6,
  };
}

/** @param {CanvasRenderingContext2D} drawing @param {import("./geometry.js").Picture} what */
export function drawLabels(drawing, what) {
  const { plot, colours, shown, tokens, queryTokens, view } = what;
  drawing.textBaseline = "middle";
  const words = view.size >= LABEL_ROOM;
  const places = (/** @type {number[]} */ [first, last], /** @type {number} */ apart) =>
    words ? ticks(first, last, 1, 1) : ticks(first, last, view.size, apart);
  const text = (/** @type {number} */ place, of = tokens) => (words ? shortened(of[place], LONGEST) : printedCount(place));
  const middle = (/** @type {number} */ place, /** @type {number} */ first) => (place + (words ? 0.5 : 0) - first) * view.size;
  const mark = (/** @type {boolean} */ isMarked) => {
    drawing.font = `${words && isMarked ? "600 " : ""}12px ${FONT}`;
    drawing.fillStyle = words && isMarked ? colours.ink : colours.muted;
  };

  drawing.save();
  drawing.beginPath();
  drawing.rect(0, plot.top - 1, plot.left, plot.height + 2);
  drawing.clip();
  drawing.textAlign = "right";
  const rows = [what.chosen.query, what.cursor?.row];
  for (const place of places(shown.rows, 56)) {
    const y = plot.top + middle(place, view.y);
    if (words && (y < plot.top + HALF_LINE || y > plot.top + plot.height - HALF_LINE)) continue; // only whole ones
    mark(rows.includes(place));
    drawing.fillText(fitted(drawing, text(place, queryTokens), plot.left - 8 - TITLE), plot.left - 8, words ? y : y + 7);
    if (!words) drawing.fillRect(plot.left - 6, y, 6, 1);
  }
  drawing.restore();

  drawing.save();
  const columns = [what.chosen.key, what.cursor?.column];
  const list = places(shown.columns, 74);
  const edge = drawing.canvas.width / what.ratio;
  const flat = words && list.length <= 60 && fits(drawing, list.map((place) => text(place)), view.size - 6);
  for (const place of list) {
    const x = plot.left + middle(place, view.x);
    if (words && !flat && (x < plot.left || x > plot.left + plot.width)) continue;
    mark(columns.includes(place));
    drawing.textAlign = flat || !words ? "center" : "left";
    if (!words) {
      drawing.fillRect(x, plot.top - 6, 1, 6);
      const half = drawing.measureText(text(place)).width / 2;
      drawing.fillText(text(place), Math.max(half, Math.min(x, edge - half)), plot.top - 14);
    } else if (flat) {
      // A column that is partly visible has its word in the visible part, shortened to it.
      const [from, to] = [Math.max(plot.left, x - view.size / 2), Math.min(plot.left + plot.width, x + view.size / 2)];
      drawing.fillText(fitted(drawing, text(place), to - from - 6), (from + to) / 2, plot.top - 11);
    } else {
      const [up, right] = [(plot.top - 7 - TITLE) / -Math.sin(SLANT), (edge - x - 3) / Math.cos(SLANT)];
      drawing.save();
      drawing.translate(x + 3, plot.top - 7);
      drawing.rotate(SLANT);
      drawing.fillText(fitted(drawing, text(place), Math.min(up, right)), 0, 0);
      drawing.restore();
    }
  }
  drawing.restore();
  drawTitles(drawing, what);
}

/** @param {CanvasRenderingContext2D} drawing @param {import("./geometry.js").Picture} what */
function drawTitles(drawing, { plot, colours, view }) {
  drawing.font = `11px ${FONT}`;
  drawing.fillStyle = colours.muted;
  drawing.textAlign = "left";
  drawing.fillText("keys →", plot.left, view.size >= LABEL_ROOM ? 9 : plot.top - 34);
  drawing.save();
  drawing.translate(8, plot.top);
  drawing.rotate(-Math.PI / 2);
  drawing.textAlign = "right";
  drawing.fillText("← queries", 0, 0);
  drawing.restore();
}

/**
 * A text that fits: whole, or shortened with "…"; nothing where not even a letter fits.
 * @param {{measureText: (text: string) => {width: number}}} drawing @param {string} text @param {number} room
 */
export function fitted(drawing, text, room) {
  if (drawing.measureText(text).width <= room) return text;
  const letters = Array.from(text);
  while (letters.length && drawing.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return letters.length ? `${letters.join("")}…` : "";
}

/** @param {CanvasRenderingContext2D} drawing @param {string[]} texts @param {number} room */
function fits(drawing, texts, room) {
  if (room < 20) return false;
  drawing.font = `600 12px ${FONT}`;
  return texts.every((text) => drawing.measureText(text).width <= room);
}
