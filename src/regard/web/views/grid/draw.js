/** The small maps: a cell per head, its caption, the colour scale. */
import { segments } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { hasLayers, headsOf, isKept, numberOfHead, numberOfLayer } from "../../page/state.js";
import { saidOfHead } from "./about.js";
import { captionOf, ORDERS } from "./model.js";

/** @typedef {{one: HeadPlace, canvas: HTMLCanvasElement, caption: HTMLElement, option: HTMLElement, kept: boolean}} Cell */

/** A cell per head, in the order of the model. @param {Description} description @returns {Cell[]} */
export function makeCells(description) {
  return headsOf(description.layers, description.heads).map((one) => {
    const canvas = element("canvas", { width: 1, height: 1, class: "regard-grid-map" });
    const caption = element("span", { class: "regard-grid-caption" });
    const kept = isKept(one, description);
    const option = element("div", { role: "option", class: "regard-grid-cell", tabindex: "-1", "aria-disabled": kept ? null : "true", "data-layer": one.layer }, canvas, caption);
    return { one, canvas, caption, option, kept };
  });
}

/**
 * The cells in their order; in that of the model with the numbers of layers and heads.
 * @param {HTMLElement} box @param {Cell[]} cells in the order of the drawing
 * @param {{description: Description, known: import("./model.js").HeadStatistics|null, statistic?: string, inModel: boolean, isDense: boolean}} how
 */
export function arrange(box, cells, { description, known, statistic, inModel, isDense }) {
  const { heads, layers } = description;
  box.classList.toggle("regard-grid-model", inModel);
  box.classList.toggle("regard-grid-dense", isDense);
  box.style.setProperty("--regard-across", String(heads));
  box.style.setProperty("--regard-down", String(layers));
  const aside = (/** @type {string} */ name, /** @type {string} */ text) => element("span", { class: `regard-grid-${name}`, text, "aria-hidden": "true" });
  const each = heads > 16 ? 5 : 1; // of many columns, every fifth
  const columns = Array.from({ length: heads }, (_, place) => aside("column", place % each ? "" : String(numberOfHead(description, place))));
  const parts = inModel ? [aside("corner", hasLayers(description) ? "Layer" : ""), ...columns] : [];
  for (const [place, { one, option, caption, kept }] of cells.entries()) {
    if (inModel && place % heads === 0) parts.push(aside("layer", String(numberOfLayer(description, one.layer))));
    const texts = captionOf({ name: shortNameOf(one, description), number: statistic && known ? known.of(statistic, one) : null, pattern: known?.patternOf(one) ?? "", kept, inModel, isDense });
    replaced(caption, texts.map(([kind, text]) => element("span", { class: `regard-grid-${kind}`, text })));
    caption.hidden = isDense && inModel;
    option.setAttribute("aria-label", saidOfHead(one, known, description));
    option.dataset.place = String(place);
    parts.push(option);
  }
  replaced(box, parts);
}

/** The controls of the grid, each with what it is set to. @param {State} state @param {{order: string, isDense: boolean, isAlike: boolean}} now */
export function makeControls(state, now) {
  const orders = segments(
    "Order",
    ORDERS.map(({ value, text, said: title }) => ({ value, text, title })),
    now.order,
    (value) => state.set({ grid_order: value === "model" ? null : value }),
  );
  const densities = [
    { value: "labels", text: "With labels", title: "Larger maps, each with what its head is known for" },
    { value: "dense", text: "Dense", title: "All heads on one screen" },
  ];
  const density = segments("Size", densities, now.isDense ? "dense" : "labels", (value) => state.set({ grid_density: value }));
  const shadings = [
    { value: null, text: "Each head", title: "Each map is shaded up to its own largest weight" },
    { value: "alike", text: "All alike", title: "All maps are shaded from 0 to 1" },
  ];
  const shading = segments("Shading", shadings, now.isAlike ? "alike" : null, (value) => state.set({ grid_shading: value }));
  const group = (/** @type {string} */ name, /** @type {Node} */ control) => element("div", { class: "regard-bar-group" }, element("span", { class: "regard-label", text: name, "aria-hidden": "true" }), control);
  return { orders, density, shading, el: [group("Order", orders.el), group("Shade", shading.el), density.el] };
}

/** The colour scale of the maps. @param {Colours} colours */
export function colourBar(colours) {
  const stops = Array.from({ length: 9 }, (_, place) => colours.weight(place / 8));
  const style = { background: `linear-gradient(90deg, ${stops.join(", ")})` };
  const bar = element("span", { class: "regard-grid-scale", "aria-hidden": "true", style });
  const end = element("span", {});
  return {
    el: element("div", { class: "regard-grid-legend" }, element("span", { text: "0" }), bar, end),
    /** @param {boolean} alike */
    show: (alike) => (end.textContent = alike ? "1" : "largest weight of each head"),
  };
}

/** @param {HeadPlace} head @param {Description} description */
function shortNameOf({ layer, head }, description) {
  return `${numberOfLayer(description, layer)} · ${numberOfHead(description, head)}`;
}
