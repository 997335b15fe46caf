/** Charts along the text: attention received, and entropy. */
import { drawn, element, replaced } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";
import { printable } from "../../elements/words.js";

const HEIGHT = 84;
const MOST = 600; // points; longer texts are drawn by the maximum of each bin

/**
 * @param {{label: string, kind: "bars"|"line", unit: string, choose: (place: number) => void, lifetime: Lifetime, colours: Colours}} options
 */
export function makeAlong({ label, kind, unit, choose, lifetime, colours }) {
  const svg = drawn("svg", { class: "regard-words-chart", preserveAspectRatio: "none", "aria-hidden": "true" });
  const marker = element("span", { class: "regard-words-marker", "aria-hidden": "true" });
  const readout = element("output", { class: "regard-words-readout" });
  const frame = element(
    "div",
    { class: "regard-words-frame", role: "slider", tabindex: "0", "aria-label": label, "aria-valuemin": "0" },
    svg,
    marker,
  );
  const el = element(
    "div",
    { class: "regard-words-along" },
    element("div", { class: "regard-words-along-head" }, element("span", { text: label }), readout),
    frame,
  );
  /** @type {{numbers: ArrayLike<number>, words: Unit[], chosen: number}} */
  let now = { numbers: [], words: [], chosen: -1 };

  const placeAt = (/** @type {PointerEvent} */ event) => {
    const box = frame.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    return Math.min(Math.max(Math.floor(share * now.numbers.length), 0), now.numbers.length - 1);
  };
  lifetime.listen(
    frame,
    "pointermove",
    (/** @type {PointerEvent} */ event) => now.numbers.length && say(placeAt(event)),
  );
  lifetime.listen(frame, "pointerleave", () => say(now.chosen));
  lifetime.listen(frame, "click", (/** @type {PointerEvent} */ event) => now.numbers.length && choose(placeAt(event)));
  lifetime.listen(frame, "keydown", (/** @type {KeyboardEvent} */ event) => {
    const last = now.numbers.length - 1;
    const moves = /** @type {Record<string, number>} */ ({
      ArrowRight: now.chosen + 1,
      ArrowUp: now.chosen + 1,
      ArrowLeft: now.chosen - 1,
      ArrowDown: now.chosen - 1,
      PageUp: now.chosen + 10,
      PageDown: now.chosen - 10,
      Home: 0,
      End: last,
    });
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    choose(Math.min(Math.max(moves[event.key], 0), last));
  });

  /** @param {number} place */
  function said(place) {
    const word = now.words[place];
    return word ? `${printable(word.text).slice(0, 24)} ${printedNumber(now.numbers[place], 2)}${unit}` : "";
  }

  /** @param {number} place */
  function say(place) {
    readout.textContent = said(place);
    const count = Math.max(now.numbers.length, 1);
    marker.hidden = place < 0;
    marker.style.left = `${(100 * place) / count}%`;
    marker.style.width = `max(${100 / count}%, 2px)`;
  }

  /** @param {ArrayLike<number>} numbers @param {Unit[]} words @param {number} chosen */
  function show(numbers, words, chosen) {
    const again = numbers !== now.numbers;
    now = { numbers, words, chosen };
    frame.setAttribute("aria-valuemax", String(Math.max(numbers.length - 1, 0)));
    frame.setAttribute("aria-valuenow", String(Math.max(chosen, 0)));
    frame.setAttribute("aria-valuetext", said(Math.max(chosen, 0)) || "no data");
    if (again) draw();
    say(chosen);
  }

  function draw() {
    svg.setAttribute("viewBox", `0 0 ${Math.max(pointsOf(now.numbers).length, 1)} ${HEIGHT}`);
    const path = pathAlong(now.numbers, kind, HEIGHT);
    const line =
      kind === "line"
        ? { fill: "none", stroke: colours.accent, "stroke-width": "1.75", "vector-effect": "non-scaling-stroke" }
        : { fill: colours.theme === "dark" ? "#3b78b8" : "#7fb0dc" };
    replaced(svg, drawn("path", { d: path, ...line }));
  }
  return { el, show };
}

/** At most MOST numbers to draw: the maximum of each bin. @param {ArrayLike<number>} numbers */
export function pointsOf(numbers) {
  if (numbers.length <= MOST) return Array.from(numbers);
  return Array.from({ length: MOST }, (_, point) => {
    let most = -Infinity;
    const stop = Math.floor(((point + 1) * numbers.length) / MOST);
    for (let place = Math.floor((point * numbers.length) / MOST); place < stop; place++)
      most = Math.max(most, numbers[place]);
    return most;
  });
}

/** @param {ArrayLike<number>} numbers @param {"bars"|"line"} kind @param {number} height */
export function pathAlong(numbers, kind, height) {
  const points = pointsOf(numbers);
  const most = Math.max(...points, 1e-9);
  const y = (/** @type {number} */ value) => (height - (value / most) * (height - 4)).toFixed(2);
  if (kind === "line") return points.map((value, place) => `${place ? "L" : "M"}${place + 0.5} ${y(value)}`).join("");
  const gap = points.length > 120 ? 0 : 0.12;
  return points.map((value, place) => `M${place + gap} ${height}V${y(value)}H${place + 1 - gap}V${height}Z`).join("");
}
