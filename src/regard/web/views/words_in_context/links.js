/** The strongest links as a table that can be sorted. */
import { choosable, replacedOptions } from "../../elements/controls.js";
import { element } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";
import { unitOf, wordElement } from "../../elements/words.js";
import { sortedLinks } from "./model.js";

/** @typedef {import("./model.js").Link} Link */

const COLUMNS = ["query", "key", "weight", "distance"];
const NUMBERS = ["weight", "distance"];

/** @param {(query: number, key: number) => void} choose */
export function makeLinks(choose) {
  const now = { by: "weight", down: true, links: /** @type {Link[]} */ ([]), units: /** @type {Unit[]} */ ([]), queries: /** @type {Unit[]} */ ([]) };
  const kind = (/** @type {string} */ name) => (NUMBERS.includes(name) ? "regard-number" : null);
  const headings = COLUMNS.map((name, place) =>
    element("th", { scope: "col", tabindex: place ? "-1" : "0", "data-place": place, class: kind(name), text: name.replace(/^./, (letter) => letter.toUpperCase()) }),
  );
  const head = element("thead", {}, element("tr", {}, headings));
  const body = element("tbody");
  choosable(head, (place) => sortBy(COLUMNS[place]));
  choosable(body, (place) => {
    const link = sortedLinks(now.links, now.by, now.down)[place];
    choose(link.query, link.key);
  });

  /** @param {string} name */
  function sortBy(name) {
    Object.assign(now, { by: name, down: now.by === name ? !now.down : NUMBERS.includes(name) });
    draw();
  }

  function draw() {
    headings.forEach((heading, place) => {
      if (COLUMNS[place] === now.by) heading.setAttribute("aria-sort", now.down ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
    const rows = sortedLinks(now.links, now.by, now.down).map((link, place) =>
      element(
        "tr",
        { tabindex: place ? "-1" : "0", "data-place": place },
        element("th", { scope: "row" }, nameOf(link.query, now.queries)),
        element("td", {}, nameOf(link.key, now.units)),
        NUMBERS.map((name) => element("td", { class: "regard-number", text: name === "weight" ? printedNumber(link.weight, 3) : String(link.distance) })),
      ),
    );
    replacedOptions(body, rows.length ? rows : element("tr", {}, element("td", { colspan: "4", class: "regard-note", text: "No links." })));
  }

  return {
    el: element("table", { class: "regard-table regard-words-links", role: "grid", "aria-label": "Strongest links" }, head, body),
    /** @param {Link[]} links @param {Unit[]} units @param {Unit[]} queries */
    show(links, units, queries) {
      Object.assign(now, { links, units, queries });
      draw();
    },
  };
}

/** @param {number} token @param {Unit[]} units */
function nameOf(token, units) {
  const unit = units[unitOf(units, token)];
  return unit ? wordElement(unit.text, {}, 18) : String(token);
}
