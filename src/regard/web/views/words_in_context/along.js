/** Charts along the text: attention received, and entropy. */
import { steppedTo } from "../../elements/controls.js";
import { drawn, element, replaced } from "../../elements/elements.js";
import { pathAlong, saidAlong } from "./model.js";

const HEIGHT = 84;
const PAGE = 10; // words

/**
 * @param {{label: string, kind: "bars"|"line", unit: string, choose: (place: number) => void, colours: Colours}} options
 */
export function makeAlong({ label, kind, unit, choose, colours }) {
  const svg = drawn("svg", { class: "regard-words-chart", preserveAspectRatio: "none", "aria-hidden": "true" });
  const marker = element("span", { class: "regard-words-marker", "aria-hidden": "true" });
  const readout = element("output", { class: "regard-words-readout" });
  const frame = element("div", { class: "regard-words-frame", role: "slider", tabindex: "0", "aria-label": label, "aria-valuemin": "0" }, svg, marker);
  const head = element("div", { class: "regard-words-along-head" }, element("span", { text: label }), readout);
  /** @type {{numbers: ArrayLike<number>, words: Unit[], chosen: number}} */
  let now = { numbers: [], words: [], chosen: -1 };

  const within = (/** @type {number} */ place) => Math.min(Math.max(place, 0), now.numbers.length - 1);
  const placeAt = (/** @type {MouseEvent} */ event) => {
    const box = frame.getBoundingClientRect();
    return within(Math.floor(((event.clientX - box.left) / box.width) * now.numbers.length));
  };
  frame.addEventListener("pointermove", (event) => now.numbers.length && say(placeAt(event)));
  frame.addEventListener("pointerleave", () => say(now.chosen));
  frame.addEventListener("click", (event) => now.numbers.length && choose(placeAt(event)));
  frame.addEventListener("keydown", (event) => {
    const pages = event.key === "PageUp" ? PAGE : event.key === "PageDown" ? -PAGE : 0;
    const up = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : pages; // of a slider, up is more
    if (up) event.preventDefault();
    const place = up ? within(now.chosen + up) : steppedTo(event, now.chosen, now.numbers.length);
    if (place !== null) choose(place);
  });

  /** @param {number} place */
  function say(place) {
    readout.textContent = saidAlong(now.numbers, now.words, place, unit);
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
    frame.setAttribute("aria-valuetext", saidAlong(numbers, words, Math.max(chosen, 0), unit) || "no data");
    if (again) draw();
    say(chosen);
  }

  function draw() {
    const { path, width } = pathAlong(now.numbers, kind, HEIGHT);
    const line = { fill: "none", stroke: colours.accent, "stroke-width": "1.75", "vector-effect": "non-scaling-stroke" };
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    replaced(svg, drawn("path", { d: path, ...(kind === "line" ? line : { class: "regard-words-bars-along" }) }));
  }
  return { el: element("div", { class: "regard-words-along" }, head, frame), show };
}
