/** The order of the heads in the grid. Pure functions. */

/**
 * Available orders; `statistic` is the sort key.
 * @type {{value: string, text: string, statistic?: string, down?: boolean, said: string}[]}
 */
export const ORDERS = [
  { value: "model", text: "Model", said: "One row per layer." },
  { value: "entropy", text: "Entropy", statistic: "entropy", said: "Most concentrated heads first." },
  { value: "distance", text: "Distance", statistic: "distance", said: "Heads with the shortest distance first." },
  {
    value: "sinks",
    text: "Sink mass",
    statistic: "sinks",
    down: true,
    said: "Heads with the most weight on sinks first.",
  },
];

/** The statistics of a head, with units. */
export const STATISTICS = [
  { name: "entropy", text: "Entropy", unit: "nats", said: "mean over queries: 0 is all weight on one token" },
  { name: "distance", text: "Distance", unit: "tokens", said: "mean distance between query and key" },
  { name: "sinks", text: "Sink mass", unit: "", said: "weight on special and first tokens" },
  { name: "peak", text: "Peak", unit: "", said: "largest weight of a query, mean over queries" },
];

/** @typedef {{layer: number, head: number}} Head */

/** @param {number} layers @param {number} heads @returns {Head[]} */
export function headsOf(layers, heads) {
  return Array.from({ length: layers * heads }, (_, place) => ({
    layer: Math.floor(place / heads),
    head: place % heads,
  }));
}

/**
 * @param {Head[]} heads
 * @param {ArrayLike<number>|undefined} numbers one per head, layer by layer; undefined keeps the model order
 * @param {boolean} down the largest first
 */
export function ordered(heads, numbers, down = false) {
  if (!numbers) return heads;
  const places = heads.map((_, place) => place);
  // NaN sorts last.
  const of = (/** @type {number} */ place) =>
    Number.isNaN(numbers[place]) ? Infinity : (down ? -1 : 1) * numbers[place];
  return places.sort((one, other) => of(one) - of(other) || one - other).map((place) => heads[place]);
}

/**
 * Position of a number between the smallest and the largest, from 0 to 1.
 * @param {number} number
 * @param {ArrayLike<number>} all
 */
export function shareOf(number, all) {
  let [least, most] = [Infinity, -Infinity];
  for (let place = 0; place < all.length; place++) {
    if (all[place] < least) least = all[place];
    if (all[place] > most) most = all[place];
  }
  return most > least ? (number - least) / (most - least) : 0.5;
}

/**
 * The position that an arrow key moves to.
 * @param {string} key @param {number} here @param {number} count @param {number} across maps per row
 */
export function walked(key, here, count, across) {
  /** @type {Record<string, number>} */
  const moves = {
    ArrowLeft: here - 1,
    ArrowRight: here + 1,
    ArrowUp: here - across,
    ArrowDown: here + across,
    Home: 0,
    End: count - 1,
  };
  if (!(key in moves)) return null;
  return moves[key] < 0 || moves[key] >= count ? here : moves[key];
}
