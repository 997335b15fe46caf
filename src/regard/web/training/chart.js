/** Loss and accuracy over the steps of training, with a cursor at the snapshot that is shown. */
import { drawn, element } from "../elements/elements.js";
import { printedCount, printedNumber, roundedUp } from "../maths/numbers.js";
import { shortened } from "../elements/words.js";

const [WIDTH, HEIGHT] = [430, 204]; // of each panel: both fit side by side, and one below the other on a phone
const [LEFT, RIGHT] = [36, 300];
const [TOP, BOTTOM] = [26, 178];
const NARROWEST = 13; // pixels between two labels

/**
 * @typedef {{name: string, values: number[], colour: string, strong?: boolean, dashed?: boolean}} Line
 * @param {import("./model.js").Film} film
 * @param {Colours} colours
 * @param {{loss: Line[], share: Line[]}} lines
 * @param {(at: number) => void} choose
 */
export function makeChart(film, colours, lines, choose) {
  const last = film.steps[film.snapshots - 1] || 1;
  const top = roundedUp(Math.max(...lines.loss.flatMap(({ values }) => values.filter(Number.isFinite)), 1e-9));
  /** @typedef {{left: number, right: number, title: string, top: number, lines: Line[], digits: number}} Panel */
  const panels = [
    { left: LEFT, right: RIGHT, title: "Loss", top, lines: lines.loss, digits: top < 1 ? 2 : 1 },
    { left: LEFT, right: RIGHT, title: "Share right", top: 1, lines: lines.share, digits: 1 },
  ];
  const pictures = panels.map(({ title }) => {
    const label = { role: "img", "aria-label": `${title} over ${printedCount(last)} training steps` };
    return drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "regard-training-chart", ...label });
  });
  const cursors = panels.map(() => drawn("line", { stroke: colours.ink, "stroke-width": 1.5, "stroke-dasharray": "2 3" }));
  /** @param {Panel} panel @param {number} step */
  const across = ({ left, right }, step) => left + ((right - left) * step) / last;
  /** @param {Panel} panel @param {number} value */
  const down = (panel, value) => BOTTOM - ((BOTTOM - TOP) * Math.min(value, panel.top)) / panel.top;
  for (const [place, panel] of panels.entries()) pictures[place].append(...framed(panel), cursors[place]);

  /** @param {Panel} panel */
  function framed(panel) {
    const { left, right, top: most, digits } = panel;
    const small = { "font-size": 13, fill: colours.muted };
    const heading = { x: left, y: 14, "font-size": 15, "font-weight": 600, fill: colours.ink, text: panel.title };
    const grid = [0, 0.5, 1].map((share) => {
      const [x, y] = [across(panel, share * last), down(panel, share * most)];
      const step = `${share ? "" : "step "}${printedCount(Math.round(share * last))}`;
      return [
        drawn("line", { x1: left, x2: right, y1: y, y2: y, stroke: colours.rule }),
        drawn("text", { ...small, x: left - 6, y: y + 4, "text-anchor": "end", text: printedNumber(share * most, digits) }),
        drawn("text", { ...small, x, y: BOTTOM + 18, "text-anchor": "middle", text: step }),
      ];
    });
    const ends = labelPlaces(panel.lines.map(({ values }) => down(panel, lastFinite(values))));
    const lines = panel.lines.map(({ name, values, colour, strong, dashed }, place) => {
      const stroke = { stroke: colour, "stroke-width": strong ? 2.75 : 1.75, "stroke-dasharray": dashed ? "5 4" : null };
      const label = { x: right + 8, y: ends[place] + 4, "font-size": 13, fill: colour, text: shortened(name, 18) };
      return [drawn("path", { d: pathOf(panel, values), fill: "none", ...stroke }), drawn("text", label)];
    });
    return [drawn("text", heading), ...grid.flat(), ...lines.flat()];
  }

  /** @param {Panel} panel @param {number[]} values */
  function pathOf(panel, values) {
    let path = "";
    values.forEach((value, at) => {
      if (!Number.isFinite(value)) return;
      path += `${path ? "L" : "M"}${across(panel, film.steps[at]).toFixed(1)} ${down(panel, value).toFixed(1)}`;
    });
    return path;
  }

  for (const svg of pictures) {
    const pointed = (/** @type {PointerEvent} */ event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH;
      if (x < LEFT - 12 || x > RIGHT + 12) return;
      choose(nearest(film.steps, ((x - LEFT) / (RIGHT - LEFT)) * last));
    };
    svg.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      svg.setPointerCapture(event.pointerId);
      pointed(event);
    });
    svg.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => event.buttons && pointed(event));
  }

  return {
    el: element("div", { class: "regard-training-charts", role: "group", "aria-label": "Loss and accuracy" }, ...pictures),
    /** @param {number} at */
    show(at) {
      panels.forEach((panel, place) => {
        const x = across(panel, film.steps[at]);
        for (const [name, value] of Object.entries({ x1: x, x2: x, y1: TOP - 4, y2: BOTTOM }))
          cursors[place].setAttribute(name, String(value));
      });
    },
  };
}

/** Vertical places of labels, moved apart so that none overlaps another. @param {number[]} wanted */
export function labelPlaces(wanted) {
  const order = wanted.map((_, place) => place).sort((one, other) => wanted[one] - wanted[other]);
  const places = [...wanted];
  order.forEach((place, at) => {
    if (at) places[place] = Math.max(places[place], places[order[at - 1]] + NARROWEST);
  });
  let limit = BOTTOM + 2;
  for (const place of order.reverse()) {
    places[place] = Math.min(places[place], limit);
    limit = places[place] - NARROWEST;
  }
  return places;
}

/** The place of the number closest to `wanted`. @param {number[]} numbers @param {number} wanted */
export function nearest(numbers, wanted) {
  let found = 0;
  numbers.forEach((number, place) => {
    if (Math.abs(number - wanted) < Math.abs(numbers[found] - wanted)) found = place;
  });
  return found;
}

/** @param {number[]} values */
function lastFinite(values) {
  return values.findLast(Number.isFinite) ?? 0;
}
