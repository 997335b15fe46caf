/** Choosers above every view: layer, heads, words or tokens. */
import { segments, select, stepper, walkable } from "../elements/controls.js";
import { button, element, replaced } from "../elements/elements.js";
import { isOverLayers, measureOf, nameOfMeasure, saidOfMeasure } from "./measures.js";
import { labelOf } from "./roles.js";
import { keptHeads, keptLayers, numberOfHead, numberOfLayer } from "./state.js";

const UNITS = { word: "Words", token: "Tokens" };

/**
 * A view lists its choosers in `uses`: "layer", "head" (one), "heads" (one or several), "by", "measure".
 * @param {State} state @param {Description} description @param {string[]} uses @param {Lifetime} lifetime
 * @param {Colours} colours
 */
export function choosers(state, description, uses, lifetime, colours) {
  const el = element("div", { class: "regard-choosers" });
  const shown = [];
  /** @type {HTMLElement[]} */
  const ofHead = []; // without meaning where all layers are shown together
  const measures = uses.includes("measure") ? (description.measures ?? []) : [];
  if (uses.includes("layer") && description.layers > 1) {
    const kept = keptLayers(description);
    const names = kept.map((layer) => `Layer ${numberOfLayer(description, layer)}`);
    const place = (/** @type {number} */ layer) => kept.indexOf(layer);
    const layers = stepper("Layer", names, place(state.get().layer), (at) => state.set({ layer: kept[at] }));
    lifetime.add(state.listen(({ layer }) => layers.set(place(layer))));
    ofHead.push(layers.el);
  }
  const several = uses.includes("heads");
  if ((several || uses.includes("head")) && description.heads > 1)
    ofHead.push(headChooser(state, description, several, lifetime, colours));
  if (uses.includes("by") && description.words && description.words.length < (description.tokens?.length ?? 0)) {
    const options = /** @type {const} */ (["word", "token"]).map((value) => ({ value, text: UNITS[value] }));
    const by = segments("Words or tokens", options, state.get().by, (chosen) => state.set({ by: chosen }));
    lifetime.add(state.listen((now) => by.set(now.by)));
    shown.push(by.el);
  }
  if (measures.length > 1) {
    const names = measures.map((value) => ({ value, text: nameOfMeasure(value, description) }));
    const chooser = select("Shown", names, measureOf(state.get(), description), (measure) => state.set({ measure }));
    const show = () => {
      const measure = measureOf(state.get(), description);
      chooser.value = measure;
      chooser.title = saidOfMeasure(measure, description);
      for (const one of ofHead) one.hidden = isOverLayers(measure);
    };
    lifetime.add(state.listen(show));
    show();
    shown.push(chooser);
  }
  replaced(el, ofHead, shown);
  return el;
}

/**
 * The heads of a layer as a row of buttons; with `several`, more than one can be on.
 * @param {State} state @param {Description} description @param {boolean} several
 * @param {Lifetime} lifetime @param {Colours} colours
 */
function headChooser(state, description, several, lifetime, colours) {
  const row = element("div", { class: "regard-heads", role: "group" });
  const all = keptHeads(description);
  const buttons = Array.from({ length: description.heads }, (_, head) =>
    button(String(numberOfHead(description, head)), () => pick(head), {
      class: "regard-head",
      "aria-label": `Head ${numberOfHead(description, head)}`,
      disabled: !all.includes(head),
      title: all.includes(head) ? null : "Not kept in this page",
      style: { "--regard-head": colours.head(head), "--regard-on-head": colours.contrast(colours.head(head)) },
    }),
  );
  const many = button("several", switchMany, { class: "regard-head regard-head-many" });
  const every = button("all", () => state.set({ heads: all }), { class: "regard-head regard-head-many" });

  function switchMany() {
    const { head, heads } = state.get();
    state.set(heads ? { heads: null, head: heads.includes(head) ? head : heads[0] } : { heads: [head] });
  }

  /** @param {number} head */
  function pick(head) {
    const { heads } = state.get();
    if (!several || !heads) return state.set({ head, heads: null });
    const kept = heads.includes(head) ? heads.filter((one) => one !== head) : [...heads, head].sort((a, b) => a - b);
    if (kept.length) state.set({ heads: kept, head: kept.includes(head) ? head : state.get().head });
  }

  function show() {
    const { head, heads, sentence_apart } = state.get();
    const on = new Set(several && heads ? heads : [head]);
    row.toggleAttribute("data-several", Boolean(several && heads && sentence_apart)); // a mean has no colours of heads
    row.setAttribute("aria-label", several && heads ? "Heads" : "Head");
    buttons.forEach((button, place) => {
      button.setAttribute("aria-pressed", String(on.has(place)));
      button.tabIndex = place === head ? 0 : -1;
      const label = labelOf(description, state.get().layer, place);
      if (!button.disabled) button.title = label ? `In general: ${label}` : "";
    });
    many.setAttribute("aria-pressed", String(Boolean(heads)));
    every.setAttribute("aria-pressed", String(heads?.length === all.length));
  }
  walkable(row, () => all.map((head) => buttons[head]));
  lifetime.add(state.listen(show));
  show();
  replaced(row, buttons);
  const label = element("span", { class: "regard-label", text: several ? "Heads" : "Head", "aria-hidden": "true" });
  return element("div", { class: "regard-head-chooser" }, label, row, several ? [many, every] : []);
}
