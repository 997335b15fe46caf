/** Captions of the matrix. Pure functions. */
import { isOverLayers, measureOf, nameOfMeasure } from "../../page/measures.js";
import { printedCount, printedPower, printedWeight } from "../../maths/numbers.js";
import { hasHeads, hasLayers, numberOfHead, numberOfLayer } from "../../page/state.js";
import { NUMBERS_FROM, unitFor } from "./draw.js";
import { partOf } from "./geometry.js";
import { coarseness } from "./tiles.js";

/**
 * What a cell and its colour show.
 * @param {import("./tiles.js").Loaded[]} here @param {"mean"|"max"} pool @param {import("./pixels.js").Scale} scale
 * @param {number} size of a cell on the screen
 */
export function saidOfCells(here, pool, scale, size) {
  const side = printedCount(Math.round(Math.max(...here.map(coarseness))));
  const pooled = `${pool === "max" ? "largest" : "mean"} of about ${side} × ${side} weights in each cell`;
  const unit = size >= NUMBERS_FROM ? unitFor(scale.top) : 0;
  const numbers = unit ? `; numbers in cells are × ${printedPower(unit)}` : "";
  return `${side === "1" ? (scale.name ?? "weight") : pooled}${scale.colour === "log" ? "; logarithmic" : ""}${numbers}`;
}

/** Why a map is not exact. @param {import("./tiles.js").Loaded[]} here */
export function saidOfSampling(here) {
  const rough = here.find((tile) => !tile.exact);
  if (!rough) return "";
  const from = rough.sampled ? `sampled rows (${rough.sampled})` : "pooled cells";
  return `Map from ${from}${rough.done ? "." : "; computing the exact one…"}`;
}

/**
 * @param {import("./geometry.js").Size} whole @param {{layer: number, head: number}} chosen
 * @param {Description} description
 */
export function nameOfMatrix({ rows, columns }, { layer, head }, description, name = "Weights") {
  const sizes = `${printedCount(rows)} queries (down) on ${printedCount(columns)} keys (across)`;
  return `${name} of ${sizes}, layer ${numberOfLayer(description, layer)}, head ${numberOfHead(description, head)}.`;
}

/** A cell that pools several weights. @param {{weight: number, tile: import("./tiles.js").Loaded, down: number, across: number}} found as it is drawn @param {"mean"|"max"} pool */
export function saidOfPool({ tile, down, across, weight }, pool) {
  const range = (/** @type {number[]} */ [first, last]) => `${printedCount(first)}–${printedCount(last - 1)}`;
  const rows = range(partOf(tile.rows, tile.shape[0], down));
  const columns = range(partOf(tile.columns, tile.shape[1], across));
  return `weight. Its cell: queries ${rows}, keys ${columns}, ${pool} ${printedWeight(weight)}`;
}

/** @param {Description} description @param {Chosen} chosen */
export function titleOfMatrix(description, chosen) {
  const { layer, head } = chosen;
  const measure = measureOf(chosen, description);
  if (isOverLayers(measure)) return nameOfMeasure(measure, description);
  return `${nameOfMeasure(measure, description)}${hasLayers(description) || hasHeads(description) ? `, layer ${numberOfLayer(description, layer)}, head ${numberOfHead(description, head)}` : ""}`;
}

/** The region in an address. @param {unknown} text */
export function regionOfText(text) {
  const edges = typeof text === "string" ? text.split(",").map(Number) : [];
  const valid = edges.length === 4 && edges.every((edge) => edge >= 0) && edges[0] < edges[1] && edges[2] < edges[3];
  return valid ? edges : null;
}
