/** One head: its map, enlarged, its statistics among those of all heads, and links to the other views. */
import { button, drawn, element, replaced } from "../../elements/elements.js";
import { printedWeight } from "../../maths/numbers.js";
import { popover } from "../../page/toolbar.js";
import { isKept, nameOfHead } from "../../page/state.js";
import { shortened } from "../../elements/words.js";
import { STATISTICS, printedStatistic, saidOfCell, shareOf, statisticsIn } from "./model.js";

/** @typedef {import("./model.js").HeadStatistics} HeadStatistics */

const NOT_KEPT = "not kept in this page";

/** What a head is known for, which need not be in this text. @param {string|null|undefined} label @param {Description} description */
function inGeneral(label, description) {
  return label ? `In general${description.known ? ` (${description.known.treebank})` : ""}: ${label}` : "";
}

/**
 * The statistics of a head in one line.
 * @param {HeadPlace} head @param {HeadStatistics|null} known @param {Description} description
 */
export function saidOfHead(head, known, description) {
  const pattern = known?.patternOf(head);
  const numbers = statisticsIn(known).map(({ name, text, unit }) => {
    const number = printedStatistic(known?.of(name, head) ?? NaN);
    return `${text.toLowerCase()} ${number}${unit ? ` ${unit}` : ""}`;
  });
  const kept = isKept(head, description) ? null : NOT_KEPT;
  return [nameOfHead(head, description), kept, pattern ? `in general ${pattern}` : null, ...numbers].filter(Boolean).join(", ");
}

/**
 * @param {Context} context @param {ReturnType<typeof import("./maps.js").makeMaps>} maps
 * @param {() => boolean} alike whether all maps are shaded from 0 to 1
 */
export function makeAbout({ description, state }, maps, alike) {
  const title = element("h2", { class: "regard-grid-title" });
  const pattern = element("p", { class: "regard-grid-pattern" });
  const canvas = element("canvas", { class: "regard-grid-large", "aria-hidden": "true" });
  const numbers = element("dl", { class: "regard-grid-numbers" });
  const strong = element("p", { class: "regard-quiet" });
  const sinks = new Set(description.sinks ?? []);
  const names = { sentence: "Threads", matrix: "Map", steps: "One number" };
  /** @type {{layer: number, head: number}} */
  let shown = { layer: 0, head: 0 };
  const open = popover(
    "Open in …",
    { class: "regard-grid-open" },
    Object.entries(names).map(([view, text]) =>
      button(text, () => state.set({ ...shown, heads: null, view }), { class: "regard-menu-item", "aria-label": `Open in ${text}` }),
    ),
  );
  const attributes = { class: "regard-card regard-grid-about", "aria-label": "Selected head" };
  const el = element("aside", attributes, title, pattern, canvas, strong, numbers, open);

  /** The strongest link besides those of sinks and of a token to itself. @param {HeadPlace} head */
  function strongestOf(head) {
    const shift = description.first_query ?? 0;
    const skip = (/** @type {number} */ query, /** @type {number} */ key) =>
      sinks.has(key) || sinks.has(query + shift) || (description.first_query !== null && query + shift === key);
    const cell = maps.strongest(head.layer, head.head, skip);
    if (!cell) return "";
    const { query, key, weight } = saidOfCell(cell, description, head.layer, printedWeight);
    return `Strongest: ${shortened(query, 18)} → ${shortened(key, 18)} ${weight}`;
  }

  return {
    el,
    /** Draws the map again. */
    again: () => void maps.draw(canvas, shown.layer, shown.head, alike()),
    /** @param {HeadPlace} head @param {HeadStatistics|null} known */
    show(head, known) {
      shown = head;
      title.textContent = nameOfHead(head, description);
      const kept = isKept(head, description);
      pattern.textContent = kept ? inGeneral(known?.patternOf(head), description) : `The map is ${NOT_KEPT}.`;
      for (const button of open.querySelectorAll("button")) button.disabled = !kept;
      pattern.hidden = !pattern.textContent;
      canvas.hidden = !maps.draw(canvas, head.layer, head.head, alike());
      strong.textContent = strongestOf(head);
      maps.want(head.layer);
      replaced(numbers, known && statisticsIn(known).map((statistic) => statisticOf(statistic, head, known)));
    },
  };
}

/**
 * One statistic of a head.
 * @param {typeof STATISTICS[number]} statistic @param {HeadPlace} head @param {HeadStatistics} known
 */
function statisticOf({ name, text, unit, said }, head, known) {
  const number = known.of(name, head);
  const measured = unit && !Number.isNaN(number) ? element("span", { class: "regard-quiet", text: ` ${unit}` }) : null;
  const value = element("dd", { text: printedStatistic(number) }, measured);
  return element("div", { title: said }, element("dt", { text }), value, amongAll(number, known.arrays[name]));
}

/** A scale with a thin mark per head and a thick one for this. @param {number} number @param {Float32Array} all */
function amongAll(number, all) {
  const mark = (/** @type {number} */ one, /** @type {string} */ name, /** @type {number} */ half) => {
    const x = (4 + 192 * shareOf(one, all)).toFixed(1);
    return drawn("line", { x1: x, x2: x, y1: 7 - half, y2: 7 + half, class: name });
  };
  if (Number.isNaN(number)) return null;
  const some =
    all.length <= 400 ? all : Array.from({ length: 400 }, (_, place) => all[Math.floor((place * all.length) / 400)]);
  return drawn(
    "svg",
    { viewBox: "0 0 200 14", class: "regard-grid-among", "aria-hidden": "true", preserveAspectRatio: "none" },
    Array.from(some)
      .filter((one) => !Number.isNaN(one))
      .map((one) => mark(one, "regard-grid-mark", 3)),
    mark(number, "regard-grid-mark-this", 6),
  );
}
