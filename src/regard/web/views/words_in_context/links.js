/** The strongest links as a sortable table. */
import { element, replaced } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";
import { unitOf, wordElement } from "../../elements/words.js";

/** @typedef {{query: number, key: number, weight: number, distance: number}} Link */

const COLUMNS = [
  { name: "query", title: "Query" },
  { name: "key", title: "Key" },
  { name: "weight", title: "Weight", number: true },
  { name: "distance", title: "Distance", number: true },
];

/**
 * @param {(query: number, key: number) => void} choose
 */
export function makeLinks(choose) {
  let sorted = { by: "weight", down: true };
  /** @type {{links: Link[], units: Unit[], queries: Unit[], shift: number}} */
  let now = { links: [], units: [], queries: [], shift: 0 };
  const body = element("tbody");
  const headings = COLUMNS.map((column) => {
    const button = element(
      "button",
      { type: "button", class: "regard-words-sort", onclick: () => sortBy(column.name) },
      column.title,
      element("span", { "aria-hidden": "true" }),
    );
    return element("th", { scope: "col", class: column.number ? "regard-number" : null }, button);
  });
  const el = element(
    "table",
    { class: "regard-table regard-words-links" },
    element("thead", {}, element("tr", {}, headings)),
    body,
  );

  /** @param {string} name */
  function sortBy(name) {
    const numeric = name === "weight" || name === "distance";
    sorted = { by: name, down: sorted.by === name ? !sorted.down : numeric };
    draw();
  }

  function draw() {
    COLUMNS.forEach((column, place) => {
      const on = column.name === sorted.by;
      if (on) headings[place].setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else headings[place].removeAttribute("aria-sort");
      /** @type {HTMLElement} */ (headings[place].querySelector("span")).textContent = on ? (sorted.down ? " ↓" : " ↑") : "";
    });
    const rows = sortedLinks(now.links, sorted.by, sorted.down).map((link) => {
      const cells = [nameOf(link.query, now.queries), nameOf(link.key, now.units)];
      const show = element(
        "button",
        { type: "button", class: "regard-words-link", onclick: () => choose(link.query, link.key) },
        cells[0],
      );
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, show),
        element("td", {}, cells[1]),
        element("td", { class: "regard-number", text: printedNumber(link.weight, 3) }),
        element("td", { class: "regard-number", text: String(link.distance) }),
      );
    });
    replaced(
      body,
      rows.length ? rows : element("tr", {}, element("td", { colspan: "4", class: "regard-note", text: "No links." })),
    );
  }

  return {
    el,
    /** @param {Link[]} links @param {Unit[]} units @param {Unit[]} queries @param {number} shift */
    show(links, units, queries, shift) {
      now = { links, units, queries, shift };
      draw();
    },
  };
}

/** @param {Link[]} links @param {string} by @param {boolean} down */
export function sortedLinks(links, by, down) {
  const name = /** @type {keyof Link} */ (by);
  return [...links].sort(
    (one, other) => (down ? other[name] - one[name] : one[name] - other[name]) || other.weight - one.weight,
  );
}

/** @param {number} token @param {Unit[]} units */
function nameOf(token, units) {
  const unit = units[unitOf(units, token)];
  return unit ? wordElement(unit.text, {}, 18) : String(token);
}
