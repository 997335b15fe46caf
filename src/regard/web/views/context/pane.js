/** One side of the comparison: a text shaded by the attention of one of its words, and the words it attends to most. */
import { choosableText, replacedOptions, stepper } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { verbOf } from "../../page/measures.js";
import { printedNumber } from "../../maths/numbers.js";
import { keptHeads, keptLayers, numberOfHead, numberOfLayer } from "../../page/state.js";
import { shortened, sinksOf, unitOf, unitsOf, wordElement } from "../../elements/words.js";
import { gather, gatherRow } from "../sentence/weights.js";
import { barParts } from "../words_in_context/draw.js";
import { paneOf } from "./model.js";

/**
 * @typedef {import("./model.js").Selection & {source: Source, description: Description, measure: Measure}} Shown
 * @typedef {ReturnType<typeof paneOf>} Pane
 */

export class ContextPane {
  /** @type {Shown|null} */
  #shown = null;
  /** @type {Float32Array|null} */
  #weights = null;
  /** @type {{layers: number[], heads: number[], layer: ReturnType<typeof stepper>|null, head: ReturnType<typeof stepper>|null}|null} */
  #choosers = null;

  /**
   * @param {{label: string, colours: Colours, lifetime: Lifetime, set: (chosen: Partial<import("./model.js").Selection>) => void,
   *   text?: Node|null}} options  text: the control for the text, where it can be changed
   */
  constructor({ label, colours, lifetime, set, text = null }) {
    this.label = label;
    this.colours = colours;
    this.set = set;
    this.editor = text;
    this.latest = latestOnly(lifetime);
    this.heading = element("h2", { class: "regard-context-title" });
    this.words = element("div", { class: "regard-context-words", role: "listbox", "aria-label": `${label}: choose a word`, "aria-orientation": "horizontal" });
    this.list = element("ol", { class: "regard-context-bars" });
    this.said = element("p", { class: "regard-context-said" });
    this.note = element("p", { class: "regard-note", role: "status" });
    this.el = element("section", { class: "regard-context-pane", "aria-label": label }, this.heading, this.words, this.said, this.list, this.note);
    /** Layer and head, for the Adjust panel. */
    this.choosers = element("div", { class: "regard-choosers" });
    const here = () => Math.max(unitOf(this.#units(), this.#shown?.query ?? null), 0);
    choosableText(this.words, { here, count: () => this.#units().length, choose: (place) => set({ query: this.#units()[place].first }) });
  }

  #units() {
    return this.#shown ? unitsOf(this.#shown.description, "word") : [];
  }

  /** @param {Shown} shown */
  show(shown) {
    const isOther = this.#shown?.description !== shown.description;
    this.#shown = shown;
    if (isOther) {
      this.#weights = null;
      this.#showTitle(shown.description);
      this.#showChoosers(shown);
    }
    this.#draw();
    this.latest(
      (signal) => this.#row(shown, signal),
      ({ mean }) => {
        this.#weights = mean;
        this.note.textContent = "";
        this.#draw();
      },
      (error) => (this.note.textContent = error.message),
    );
  }

  /** @param {Shown} shown @param {AbortSignal} signal @returns {Promise<{mean: Float32Array}>} */
  #row({ source, description, layer, head, query, measure }, signal) {
    const [units, shift] = [this.#units(), description.first_query ?? 0];
    if (measure === "weight") return gatherRow(source, { layer, heads: [head], query: query - shift, by: "word", keys: units }, signal);
    const asked = { queries: [units[unitOf(units, query)]], keys: units, rows: /** @type {[number, number]} */ ([0, 1]), columns: /** @type {[number, number]} */ ([0, units.length]) };
    return gather(source, { layer, heads: [head], ...asked, shift, measure, words: description.words }, signal);
  }

  /** @param {Description} description */
  #showTitle(description) {
    const model = description.model && description.model !== "given" ? ` ${description.model}` : "";
    const text = [element("bdi", { text: shortened(description.text || description.title, 90) }), element("span", { class: "regard-quiet", text: model })];
    replaced(this.heading, element("span", { class: "regard-label", text: `${this.label} ` }), this.editor ?? text);
  }

  /** @param {Shown} shown */
  #showChoosers({ description, layer, head }) {
    const [layers, heads] = [keptLayers(description), keptHeads(description)];
    const chooser = (/** @type {string} */ name, /** @type {number[]} */ kept, /** @type {string[]} */ names, /** @type {number} */ at, /** @type {(value: number) => void} */ choose) =>
      kept.length > 1 ? stepper(`${this.label} ${name}`, names, Math.max(kept.indexOf(at), 0), (place) => choose(kept[place])) : null;
    this.#choosers = {
      layers,
      heads,
      layer: chooser("layer", layers, layers.map((one) => `${this.label}: layer ${numberOfLayer(description, one)}`), layer, (one) => this.set({ layer: one })),
      head: chooser("head", heads, heads.map((one) => `${this.label}: head ${numberOfHead(description, one)}`), head, (one) => this.set({ head: one })),
    };
    replaced(this.choosers, this.#choosers.layer?.el, this.#choosers.head?.el);
  }

  #draw() {
    if (!this.#shown) return;
    const { layer, head, measure } = this.#shown;
    const pane = paneOf(this.#shown, this.#weights);
    this.#choosers?.layer?.set(this.#choosers.layers.indexOf(layer));
    this.#choosers?.head?.set(this.#choosers.heads.indexOf(head));
    replacedOptions(this.words, pane.words.map((word) => this.#wordOf(word, word.place === pane.own)), pane.isCut ? " …" : null);
    replaced(this.said, wordElement(pane.name, { class: "regard-word" }), pane.bars.length ? `${verbOf(measure)}(itself and sinks left out)` : "");
    replaced(this.list, pane.bars.map(barOf));
    const { listed, several } = sinksOf(pane.sinks);
    if (pane.taken !== null && pane.sinks.length) this.note.textContent = `${listed} ${several ? "take" : "takes"} ${printedNumber(pane.taken, 2)}.`;
  }

  /** @param {Pane["words"][number]} word @param {boolean} isOwn */
  #wordOf({ place, unit, weight, share, isHidden }, isOwn) {
    const colour = this.colours.shade(share);
    const said = weight === null ? "" : isHidden ? ", masked" : `, ${printedNumber(weight, 2)}`;
    return wordElement(unit.text, {
      class: "regard-context-word",
      role: "option",
      "data-place": place,
      "aria-selected": String(isOwn),
      "aria-label": `${shortened(unit.text, 40)}${said}`,
      tabindex: isOwn ? "0" : "-1",
      "data-special": unit.special || null,
      title: weight === null ? null : isHidden ? "masked" : printedNumber(weight, 3),
      style: { background: colour, color: this.colours.contrast(colour) },
    });
  }
}

/** @param {Pane["bars"][number]} bar */
function barOf({ text, weight, share }) {
  return element("li", { class: "regard-context-bar" }, barParts(text, share, printedNumber(weight, 2)));
}
