/** Where a page opens: the strongest link between content words, as `regard/reading/highlights.py` says it. */

const PRONOUNS = new Set("they he she them him it her his hers their theirs its themselves itself himself herself".split(" "));
const FUNCTION_WORDS = new Set([
  ...PRONOUNS,
  ..."a an the and or but nor so yet if then than as of to in on at by for from with without into onto over under up down off out".split(" "),
  ..."about after before between during through until while because although though since unless be is are was were been being am".split(" "),
  ..."do does did have has had having will would can could shall should may might must not no n't 's s t also just very too only".split(" "),
  ..."there here when where why how what who whom whose which this that these those we us our ours i me my mine you your yours".split(" "),
  ..."ourselves myself yourself".split(" "),
]);
const WHOLE = 1 << 20; // weights of a layer, up to which all its rows are looked at
const MOST_ROWS = 12; // words looked at in longer texts

/** @typedef {{query: number, key: number, layer: number, head: number, weight: number}} Link  query and key: positions of words */

/**
 * rows  the weights of tokens [first, last), (query, key)
 * @param {{words: string[], spans: [number, number][], layers: number, heads: (layer: number) => number, sinks: number[],
 *   rows: (layer: number, head: number, first: number, last: number) => Float64Array}} text sinks: positions of words
 * @returns {{query: number, layer: number, head: number}} a word, and the head that is shown first
 */
export function opening({ words, spans, layers, heads, sinks, rows }) {
  const usual = words.map((_, place) => !sinks.includes(place));
  const candidates = queriesOf(words, usual);
  const content = words.map((word, place) => usual[place] && isContent(word));
  /** Whether a link may be chosen, strictest first: content words apart, any content word, any word. @type {((query: number, key: number) => boolean)[]} */
  const allowed = [
    (query, key) => content[key] && Math.abs(query - key) > 1,
    (query, key) => content[key] && query !== key,
    (query, key) => usual[key] && query !== key,
  ];
  /** @type {(Link|null)[]} */
  const best = allowed.map(() => null);
  const count = spans[spans.length - 1][1];
  for (let layer = 0; layer < layers; layer++) {
    const isWhole = heads(layer) * count * count <= WHOLE;
    const step = isWhole ? 1 : Math.ceil(candidates.length / MOST_ROWS);
    for (let head = 0; head < heads(layer); head++) {
      const all = isWhole ? rows(layer, head, 0, count) : null;
      for (let place = 0; place < candidates.length; place += step) {
        const query = candidates[place];
        const [first, last] = spans[query];
        const weights = byWord(all ? all.subarray(first * count, last * count) : rows(layer, head, first, last), spans, count);
        allowed.forEach((may, level) =>
          weights.forEach((weight, key) => {
            if (weight > (best[level]?.weight ?? 0) && may(query, key)) best[level] = { query, key, layer, head, weight };
          }),
        );
      }
    }
  }
  return best.find((link) => link) ?? { query: candidates[0], layer: 0, head: 0 };
}

/** Words whose attention is worth showing: a pronoun, else all content words, else all words. @param {string[]} words @param {boolean[]} usual */
function queriesOf(words, usual) {
  const places = words.flatMap((word, place) => (usual[place] && isWord(word) ? [place] : []));
  const pronoun = places.find((place) => PRONOUNS.has(words[place].toLowerCase()));
  if (pronoun !== undefined) return [pronoun];
  const content = places.filter((place) => isContent(words[place]));
  return content.length ? content : places.length ? places : [0];
}

/** Means over the rows of a word, summed over the tokens of each word. @param {Float64Array} rows @param {[number, number][]} spans @param {number} count */
function byWord(rows, spans, count) {
  const pieces = rows.length / count;
  return spans.map(([first, last]) => {
    let sum = 0;
    for (let start = 0; start < rows.length; start += count) for (let key = first; key < last; key++) sum += rows[start + key];
    return sum / pieces;
  });
}

/** @param {string} word */
function isWord(word) {
  return /[\p{L}\p{N}]/u.test(word);
}

/** @param {string} word */
function isContent(word) {
  return isWord(word) && !FUNCTION_WORDS.has(word.toLowerCase());
}
