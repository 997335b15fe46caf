/** Pointer and keyboard: words and dots are two lists, each one tab stop. */
import { numberAt, walkable } from "../../elements/controls.js";
import { MOUSE, TOUCH } from "../../elements/dots.js";

/**
 * @param {ReturnType<typeof import("./draw.js").makePicture>} picture
 * @param {{word: (unit: number) => void, dot: (head: string) => void, point: (head: string|null) => void, layers: (counted: number) => void}} act
 */
export function listens(picture, act) {
  const { el, list, circles, slider } = picture;
  const onText = (/** @type {Event} */ event) => /** @type {Element} */ (event.target).closest?.(".regard-vote-text, .regard-vote-strip");

  el.addEventListener("click", (event) => {
    const reach = /** @type {PointerEvent} */ (event).pointerType === "touch" ? TOUCH : MOUSE;
    const dot = onText(event) || !event.detail ? null : picture.dotAt(event.clientX, event.clientY, reach);
    const word = numberAt(event, "data-unit");
    if (dot) act.dot(dot);
    else if (word !== null) act.word(word);
  });
  el.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const dot = onText(event) ? null : picture.dotAt(event.clientX, event.clientY, MOUSE);
    el.toggleAttribute("data-on-dot", Boolean(dot));
    act.point(dot);
  });
  el.addEventListener("pointerleave", () => act.point(null));
  slider.addEventListener("input", () => act.layers(Number(slider.value)));

  walks(list, () => [.../** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll(".regard-vote-word"))], (word) => act.word(Number(word.dataset.unit)));
  walks(circles, () => [...circles.querySelectorAll("circle")], (dot) => act.dot(dot.dataset.head ?? ""));
  // On the stage: an SVG element that listens to the focus can be focused itself.
  const headOf = (/** @type {Event} */ event) => /** @type {SVGElement} */ (event.target).dataset?.head;
  el.addEventListener("focusin", (event) => headOf(event) && act.point(headOf(event) ?? null));
  el.addEventListener("focusout", (event) => headOf(event) && act.point(null));
}

/**
 * Arrow keys, Home and End move the focus, Enter and space choose.
 * @template {HTMLElement|SVGElement} Item
 * @param {import("../../elements/controls.js").KeyTarget} list @param {() => Item[]} items @param {(item: Item) => void} choose
 */
function walks(list, items, choose) {
  walkable(list, items);
  list.addEventListener("keydown", (event) => {
    const item = /** @type {Item} */ (event.target);
    if ((event.key !== "Enter" && event.key !== " ") || !items().includes(item)) return;
    event.preventDefault();
    choose(item);
  });
}
