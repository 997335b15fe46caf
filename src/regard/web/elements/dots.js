/** Heads as dots: the same head is a dot at every level of the zoom, and moves from one to the next. */
import { drawn } from "./elements.js";

const MOVE = 360; // milliseconds
export const FLIGHT = "cubic-bezier(0.35, 0, 0.15, 1)"; // the easing of a movement
export const MOST_MOVING = 400; // dots; more are cross-faded, because moving 1,200 of them dropped to 5 frames a second
export const TOUCH = 22; // pixels around a tap in which a dot is hit
export const MOUSE = 12;

/**
 * x, y, r in pixels of the picture; name: for screen readers
 * @typedef {{layer: number, head: number, x: number, y: number, r: number, name: string}} Dot
 */

/**
 * A list of dots, one tab stop: arrow keys go to the nearest dot in their direction, Enter and space choose.
 * @param {{label: string, choose: (head: HeadPlace) => void, point?: (head: HeadPlace|null) => void, several?: boolean}} options
 *   several: any number of dots can be selected
 */
export function makeDots({ label, choose, point = () => {}, several = false }) {
  const el = drawn("svg", { class: "regard-head-dots", role: "listbox", "aria-label": label, "aria-multiselectable": several || null });
  /** @type {Map<string, Dot & {circle: SVGCircleElement}>} */
  const kept = new Map();

  /** @param {Dot[]} dots @param {{width: number, height: number}} size */
  function show(dots, { width, height }) {
    el.setAttribute("viewBox", `0 0 ${width} ${height}`);
    el.setAttribute("width", String(width));
    el.setAttribute("height", String(height));
    const before = positionsOf(el);
    for (const dot of dots) {
      const key = `${dot.layer}.${dot.head}`;
      const circle = kept.get(key)?.circle ?? el.appendChild(drawn("circle", { role: "option", "aria-selected": "false", tabindex: "-1", "data-head": key }));
      for (const [name, value] of Object.entries({ cx: dot.x, cy: dot.y, r: dot.r })) circle.setAttribute(name, value.toFixed(1));
      circle.setAttribute("aria-label", dot.name);
      kept.set(key, { ...dot, circle });
    }
    if (before.size) fly(el, before);
    reachable();
  }

  /** One dot is in the tab order: the focused one, a selected one, or the first. */
  function reachable() {
    const circles = [...kept.values()].map(({ circle }) => circle);
    const there = circles.find((one) => one === one.ownerDocument.activeElement) ?? circles.find((one) => one.getAttribute("aria-selected") === "true") ?? circles[0];
    for (const circle of circles) circle.setAttribute("tabindex", circle === there ? "0" : "-1");
  }

  /** Selects dots. @param {(layer: number, head: number) => boolean} isOn */
  function mark(isOn) {
    for (const { layer, head, circle } of kept.values()) circle.setAttribute("aria-selected", String(isOn(layer, head)));
    reachable();
  }

  /** @param {Event} event */
  const dotOf = (event) => kept.get(/** @type {SVGElement} */ (event.target).dataset?.head ?? "");

  /** The nearest dot. @param {PointerEvent|MouseEvent} event @param {number} reach in pixels of the screen */
  function nearest(event, reach) {
    const box = el.getBoundingClientRect();
    const scale = box.width / (el.viewBox.baseVal.width || 1);
    const [x, y] = [(event.clientX - box.left) / scale, (event.clientY - box.top) / scale];
    let [best, least] = [/** @type {Dot|null} */ (null), reach / scale];
    for (const dot of kept.values()) {
      const distance = Math.max(0, Math.hypot(dot.x - x, dot.y - y) - dot.r);
      if (distance <= least) [best, least] = [dot, distance];
    }
    return best;
  }

  el.addEventListener("click", (event) => {
    const dot = event.detail ? nearest(event, /** @type {PointerEvent} */ (event).pointerType === "touch" ? TOUCH : MOUSE) : dotOf(event);
    if (dot) choose({ layer: dot.layer, head: dot.head });
  });
  el.addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(nearest(event, MOUSE)));
  el.addEventListener("pointerleave", () => point(null));
  el.addEventListener("keydown", (event) => {
    const here = dotOf(event);
    if (!here || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return choose({ layer: here.layer, head: here.head });
    }
    const there = neighbour([...kept.values()], here, event.key);
    if (!there) return;
    event.preventDefault();
    there.circle.focus();
    reachable();
    point(there);
  });
  el.addEventListener("focusin", (event) => point(dotOf(event) ?? null));
  el.addEventListener("focusout", () => point(null));
  return { el, show, mark, circleOf: (/** @type {HeadPlace} */ { layer, head }) => kept.get(`${layer}.${head}`)?.circle };
}

const DIRECTIONS = /** @type {Record<string, [number, number]>} */ ({ ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] });

/**
 * The dot that a key moves to: the nearest in the direction of an arrow, where being off the line counts twice; the first and the last by Home and End.
 * @template {{x: number, y: number}} Place
 * @param {Place[]} dots @param {Place} here @param {string} key @returns {Place|null}
 */
export function neighbour(dots, here, key) {
  if (key === "Home") return dots[0];
  if (key === "End") return dots[dots.length - 1];
  if (!DIRECTIONS[key]) return null;
  const [right, down] = DIRECTIONS[key];
  let [best, least] = [here, Infinity];
  for (const dot of dots) {
    const [x, y] = [dot.x - here.x, dot.y - here.y];
    const along = x * right + y * down;
    const cost = along + 2 * Math.abs(x * down) + 2 * Math.abs(y * right);
    if (dot !== here && along > 1e-6 && cost < least) [best, least] = [dot, cost];
  }
  return best;
}

/**
 * Where the dots of heads are on the screen, by head.
 * @param {Element} root @returns {Map<string, {x: number, y: number}>}
 */
export function positionsOf(root) {
  /** @type {Map<string, {x: number, y: number}>} */
  const found = new Map();
  for (const circle of root.querySelectorAll("circle[data-head]")) {
    const { left, top, width, height } = circle.getBoundingClientRect();
    if (width) found.set(/** @type {SVGElement} */ (circle).dataset.head ?? "", { x: left + width / 2, y: top + height / 2 });
  }
  return found;
}

/** Moves dots from where they were; cross-fades where motion is not wanted, or dots are many. @param {Element} root @param {Map<string, {x: number, y: number}>} from */
export function fly(root, from) {
  const circles = /** @type {SVGElement[]} */ ([...root.querySelectorAll("circle[data-head]")]);
  if (!from.size || !circles.length) return;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches || circles.length > MOST_MOVING) {
    for (const picture of new Set(circles.map((circle) => circle.ownerSVGElement))) picture?.animate([{ opacity: 0 }, { opacity: 1 }], { duration: MOVE });
    return;
  }
  const now = positionsOf(root);
  for (const circle of circles) {
    const [was, is] = [from.get(circle.dataset.head ?? ""), now.get(circle.dataset.head ?? "")];
    if (!was || !is || Math.hypot(was.x - is.x, was.y - is.y) < 1) continue;
    const svg = circle.ownerSVGElement;
    const scale = (svg?.getBoundingClientRect().width ?? 1) / (svg?.viewBox.baseVal.width || svg?.getBoundingClientRect().width || 1);
    circle.animate([{ translate: `${(was.x - is.x) / scale}px ${(was.y - is.y) / scale}px` }, { translate: "0 0" }], { duration: MOVE, easing: FLIGHT });
  }
}
