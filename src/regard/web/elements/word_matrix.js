/** One head between the words of a short text: a matrix with words on both sides, walked with the arrow keys. */
import { steppedTo } from "./controls.js";
import { element } from "./elements.js";
import { printedNumber } from "../maths/numbers.js";
import { paintOn } from "../views/matrix/pixels.js";
import { shortened } from "./words.js";

const FAINT = 0.005; // smaller weights print as 0.00
const LARGEST = 440; // pixels of the matrix
const CELL = 26; // pixels of a cell at most
const LONGEST_LABEL = 12; // letters
const READABLE = 9; // pixels of a cell from which words are written

/**
 * @typedef {{weights: Float32Array, tokens: string[], keys?: number[], query: number, name: string}} Shown
 *   keys: the right key of each query, drawn as a frame; −1 where there is none
 * @param {Colours} colours
 * @param {boolean} causal
 */
export function makeWordMatrix(colours, causal) {
  const canvas = element("canvas", { class: "regard-training-matrix", tabindex: "0", role: "img" });
  const map = element("canvas");
  /** @type {Shown|null} */
  let shown = null;
  let [cell, left, top] = [1, 0, 0];

  /** @param {Shown} given */
  function show(given) {
    shown = given;
    canvas.setAttribute("aria-label", given.name);
    const { weights, tokens, keys = [], query } = given;
    const count = tokens.length;
    const words = tokens.map((word) => shortened(word, LONGEST_LABEL));
    cell = Math.max(3, Math.min(CELL, Math.floor(LARGEST / count)));
    const written = cell >= READABLE;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const font = `${Math.min(13, cell + 1)}px system-ui, sans-serif`;
    pen.font = `bold ${font}`; // as the selected row is written; letters differ in width, those of other scripts most
    const label = written ? Math.ceil(Math.max(...words.map((word) => pen.measureText(word).width))) + 10 : 2;
    [left, top] = [label, label];
    const [width, height] = [left + cell * count + 2, top + cell * count + 2];
    const ratio = globalThis.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * ratio, height: height * ratio }); // resets the pen
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    pen.scale(ratio, ratio);
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, width, height);
    pen.imageSmoothingEnabled = false;
    paintMap(map, weights, count, colours, causal);
    pen.drawImage(map, left, top, cell * count, cell * count);
    for (const [colour, inset] of /** @type {[string, number][]} */ ([[colours.ink, 0.5], [colours.ground, 1.5]])) { // one of the two stands out on any weight
      pen.strokeStyle = colour;
      pen.lineWidth = 1;
      keys.forEach((key, row) => {
        if (key >= 0) pen.strokeRect(left + key * cell + inset, top + row * cell + inset, cell - 2 * inset, cell - 2 * inset);
      });
    }
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(left - 1, top + query * cell, cell * count + 2, cell);
    if (!written) return;
    pen.fillStyle = colours.ink;
    pen.font = font;
    pen.textBaseline = "middle";
    words.forEach((word, place) => {
      const middle = (place + 0.5) * cell;
      pen.textAlign = "right";
      pen.font = pen.font.replace(/^(bold )?/, place === query ? "bold " : "");
      pen.fillText(word, left - 6, top + middle);
      pen.save();
      pen.translate(left + middle, top - 6);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
      pen.font = pen.font.replace(/^bold /, "");
      pen.fillText(word, 0, 0);
      pen.restore();
    });
  }

  /** @param {(query: number, byKey: boolean) => void} choose */
  function selects(choose) {
    canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      const row = Math.floor((event.offsetY - top) / cell);
      if (shown && row >= 0 && row < shown.tokens.length) choose(row, false);
    });
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const row = shown && steppedTo(event, shown.query, shown.tokens.length);
      if (row !== null) choose(row, true);
    });
  }

  return { el: canvas, show, selects };
}

/**
 * A head's weights on a canvas, one pixel per weight.
 * @param {HTMLCanvasElement} canvas @param {Float32Array} weights @param {number} count @param {Colours} colours
 * @param {boolean} causal
 */
export function paintMap(canvas, weights, count, colours, causal) {
  const tile = { weight: weights, shape: [count, count], rows: [0, count], columns: [0, count] };
  paintOn(canvas, tile, { top: 1, colour: "linear", colours }, { causal, first_query: 0 });
}

/** The strongest keys of a query. @param {Float32Array} weights @param {number} count @param {number} query @param {number} most */
export function strongestKeys(weights, count, query, most) {
  const row = Array.from(weights.subarray(query * count, (query + 1) * count), (weight, key) => ({ key, weight }));
  return row.sort((one, other) => other.weight - one.weight || one.key - other.key).slice(0, most);
}

/** What a query attends to most, in words. @param {Float32Array} weights @param {string[]} tokens @param {number} query */
export function attendsMost(weights, tokens, query) {
  const strongest = strongestKeys(weights, tokens.length, query, 3).filter(({ weight }) => weight >= FAINT);
  return [element("strong", { text: tokens[query] }), ` attends most to ${strongest.map(({ key, weight }) => `${tokens[key]} ${printedNumber(weight)}`).join(", ")}`];
}
