/** One side of the sentence: a list of words, each with its weight as a bar and a number. */
import { numberAt } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";

/**
 * @param {{side: "query"|"key", label: string, hint: string, hover: (unit: number|null) => void,
 *   choose: (unit: number|null) => void, walk: (unit: number) => void, across: () => void, page: (by: number) => void}} options
 */
export function makeSide({ side, label, hint, hover, choose, walk, across, page }) {
  const list = element("div", { class: "regard-sentence-list", role: "listbox", "aria-label": `${label}: ${hint}` });
  const before = button("", () => page(-1), { class: "regard-sentence-more" });
  const after = button("", () => page(1), { class: "regard-sentence-more" });
  const heading = element(
    "div",
    { class: "regard-sentence-heading" },
    element("b", { text: label }),
    element("span", { text: hint }),
  );
  const el = element("div", { class: "regard-sentence-side", "data-side": side }, heading, before, list, after);
  /** @type {HTMLElement[]} */
  let rows = [];
  let first = 0;
  /** @type {string[]} */
  let names = [];
  let drawn = "";

  const toggle = (/** @type {number} */ unit) => choose(rows[unit - first].getAttribute("aria-selected") === "true" ? null : unit);
  listensToWords(list, { side, hover, choose: toggle, select: choose, walk, across });

  /** Shows the words of a range. @param {Unit[]} units @param {[number, number]} range @param {string} version */
  function fill(units, range, version) {
    if (drawn === version) return;
    drawn = version;
    first = range[0];
    const focused = rows.some((row) => row === row.ownerDocument.activeElement);
    names = units.slice(...range).map((unit) => shortened(unit.text, 60));
    rows = units.slice(...range).map((unit, place) => rowOf(unit, range[0] + place, side));
    replaced(list, rows);
    for (const [more, count, where] of /** @type {[HTMLButtonElement, number, string][]} */ ([
      [before, range[0], "earlier"],
      [after, units.length - range[1], "later"],
    ])) {
      more.hidden = range[1] - range[0] === units.length;
      more.disabled = count === 0;
      more.dataset.words = `${count.toLocaleString("en")} ${where}`;
      more.textContent = `${where === "earlier" ? "▲" : "▼"} ${more.dataset.words}`;
    }
    if (focused) focus(first);
  }

  /**
   * Shows the weight of every word; null hides it, and masked words have none.
   * @param {{weights: ArrayLike<number>|null, parts: ArrayLike<number>[]|null, masked: Set<number>, chosen: number|null, pointed: number|null,
   *   aside: Set<number>, most: number, largest: number, heads: number[], colours: Colours, elsewhere?: {before: string, after: string}|null}} scene
   */
  function show({ weights, parts, masked, chosen, pointed, aside, most, largest, heads, colours, elsewhere = null }) {
    const reachable = rows[(chosen ?? -1) - first] ?? rows[0];
    rows.forEach((row, place) => {
      const unit = first + place;
      const weight = weights && !masked.has(place) ? weights[place] : null;
      const [bar, number] = [row.children[1], row.children[side === "query" ? 0 : 2]];
      row.setAttribute("aria-selected", String(unit === chosen));
      row.toggleAttribute("data-pointed", unit === pointed);
      row.toggleAttribute("data-aside", aside.has(place));
      row.toggleAttribute("data-masked", masked.has(place));
      row.tabIndex = row === reachable ? 0 : -1;
      number.textContent = weight === null ? "" : printedNumber(weight, digitsOf(largest));
      row.setAttribute("aria-label", [names[place], masked.has(place) ? "masked" : number.textContent].filter(Boolean).join(", "));
      const share = weight === null || aside.has(place) ? 0 : Math.min(weight / (most || 1), 1);
      row.style.setProperty("--regard-share", share.toFixed(4));
      drawBars(
        bar,
        parts && !aside.has(place) ? parts.map((part) => part[place] / (most || 1)) : [share],
        parts ? heads.map(colours.head) : null,
      );
    });
    before.textContent = `▲ ${before.dataset.words}${elsewhere?.before ?? ""}`;
    after.textContent = `▼ ${after.dataset.words}${elsewhere?.after ?? ""}`;
  }

  /** @param {number} unit */
  function focus(unit) {
    rows[Math.min(Math.max(unit - first, 0), rows.length - 1)]?.focus();
  }

  return { el, fill, show, focus };
}

/**
 * Pointer and keyboard of a list of words: one tab stop, walked by the arrow keys.
 * @param {HTMLElement} list
 * @param {{side: "query"|"key", hover: (unit: number|null) => void, choose: (unit: number) => void,
 *   select: (unit: number|null) => void, walk: (unit: number) => void, across: () => void}} act  choose: or not any more, where it was chosen
 */
function listensToWords(list, { side, hover, choose, select, walk, across }) {
  const unitAt = (/** @type {Event} */ event) => numberAt(event, "data-unit");
  let moved = false; // a list that appears below a resting pointer is not pointed at
  list.addEventListener("pointermove", (event) => {
    if (moved || event.pointerType === "touch") return;
    moved = true;
    hover(unitAt(event));
  });
  list.addEventListener("pointerover", (event) => moved && event.pointerType !== "touch" && hover(unitAt(event)));
  list.addEventListener("pointerleave", () => hover(null));
  list.addEventListener("click", (event) => {
    const unit = unitAt(event);
    if (unit !== null) choose(unit);
  });
  list.addEventListener("keydown", (event) => {
    const unit = unitAt(event);
    if (unit === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const go = /** @type {Record<string, () => void>} */ ({
      ArrowDown: () => walk(unit + 1),
      ArrowUp: () => walk(unit - 1),
      Home: () => walk(0),
      End: () => walk(Infinity),
      PageDown: () => walk(unit + 10),
      PageUp: () => walk(unit - 10),
      ArrowRight: () => side === "query" && across(),
      ArrowLeft: () => side === "key" && across(),
      Enter: () => select(unit),
      " ": () => select(unit),
      Escape: () => select(null),
    })[event.key];
    if (!go) return;
    event.preventDefault();
    go();
  });
}

/** A word with room for its weight. @param {Unit} unit @param {number} place @param {"query"|"key"} side */
function rowOf(unit, place, side) {
  const word = wordElement(unit.text, { class: "regard-sentence-text", "data-special": unit.special || null });
  const bar = element("span", { class: "regard-sentence-bar", "aria-hidden": "true" });
  const number = element("span", { class: "regard-sentence-number" });
  const attributes = { class: "regard-sentence-word", role: "option", "data-unit": place, "aria-selected": "false", "data-written": unit.written || null, title: unit.written ? "Written by the model" : null, tabindex: "-1" };
  return element("div", attributes, side === "query" ? [number, bar, word] : [word, bar, number]);
}

/** Decimals for weights: two, more if all are small. @param {number} most */
export function digitsOf(most) {
  return most >= 0.05 ? 2 : most >= 0.005 ? 3 : 4;
}

/** One bar, or one per head. @param {Element} bar @param {number[]} shares @param {string[]|null} colours */
function drawBars(bar, shares, colours) {
  while (bar.children.length > shares.length) bar.lastChild?.remove();
  while (bar.children.length < shares.length) bar.append(element("i"));
  shares.forEach((share, place) => {
    const part = /** @type {HTMLElement} */ (bar.children[place]);
    part.style.transform = `scaleX(${Math.min(share, 1).toFixed(4)})`;
    part.style.background = colours ? colours[place] : "";
  });
}
