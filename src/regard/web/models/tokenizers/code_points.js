/** Text by code points, as Python counts characters; JavaScript's strings count UTF-16 units. */

/** A text, its code points, and for each the characters of the original text that it comes from. */
export class AlignedText {
  /**
   * @param {string} string well formed
   * @param {Uint32Array} codes
   * @param {Uint32Array} starts of each code point in the original text, in code points
   * @param {Uint32Array} stops
   */
  constructor(string, codes, starts, stops) {
    this.string = string;
    this.codes = codes;
    this.starts = starts;
    this.stops = stops;
    this.units = unitsOf(string, codes);
  }

  /** @param {string} string lone surrogates become question marks, as in Python */
  static of(string) {
    const whole = string.replace(/\p{Cs}/gu, "?");
    const codes = codesOf(whole);
    const positions = new Uint32Array(codes.length + 1);
    for (let position = 0; position < positions.length; position++) positions[position] = position;
    return new AlignedText(whole, codes, positions.subarray(0, -1), positions.subarray(1));
  }

  /** @param {Uint32Array} codes @param {Uint32Array} starts @param {Uint32Array} stops @param {number} length */
  static from(codes, starts, stops, length) {
    const kept = codes.subarray(0, length);
    return new AlignedText(stringOf(kept), kept, starts.subarray(0, length), stops.subarray(0, length));
  }

  get length() {
    return this.codes.length;
  }

  /** @param {number} start @param {number} stop */
  slice(start, stop) {
    if (start === 0 && stop === this.length) return this;
    const [codes, starts, stops] = [this.codes, this.starts, this.stops].map((part) => part.subarray(start, stop));
    return new AlignedText(this.stringOf(start, stop), codes, starts, stops);
  }

  /** @param {number} start @param {number} stop */
  stringOf(start, stop) {
    const { units } = this;
    return units ? this.string.slice(units[start], units[stop]) : this.string.slice(start, stop);
  }
}

/** @param {string} string @returns {Uint32Array} */
export function codesOf(string) {
  const codes = new Uint32Array(string.length);
  let length = 0;
  for (let unit = 0; unit < string.length; unit++) {
    const code = /** @type {number} */ (string.codePointAt(unit));
    codes[length++] = code;
    if (code > 0xffff) unit++;
  }
  return codes.subarray(0, length);
}

/**
 * The position of each code point in UTF-16 units, and the end; null where the two are the same.
 * @param {string} string @param {Uint32Array} codes
 */
function unitsOf(string, codes) {
  if (string.length === codes.length) return null;
  const units = new Uint32Array(codes.length + 1);
  for (let position = 0; position < codes.length; position++)
    units[position + 1] = units[position] + (codes[position] > 0xffff ? 2 : 1);
  return units;
}

/** @param {Uint32Array} codes */
function stringOf(codes) {
  let string = "";
  for (let start = 0; start < codes.length; start += 4096)
    string += String.fromCodePoint(...codes.subarray(start, start + 4096));
  return string;
}

/**
 * Spans in code points as spans in UTF-16 units, for String.slice.
 * @param {string} text @param {[number, number][]} spans
 * @returns {[number, number][]}
 */
export function utf16Spans(text, spans) {
  const units = unitsOf(text, codesOf(text));
  return units ? spans.map(([start, stop]) => [units[start], units[stop]]) : spans;
}
