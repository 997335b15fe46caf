/** A list of words with bars: the attention of one word, or the attention it receives. */
import { element, replaced } from "../../elements/elements.js";
import { strongest } from "../../maths/links.js";
import { printedNumber } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";

export const BARS = 10;

/**
 * Attention given and received by a word, strongest first, and the largest of these weights.
 * @param {{units: Unit[], queries: Unit[], word: import("./weights.js").AttentionOfWord, aside: boolean}} scene with `aside`, sinks are left out
 */
export function barsOf({ units, queries, word, aside }) {
  const ranked = (/** @type {{place: number, weight: number, unit: Unit}[]} */ all) => {
    const skip = (/** @type {number} */ at) => aside && all[at].unit.sink;
    return strongest(Float64Array.from(all, ({ weight }) => weight), BARS, { skip }).map((at) => all[at]);
  };
  const mean = /** @type {ArrayLike<number>} */ (word.row?.mean ?? []);
  const given = ranked(Array.from(mean, (weight, place) => ({ place, weight, unit: units[place] })));
  const taken = ranked(
    word.column.map(({ place, weight }) => ({ place, weight, unit: queries[place] })),
  );
  return { given, taken, most: Math.max(...[...given, ...taken].map((bar) => bar.weight), 1e-9) };
}

/**
 * @param {(unit: number) => void} choose
 */
export function makeBars(choose) {
  const heading = element("h2", { class: "regard-words-heading" });
  const list = element("ol", { class: "regard-words-bars" });
  const el = element("section", { class: "regard-words-panel" }, heading, list);
  list.addEventListener("click", (event) => {
    const row = /** @type {HTMLElement} */ (event.target).closest?.("button");
    if (row) choose(Number(row.dataset.unit));
  });

  /**
   * @param {(Node|string)[]} title @param {{place: number, weight: number, unit: Unit}[]} bars strongest first
   * @param {number} most
   */
  function show(title, bars, most) {
    replaced(heading, title);
    const rows = bars.map(({ place, weight, unit }) => {
      const bar = element("i");
      bar.style.transform = `scaleX(${Math.min(weight / (most || 1), 1).toFixed(4)})`;
      return element(
        "li",
        {},
        element(
          "button",
          {
            type: "button",
            "data-unit": place,
            "aria-label": `${shortened(unit.text, 60)}, ${printedNumber(weight, 3)}`,
          },
          wordElement(unit.text, { class: "regard-words-name" }, 18),
          element("span", { class: "regard-words-bar", "aria-hidden": "true" }, bar),
          element("span", { class: "regard-words-number", text: printedNumber(weight, 3) }),
        ),
      );
    });
    replaced(list, rows.length ? rows : element("li", { class: "regard-note", text: "No weight." }));
  }
  return { el, show };
}
