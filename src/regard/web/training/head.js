/** One head at one snapshot: its attention matrix with words, and W_Q and W_K beside it. */
import { element, replaced } from "../elements.js";
import { steppedTo } from "../controls.js";
import { largestOf, printedNumber } from "../numbers.js";
import { paint } from "../views/matrix/pixels.js";
import { shortened } from "../words.js";
import { roleOf, strongestKeys } from "./model.js";

const LARGEST = 440; // pixels of the matrix
const CELL = 26; // pixels of a cell at most
const LABEL = 7.2; // pixels of a letter
const LONGEST_LABEL = 12; // letters
const READABLE = 9; // pixels of a cell from which words are written

/**
 * @param {import("./model.js").Film} film
 * @param {any} colours
 * @param {(text: string) => void} announce
 */
export function makeHead(film, colours, announce) {
  const heading = element("h2", { class: "regard-subtitle" });
  const role = element("p", { class: "regard-note" });
  const canvas = element("canvas", { class: "regard-training-matrix", tabindex: "0", role: "img" });
  const readout = element("p", { class: "regard-training-readout" });
  const vectors = element("div", { class: "regard-training-weights" });
  /** @type {{at: number, probe: number, one: import("./model.js").Head, query: number}|null} */
  let shown = null;
  let [cell, left, top] = [1, 0, 0];

  const el = element(
    "section",
    { class: "regard-training-head", "aria-label": "Selected head" },
    element("div", { class: "regard-scroll" }, canvas),
    element("div", { class: "regard-training-beside" }, heading, role, readout, vectors),
  );

  /** @param {number} at @param {number} probe @param {import("./model.js").Head} one @param {number} query */
  function show(at, probe, one, query) {
    const { tokens, keys } = film.probes[probe];
    const count = tokens.length;
    const weights = film.weights(at, probe, one);
    shown = { at, probe, one, query };
    heading.textContent = `Layer ${one.layer}, head ${one.head}`;
    const named = roleOf(film, at, one);
    role.textContent = named
      ? `Answers ${named.relation}: its largest weight is on the right word in ${printedNumber(named.accuracy)} of the test cases.`
      : `No relation yet: entropy ${printedNumber(film.entropy(at, one))} nats.`;
    drawMatrix(weights, count, tokens, keys, query);
    const strongest = strongestKeys(weights, count, query, 3).filter(({ weight }) => weight >= 0.005);
    const right = keys[query] < 0 ? "" : ` · right key: ${tokens[keys[query]]}`;
    replaced(
      readout,
      element("strong", { text: tokens[query] }),
      ` attends most to ${strongest.map(({ key, weight }) => `${tokens[key]} ${printedNumber(weight)}`).join(", ")}${right}`,
    );
    canvas.setAttribute("aria-label", `Attention matrix of layer ${one.layer}, head ${one.head}. ${readout.textContent}`);
    const parts = [["W_Q", "wq"], ["W_K", "wk"]].map(([name, array]) => matrixFigure(name, film.matrixOf(array, at, one)));
    replaced(vectors, parts);
  }

  /** @param {Float32Array} weights @param {number} count @param {string[]} tokens @param {number[]} keys @param {number} query */
  function drawMatrix(weights, count, tokens, keys, query) {
    const words = tokens.map((word) => shortened(word, LONGEST_LABEL));
    cell = Math.max(3, Math.min(CELL, Math.floor(LARGEST / count)));
    const written = cell >= READABLE;
    const longest = Math.max(...words.map((word) => word.length));
    [left, top] = written ? [longest * LABEL + 10, longest * LABEL + 10] : [2, 2];
    const [width, height] = [left + cell * count + 2, top + cell * count + 2];
    const ratio = globalThis.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.scale(ratio, ratio);
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, width, height);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(mapOf(film, weights, count, colours), left, top, cell * count, cell * count);
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1;
    keys.forEach((key, row) => {
      if (key >= 0) pen.strokeRect(left + key * cell + 0.5, top + row * cell + 0.5, cell - 1, cell - 1);
    });
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(left - 1, top + query * cell, cell * count + 2, cell);
    if (!written) return;
    pen.fillStyle = colours.ink;
    pen.font = `${Math.min(13, cell + 1)}px system-ui, sans-serif`;
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

  /** @param {string} name @param {{data: Float32Array, rows: number, columns: number}|null} matrix */
  function matrixFigure(name, matrix) {
    if (!matrix) return null;
    const { data, rows, columns } = matrix;
    const picture = element("canvas", { width: columns, height: rows, class: "regard-training-weight", "aria-hidden": "true" });
    const pen = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
    const largest = largestOf(data) || 1;
    data.forEach((number, place) => {
      pen.fillStyle = colours.signed(number / largest);
      pen.fillRect(place % columns, Math.floor(place / columns), 1, 1);
    });
    picture.style.width = `${Math.max(48, columns * 7)}px`;
    return element(
      "figure",
      {},
      picture,
      element("figcaption", { class: "regard-note", text: `${name} ${rows} × ${columns}, up to ±${printedNumber(largest)}` }),
    );
  }

  /** @param {(query: number) => void} choose */
  function selects(choose) {
    canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      const row = Math.floor((event.offsetY - top) / cell);
      if (shown && row >= 0 && row < film.probes[shown.probe].tokens.length) choose(row);
    });
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (!shown) return;
      const row = steppedTo(event, shown.query, film.probes[shown.probe].tokens.length);
      if (row === null) return;
      choose(row);
      announce(readout.textContent);
    });
  }

  return { el, show, selects };
}

/**
 * A head's weights as a canvas of one pixel per weight.
 * @param {import("./model.js").Film} film @param {Float32Array} weights @param {number} count @param {any} colours
 */
export function mapOf(film, weights, count, colours) {
  const canvas = element("canvas", { width: count, height: count });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = pen.createImageData(count, count);
  const scale = { top: 1, colour: /** @type {"linear"} */ ("linear"), colours };
  const tile = /** @type {any} */ ({ weight: weights, shape: [count, count], rows: [0, count], columns: [0, count] });
  paint(tile, scale, { causal: film.causal, first_query: 0 }, new Uint32Array(image.data.buffer));
  pen.putImageData(image, 0, 0);
  return canvas;
}
