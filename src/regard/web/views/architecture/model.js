/** A model as stages, with shapes and numbers of parameters. Pure functions. */
import { printedCount } from "../../maths/numbers.js";
import { hasLayers, numberOfLayer } from "../../page/state.js";
import { printable } from "../../elements/words.js";

/** @typedef {{id: string, title: string, parameters: number|null, shapes?: [string, number[]][], note?: string, count?: number,
 *   first?: number, heads?: number, key_heads?: number, head_dim?: number, hidden?: number, tied?: boolean, norm_first?: boolean,
 *   parts?: Stage[]}} Stage
 * @typedef {{model?: string, stages: Stage[], parameters: number|null, longest?: number|null, width?: number|null, place?: {stack: string, block: number, which?: string}|null}} Architecture
 * @typedef {NonNullable<ReturnType<typeof shownBlock>>} ShownBlock */

/** A number of parameters: 22.7M, 590K, 384. @param {number|null|undefined} count */
export function printedParameters(count) {
  if (count === null || count === undefined) return "";
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1e9, "B"], [1e6, "M"], [1e4, "K"]]))
    if (count >= size) return `${(count / (unit === "K" ? 1e3 : size)).toFixed(count >= 100 * size || unit === "K" ? 0 : 1)}${unit}`; // prettier-ignore
  return printedCount(count);
}

/** A table as 30,522 × 384; a map x · W as 384 → 1,536. @param {[string, number[]]} shape */
export function printedShape([label, sizes]) {
  const isMap = label.startsWith("W") && sizes.length === 2;
  return sizes.map(printedCount).join(isMap ? " → " : " × ");
}

/** What the model is, in words. @param {Architecture} found @param {Description} description */
export function leadOf({ model: name, parameters, stages, longest, width }, description) {
  const model = printable(name && name !== "given" ? name : "This attention");
  if (!parameters) return `${model}: only its attention is known here, not the weights around it.`;
  const layers = stages.filter(({ id }) => id === "encoder" || id === "decoder").map(({ count }) => count);
  const reads = longest ? `, reads up to ${printedCount(longest)} tokens` : "";
  return `${model} has ${printedParameters(parameters)} parameters in ${layers.join(" + ")} layers${reads}. A text of ${printedCount(description.tokens.length)} tokens becomes as many vectors of ${printedCount(width ?? 0)} numbers, which every layer changes a little. Choose a layer and a head.`;
}

/** @param {Architecture} found @param {ShownBlock} here @param {Description} description */
export function nameOfBlock(found, here, description) {
  if (found.place) return `${here.stack.title.replace(" blocks", "")} block ${here.at}`;
  return hasLayers(description) ? `layer ${numberOfLayer(description, here.at)}` : "the layer";
}

/** What a stage's box says below its name. @param {Stage} stage */
export function factsOf(stage) {
  const inside = (stage.parts ?? []).map((part) => [part.title, part.note].filter(Boolean).join(", "));
  const heads = (stage.heads ?? 0) > 1 ? `${stage.heads} heads` : "";
  return [heads, ...shapesOf(stage), ...inside, stage.note ?? "", stage.tied ? "" : printedParameters(stage.parameters || null)].filter(Boolean);
}

/** What one head computes, with the sizes of the results. @param {Required<Stage>} stage @param {number|null|undefined} width @param {Description} description */
export function flowOf({ head_dim: dim }, width, { queries, tokens, scale }) {
  const path = width ? `${printedCount(width)} → ${dim}` : `${dim} numbers`;
  const cells = `${printedCount(queries)} × ${printedCount(tokens.length)}`;
  return [
    ...["q = x · W_Q", "k = x · W_K", "v = x · W_V"].map((formula) => [formula, path]),
    ...["score = q · k", scalingOf(scale, dim), "weight = softmax(scaled)"].map((formula) => [formula, cells]),
    ["output = Σ weight · v", `${printedCount(queries)} × ${dim}`],
  ];
}

/** The formula of the scaled scores. @param {number|null|undefined} scale @param {number} dim */
function scalingOf(scale, dim) {
  const isRoot = !scale || Math.abs(scale * scale * dim - 1) < 1e-5;
  return isRoot ? `scaled = score / √${dim}` : `scaled = score · ${Number(scale.toPrecision(3))}`;
}

/** All shapes of a stage, each with its name. @param {Stage} stage */
function shapesOf({ shapes = [] }) {
  return shapes.map((shape) => `${shapes.length > 1 ? `${shape[0]} ` : ""}${printedShape(shape)}`);
}

/** The stage that holds a layer's blocks, the block itself, and the part that is shown. @param {Architecture} architecture @param {number} layer */
export function shownBlock({ stages, place }, layer) {
  const stack = stages.find((stage) => stage.id === (place?.stack ?? "encoder")) ?? stages.find(({ id }) => id === "decoder");
  if (!stack) return null;
  const at = place?.block ?? layer;
  const parts = stack.parts ?? [];
  const block = parts.find(({ first = 0, count = 1 }) => at >= first && at < first + count) ?? parts[0];
  return { stack, block, at, part: place?.which === "cross" ? "cross" : "attention" };
}

/** The steps inside a block, in order, with the points at which the residual is added. @param {Stage} block */
export function stepsOfBlock(block) {
  const parts = block.parts ?? [];
  const isSub = (/** @type {Stage} */ { id }) => ["attention", "cross", "feed_forward"].includes(id);
  /** @type {({kind: "part", stage: Stage}|{kind: "add"})[]} */
  const found = [];
  parts.forEach((stage) => {
    found.push({ kind: "part", stage });
    if (isSub(stage)) found.push({ kind: "add" }); // before the norm where it comes last
  });
  return parts.length === 1 ? found.slice(0, 1) : found;
}

/**
 * Where the parameters are, as shares of their number.
 * @param {Architecture} architecture
 * @returns {{name: string, parameters: number, share: number}[]}
 */
export function sharesOf({ stages, parameters }) {
  if (!parameters) return [];
  /** @type {Record<string, number>} */
  const sums = { Embedding: 0, Attention: 0, "Feed-forward": 0, Norms: 0, "Next token": 0 };
  const names = /** @type {Record<string, string>} */ ({
    embedding: "Embedding", target_embedding: "Embedding", positions: "Embedding", attention: "Attention", cross: "Attention",
    feed_forward: "Feed-forward", head: "Next token",
  }); // prettier-ignore
  const visit = (/** @type {Stage} */ stage, /** @type {number} */ times) => {
    if (stage.tied) return;
    if (stage.id === "embedding") {
      sums.Embedding += times * (stage.parameters ?? 0);
      return;
    }
    if (stage.parts) stage.parts.forEach((part) => visit(part, times * (part.id === "block" ? (part.count ?? 1) : 1)));
    else sums[names[stage.id] ?? "Norms"] += times * (stage.parameters ?? 0);
  };
  stages.forEach((/** @type {Stage} */ stage) => visit(stage, 1));
  return Object.entries(sums)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => ({ name, parameters: count, share: count / parameters }));
}

/** Every stage as a row of a table. @param {Architecture} architecture */
export function rowsOf({ stages }) {
  /** @type {Table["rows"]} */
  const rows = [];
  const visit = (/** @type {Stage} */ stage, /** @type {string} */ above) => {
    const name = [above, stage.title].filter(Boolean).join(" › ");
    const shapes = shapesOf(stage).join(", ");
    rows.push([name, stage.count ?? 1, shapes, stage.parameters ?? null, stage.note ?? ""]);
    stage.parts?.forEach((part) => visit(part, name));
  };
  stages.forEach((/** @type {Stage} */ stage) => visit(stage, ""));
  return rows;
}
