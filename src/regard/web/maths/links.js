/**
 * Ranking by weight: the same rules as regard/reading/links.py, kept equal by fixtures (tests/web/fixtures.py).
 * Strongest first; ties go to the earlier query, then the earlier key; keys without weight are never listed.
 */

/**
 * Positions of the largest weights, strongest first.
 * @param {ArrayLike<number>} weights @param {number} [count]
 * @param {{skip?: (position: number) => boolean, zeros?: boolean}} [how] zeros: list weights of 0 too
 * @returns {number[]}
 */
export function strongest(weights, count = Infinity, { skip = () => false, zeros = false } = {}) {
  const positions = [];
  for (let at = 0; at < weights.length; at++) if ((zeros || weights[at] > 0) && !skip(at)) positions.push(at);
  return positions.sort((one, other) => weights[other] - weights[one] || one - other).slice(0, count);
}

/**
 * Collects the strongest links of a matrix that is given row by row.
 * @param {{count: number, itself: boolean, firstQuery: number|null, sinks: Iterable<number>}} options
 *   firstQuery is the key position of query 0 (null: queries are not among the keys); without `itself`, links of a
 *   token to itself are left out; sinks are left out as keys and as queries
 */
export function makeLinks({ count, itself, firstQuery, sinks }) {
  const aside = new Set(sinks);
  /** @type {number[][]} query, key, weight */
  let found = [];
  let least = 0;
  const trim = () => (found = found.sort(stronger).slice(0, count));
  return {
    /** @param {number} query @param {ArrayLike<number>} row */
    add(query, row) {
      const own = firstQuery === null ? -1 : query + firstQuery;
      if (aside.has(own)) return;
      for (let key = 0; key < row.length; key++) {
        if (!(row[key] > least) || aside.has(key) || (!itself && key === own)) continue;
        found.push([query, key, row[key]]);
      }
      if (found.length > 4 * count + 1000) least = trim()[count - 1][2];
    },
    links: trim,
  };
}

/** @param {number[]} one @param {number[]} other */
function stronger(one, other) {
  return other[2] - one[2] || one[0] - other[0] || one[1] - other[1];
}
