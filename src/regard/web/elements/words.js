/** Tokens and words for display; all text typed by a person goes through here. */
import { element } from "./elements.js";

const LONGEST = 24;
/** @type {Record<string, string>} */
const PICTURES = { "\n": "↵", "\r": "↵", "\t": "⇥", "\u2028": "↵", "\u2029": "↵" };
// Joiners hold emoji and some scripts together; other format characters can reorder or hide text.
const KEPT = new Set(["\u200c", "\u200d"]);
const FORMAT = /\p{Cf}/u;

/**
 * The text on one line: control characters become visible symbols, bidirectional controls are removed.
 * @param {unknown} text
 */
export function printable(text) {
  let shown = "";
  for (const character of String(text)) {
    const code = /** @type {number} */ (character.codePointAt(0));
    if (PICTURES[character]) shown += PICTURES[character];
    else if (code < 0x20) shown += String.fromCodePoint(0x2400 + code);
    else if (code === 0x7f) shown += "␡";
    else if ((code > 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000) || (code & 0xfffe) === 0xfffe)
      shown += "�";
    else if (!FORMAT.test(character) || KEPT.has(character)) shown += character;
  }
  return shown;
}

/** The first graphemes of a long text, and an ellipsis. @param {unknown} text */
export function shortened(text, longest = LONGEST) {
  // Only the beginning is split into graphemes: words of 10,000 characters occur.
  const shown = printable(String(text).slice(0, longest * 16));
  if (shown.length <= longest && shown.length === printable(text).length) return shown || "␣";
  const letters = splitLetters(shown);
  const whole = String(text).length <= longest * 16;
  return letters.length <= longest && whole ? shown : letters.slice(0, longest - 1).join("") + "…";
}

/**
 * A word as an element, isolated so that right-to-left text stays within it; the whole text is its title
 * if shortened.
 * @param {unknown} text @param {import("./elements.js").Attributes} [attributes]
 */
export function wordElement(text, attributes = {}, longest = LONGEST) {
  const shown = shortened(text, longest);
  const full = printable(text);
  const title = full !== shown && full.length > longest ? full.slice(0, 2000) : null;
  return element("bdi", { dir: "auto", title, ...attributes, text: shown });
}

/** Words with repeated ones numbered, as Python labels them: the, cat, the:2. @param {string[]} words */
export function numbered(words) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  return words.map((word) => {
    const count = (seen.get(word) ?? 0) + 1;
    seen.set(word, count);
    return count === 1 ? word : `${word}:${count}`;
  });
}

/** A text in lines that are cut between words. @param {string} text @param {number} most letters of a line */
export function linesOf(text, most) {
  /** @type {string[]} */
  const lines = [];
  for (const word of text.split(" ").filter(Boolean)) {
    const last = lines.length - 1;
    if (last >= 0 && lines[last].length + 1 + word.length <= most) lines[last] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Computed once per description: a long text has 100,000 units. @type {WeakMap<object, Map<string, Unit[]>>} */
const made = new WeakMap();

/**
 * Words, or the tokens they consist of. The list is shared and must not be changed.
 * @typedef {{text: string, first: number, last: number, special: boolean, sink: boolean, joined: boolean, written?: boolean}} Unit
 *   written: by the model
 * @param {Description} description
 * @param {"word"|"token"} by
 * @returns {Unit[]}
 */
export function unitsOf(description, by) {
  const known = made.get(description) ?? new Map();
  if (!known.has(by)) made.set(description, known.set(by, unitsMade(description, by)));
  return known.get(by);
}

/** @param {Description} description @param {"word"|"token"} by @returns {Unit[]} */
function unitsMade(description, by) {
  const { tokens = [], special = [], joined = [], sinks = [], words, given } = description;
  const [specials, joins, sunk] = [special, joined, sinks].map((places) => new Set(places));
  const ranges = by === "word" && words?.length ? words : tokens.map((_, place) => [place, place + 1]);
  return ranges.map(([first, last]) => ({
    text: spelledText(description, first, last),
    first,
    last,
    special: specials.has(first),
    sink: sunk.has(first),
    joined: by === "token" && joins.has(first),
    written: given !== null && given !== undefined && first >= given,
  }));
}

/** The position of the unit that contains a token. @param {Unit[]} units @param {number|null} token */
export function unitOf(units, token) {
  if (token === null || token === undefined) return -1;
  let low = 0;
  let high = units.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (token < units[middle].first) high = middle - 1;
    else if (token >= units[middle].last) low = middle + 1;
    else return middle;
  }
  return -1;
}

/** Token weights summed per word. @param {ArrayLike<number>} weights @param {Unit[]} units */
export function summedOver(weights, units) {
  return Float32Array.from(units, ({ first, last }) => {
    let sum = 0;
    for (let place = first; place < last; place++) sum += weights[place];
    return sum;
  });
}

/**
 * Token weights as unit weights: averaged over the query's pieces, summed over the key's pieces.
 * @param {{data: ArrayLike<number>, shape: number[]}} weight @param {TokenRange[]} left @param {TokenRange[]} right
 */
export function byUnits(weight, left, right) {
  const { data, shape } = weight;
  const found = new Float32Array(left.length * right.length);
  const rowStart = left[0]?.first ?? 0;
  const columnStart = right[0]?.first ?? 0;
  left.forEach((query, line) => {
    right.forEach((key, place) => {
      let sum = 0;
      for (let row = query.first; row < query.last; row++) {
        const start = (row - rowStart) * shape[1] - columnStart;
        for (let column = key.first; column < key.last; column++) sum += data[start + column];
      }
      found[line * right.length + place] = sum / (query.last - query.first);
    });
  });
  return found;
}

/** As the text spells it: a letter may be several tokens, of a byte each. @param {Description} description @param {number} first @param {number} last */
function spelledText({ tokens, text, stops }, first, last) {
  if (last - first === 1) return tokens[first];
  const spelled = stops && text ? text.slice(stops[first - 1] ?? 0, stops[last - 1]).trim() : "";
  return spelled || tokens.slice(first, last).join("");
}

/** @param {string} text */
function splitLetters(text) {
  const Segmenter = Intl.Segmenter;
  if (!Segmenter) return [...text];
  return Array.from(new Segmenter(undefined, { granularity: "grapheme" }).segment(text), (part) => part.segment);
}

/** Units of the queries, which may differ from the keys or follow cached ones. @param {Description} description @param {"word"|"token"} by */
export function queryUnits(description, by) {
  if (description.query_tokens) {
    const plain = { special: false, sink: false, joined: false };
    return description.query_tokens.map((text, place) => ({ text, first: place, last: place + 1, ...plain }));
  }
  const first = description.first_query ?? 0;
  const last = first + (description.queries ?? description.tokens.length);
  return unitsOf(description, by).filter((unit) => unit.first >= first && unit.last <= last);
}

/**
 * Attention sinks by name, [CLS] and [SEP], or “The”, which a sentence begins with; several or one.
 * @param {Unit[]} units
 */
export function sinksOf(units) {
  const names = [...new Set(units.filter((unit) => unit.sink).map((unit) => (unit.special ? shortened(unit.text, 12) : `“${shortened(unit.text, 12)}”`)))];
  return { listed: names.slice(0, 3).join(" and "), several: names.length > 1 };
}
