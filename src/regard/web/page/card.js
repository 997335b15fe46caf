/** A card of 1200 × 630, the size of link previews: the sentence with its votes, and what the heads say. */
import { countsOf } from "../maths/votes.js";
import { unitsOf } from "../elements/words.js";
import { questionOf } from "../views/guess/model.js";
import { askerOf, spacesOf } from "../views/vote/model.js";
import { counted } from "../views/vote/result.js";
import { askVotes } from "../views/vote/source.js";
import { svgText } from "./export.js";

const [WIDTH, HEIGHT, MARGIN] = [1200, 630, 72];
const SIZES = [60, 52, 44, 38, 32, 27, 23]; // of the sentence, largest first
const MOST_LINES = 3;
const PITCH = 13; // between the centres of two dots
export const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

/**
 * count: of votes; asks: the word whose attention is shown; spaced: follows a space
 * @typedef {{text: string, count: number, asks: boolean, said: boolean, spaced: boolean}} CardWord
 * @typedef {{words: CardWord[], question: string, says: {count: number, heads: number, word: string}|null, source: string}} Card
 */

/**
 * What the card of a reading says: of the guessed word; else of the one with most votes that is not next to the asking one.
 * @param {Source} source @param {Description} description @param {Chosen} chosen @returns {Promise<Card>}
 */
export async function cardOf(source, description, chosen) {
  const units = unitsOf(description, "word");
  const asker = askerOf(units, chosen, description);
  const votes = await askVotes(source, description, { units, asker });
  const counts = countsOf(votes, units.length);
  const guess = chosen.vote_guess;
  const guessed = guess ? units.findIndex(({ text }) => String(guess).startsWith(text)) : -1;
  const order = counts.map((_, word) => word).sort((one, other) => counts[other] - counts[one] || one - other);
  const said = guessed >= 0 ? guessed : (order.find((word) => counts[word] && Math.abs(word - asker) > 1) ?? order[0]);
  const spaced = spacesOf(description.text, units);
  return {
    words: units.flatMap(({ text, special }, word) => (special ? [] : [{ text, count: counts[word], asks: word === asker, said: word === said, spaced: spaced[word] }])),
    question: questionOf(description.text) ?? `Which word does “${units[asker].text}” look at?`,
    says: counts[said] ? { count: counts[said], heads: votes.length, word: units[said].text } : null,
    source: description.source ?? description.model ?? "",
  };
}

/** "12 of 72 heads say kids. You?" @param {NonNullable<Card["says"]>} says */
function saidOnCard({ count, heads, word }) {
  return `${count} of ${counted(heads)} ${count === 1 ? "says" : "say"} ${word}. You?`;
}

/**
 * @param {Card} card @param {Pick<Colours, "ground"|"ink"|"muted"|"accent"|"soft">} colours
 * @param {(text: string, size: number, isBold?: boolean) => number} widthOf of a text in the card's font
 */
export function cardSvg({ words, question, says, source }, colours, widthOf) {
  const { size, lines } = fitted(words, widthOf);
  const columns = Math.max(3, Math.round((size * 1.6) / PITCH));
  const heights = lines.map((line) => Math.max(1, ...line.map(({ count }) => Math.ceil(count / columns))) * PITCH);
  const pitch = size * 1.35;
  const room = 330 - heights.reduce((sum, height) => sum + height + pitch, 0);
  const text = (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ of, /** @type {string} */ said, fill = colours.ink, more = "") =>
    `<text x="${Math.round(x)}" y="${Math.round(y)}" font-family="${FONT}" font-size="${of}" fill="${fill}"${more}>${svgText(said)}</text>`;
  const parts = [text(MARGIN, 92, 34, question, colours.muted), text(WIDTH - MARGIN, 92, 30, "Regard", colours.accent, ' text-anchor="end" font-weight="700"')];
  let y = 120 + Math.max(0, room) / 2;
  lines.forEach((line, place) => {
    y += heights[place] + pitch;
    for (const { text: word, x, width, count, asks, said } of line) {
      if (asks) parts.push(`<rect x="${x - 8}" y="${y - size}" width="${width + 16}" height="${size * 1.3}" rx="10" fill="${colours.soft}"/>`);
      parts.push(text(x, y, size, word, said ? colours.accent : colours.ink, said || asks ? ' font-weight="700"' : ""));
      const across = Math.min(columns, count);
      for (let dot = 0; dot < count; dot++) {
        const [column, row] = [dot % columns, Math.floor(dot / columns)];
        parts.push(`<circle cx="${x + width / 2 + (column - (across - 1) / 2) * PITCH}" cy="${y - size - 10 - row * PITCH}" r="5" fill="${colours.accent}"/>`);
      }
    }
  });
  if (says) parts.push(text(MARGIN, 536, 60, saidOnCard(says), colours.ink, ' font-weight="700"'));
  parts.push(text(MARGIN, 590, 24, `Each dot is one head of ${source}: it lies on the word it looks at most.`, colours.muted));
  const title = says ? saidOnCard(says) : question;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img"><title>${svgText(title)}</title>` +
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="${colours.ground}"/>${parts.join("")}</svg>`
  );
}

/** The sentence in lines, as large as it fits. @param {CardWord[]} words @param {(text: string, size: number, isBold?: boolean) => number} widthOf */
function fitted(words, widthOf) {
  for (const size of SIZES) {
    const lines = linesOf(words, size, widthOf);
    if (lines.length <= MOST_LINES || size === SIZES[SIZES.length - 1]) return { size, lines: lines.slice(0, MOST_LINES + 2) };
  }
  throw new Error("unreachable");
}

/** @param {CardWord[]} words @param {number} size @param {(text: string, size: number, isBold?: boolean) => number} widthOf */
function linesOf(words, size, widthOf) {
  /** @type {(CardWord & {x: number, width: number})[][]} */
  const lines = [[]];
  let x = MARGIN;
  for (const word of words) {
    const width = widthOf(word.text, size, word.said || word.asks);
    const gap = word.spaced && x > MARGIN ? size * 0.32 : 0;
    if (x + gap + width > WIDTH - MARGIN && x > MARGIN) {
      lines.push([]);
      x = MARGIN;
    } else x += gap;
    lines[lines.length - 1].push({ ...word, x, width });
    x += width;
  }
  return lines;
}
