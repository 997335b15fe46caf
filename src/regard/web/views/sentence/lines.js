/** The lines between words. */

const MOST = 300;
const LEAST = { alone: 0.01, together: 0.04 }; // relative to the strongest: fainter lines would be invisible

/**
 * @typedef {{from: number, to: number, weight: number, share: number, place: number, places: number}} Link
 *   from and to are rows on the left and right; share is the weight, or the weight relative to the strongest; place is the
 *   head's position among heads drawn separately
 */

/**
 * The lines of a region, faintest first.
 * @param {import("./weights.js").Gathered} gathered
 * @param {{apart: boolean, query: number|null, key: number|null, aside: Set<number>, relative?: boolean}} how  query and
 *   key count rows of the region; keys in `aside` get no line; relative to the strongest instead of 1
 * @returns {Link[]}
 */
export function linksOf(gathered, { apart, query, key, aside, relative = true }) {
  const width = gathered.columns[1] - gathered.columns[0];
  const height = gathered.rows[1] - gathered.rows[0];
  const matrices = apart ? gathered.each : [gathered.mean];
  /** @type {Link[]} */
  const links = [];
  let strongest = 0;
  matrices.forEach((matrix, place) => {
    for (let from = 0; from < height; from++) {
      if (query !== null && from !== query) continue;
      for (let to = 0; to < width; to++) {
        if ((key !== null && to !== key) || aside.has(to)) continue;
        const weight = matrix[from * width + to];
        if (!(weight > 0)) continue;
        strongest = Math.max(strongest, weight);
        links.push({ from, to, weight, share: 0, place, places: matrices.length });
      }
    }
  });
  for (const link of links) link.share = relative ? link.weight / strongest : Math.min(link.weight, 1);
  const seen = links
    .filter((link) => link.share >= (query === null && key === null ? LEAST.together : LEAST.alone))
    .sort((one, other) => other.share - one.share);
  return seen.slice(0, MOST).reverse();
}

/**
 * The path of a line from left to right.
 * @param {Link} link @param {number} height of a row @param {number} left @param {number} right
 */
export function pathOf(link, height, left, right) {
  const shift = link.places > 1 ? ((link.place + 0.5) / link.places - 0.5) * height * 0.55 : 0;
  const start = (link.from + 0.5) * height + shift;
  const end = (link.to + 0.5) * height + shift;
  const bend = (left + right) / 2;
  const number = (/** @type {number} */ value) => String(Math.round(value * 100) / 100);
  return `M${number(left)} ${number(start)}C${number(bend)} ${number(start)} ${number(bend)} ${number(end)} ${number(right)} ${number(end)}`;
}

/** Width and opacity of a line. @param {Link} link @param {boolean} chosen whether only one word's lines are drawn */
export function strokeOf(link, chosen) {
  const most = link.places > 1 ? Math.max(6 / link.places, 2) : 6;
  return {
    width: Math.round((0.75 + (chosen ? most : most * 0.6) * link.share) * 100) / 100,
    opacity: Math.round((chosen ? 0.18 + 0.77 * link.share : 0.05 + 0.55 * link.share * link.share) * 1000) / 1000,
  };
}
