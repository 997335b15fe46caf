/** One head at one snapshot: its attention matrix with words, and W_Q and W_K beside it. */
import { element, replaced } from "../elements/elements.js";
import { largestOf, printedNumber } from "../maths/numbers.js";
import { attendsMost, makeWordMatrix } from "../elements/word_matrix.js";
import { roleOf } from "./model.js";

/** @param {import("./model.js").Film} film @param {Colours} colours @param {(text: string) => void} announce */
export function makeHead(film, colours, announce) {
  const heading = element("h2", { class: "regard-subtitle" });
  const role = element("p", { class: "regard-note" });
  const matrix = makeWordMatrix(colours, film.causal);
  const readout = element("p", { class: "regard-training-readout" });
  const vectors = element("div", { class: "regard-training-weights" });

  const mark = element("i", { "aria-hidden": "true" });
  const key = element("p", { class: "regard-training-key" }, mark, "framed: the right key of the row's word");
  const map = element("div", { class: "regard-scroll" }, matrix.el, film.relations.length ? key : null);
  const beside = element("div", { class: "regard-training-beside" }, heading, role, readout, vectors);
  const el = element("section", { class: "regard-training-head", "aria-label": "Selected head" }, map, beside);

  /** @param {number} at @param {number} probe @param {HeadPlace} one @param {number} query */
  function show(at, probe, one, query) {
    const { tokens, keys } = film.probes[probe];
    const weights = film.weights(at, probe, one);
    heading.textContent = `Layer ${one.layer}, head ${one.head}`;
    const named = roleOf(film, at, one);
    role.textContent = named
      ? `Answers ${named.relation}: its largest weight is on the right word in ${printedNumber(named.accuracy)} of the test cases.`
      : `No relation yet: entropy ${printedNumber(film.entropy(at, one))} nats.`;
    replaced(readout, attendsMost(weights, tokens, query), keys[query] < 0 ? null : ` · right key: ${tokens[keys[query]]}`);
    const name = `Attention matrix of layer ${one.layer}, head ${one.head}. ${readout.textContent}`;
    matrix.show({ weights, tokens, keys, query, name });
    const parts = [["W_Q", "wq"], ["W_K", "wk"]].map(([name, array]) => matrixFigure(name, film.matrixOf(array, at, one)));
    replaced(vectors, parts);
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
    const said = `${name} ${rows} × ${columns}, up to ±${printedNumber(largest)}`;
    return element("figure", {}, picture, element("figcaption", { class: "regard-note", text: said }));
  }

  /** @param {(query: number) => void} choose */
  const selects = (choose) =>
    matrix.selects((query, byKey) => {
      choose(query);
      if (byKey) announce(readout.textContent);
    });

  return { el, show, selects };
}
