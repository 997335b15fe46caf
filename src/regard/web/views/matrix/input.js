/**
 * Mouse, touch, wheel and keyboard on the matrix, translated into actions.
 *
 * @typedef {{x: number, y: number}} At a pixel of the canvas
 * @typedef {{pan: (right: number, down: number) => void, zoom: (factor: number, at?: At) => boolean,
 *   hover: (at: At|null) => void, choose: (at: At) => void, select: (from: At, to: At, done: boolean) => void,
 *   selecting: () => boolean, step: (down: number, across: number, extend: boolean) => void,
 *   page: (down: number) => void,
 *   whole: () => void, take: () => void, clear: () => void}} Meanings
 */

const STILL = 5; // pixels of movement up to which a press is a click
const KEY_ZOOM = 1.5;
const SAME_TURN = 500; // milliseconds

/** @param {HTMLElement} stage @param {Meanings} meanings @param {Lifetime} lifetime */
export function listenToInput(stage, meanings, lifetime) {
  /** @type {Map<number, {x: number, y: number}>} */
  const pressed = new Map();
  /** @type {{from: {x: number, y: number}, moved: boolean, selecting: boolean, apart: number|null}|null} */
  let gesture = null;
  let zoomedAt = -Infinity;
  const at = (/** @type {PointerEvent|WheelEvent} */ event) => ({ x: event.offsetX, y: event.offsetY });

  lifetime.listen(stage, "pointerdown", (event) => {
    if (event.button !== 0) return;
    pressed.set(event.pointerId, at(event));
    stage.setPointerCapture?.(event.pointerId);
    if (pressed.size === 1)
      gesture = { from: at(event), moved: false, selecting: event.shiftKey || meanings.selecting(), apart: null };
    else if (gesture) Object.assign(gesture, { moved: true, selecting: false, apart: apart() });
  });

  lifetime.listen(stage, "pointermove", (event) => {
    const before = pressed.get(event.pointerId);
    const now = at(event);
    if (!before || !gesture) {
      if (event.pointerType !== "touch") meanings.hover(now);
      return;
    }
    if (!gesture.moved && Math.hypot(now.x - gesture.from.x, now.y - gesture.from.y) < STILL) return;
    gesture.moved = true;
    const middleBefore = middle();
    pressed.set(event.pointerId, now);
    if (gesture.selecting) return meanings.select(gesture.from, now, false);
    const moved = { x: middle().x - middleBefore.x, y: middle().y - middleBefore.y };
    if (pressed.size > 1) {
      const width = apart();
      if (gesture.apart) meanings.zoom(width / gesture.apart, middle());
      gesture.apart = width;
    }
    meanings.pan(moved.x, moved.y);
    meanings.hover(pressed.size > 1 ? null : now);
  });

  /** @param {PointerEvent} event */
  function released(event) {
    if (!pressed.delete(event.pointerId) || !gesture) return;
    if (pressed.size > 0) {
      gesture.apart = null;
      return;
    }
    const done = gesture;
    gesture = null;
    if (event.type === "pointercancel") return;
    if (!done.moved) meanings.choose(at(event));
    else if (done.selecting) meanings.select(done.from, at(event), true);
  }
  lifetime.listen(stage, "pointerup", released);
  lifetime.listen(stage, "pointercancel", released);
  lifetime.listen(stage, "pointerleave", () => meanings.hover(null));

  lifetime.listen(
    stage,
    "wheel",
    (event) => {
      const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const far = Math.max(-300, Math.min(300, event.deltaY * lines));
      // If there is nothing to zoom, the page scrolls; not by the end of the same turn of the wheel.
      if (meanings.zoom(Math.exp(-far * (event.ctrlKey ? 0.01 : 0.0018)), at(event))) zoomedAt = event.timeStamp;
      else if (!event.ctrlKey && event.timeStamp - zoomedAt > SAME_TURN) return;
      event.preventDefault();
    },
    { passive: false },
  );

  lifetime.listen(stage, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act(event);
  });

  /** @type {Record<string, (event: KeyboardEvent) => void>} */
  const keys = {
    ArrowUp: ({ shiftKey }) => meanings.step(-1, 0, shiftKey),
    ArrowDown: ({ shiftKey }) => meanings.step(1, 0, shiftKey),
    ArrowLeft: ({ shiftKey }) => meanings.step(0, -1, shiftKey),
    ArrowRight: ({ shiftKey }) => meanings.step(0, 1, shiftKey),
    PageUp: () => meanings.page(-1),
    PageDown: () => meanings.page(1),
    "+": () => meanings.zoom(KEY_ZOOM),
    "=": () => meanings.zoom(KEY_ZOOM),
    "-": () => meanings.zoom(1 / KEY_ZOOM),
    "−": () => meanings.zoom(1 / KEY_ZOOM),
    Home: meanings.whole,
    0: meanings.whole,
    Enter: meanings.take,
    " ": meanings.take,
    Escape: meanings.clear,
  };

  function middle() {
    let x = 0;
    let y = 0;
    for (const place of pressed.values()) ((x += place.x), (y += place.y));
    return { x: x / pressed.size, y: y / pressed.size };
  }

  function apart() {
    const [one, other] = pressed.values();
    return Math.max(1, Math.hypot(one.x - other.x, one.y - other.y));
  }
}
