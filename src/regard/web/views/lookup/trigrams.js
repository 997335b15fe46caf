/** Texts as vectors by their spelling, as in Python's `teaching/lookup.py`: exact counts of letter trigrams. */

const PIECE = 3;

/**
 * How often each piece occurs: three neighbouring characters of a word with its ends, and whole words.
 * @param {string} text
 * @returns {Map<string, number>}
 */
export function piecesOf(text) {
  const folded = text.normalize("NFKC").toLowerCase().replace(/ß/g, "ss");
  const words = folded.match(/[\p{L}\p{M}\p{N}]+/gu) ?? folded.split(/\s+/).filter(Boolean);
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const word of words) {
    const ended = [..."<" + word + ">"];
    const pieces = new Set([ended.join("")]);
    for (let start = 0; start + PIECE <= ended.length; start++) pieces.add(ended.slice(start, start + PIECE).join(""));
    for (const piece of pieces) found.set(piece, (found.get(piece) ?? 0) + 1);
  }
  return found;
}

/**
 * From a text to its vector of length 1: one number per piece that occurs in the keys, one for all other pieces.
 * @param {string[]} keys
 * @returns {(text: string) => number[]}
 */
export function spelling(keys) {
  const known = new Set(keys.flatMap((key) => [...piecesOf(key).keys()]));
  const places = new Map([...known].map((piece, place) => [piece, place]));
  return (text) => {
    const vector = new Array(places.size + 1).fill(0);
    let other = 0;
    let all = 0;
    for (const [piece, count] of piecesOf(text)) {
      const place = places.get(piece);
      if (place === undefined) other += count ** 2;
      else vector[place] = count;
      all += count ** 2;
    }
    vector[places.size] = Math.sqrt(other);
    return all ? vector.map((part) => part / Math.sqrt(all)) : vector;
  };
}
