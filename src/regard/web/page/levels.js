/** The zoom from a sentence to a number: its levels, and the views of each. Pure functions. */

/**
 * views  the pictures of a level, the usual one first
 * @typedef {{name: string, title: string, about: string, views: string[]}} Level
 * @type {Level[]}
 */
export const LEVELS = [
  { name: "sentence", title: "Sentence", about: "Which word each head looks at", views: ["vote"] },
  { name: "heads", title: "Heads", about: "All heads of the model: every dot is one. Tap a dot to open it.", views: ["dots", "grid"] },
  { name: "head", title: "One head", about: "Tap a word to see which words it looks at in this head.", views: ["sentence", "matrix"] },
  { name: "number", title: "One number", about: "How this head computes what the word takes from the others.", views: ["steps"] },
  { name: "matter", title: "Does it matter?", about: "Strike out heads and see what changes.", views: ["matter", "edges", "patching", "lens"] },
  { name: "learn", title: "Learn", about: "How heads find their jobs in training.", views: ["learn"] },
];

/** Views beside the zoom, in the order of the menu. */
export const BESIDE = ["words", "context", "output", "architecture", "lookup"];

/** The level of a view; undefined beside the zoom. @param {string} view */
export function levelOf(view) {
  return LEVELS.find(({ views }) => views.includes(view));
}

/**
 * The levels that can be shown, each with its views.
 * @param {View[]} views that suit
 */
export function levelsOf(views) {
  const named = (/** @type {string} */ name) => views.filter((view) => view.name === name);
  return LEVELS.map((level) => ({ ...level, views: level.views.flatMap(named) })).filter((level) => level.views.length);
}

const ON_THE_BAR = 4;

/**
 * The levels on the bar, at most four: the sentence, where one is, and what lies around it. The others are in the menu.
 * @template {{name: string}} Named
 * @param {Named[]} levels @param {string|undefined} chosen @returns {Named[]}
 */
export function onTheBar(levels, chosen) {
  const here = levels.findIndex(({ name }) => name === chosen);
  const first = Math.max(1, Math.min(here - 1, levels.length - ON_THE_BAR + 1));
  return [...levels.slice(0, 1), ...levels.slice(first, first + ON_THE_BAR - 1)];
}

/**
 * The view with which a level opens: the one shown there last, the usual view of the text, or the first.
 * @template {{name: string}} Named
 * @param {{name: string, views: Named[]}[]} levels @param {string} name @param {string|undefined} last @param {Named} usual @returns {Named|undefined}
 */
export function viewOfLevel(levels, name, last, usual) {
  const views = levels.find((level) => level.name === name)?.views ?? [];
  return views.find((view) => view.name === last) ?? (views.includes(usual) ? usual : views[0]);
}

/** The views beside the zoom that can be shown. @param {View[]} views that suit */
export function viewsBeside(views) {
  return BESIDE.flatMap((name) => views.filter((view) => view.name === name));
}

/**
 * The view that a page shows: the chosen one; else that of one head, for vectors without words as a map.
 * @param {string|null} name @param {View[]} suiting @param {Description} description
 */
export function viewOf(name, suiting, { kind, text }) {
  const of = (/** @type {string} */ other) => suiting.find((view) => view.name === other);
  const asMap = kind === "reading" && !text ? of("matrix") : undefined;
  return of(name ?? "") ?? asMap ?? of("sentence") ?? suiting.find(({ front }) => !front) ?? suiting[0];
}
