/** The parts of the view Architecture, as elements. */
import { element } from "../../elements/elements.js";
import { printedCount } from "../../maths/numbers.js";
import { keptHeads, keptLayers, numberOfHead, numberOfLayer } from "../../page/state.js";
import { factsOf, flowOf, printedParameters, sharesOf, stepsOfBlock } from "./model.js";

/**
 * @typedef {import("./model.js").Architecture} Architecture
 * @typedef {Required<import("./model.js").Stage>} Stage
 * @typedef {import("./model.js").ShownBlock} ShownBlock
 */

/** The whole model from left to right. @param {Architecture} found @param {ShownBlock|null} here @param {Description} description */
export function lineElements(found, here, description) {
  const { width, stages } = found;
  const tokens = printedCount(description.tokens.length);
  const data = width ? `${tokens} × ${printedCount(width)}` : "";
  const parts = stages.flatMap((stage, at) => [
    arrow(at === 1 ? data : ""),
    stage.id === "encoder" || stage.id === "decoder" ? stackElement(found, /** @type {Stage} */ (stage), here, description) : stageBox(/** @type {Stage} */ (stage)),
  ]);
  const isWriter = stages.at(-1)?.id === "head";
  const output = isWriter ? "probabilities of the next token" : width ? "a vector per token" : "weighted values";
  return [box("Text", [`${tokens} tokens`], null), ...parts, arrow(isWriter ? "" : data), box("Output", [output], null)];
}

/** All blocks of a stack as slabs; the current one is marked. @param {Architecture} found @param {Stage} stage @param {ShownBlock|null} here @param {Description} description */
function stackElement(found, stage, here, description) {
  const kept = keptLayers(description);
  const chosen = here?.stack === stage ? here.at : -1;
  const isMany = stage.count > 14;
  const slabs = Array.from({ length: stage.count }, (_, at) => {
    const number = numberOfLayer(description, at);
    const option = { role: "option", "aria-selected": String(at === chosen), tabindex: at === chosen ? "0" : "-1", "aria-label": `Layer ${number}`, title: `Layer ${number}`, "data-place": at };
    return element("span", {
      class: "regard-arch-slab",
      text: isMany && at % 5 && at !== chosen ? "" : String(found.place ? at : number),
      ...(found.place ? { "aria-current": at === chosen ? "true" : null } : option),
      "aria-disabled": found.place || kept.includes(at) ? null : "true",
    });
  });
  const list = found.place ? {} : { role: "listbox", "aria-label": "Layer", "aria-orientation": "horizontal" };
  const hasDecoder = found.stages.some(({ id }) => id === "decoder");
  const name = stage.id === "decoder" ? "decoder blocks" : hasDecoder ? "encoder blocks" : stage.count === 1 ? "layer" : "layers";
  const cross = (stage.parts[0].parts ?? []).some((part) => part.id === "cross");
  const notes = [stage.parameters ? printedParameters(stage.parameters) : "", cross ? "cross-attention to the encoder" : ""];
  return element(
    "div",
    { class: "regard-arch-stack", "data-many": isMany || null },
    element("strong", { text: `${printedCount(stage.count)} ${name}` }),
    element("div", { class: "regard-arch-slabs", ...list }, slabs),
    element("span", { class: "regard-quiet", text: notes.filter(Boolean).join(" · ") }),
  );
}

/** The steps of one block with the residual stream around them. @param {ShownBlock} here */
export function blockElements({ block, part }) {
  const at = (/** @type {number|string} */ column, /** @type {HTMLElement} */ item) => {
    item.style.gridColumn = String(column);
    return item;
  };
  const items = [at(1, element("span", { class: "regard-arch-data", text: "x", title: "The vector of a token" }))];
  let [column, from] = [1, 1]; // from: where the residual leaves
  for (const step of stepsOfBlock(block)) {
    column += 1;
    if (step.kind === "part") {
      items.push(at(column, stageBox(/** @type {Stage} */ (step.stage), step.stage.id === part)));
      continue;
    }
    const plus = element("span", { class: "regard-arch-add", title: "What came in is added: the residual", text: "+" });
    items.push(at(column, plus), at(`${from} / ${column + 1}`, element("span", { class: "regard-arch-arc", "aria-hidden": "true" })));
    from = column;
  }
  items.push(at(column + 1, element("span", { class: "regard-arch-data", text: "x′" })));
  const note = (block.parts ?? []).length > 1 ? "+ adds what came in: the residual stream. Every part only adds something to a token's vector." : "";
  return [
    element("div", { class: "regard-arch-steps", tabindex: "0", role: "group", "aria-label": "Steps of the layer" }, items),
    element("p", { class: "regard-note", text: note }),
  ];
}

/** The heads of the attention, and what one of them does. @param {Stage} stage @param {number} chosen @param {number|null|undefined} width @param {Description} description */
export function headElements(stage, chosen, width, description) {
  const kept = keptHeads(description);
  const options = Array.from({ length: stage.heads }, (_, at) => {
    const number = numberOfHead(description, at);
    return element("span", {
      class: "regard-head",
      role: "option",
      "aria-selected": String(at === chosen),
      "aria-label": `Head ${number}`,
      "aria-disabled": kept.includes(at) ? null : "true",
      tabindex: at === chosen ? "0" : "-1",
      "data-place": at,
      text: String(number),
    });
  });
  const name = stage.heads === 1 ? "Its one head" : `Its ${stage.heads} heads`;
  const shared = stage.key_heads < stage.heads ? ` ${stage.heads / stage.key_heads} heads share one k and v.` : "";
  const flow = flowOf(stage, width, description).map(([formula, shape]) => element("li", {}, element("span", { text: formula }), element("span", { class: "regard-quiet", text: shape })));
  return [
    element("h2", { class: "regard-arch-heading", text: `${name}${stage.id === "cross" ? ", from the decoder to the encoder" : ""}` }),
    stage.heads > 1 ? element("div", { class: "regard-heads", role: "listbox", "aria-label": "Head", "aria-orientation": "horizontal" }, options) : null,
    element("ol", { class: "regard-arch-flow" }, flow),
    element("p", { class: "regard-note", text: `The outputs of all heads side by side, ${stage.heads} · ${stage.head_dim} numbers, go through W_O.${shared}` }),
  ];
}

/** @param {Stage} stage @param {boolean} [isChosen] */
function stageBox(stage, isChosen = false) {
  return box(stage.title, factsOf(stage), stage.id, isChosen);
}

/** @param {string} title @param {string[]} facts @param {string|null} kind @param {boolean} [isChosen] */
function box(title, facts, kind, isChosen = false) {
  return element(
    "div",
    { class: "regard-arch-box", "data-kind": kind, "aria-current": isChosen ? "true" : null },
    element("strong", { text: title }),
    facts.map((fact) => element("span", { text: fact })),
  );
}

/** @param {string} shape of what flows */
function arrow(shape) {
  return element("span", { class: "regard-arch-arrow" }, element("span", { class: "regard-quiet", text: shape }), element("span", { "aria-hidden": "true", text: "→" }));
}

/** Where the parameters are. @param {Architecture} found @param {Colours} colours */
export function sharesElements(found, colours) {
  const parts = sharesOf(found);
  if (!parts.length) return [];
  const pieces = parts.map(({ name, parameters, share }, place) =>
    element("i", { title: `${name}: ${printedParameters(parameters)}`, style: { flex: `${share} 0 0`, background: colours.head(place) } }),
  );
  const lines = parts.map(({ name, parameters, share }, place) => {
    const percent = share < 0.001 ? "less than 0.1" : (100 * share).toFixed(share < 0.01 ? 1 : 0);
    return element("li", {}, element("i", { "aria-hidden": "true", style: { background: colours.head(place) } }), `${name} ${printedParameters(parameters)}, ${percent} %`);
  });
  return [
    element("h2", { class: "regard-arch-heading", text: `Where the ${printedParameters(found.parameters)} parameters are` }),
    element("div", { class: "regard-arch-bar", "aria-hidden": "true" }, pieces),
    element("ul", { class: "regard-arch-legend" }, lines),
  ];
}
