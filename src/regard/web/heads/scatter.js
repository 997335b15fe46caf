/** The heads of a model as dots over two metrics. */
import { drawn, element, replaced } from "../elements/elements.js";
import { walkable } from "../elements/controls.js";
import { printedNumber } from "../maths/numbers.js";
import { NONE, alone, axisOf, patternOf, nameOf, shareOf, showsPattern, tickDigits } from "./model.js";

const SIZES = { alone: { width: 800, height: 430 }, small: { width: 440, height: 370 } };
const DOT = 6; // radius
const ROOM = 34; // pixels around a dot that is named

/**
 * @param {import("./model.js").Atlas} atlas @param {import("./model.js").Model} model @param {Colours} colours
 * @param {(pattern: string) => string} colourOf @param {(one: HeadPlace) => void} choose
 * @param {boolean} small beside another one, or on a narrow screen
 */
export function makeScatter(atlas, model, colours, colourOf, choose, small) {
  const { width, height } = small ? SIZES.small : SIZES.alone;
  const area = { left: 52, right: width - 12, top: 14, bottom: height - 48 };
  const frame = drawn("g", { "aria-hidden": "true" });
  const box = drawn("g", { role: "group", "aria-label": `Heads of ${model.name} as dots` });
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, class: "regard-heads-scatter" }, frame, box);
  const dots = model.all.map((one) => {
    const hollow = patternOf(model, one) === NONE;
    const circle = drawn("circle", { fill: hollow ? colours.ground : colourOf(patternOf(model, one)) });
    const name = drawn("text", { "font-size": 11, "text-anchor": "middle", y: -DOT - 4, fill: colours.ink, text: `${one.layer}.${one.head}` });
    const title = drawn("title");
    const el = drawn("g", { class: "regard-heads-dot", role: "button", tabindex: "-1", onclick: () => choose(one) }, circle, name, title);
    el.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(one);
    });
    return { one, el, circle, name, title, edge: hollow ? colours.muted : colours.ground };
  });
  walkable(box, () => placed().map(({ el }) => el));

  /** Dots that are drawn, in model order. */
  function placed() {
    return dots.filter(({ el }) => el.parentNode);
  }

  /** @param {string} x @param {string} y @param {HeadPlace|null} chosen @param {string|null} only a pattern */
  function show(x, y, chosen, only) {
    const [across, up] = [axisOf(atlas, x), axisOf(atlas, y)];
    const at = (/** @type {number} */ value) => area.left + (area.right - area.left) * shareOf(across, value);
    const above = (/** @type {number} */ value) => area.bottom - (area.bottom - area.top) * shareOf(up, value);
    replaced(frame, axes({ across, up, at, above, x, y, colours, frame: area, height }));
    const drawnDots = dots.filter(({ one }) => Number.isFinite(model.of(x, one)) && Number.isFinite(model.of(y, one)));
    const places = drawnDots.map(({ one }) => ({ x: at(model.of(x, one)), y: above(model.of(y, one)) }));
    const named = alone(places, ROOM);
    replaced(box, drawnDots.map(({ el }) => el));
    drawnDots.forEach(({ one, el, circle, name, title, edge }, place) => {
      const on = one === chosen;
      const faint = only !== null && !showsPattern(model, one, only);
      el.setAttribute("transform", `translate(${places[place].x.toFixed(1)} ${places[place].y.toFixed(1)})`);
      el.setAttribute("aria-pressed", String(on));
      el.tabIndex = on ? 0 : -1;
      el.classList.toggle("regard-heads-faint", faint && !on);
      circle.setAttribute("r", String(on ? DOT + 3 : DOT));
      circle.setAttribute("stroke", on ? colours.ink : edge);
      circle.setAttribute("stroke-width", on ? "2.5" : "1.3");
      name.style.display = on || (named[place] && !faint) ? "" : "none";
      name.setAttribute("font-weight", on ? "700" : "400");
      const numbers = `${x} ${printedNumber(model.of(x, one))}, ${y} ${printedNumber(model.of(y, one))}`;
      title.textContent = `Layer ${one.layer}, head ${one.head}: ${nameOf(model, one)}. ${numbers}`;
      el.setAttribute("aria-label", title.textContent);
      if (on) box.append(el); // above the others
    });
    if (!drawnDots.some(({ one }) => one === chosen) && drawnDots.length) drawnDots[0].el.tabIndex = 0;
  }

  return { el: element("div", { class: "regard-heads-plot" }, svg), show };
}

/** Grid lines, numbers and names of both axes. @param {any} given */
function axes({ across, up, at, above, x, y, colours, frame, height }) {
  const small = { "font-size": 12, fill: colours.muted };
  return [
    ...across.ticks.flatMap((/** @type {number} */ tick) => [
      drawn("line", { x1: at(tick), x2: at(tick), y1: frame.top, y2: frame.bottom, stroke: colours.rule }),
      drawn("text", { ...small, x: at(tick), y: frame.bottom + 17, "text-anchor": "middle", text: printedNumber(tick, tickDigits(across.ticks)) }),
    ]),
    ...up.ticks.flatMap((/** @type {number} */ tick) => [
      drawn("line", { x1: frame.left, x2: frame.right, y1: above(tick), y2: above(tick), stroke: colours.rule }),
      drawn("text", { ...small, x: frame.left - 7, y: above(tick) + 4, "text-anchor": "end", text: printedNumber(tick, tickDigits(up.ticks)) }),
    ]),
    drawn("text", { x: (frame.left + frame.right) / 2, y: height - 10, "font-size": 13, "font-weight": 600, "text-anchor": "middle",
      fill: colours.ink, text: `${x} →` }),
    drawn("text", { transform: `translate(13 ${(frame.top + frame.bottom) / 2}) rotate(-90)`, "font-size": 13, "font-weight": 600,
      "text-anchor": "middle", fill: colours.ink, text: `${y} →` }),
  ]; // prettier-ignore
}
