/** Mouse, touch and keyboard on the small maps, translated into actions. */
import { numberAt, pressable } from "../../elements/controls.js";
import { walked } from "./model.js";

/**
 * @param {HTMLElement} box
 * @param {{choose: (place: number) => void, point: (place: number) => void, leave: () => void, over: (place: number|null, event: PointerEvent) => void,
 *   focus: (place: number) => void, across: () => number, count: number}} meanings  a place is one in the order of the drawing
 * @param {Lifetime} lifetime
 */
export function listenToMaps(box, meanings, lifetime) {
  const placeOf = (/** @type {Event} */ event) => numberAt(event, "data-place");
  /** @param {(place: number) => void} act */
  const at = (act) => (/** @type {Event} */ event) => {
    const place = placeOf(event);
    if (place !== null) act(place);
  };
  pressable(box);
  lifetime.listen(box, "click", at(meanings.choose));
  lifetime.listen(box, "pointerover", at(meanings.point));
  lifetime.listen(box, "focusin", at(meanings.point));
  lifetime.listen(box, "pointermove", (event) => meanings.over(event.pointerType === "touch" ? null : placeOf(event), event));
  lifetime.listen(box, "pointerleave", meanings.leave);
  lifetime.listen(box, "keydown", (event) => {
    const here = placeOf(event);
    if (here === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = walked(event.key, here, meanings.count, meanings.across());
    if (to === null) return;
    event.preventDefault();
    meanings.focus(to);
  });
}
