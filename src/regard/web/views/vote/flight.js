/** Dots that move from place to place: one circle per head, kept by the name of the head. */
import { FLIGHT } from "../../elements/dots.js";
import { drawn } from "../../elements/elements.js";
import { nameOf } from "../../maths/votes.js";

export const MOVE = 380; // milliseconds
const STAGGER = 420; // milliseconds between the first and the last layer

/**
 * from  where the movement began
 * @typedef {{x: number, y: number}} Point
 * @typedef {Point & {from: Point, animation: Animation|null, circle: SVGCircleElement}} Moving
 */

/** @param {Lifetime} lifetime */
export function makeFlight(lifetime) {
  const circles = drawn("svg", { class: "regard-vote-dots", role: "listbox", "aria-label": "Heads" });
  /** @type {Map<string, Moving>} by head */
  const kept = new Map();

  /** @param {string} name */
  function newCircle(name) {
    return circles.appendChild(drawn("circle", { role: "option", "aria-selected": "false", tabindex: "-1", "data-head": name }));
  }

  /** @param {Pick<import("./draw.js").Scene, "dots"|"changed"|"layers">} scene @param {Map<string, Point & {r: number}>} goals @param {"none"|"fly"|"fall"} how */
  function move({ dots, changed, layers }, goals, how) {
    for (const [name, { circle }] of kept) if (!goals.has(name)) (circle.remove(), kept.delete(name));
    for (const dot of dots) {
      const name = nameOf(dot);
      const goal = goals.get(name);
      if (!goal) continue;
      const known = kept.get(name);
      const circle = known?.circle ?? newCircle(name);
      const from = known ? positionOf(known) : { x: goal.x, y: -20 };
      circle.setAttribute("r", goal.r.toFixed(1));
      circle.setAttribute("data-where", dot.where);
      circle.toggleAttribute("data-abstains", dot.abstains);
      circle.toggleAttribute("data-changed", changed.has(name));
      circle.style.transform = at(goal).transform;
      known?.animation?.cancel();
      const moves = how !== "none" && (!known || Math.abs(goal.x - from.x) + Math.abs(goal.y - from.y) >= 1);
      const delay = (STAGGER * layers.indexOf(dot.layer)) / Math.max(layers.length - 1, 1) + (dot.head % 12) * 7;
      kept.set(name, { circle, from, x: goal.x, y: goal.y, animation: moves ? (how === "fall" ? fall(circle, from, goal, delay) : fly(circle, from, goal)) : null });
    }
    if (!circles.querySelector('[tabindex="0"]')) circles.firstElementChild?.setAttribute("tabindex", "0");
  }

  /** The dots as they are, to fade from; null before there are any. */
  function ghost() {
    if (!kept.size) return null;
    const copy = /** @type {SVGElement} */ (circles.cloneNode(true));
    copy.setAttribute("aria-hidden", "true");
    copy.removeAttribute("role");
    for (const one of copy.querySelectorAll("*")) for (const name of ["role", "tabindex", "aria-label", "aria-selected"]) one.removeAttribute(name);
    return copy;
  }

  /** @param {SVGElement} before */
  function crossFade(before) {
    circles.after(before);
    circles.animate([{ opacity: 0 }, { opacity: 1 }], { duration: MOVE });
    const fade = before.animate([{ opacity: 1 }, { opacity: 0 }], { duration: MOVE });
    fade.onfinish = fade.oncancel = lifetime.add(() => before.remove());
  }

  return {
    circles,
    move,
    ghost,
    crossFade,
    /** Names dots for screen readers. @param {(head: string) => string} say */
    name(say) {
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
  };
}

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
