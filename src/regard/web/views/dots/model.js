/** Where the dots of all heads are: by layer and head, or over two measures. Pure functions. */
import { keptHeads, keptLayers, numberOfHead, numberOfLayer } from "../../page/state.js";
import { linesOf } from "../../elements/words.js";
import { printedStatistic, STATISTICS, shareOf } from "../grid/model.js";

const MARGIN = { left: 74, top: 26, bottom: 44, right: 18 }; // pixels around the dots
const LABELLED = 84; // pixels between two columns from which names are written below the dots
const LETTER = 7.2; // pixels
const LINE = 14; // pixels between two lines of a name

/** What dots can be spread over. */
export const MEASURES = [{ name: "layer", text: "Layer", unit: "", said: "the position in the model" }, ...STATISTICS];

/**
 * A row per layer, a column per head, whatever the model.
 * @param {HeadPlace[]} heads @param {{layers: number[], columns: number[], width: number, labelled: boolean, labels?: string[]}} room  labels: one per head
 */
export function byLayer(heads, { layers, columns, width, labelled, labels = [] }) {
  const across = Math.max(8, Math.min(128, (width - MARGIN.left - MARGIN.right) / columns.length));
  const hasLabels = labelled && across >= LABELLED;
  const letters = Math.floor((across - 8) / LETTER);
  const lines = hasLabels ? labels.map((label) => linesOf(label.replaceAll("→ ", "→\u00a0"), letters)) : [];
  const most = Math.max(2, ...lines.map(({ length }) => length));
  const down = hasLabels ? 38 + LINE * most : Math.max(8, Math.min(44, across, 640 / layers.length));
  const r = Math.min(hasLabels ? 11 : Infinity, Math.min(across, down) * 0.34, 13);
  const x = (/** @type {number} */ head) => MARGIN.left + (columns.indexOf(head) + 0.5) * across;
  const y = (/** @type {number} */ layer) => MARGIN.top + (layers.indexOf(layer) + 0.5) * down - (hasLabels ? (LINE * most) / 2 : 0);
  return {
    dots: heads.map(({ layer, head }) => ({ layer, head, x: x(head), y: y(layer), r })),
    width: MARGIN.left + across * columns.length + MARGIN.right,
    height: MARGIN.top + down * layers.length + 8,
    lines,
    rows: layers.map((layer) => ({ layer, y: y(layer) })),
    columns: columns.filter((_, place) => across >= 22 || place % 5 === 0).map((head) => ({ head, x: x(head) })),
  };
}

/** Names that some heads share, in the order of the heads. @param {HeadPlace[]} heads @param {string[]} labels one per head, empty where there is none */
export function sharedNames(heads, labels) {
  /** @type {Map<string, HeadPlace[]>} */
  const found = new Map();
  heads.forEach((head, place) => labels[place] && found.set(labels[place], [...(found.get(labels[place]) ?? []), head]));
  return [...found];
}

/**
 * Dots over two measures; a head without a number is left out.
 * @param {HeadPlace[]} heads @param {{x: ArrayLike<number>, y: ArrayLike<number>}} numbers per head @param {{width: number, height: number}} room
 */
export function overMeasures(heads, { x, y }, { width, height }) {
  const r = heads.length > 400 ? 4 : heads.length > 150 ? 6 : 9;
  const inner = { width: width - MARGIN.left - MARGIN.right - 2 * r, height: height - MARGIN.top - MARGIN.bottom - 2 * r };
  const known = heads.map((_, place) => place).filter((place) => !Number.isNaN(x[place]) && !Number.isNaN(y[place]));
  return {
    dots: known.map((place) => ({
      ...heads[place],
      x: MARGIN.left + r + inner.width * shareOf(x[place], x),
      y: MARGIN.top + r + inner.height * (1 - shareOf(y[place], y)),
      r,
    })),
    width,
    height,
    axes: { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom },
  };
}

/** The smallest and the largest number. @param {ArrayLike<number>} numbers */
function rangeOf(numbers) {
  const known = Array.from(numbers).filter((one) => !Number.isNaN(one));
  return known.length ? [Math.min(...known), Math.max(...known)] : [0, 0];
}

/** Whether dots are spread over two measures. @param {Chosen} chosen */
export function isSpread({ dots_across: across, dots_up: up }) {
  return Boolean(across && up);
}

/**
 * Where the dots are and what is written beside them, as the state chooses.
 * known  the numbers of the heads; before they are there, dots stand by layer
 * @typedef {{text: string, x: number, y: number, anchor: "start"|"middle"|"end", kind?: "name"|"title"}} Written
 * @param {HeadPlace[]} heads
 * @param {{description: Description, labels: string[], known: import("../grid/model.js").HeadStatistics|null, chosen: Chosen, width: number}} shown
 */
export function layoutOf(heads, { description, labels, known, chosen, width }) {
  if (!isSpread(chosen) || !known) {
    const placed = byLayer(heads, { layers: keptLayers(description), columns: keptHeads(description), width, labelled: labels.some(Boolean), labels });
    return { ...placed, axis: "", texts: namesBeside(placed, description) };
  }
  const measures = [chosen.dots_across, chosen.dots_up].map((name) => MEASURES.find((one) => one.name === name) ?? MEASURES[0]);
  const [x, y] = measures.map(({ name }) => heads.map((head) => (name === "layer" ? numberOfLayer(description, head.layer) : known.of(name, head))));
  const placed = overMeasures(heads, { x, y }, { width, height: Math.max(320, Math.min(560, width * 0.6)) });
  const { left, right, top, bottom } = placed.axes;
  const [[x0, x1], [y0, y1]] = [rangeOf(x), rangeOf(y)];
  const [across, up] = measures.map(({ text, unit }) => `${text}${unit ? ` (${unit})` : ""}`);
  /** @type {Written[]} */
  const texts = [
    { text: printedStatistic(x0), x: left, y: bottom + 18, anchor: "start" },
    { text: printedStatistic(x1), x: right, y: bottom + 18, anchor: "end" },
    { text: `${across} →`, x: (left + right) / 2, y: bottom + 18, anchor: "middle", kind: "title" },
    { text: printedStatistic(y0), x: left - 8, y: bottom, anchor: "end" },
    { text: printedStatistic(y1), x: left - 8, y: top + 10, anchor: "end" },
    { text: `↑ ${up}`, x: left, y: top - 10, anchor: "start", kind: "title" },
  ];
  return { ...placed, axis: `M${left} ${top}V${bottom}H${right}`, texts, lines: [] };
}

/** Numbers of layers and heads, and what heads are known for. @param {ReturnType<typeof byLayer>} placed @param {Description} description @returns {Written[]} */
function namesBeside({ rows, columns, dots, lines }, description) {
  return [
    ...rows.map(({ layer, y }) => ({ text: `Layer ${numberOfLayer(description, layer)}`, x: 64, y: y + 4, anchor: /** @type {const} */ ("end") })),
    ...columns.map(({ head, x }) => ({ text: String(numberOfHead(description, head)), x, y: 12, anchor: /** @type {const} */ ("middle") })),
    ...lines.flatMap((texts, at) =>
      texts.map((text, line) => ({ text, x: dots[at].x, y: dots[at].y + dots[at].r + 15 + LINE * line, anchor: /** @type {const} */ ("middle"), kind: /** @type {const} */ ("name") })),
    ),
  ];
}
