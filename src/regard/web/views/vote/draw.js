/** The picture: words in lines, dots that pile up on them, and their movement. Dots and words keep their identity. */
import { FLIGHT, MOST_MOVING } from "../../elements/dots.js";
import { element, replaced } from "../../elements/elements.js";
import { shortened, wordElement } from "../../elements/words.js";
import { makeFlight, MOVE } from "./flight.js";
import { goalsOf, pileHeight, pilesOf, trayHeight, waitingShape } from "./piles.js";

const MANY = 24; // words from which letters are smaller
const COUNT = 22; // pixels above a pile, for its number

/**
 * spaced  after a space
 * @typedef {Pick<import("./model.js").Scene, "dots"|"shape"|"changed"|"counts"|"before"|"guess"|"open"|"layers">} Scene
 * @typedef {{units: Unit[], keys: string[], asker: number, spaced: boolean[]}} Words
 * @typedef {Map<string, DOMRect|undefined>} Boxes  of words, by key
 */

/** @param {Lifetime} lifetime */
export function makePicture(lifetime) {
  const words = makeWords();
  const flight = makeFlight(lifetime);
  const { circles } = flight;
  const slider = element("input", { type: "range", min: "0", step: "1", "aria-label": "Layers that have voted" });
  const sliderText = element("span", { class: "regard-vote-layers" });
  const waiting = element("div", { class: "regard-vote-waiting", "aria-hidden": "true" });
  const strip = element("div", { class: "regard-vote-strip" }, waiting, element("label", {}, slider, sliderText));
  const tray = element("div", { class: "regard-vote-tray", "aria-hidden": "true" });
  const el = element("div", { class: "regard-vote-stage" }, strip, words.el, tray, circles);

  /** Draws the scene. @param {Scene} scene @param {{move: "none"|"fly"|"fall", from?: Boxes}} how  from: where words were, if they were written again */
  function show(scene, { move, from = words.boxes() }) {
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches || scene.dots.length > MOST_MOVING;
    const ghost = isStill && move !== "none" ? flight.ghost() : null;
    const origin = el.getBoundingClientRect();
    words.settle(); // measured where they belong
    el.toggleAttribute("data-open", scene.open);
    words.show(scene);
    strip.hidden = !scene.open;
    circles.toggleAttribute("hidden", !scene.open);
    const waits = waitingShape(scene, slider.clientWidth);
    waiting.style.height = scene.open ? `${waits.height}px` : "";
    tray.style.height = scene.open ? `${trayHeight(scene, tray.clientWidth)}px` : "0";
    const goals = scene.open ? goalsOf(scene, waits, places()) : new Map();
    if (move !== "none" && !isStill) words.move(from, origin, el.getBoundingClientRect());
    circles.setAttribute("width", String(el.clientWidth));
    circles.setAttribute("height", String(el.clientHeight));
    flight.move(scene, goals, isStill ? "none" : move);
    if (ghost) flight.crossFade(ghost);
  }

  /** Where piles, tray and strip are on the stage. */
  function places() {
    const { left, top } = el.getBoundingClientRect();
    const [row, track, wait] = [tray, slider, waiting].map((part) => part.getBoundingClientRect());
    return {
      words: words.feet().map(({ x, y }) => ({ x: x - left, y: y - top })),
      tray: { x: row.left - left, y: row.top - top, width: row.width },
      strip: { x: track.left - left, y: wait.top - top },
    };
  }

  return {
    el,
    list: words.el,
    circles,
    slider,
    write: words.write,
    show,
    nameDots: flight.name,
    dotAt: flight.dotAt,
    point: flight.point,
    /** @param {number} counted @param {number} layers @param {string} text */
    setSlider(counted, layers, text) {
      slider.max = String(layers);
      slider.value = String(counted);
      slider.setAttribute("aria-valuetext", text);
      sliderText.textContent = text;
    },
  };
}

/** The sentence; each word has room for a pile above it. */
function makeWords() {
  const el = element("div", { class: "regard-vote-words", role: "listbox", dir: "auto" });
  /** By unit; special ones have no element. @type {{words: HTMLElement[], keys: string[], texts: string[]}} */
  let now = { words: [], keys: [], texts: [] };

  /** @returns {Boxes} */
  function boxes() {
    return new Map(now.keys.map((key, place) => [key, now.words[place]?.getBoundingClientRect()]));
  }

  /** Writes the sentence; gives where its words were. @param {Words} given */
  function write({ units, keys, asker, spaced }) {
    const before = boxes();
    const focused = now.keys[now.words.findIndex((word) => word && word === word.ownerDocument.activeElement)];
    now = { words: [], keys, texts: units.map(({ text }) => text) };
    /** @type {HTMLElement[]} */
    const groups = [];
    units.forEach((unit, place) => {
      if (unit.special) return;
      const marks = { "data-asker": place === asker || null, "data-sink": unit.sink || null, "data-mark": !/[\p{L}\p{N}]/u.test(unit.text) || null };
      const word = element(
        "span",
        { class: "regard-vote-word", role: "option", "aria-selected": "false", "data-unit": place, tabindex: "-1", ...marks },
        element("span", { class: "regard-vote-pile", "aria-hidden": "true" }, element("b")),
        wordElement(unit.text, { class: "regard-vote-text" }, 40),
      );
      now.words[place] = word;
      if (spaced[place] || !groups.length) groups.push(element("span", { class: "regard-vote-group", role: "presentation" }, word));
      else groups[groups.length - 1].append(word);
    });
    el.toggleAttribute("data-many", groups.length > MANY);
    replaced(el, groups);
    const reachable = now.words.find((word, place) => word && keys[place] === focused);
    (reachable ?? now.words[asker] ?? now.words.find(Boolean))?.setAttribute("tabindex", "0");
    if (focused && reachable) reachable.focus();
    return before;
  }

  /** @param {Scene} scene */
  function show({ dots, shape, counts, before, guess, open }) {
    el.setAttribute("aria-label", open ? "Votes: words with the number of heads that look at them" : "Tap the word that you think it looks at");
    const [all, voted] = [dots, dots.filter(({ where }) => where === "word")].map((some) => pilesOf(some, now.texts.length));
    now.words.forEach((word, place) => {
      const holder = /** @type {HTMLElement} */ (word.firstElementChild);
      const number = /** @type {HTMLElement} */ (holder.firstElementChild);
      const full = pileHeight(all[place], shape); // room for all votes, so that words stay while votes form
      holder.style.height = open && full ? `${full + COUNT}px` : "0";
      number.style.bottom = `${pileHeight(voted[place], shape)}px`;
      const count = counts[place];
      const change = before && open ? count - (before.get(now.keys[place]) ?? 0) : 0;
      replaced(number, open && count ? String(count) : "", change ? element("i", { text: ` ${change > 0 ? "+" : "−"}${Math.abs(change)}` }) : null);
      word.setAttribute("aria-selected", String(place === guess));
      word.toggleAttribute("data-none", open && !count);
      const said = [shortened(now.texts[place], 60), open && count ? `${count} ${count === 1 ? "vote" : "votes"}` : "", place === guess ? "your guess" : ""];
      word.setAttribute("aria-label", said.filter(Boolean).join(", "));
    });
  }

  /** Words that were there move from their old places. @param {Boxes} from @param {DOMRect} then of the stage @param {DOMRect} stage */
  function move(from, then, stage) {
    now.words.forEach((word, place) => {
      const old = from.get(now.keys[place]);
      const box = word.getBoundingClientRect();
      if (!old) return void word.animate([{ opacity: 0 }, { opacity: 1 }], { duration: MOVE });
      const [dx, dy] = [old.left - then.left - (box.left - stage.left) + (old.width - box.width) / 2, old.bottom - then.top - (box.bottom - stage.top)];
      if (Math.abs(dx) + Math.abs(dy) > 1) word.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }], { duration: MOVE, easing: FLIGHT });
    });
  }

  return {
    el,
    boxes,
    write,
    show,
    move,
    settle: () => now.words.forEach((word) => word.getAnimations().forEach((one) => one.cancel())),
    /** The middle of the foot of each pile, in the window. */
    feet: () =>
      now.words.map((word) => {
        const { left, width, bottom } = /** @type {Element} */ (word.firstElementChild).getBoundingClientRect();
        return { x: left + width / 2, y: bottom };
      }),
  };
}
