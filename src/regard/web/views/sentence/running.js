/** A long text as running text: each word coloured by its weight for the selected query, with search. */
import { numberAt, uniqueId } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { strongest } from "../../maths/links.js";
import { printedCount, printedWeight } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";

const PAGE = 1500; // words shown at once: more take longer than a frame to lay out
const NAMED = 6; // of the strongest words, listed as links

/**
 * first    of the words that are shown
 * matches  of the search, by position; at: the one that is shown
 * @typedef {{units: Unit[], weights: ArrayLike<number>|null, query: number, first: number, matches: number[], at: number}} Running
 * @type {Running}
 */
export const NOTHING = { units: [], weights: null, query: -1, first: 0, matches: [], at: -1 };

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
  const [earlier, later] = [button("◂ earlier", () => turn(-1), { class: "regard-link" }), button("later ▸", () => turn(1), { class: "regard-link" })];
  const where = element("span", { class: "regard-quiet" });
  const pages = element("span", { class: "regard-running-pages" }, earlier, where, later);
  const label = element("label", { for: id, class: "regard-unseen", text: "Find a word" });
  const bar = element("div", { class: "regard-running-bar" }, label, search, previous, next, found, strong, pages);
  const el = element("section", { class: "regard-running", "aria-label": "Running text" }, bar, text);
  let now = NOTHING;
  let written = ""; // which words are in the text

  text.addEventListener("click", (event) => {
    const unit = numberAt(event, "data-unit");
    if (unit !== null) (event.altKey ? point : choose)(unit);
  });
  search.addEventListener("input", () => {
    now = searched(now, search.value);
    if (now.matches.length) showMatch();
    else mark();
  });
  search.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && now.matches.length) {
      event.preventDefault();
      choose(now.matches[now.at]);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      go(event.key === "ArrowDown" ? 1 : -1);
    }
  });

  /** To another match. @param {number} by */
  function go(by) {
    if (!now.matches.length) return;
    now = { ...now, at: (now.at + by + now.matches.length) % now.matches.length };
    showMatch();
  }

  function showMatch() {
    const { matches, at, units } = now;
    reveal(matches[at]);
    announce(`Match ${at + 1} of ${matches.length}: ${shortened(units[matches[at]].text, 30)}`);
  }

  /** @param {number} unit */
  function reveal(unit) {
    now = { ...now, first: pageOf(now, unit) };
    draw();
    const word = /** @type {HTMLElement|null} */ (text.querySelector(`[data-unit="${unit}"]`));
    if (word) text.scrollTop = word.offsetTop - text.offsetTop - text.clientHeight / 3;
  }

  /** @param {number} by pages */
  function turn(by) {
    const { first, units } = now;
    now = { ...now, first: Math.max(0, Math.min(first + by * PAGE, Math.floor((units.length - 1) / PAGE) * PAGE)) };
    draw();
    text.scrollTop = 0;
  }

  function draw() {
    const { units, first } = now;
    const version = `${units.length} ${first}`;
    if (version !== written) {
      written = version;
      const words = units.slice(first, first + PAGE).flatMap((unit, place) => {
        const { space, word } = writtenOf(unit, description);
        return [space, wordElement(word, { class: "regard-running-word", "data-unit": first + place, "data-written": unit.written || null }, 60)];
      });
      replaced(text, words);
    }
    mark();
  }

  function mark() {
    const { units, weights, first, matches, at } = now;
    markWords(text, now);
    previous.disabled = next.disabled = !matches.length;
    found.textContent = search.value.trim() ? (matches.length ? `${at + 1} of ${printedCount(matches.length)}` : "not found") : "";
    earlier.disabled = first === 0;
    later.disabled = first + PAGE >= units.length;
    earlier.hidden = later.hidden = units.length <= PAGE;
    where.textContent = units.length > PAGE ? ` words ${printedCount(first)}–${printedCount(Math.min(first + PAGE, units.length) - 1)} of ${printedCount(units.length)} ` : `${printedCount(units.length)} words`;
    const link = (/** @type {number} */ place) => button(shortened(units[place].text, 14), () => reveal(place), { class: "regard-link", title: printedWeight(weights?.[place] ?? 0) });
    replaced(strong, strongestWords(now).flatMap((place, rank) => [rank ? ", " : "strongest: ", link(place)]));
  }

  return {
    el,
    /** @param {Unit[]} units @param {ArrayLike<number>|null} weights @param {number|null} chosen */
    show(units, weights, chosen) {
      const query = chosen ?? -1;
      const before = now;
      const isOther = units !== before.units || query !== before.query;
      if (!isOther && weights === before.weights) return; // pointing at words changes nothing here
      now = { ...before, units, weights, query };
      if (isOther && query >= 0 && (!before.units.length || pageOf(now, query) !== now.first)) reveal(query);
      else draw();
    },
  };
}

/** Colours words by their weights, and marks the query and the matches. @param {Element} text @param {Running} running */
function markWords(text, { units, weights, query, matches, at }) {
  const isMatch = new Set(matches);
  let top = 0;
  if (weights) for (let place = 0; place < weights.length; place++) if (!units[place]?.sink && weights[place] > top) top = weights[place];
  for (const word of /** @type {NodeListOf<HTMLElement>} */ (text.querySelectorAll("[data-unit]"))) {
    const unit = Number(word.dataset.unit);
    word.style.setProperty("--regard-share", Math.min(1, weights && top ? Math.sqrt(weights[unit] / top) : 0).toFixed(3));
    word.title = weights ? `${units[unit].text.slice(0, 60)}: ${printedWeight(weights[unit])}` : "";
    word.toggleAttribute("data-query", unit === query);
    word.toggleAttribute("data-match", isMatch.has(unit));
    word.toggleAttribute("data-now", matches[at] === unit);
  }
}

/** The first word of the page with a word. @param {Running} running @param {number} unit */
function pageOf({ first }, unit) {
  return unit < first || unit >= first + PAGE ? Math.floor(unit / PAGE) * PAGE : first;
}

/** The words that contain a text, and the first of them from the shown page on, or the last. @param {Running} running @param {string} wanted @returns {Running} */
export function searched(running, wanted) {
  const folded = wanted.trim().toLowerCase();
  const matches = folded ? running.units.flatMap((unit, place) => (unit.text.toLowerCase().includes(folded) ? [place] : [])) : [];
  const next = matches.findIndex((place) => place >= running.first);
  return { ...running, matches, at: next < 0 ? matches.length - 1 : next };
}

/** The words with the largest weights, sinks and punctuation aside. @param {Running} running @returns {number[]} */
function strongestWords({ units, weights }) {
  return weights ? strongest(weights, NAMED, { skip: (place) => units[place].sink || !/[\p{L}\p{N}]/u.test(units[place].text) }) : [];
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
