/** The heads of all layers in an order. Pure functions. */

/**
 * In which orders heads can stand; `statistic` is what they are sorted by.
 * @type {{value: string, text: string, statistic?: string, down?: boolean, said: string}[]}
 */
export const ORDERS = [
  { value: "model", text: "Model", said: "One row a layer, as in the model." },
  { value: "entropy", text: "Entropy", statistic: "entropy", said: "Heads that look at few words first." },
  { value: "distance", text: "Distance", statistic: "distance", said: "Heads that look nearby first." },
  {
    value: "sinks",
    text: "Sink mass",
    statistic: "sinks",
    down: true,
    said: "Heads that give most weight to sinks first.",
  },
];

/** What the statistics of a head are, as people read them. */
export const STATISTICS = [
  { name: "entropy", text: "Entropy", unit: "nats", said: "how evenly it looks: 0 is one word only" },
  { name: "distance", text: "Distance", unit: "tokens", said: "how far away it looks, on average" },
  { name: "sinks", text: "Sink mass", unit: "", said: "weight on special and first tokens" },
  { name: "peak", text: "Peak", unit: "", said: "the largest weight of a query, on average" },
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
 * @param {ArrayLike<number>|undefined} numbers one a head, layer after layer; none keeps the order of the model
 * @param {boolean} down the largest first
 */
export function ordered(heads, numbers, down = false) {
  if (!numbers) return heads;
  const places = heads.map((_, place) => place);
  // What is not a number goes to the end.
  const of = (/** @type {number} */ place) =>
    Number.isNaN(numbers[place]) ? Infinity : (down ? -1 : 1) * numbers[place];
  return places.sort((one, other) => of(one) - of(other) || one - other).map((place) => heads[place]);
}

/**
 * Where a number lies between the smallest and the largest, from 0 to 1.
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
 * The place that an arrow key leads to.
 * @param {string} key @param {number} here @param {number} count @param {number} across how many stand in a row
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
