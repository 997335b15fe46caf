/** A long text as running text: each word coloured by its weight for the selected query, with search. */
import { uniqueId } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { strongest } from "../../maths/links.js";
import { printedCount, printedWeight } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";

const PAGE = 1500; // words shown at once: more take longer than a frame to lay out
const NAMED = 6; // of the strongest words, listed as links

/**
 * @param {{description: Description, choose: (unit: number) => void, point: (unit: number) => void, announce: (text: string) => void}} acts
 *   choose  selects a query; point  a key
 */
export function makeRunning({ description, choose, point, announce }) {
  const id = uniqueId("search");
  const text = element("div", { class: "regard-running-text", role: "group", "aria-label": "The text, coloured by weight", tabindex: "0" });
  const search = element("input", { id, type: "search", class: "regard-running-search", placeholder: "Find a word", autocomplete: "off" });
  const found = element("span", { class: "regard-quiet", role: "status" });
  const step = (/** @type {number} */ by, /** @type {string} */ label, /** @type {string} */ sign) =>
    button(sign, () => go(by), { "aria-label": label, title: label });
  const [previous, next] = [step(-1, "Previous match", "‹"), step(1, "Next match", "›")];
  const strong = element("span", { class: "regard-running-strong" });
  const turn = (/** @type {number} */ by, /** @type {string} */ label) =>
    button(label, () => turnTo(first + by * PAGE), { class: "regard-link" });
  const [earlier, later] = [turn(-1, "◂ earlier"), turn(1, "later ▸")];
  const where = element("span", { class: "regard-quiet" });
  const el = element(
    "section",
    { class: "regard-running", "aria-label": "Running text" },
    element(
      "div",
      { class: "regard-running-bar" },
      element("label", { for: id, class: "regard-unseen", text: "Find a word" }),
      search,
      previous,
      next,
      found,
      strong,
      element("span", { class: "regard-running-pages" }, earlier, where, later),
    ),
    text,
  );
  /** @type {Unit[]} */
  let units = [];
  /** @type {ArrayLike<number>|null} */
  let weights = null;
  let query = -1;
  let first = 0;
  let shown = "";
  /** @type {number[]} */
  let matches = [];
  let at = -1;

  text.addEventListener("click", (event) => {
    const unit = /** @type {HTMLElement|null} */ (/** @type {HTMLElement} */ (event.target).closest?.("[data-unit]"));
    if (unit) (event.altKey ? point : choose)(Number(unit.dataset.unit));
  });
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    matches = wanted ? units.flatMap((unit, place) => (unit.text.toLowerCase().includes(wanted) ? [place] : [])) : [];
    at = matches.findIndex((place) => place >= first) - 1;
    if (matches.length) go(1);
    else mark();
  });
  search.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && matches.length) {
      event.preventDefault();
      choose(matches[at]);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      go(event.key === "ArrowDown" ? 1 : -1);
    }
  });

  /** @param {number} by */
  function go(by) {
    if (!matches.length) return;
    at = (at + by + matches.length) % matches.length;
    reveal(matches[at]);
    announce(`Match ${at + 1} of ${matches.length}: ${shortened(units[matches[at]].text, 30)}`);
  }

  /** @param {number} unit */
  function reveal(unit) {
    if (unit < first || unit >= first + PAGE) first = Math.floor(unit / PAGE) * PAGE;
    draw();
    const word = /** @type {HTMLElement|null} */ (text.querySelector(`[data-unit="${unit}"]`));
    if (word) text.scrollTop = word.offsetTop - text.offsetTop - text.clientHeight / 3;
  }

  /** @param {number} place */
  function turnTo(place) {
    first = Math.max(0, Math.min(place, Math.floor((units.length - 1) / PAGE) * PAGE));
    draw();
    text.scrollTop = 0;
  }

  function draw() {
    const last = Math.min(first + PAGE, units.length);
    const version = `${units.length} ${first}`;
    if (version !== shown) {
      shown = version;
      const words = units.slice(first, last).flatMap((unit, place) => {
        const { space, word } = writtenOf(unit, description);
        const attributes = { class: "regard-running-word", "data-unit": first + place, "data-written": unit.written || null };
        return [space, wordElement(word, attributes, 60)];
      });
      replaced(text, words);
    }
    mark();
  }

  function mark() {
    const isMatch = new Set(matches);
    let top = 0;
    if (weights) for (let place = 0; place < weights.length; place++) if (!units[place]?.sink && weights[place] > top) top = weights[place];
    for (const word of text.querySelectorAll("[data-unit]")) {
      const unit = Number(/** @type {HTMLElement} */ (word).dataset.unit);
      const weight = weights ? weights[unit] : 0;
      /** @type {HTMLElement} */ (word).style.setProperty("--regard-share", Math.min(1, top ? Math.sqrt(weight / top) : 0).toFixed(3));
      /** @type {HTMLElement} */ (word).title = weights ? `${units[unit].text.slice(0, 60)}: ${printedWeight(weight)}` : "";
      word.toggleAttribute("data-query", unit === query);
      word.toggleAttribute("data-match", isMatch.has(unit));
      word.toggleAttribute("data-now", matches[at] === unit);
    }
    previous.disabled = next.disabled = !matches.length;
    found.textContent = search.value.trim() ? (matches.length ? `${at + 1} of ${printedCount(matches.length)}` : "not found") : "";
    earlier.disabled = first === 0;
    later.disabled = first + PAGE >= units.length;
    earlier.hidden = later.hidden = units.length <= PAGE;
    where.textContent = units.length > PAGE ? ` words ${printedCount(first)}–${printedCount(Math.min(first + PAGE, units.length) - 1)} of ${printedCount(units.length)} ` : `${printedCount(units.length)} words`;
    const best = weights ? strongest(weights, NAMED, { skip: (place) => units[place].sink || !/[\p{L}\p{N}]/u.test(units[place].text) }) : [];
    replaced(
      strong,
      best.length ? "strongest: " : [],
      best.flatMap((place, rank) => [
        rank ? ", " : null,
        button(shortened(units[place].text, 14), () => reveal(place), { class: "regard-link", title: printedWeight(/** @type {ArrayLike<number>} */ (weights)[place]) }),
      ]),
    );
  }

  return {
    el,
    /** @param {Unit[]} all @param {ArrayLike<number>|null} of @param {number|null} chosen */
    show(all, of, chosen) {
      const isOther = all !== units || (chosen ?? -1) !== query;
      if (!isOther && of === weights) return; // pointing at words changes nothing here
      const isFirst = !units.length;
      units = all;
      weights = of;
      query = chosen ?? -1;
      if (isOther && query >= 0 && (isFirst || query < first || query >= first + PAGE)) reveal(query);
      else draw();
    },
  };
}

/** A word as it is written in the text, and what stands before it. @param {Unit} unit @param {Description} description */
function writtenOf(unit, { text, stops }) {
  const usual = { space: unit.joined ? "" : " ", word: unit.text };
  if (!stops || !text || unit.special) return usual;
  const written = text.slice(unit.first ? stops[unit.first - 1] : 0, stops[unit.last - 1]);
  const word = written.trim();
  if (!word) return { ...usual, space: unit.first ? written : "" };
  return { space: written.slice(0, written.indexOf(word)), word };
}
