/** Activations taken from another text: the map of their effects, its strongest cells, and what is said of them. Pure functions. */
import { printedNumber } from "../../maths/numbers.js";
import { nameOfHead, numberOfHead, numberOfLayer } from "../../page/state.js";
import { nameOfToken } from "../output/model.js";

/** @typedef {"head"|"position"} By */
/** kind: "logits" of two tokens, or the "state" of a word @typedef {{kind: string, tokens?: {text: string, begins: boolean}[]}} Measured */
/** @typedef {{layer: number, column: number, effect: number}} Strongest */

/** @param {number} share */
export function printedShare(share) {
  return printedNumber(100 * share, 0);
}

/** The cells with the largest effects. @param {(Float32Array|null)[]} effects @param {number} most @returns {Strongest[]} */
export function strongestCells(effects, most) {
  const cells = effects.flatMap((row, layer) => Array.from(row ?? [], (effect, column) => ({ layer, column, effect })));
  return cells.sort((one, other) => Math.abs(other.effect) - Math.abs(one.effect)).slice(0, most);
}

/**
 * The map: layers down, heads or tokens across, in percent of the way to the other text's answer.
 * @param {{by: By, effects: (Float32Array|null)[], layers: string[], columns: string[], nameOf: (layer: number, column: number) => string}} what
 * @returns {import("../../elements/heat_table.js").HeatMap}
 */
export function mapOf({ by, effects, layers, columns, nameOf }) {
  const most = Math.max(1e-9, ...strongestCells(effects, 1).map(({ effect }) => Math.abs(effect)));
  const scale = Math.max(most, 0.01);
  return {
    title: by === "head" ? "Effect of each head, in percent" : "Effect of each word before each layer, in percent",
    corner: by === "head" ? "Layer, head" : "Before layer",
    rows: layers,
    columns,
    cells: effects.map((row, layer) =>
      columns.map((_, column) => {
        const effect = row ? row[column] : null;
        if (effect === null || effect === undefined) return { text: "", value: null, title: "not computed yet" };
        return { text: printedShare(effect), value: Math.max(-1, Math.min(1, effect / scale)), title: `${nameOf(layer, column)}: ${printedShare(effect)} %` };
      }),
    ),
  };
}

/**
 * The map of a model's effects, with the name of each cell.
 * @param {Description} description @param {By} by @param {(Float32Array|null)[]} effects @param {{layers: number[], heads: number[]}} kept
 */
export function heatOf(description, by, effects, { layers, heads }) {
  const numbers = layers.map((layer) => String(numberOfLayer(description, layer)));
  const columns = by === "head" ? heads.map((head) => String(numberOfHead(description, head))) : (description.tokens ?? []).map(String);
  const nameOf = (/** @type {number} */ layer, /** @type {number} */ column) =>
    by === "head" ? nameOfHead({ layer: layers[layer], head: heads[column] }, description) : `what “${columns[column]}” holds before layer ${numbers[layer]}`;
  return { ...mapOf({ by, effects, layers: numbers, columns, nameOf }), nameOf };
}

/** What a share of 100 % means. @param {Measured} measured @param {string} word */
export function saidOfMeasure(measured, word) {
  if (!measured.tokens) return `0 % leaves the vector of ${word} as it is, 100 % makes it that of the other text, more goes beyond it, and below 0 it moves away.`;
  const [here, there] = measured.tokens.map((token) => nameOfToken(token));
  return `After ${word} the model says “${here}” here and “${there}” in the other text: 0 % leaves the answer, 100 % makes it the other’s, more goes beyond it, and below 0 it moves away.`;
}
