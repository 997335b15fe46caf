/** The picture: words in lines, dots that pile up on them, and their movement. Dots and words keep their identity. */
import { drawn, element, replaced } from "../../elements/elements.js";
import { shortened, wordElement } from "../../elements/words.js";
import { nameOf, pile, pileHeight, pilesOf, rowsOf } from "./model.js";

const MOVE = 380; // milliseconds
const FLIGHT = "cubic-bezier(0.35, 0, 0.15, 1)";
const STAGGER = 420; // milliseconds between the first and the last layer
const MOST_MOVING = 400; // dots; more are cross-faded, because moving 1,200 of them dropped to 5 frames a second
const MANY = 24; // words from which letters are smaller
const COUNT = 22; // pixels above a pile, for its number

/**
 * @typedef {{units: Unit[], keys: string[], asker: number, spaced: boolean[]}} Words  spaced: after a space
 * @typedef {{dots: import("./model.js").Dot[], shape: {pitch: number, columns: number}, changed: Set<string>, counts: number[],
 *   before: Map<string, number>|null, guess: number|null, open: boolean, layers: number[]}} Scene
 *   before: earlier counts by key, where they are compared
 */

/** Whether things may move. */
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** @param {Lifetime} lifetime */
export function makePicture(lifetime) {
  const list = element("div", { class: "regard-vote-words", role: "listbox", dir: "auto" });
  const circles = drawn("svg", { class: "regard-vote-dots", role: "listbox", "aria-label": "Heads" });
  const slider = element("input", { type: "range", min: "0", step: "1", "aria-label": "Layers that have voted" });
  const sliderText = element("span", { class: "regard-vote-layers" });
  const waiting = element("div", { class: "regard-vote-waiting", "aria-hidden": "true" });
  const strip = element("div", { class: "regard-vote-strip" }, waiting, element("label", {}, slider, sliderText));
  const tray = element("div", { class: "regard-vote-tray", "aria-hidden": "true" });
  const el = element("div", { class: "regard-vote-stage" }, strip, list, tray, circles);
  /** @type {HTMLElement[]} by unit; special ones have none */
  let words = [];
  /** @type {string[]} */
  let keys = [];
  /** @type {string[]} */
  let texts = [];
  /** @type {Map<string, Moving & {circle: SVGCircleElement}>} by head */
  const kept = new Map();

  /** Where the words are, by key. @returns {Map<string, DOMRect|undefined>} */
  function boxes() {
    return new Map(keys.map((key, place) => [key, words[place]?.getBoundingClientRect()]));
  }

  /** Writes the sentence; words that were there move to their new places. @param {Words} given */
  function write({ units, keys: names, asker, spaced }) {
    const before = boxes();
    const focused = keys[words.findIndex((word) => word && word === word.ownerDocument.activeElement)];
    keys = names;
    texts = units.map(({ text }) => text);
    words = [];
    /** @type {HTMLElement[]} */
    const groups = [];
    units.forEach((unit, place) => {
      if (unit.special) return;
      const word = element(
        "span",
        { class: "regard-vote-word", role: "option", "aria-selected": "false", "data-unit": place, tabindex: "-1", "data-asker": place === asker || null, "data-sink": unit.sink || null, "data-mark": !/[\p{L}\p{N}]/u.test(unit.text) || null },
        element("span", { class: "regard-vote-pile", "aria-hidden": "true" }, element("b")),
        wordElement(unit.text, { class: "regard-vote-text" }, 40),
      );
      words[place] = word;
      if (spaced[place] || !groups.length) groups.push(element("span", { class: "regard-vote-group", role: "presentation" }, word));
      else groups[groups.length - 1].append(word);
    });
    list.toggleAttribute("data-many", groups.length > MANY);
    replaced(list, groups);
    const reachable = words.find((word, place) => word && names[place] === focused);
    (reachable ?? words[asker] ?? words.find(Boolean))?.setAttribute("tabindex", "0");
    if (focused && reachable) reachable.focus();
    return before;
  }

  /** Draws the scene. @param {Scene} scene @param {{move: "none"|"fly"|"fall", from?: ReturnType<typeof write>}} how */
  function show(scene, { move, from }) {
    const { open, shape } = scene;
    const still = isStill() || scene.dots.length > MOST_MOVING;
    const ghost = still && move !== "none" && kept.size ? /** @type {SVGElement} */ (circles.cloneNode(true)) : null;
    const earlier = from ?? boxes();
    const origin = el.getBoundingClientRect();
    for (const word of words) for (const one of word?.getAnimations() ?? []) one.cancel(); // measured where they belong
    el.toggleAttribute("data-open", open);
    showWords(scene);
    strip.hidden = !open;
    const waits = scene.dots.filter(({ where }) => where === "layer");
    const perLayer = Math.max(1, ...scene.layers.map((layer) => scene.dots.filter((dot) => dot.layer === layer).length));
    const slot = slider.clientWidth / Math.max(scene.layers.length, 1);
    const small = Math.min(shape.pitch, 10, Math.max(2, slot / Math.ceil(Math.sqrt(perLayer * 1.6) + 0.5)));
    const columns = Math.max(1, Math.min(perLayer, Math.floor((slot * 0.86) / small)));
    waiting.style.height = open ? `${Math.ceil(perLayer / columns) * small + 4}px` : "";
    layTray(scene);
    circles.toggleAttribute("hidden", !open);
    const goals = open ? goalsOf(scene, { waits, small, columns, slot }) : new Map();
    moveWords(earlier, origin, move !== "none" && !still);
    moveDots(scene, goals, still ? "none" : move);
    if (ghost) crossFade(ghost);
  }

  /** @param {Scene} scene */
  function showWords({ dots, shape, counts, before, guess, open }) {
    const aria = open ? "Votes: words with the number of heads that look at them" : "Tap the word that you think it looks at";
    list.setAttribute("aria-label", aria);
    const [all, now] = [dots, dots.filter(({ where }) => where === "word")].map((some) => pilesOf(some, texts.length));
    words.forEach((word, place) => {
      const holder = /** @type {HTMLElement} */ (word.firstElementChild);
      const number = /** @type {HTMLElement} */ (holder.firstElementChild);
      const full = pileHeight(all[place], shape); // room for all votes, so that words stay while votes form
      holder.style.height = open && full ? `${full + COUNT}px` : "0";
      number.style.bottom = `${pileHeight(now[place], shape)}px`;
      const count = counts[place];
      const change = before && open ? count - (before.get(keys[place]) ?? 0) : 0;
      replaced(number, open && count ? String(count) : "", change ? element("i", { text: ` ${change > 0 ? "+" : "−"}${Math.abs(change)}` }) : null);
      word.setAttribute("aria-selected", String(place === guess));
      word.toggleAttribute("data-none", open && !count);
      const said = [shortened(texts[place], 60), open && count ? `${count} ${count === 1 ? "vote" : "votes"}` : "", place === guess ? "your guess" : ""];
      word.setAttribute("aria-label", said.filter(Boolean).join(", "));
    });
  }

  /** The tray is as high as what is in it. @param {Scene} scene */
  function layTray({ dots, shape, open }) {
    const count = dots.filter(({ where }) => where === "tray").length;
    const columns = Math.max(1, Math.floor(tray.clientWidth / shape.pitch));
    tray.style.height = open && count ? `${Math.ceil(count / columns) * shape.pitch + 8}px` : "0";
  }

  /**
   * Where each dot belongs, relative to the stage.
   * @param {Scene} scene @param {{waits: import("./model.js").Dot[], small: number, columns: number, slot: number}} strip
   */
  function goalsOf({ dots, shape, layers }, { waits, small, columns, slot }) {
    /** @type {Map<string, {x: number, y: number, r: number}>} */
    const goals = new Map();
    const origin = el.getBoundingClientRect();
    const radius = (/** @type {number} */ pitch) => Math.max(0.8, pitch * 0.41);
    words.forEach((word, place) => {
      const on = dots.filter((dot) => dot.where === "word" && dot.word === place);
      if (!on.length) return;
      on.sort((one, other) => Number(one.abstains) - Number(other.abstains));
      const box = /** @type {HTMLElement} */ (word.firstElementChild).getBoundingClientRect();
      const resting = on.filter(({ abstains }) => abstains).length;
      pile([on.length - resting, resting], shape).forEach(({ x, y }, at) =>
        goals.set(nameOf(on[at]), { x: box.left - origin.left + box.width / 2 + x, y: box.bottom - origin.top + y, r: radius(shape.pitch) }),
      );
    });
    const row = tray.getBoundingClientRect();
    const lying = dots.filter(({ where }) => where === "tray");
    const wide = Math.max(1, Math.floor(row.width / shape.pitch));
    const indent = Math.max(0, (row.width - Math.min(lying.length, wide) * shape.pitch) / 2);
    rowsOf(lying.length, { pitch: shape.pitch, columns: wide }).forEach(({ x, y }, at) =>
      goals.set(nameOf(lying[at]), { x: row.left - origin.left + indent + x, y: row.top - origin.top + 4 + y, r: radius(shape.pitch) }),
    );
    const track = slider.getBoundingClientRect();
    const top = waiting.getBoundingClientRect();
    layers.forEach((layer, at) => {
      const ofLayer = waits.filter((dot) => dot.layer === layer);
      const across = Math.min(columns, ofLayer.length) * small;
      rowsOf(ofLayer.length, { pitch: small, columns }).forEach(({ x, y }, place) =>
        goals.set(nameOf(ofLayer[place]), { x: track.left - origin.left + (at + 0.5) * slot - across / 2 + x, y: top.top - origin.top + y, r: radius(small) }),
      );
    });
    return goals;
  }

  /** @param {Map<string, DOMRect|undefined>} earlier @param {DOMRect} origin @param {boolean} moves */
  function moveWords(earlier, origin, moves) {
    if (!moves) return;
    const now = el.getBoundingClientRect();
    words.forEach((word, place) => {
      const old = earlier.get(keys[place]);
      const box = word.getBoundingClientRect();
      if (!old) return void word.animate([{ opacity: 0 }, { opacity: 1 }], { duration: MOVE });
      const [dx, dy] = [old.left - origin.left - (box.left - now.left) + (old.width - box.width) / 2, old.bottom - origin.top - (box.bottom - now.top)];
      if (Math.abs(dx) + Math.abs(dy) > 1) word.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }], { duration: MOVE, easing: FLIGHT });
    });
  }

  /** @param {Scene} scene @param {Map<string, {x: number, y: number, r: number}>} goals @param {"none"|"fly"|"fall"} move */
  function moveDots({ dots, changed, layers }, goals, move) {
    for (const [name, { circle }] of kept) if (!goals.has(name)) (circle.remove(), kept.delete(name));
    circles.setAttribute("width", String(el.clientWidth));
    circles.setAttribute("height", String(el.clientHeight));
    for (const dot of dots) {
      const name = nameOf(dot);
      const goal = goals.get(name);
      if (!goal) continue;
      const known = kept.get(name);
      const { circle, animation } = known ?? { circle: newCircle(name), animation: null };
      const from = known ? positionOf(known) : { x: goal.x, y: -20 };
      circle.setAttribute("r", goal.r.toFixed(1));
      circle.setAttribute("data-where", dot.where);
      circle.toggleAttribute("data-abstains", dot.abstains);
      circle.toggleAttribute("data-changed", changed.has(name));
      circle.style.transform = at(goal).transform;
      animation?.cancel();
      const moves = move !== "none" && (!known || Math.abs(goal.x - from.x) + Math.abs(goal.y - from.y) >= 1);
      const delay = (STAGGER * layers.indexOf(dot.layer)) / Math.max(layers.length - 1, 1) + (dot.head % 12) * 7;
      kept.set(name, { circle, from, x: goal.x, y: goal.y, animation: moves ? (move === "fall" ? fall(circle, from, goal, delay) : fly(circle, from, goal)) : null });
    }
    if (!circles.querySelector('[tabindex="0"]')) circles.firstElementChild?.setAttribute("tabindex", "0");
  }

  /** @param {string} name */
  function newCircle(name) {
    const circle = drawn("circle", { role: "option", "aria-selected": "false", tabindex: "-1", "data-head": name });
    circles.append(circle);
    return circle;
  }

  /** @param {SVGElement} ghost the dots as they were */
  function crossFade(ghost) {
    ghost.setAttribute("aria-hidden", "true");
    ghost.removeAttribute("role");
    for (const one of ghost.querySelectorAll("*")) for (const name of ["role", "tabindex", "aria-label", "aria-selected"]) one.removeAttribute(name);
    el.append(ghost);
    circles.animate([{ opacity: 0 }, { opacity: 1 }], { duration: MOVE });
    const fade = ghost.animate([{ opacity: 1 }, { opacity: 0 }], { duration: MOVE });
    fade.onfinish = fade.oncancel = () => ghost.remove();
    lifetime.add(() => ghost.remove());
  }

  return {
    el,
    list,
    circles,
    slider,
    write,
    show,
    /** @param {number} counted @param {number} layers @param {string} text */
    setSlider(counted, layers, text) {
      slider.max = String(layers);
      slider.value = String(counted);
      slider.setAttribute("aria-valuetext", text);
      sliderText.textContent = text;
    },
    /** Names dots for screen readers. @param {(head: string) => string} say */
    nameDots(say) {
      for (const [name, { circle }] of kept) circle.setAttribute("aria-label", say(name));
    },
    /** The nearest dot, by name. @param {number} x @param {number} y of the window @param {number} reach */
    dotAt(x, y, reach) {
      const box = circles.getBoundingClientRect();
      let [best, least] = ["", reach];
      for (const [name, dot] of kept) {
        const distance = Math.hypot(dot.x - (x - box.left), dot.y - (y - box.top));
        if (distance <= least) [best, least] = [name, distance];
      }
      return best || null;
    },
    /** @param {string|null} name */
    point(name) {
      for (const [other, { circle }] of kept) circle.toggleAttribute("data-pointed", other === name);
    },
    wordAt: (/** @type {number} */ place) => words[place],
  };
}

/**
 * from  where the movement began
 * @typedef {{x: number, y: number}} Point
 * @typedef {Point & {from: Point, animation: Animation|null}} Moving
 */

/** @param {Point} point */
function at({ x, y }) {
  return { transform: `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)` };
}

/** @param {Element} circle @param {Point} from @param {Point} to */
function fly(circle, from, to) {
  return circle.animate([at(from), at(to)], { duration: MOVE, easing: FLIGHT });
}

/** Falls, and bounces a little. @param {Element} circle @param {Point} from @param {Point} to @param {number} delay */
function fall(circle, from, to, delay) {
  const frames = [
    { ...at(from), easing: "cubic-bezier(0.5, 0, 0.9, 0.7)" },
    { ...at(to), offset: 0.76, easing: "ease-out" },
    { ...at({ x: to.x, y: to.y - 5 }), offset: 0.88, easing: "ease-in" },
    at(to),
  ];
  return circle.animate(frames, { duration: MOVE, delay, fill: "backwards" });
}

/** Where a dot is now; by the clock, because reading styles of moving elements is slow. @param {Moving} dot @returns {Point} */
function positionOf({ x, y, from, animation }) {
  const progress = animation?.playState === "running" ? (animation.effect?.getComputedTiming().progress ?? 1) : 1;
  return { x: from.x + (x - from.x) * progress, y: from.y + (y - from.y) * progress };
}
