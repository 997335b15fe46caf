/** In context: one word in two texts side by side, and how its vector moves apart, layer by layer. */
import { labelled, optionRow, uniqueId } from "../../elements/controls.js";
import { element, focusedBeside, replaced } from "../../elements/elements.js";
import { latestOnly, makeReady } from "../../elements/lifetime.js";
import { quoted } from "../../page/provenance.js";
import { numberOfLayer } from "../../page/state.js";
import { printable, unitOf, unitsOf } from "../../elements/words.js";
import { movesChart, movesTable } from "./chart.js";
import { PAIRS, comparedText, movesOf, queryHere, saidOfMoves, selectionThere } from "./model.js";
import { measureOf } from "../../page/measures.js";
import { ContextPane } from "./pane.js";

const QUICK = 250; // milliseconds after the last key
const WIDEST = 860; // pixels of the chart
const OWN = ["layer", "head", "query", "measure", "context_text", "context_model", "context_layer", "context_head", "context_word"];

export const inContext = {
  name: "context",
  title: "In context",
  uses: ["measure"],
  /** @param {Description} description */
  suits: (description) => description.layers > 0 && description.has?.includes("row") && !description.query_tokens,
  /** @param {Context} context @returns {Drawn} */
  draw: (context) => new ContextPicture(context),
};

class ContextPicture {
  #first = makeReady();
  ready = this.#first.ready;
  #stopWaiting = () => {};
  /** @type {Other|null} the reading on the right; null: the same as on the left */
  #other = null;
  #asked = ""; // text and model of `#other`
  /** @type {{cosine: number, distance: number}[]|null} */
  #moves = null;
  #width = 0;
  compared = ""; // the two words, for exports

  /** @param {Context} context */
  constructor({ el, source, description, state, colours, announce, lifetime, services }) {
    this.source = source;
    this.description = description;
    this.state = state;
    this.colours = colours;
    this.announce = announce;
    this.lifetime = lifetime;
    this.services = services;
    this.#other = services.beside ?? null;
    this.latest = latestOnly(lifetime);
    this.latestMoves = latestOnly(lifetime);
    const one = services.read || this.#other ? "" : " This page holds one text: compare two of its words.";
    this.about = `The same word gets another vector in another text: every layer adds what it has looked up.${one}`;
    const id = uniqueId("text");
    const typed = () => this.#typed();
    this.input = element("input", { id, type: "text", dir: "auto", autocomplete: "off", placeholder: "Another text with this word", oninput: typed });
    const editor = services.read ? [element("label", { for: id, class: "regard-unseen", text: "Text on the right" }), this.input] : null;
    this.model = element("select", { class: "regard-select", onchange: typed });
    this.models = labelled("Model on the right", this.model);
    this.models.hidden = true;
    this.left = new ContextPane({ label: "Here", colours, lifetime, set: (chosen) => state.set(chosen) });
    this.right = new ContextPane({ label: "There", colours, lifetime, set: (chosen) => this.#setRight(chosen), text: editor && element("div", { class: "regard-context-editor" }, editor) });
    this.adjust = [this.left.choosers, this.right.choosers, this.models];
    this.problem = element("p", { class: "regard-error", role: "alert", hidden: true });
    this.said = element("p", { class: "regard-context-moved" });
    this.chart = element("div", { class: "regard-context-moves" });
    this.numbers = element("div");
    const heading = element("h2", { class: "regard-arch-heading", text: "The word's vector, layer by layer" });
    this.vectors = element("section", { "aria-label": "How far the vectors move apart" }, heading, this.said, this.chart, this.numbers);
    const examples = optionRow("Try", PAIRS.map(({ name }) => name), -1, (place) => this.#openPair(PAIRS[place]));
    replaced(el, services.read && services.show ? examples.el : null, this.problem, element("div", { class: "regard-context-panes" }, this.left.el, this.right.el, this.vectors));
    this.#begin();
  }

  #begin() {
    const { lifetime, services, state } = this;
    lifetime.add(() => this.#other !== services.beside && this.#other?.close());
    lifetime.widths(this.vectors, (width) => {
      this.#width = Math.min(WIDEST, Math.floor(width));
      this.#drawMoves();
    });
    if (services.read) services.models?.().then((names) => !lifetime.ended && this.#showModels(names), () => {});
    lifetime.add(state.listen(() => this.#load(), OWN));
    this.#load();
  }

  /** @param {string[]} names */
  #showModels(names) {
    const all = [...new Set([this.description.model, ...names])];
    replaced(this.model, all.map((name) => element("option", { value: name, text: name })));
    this.model.value = this.#wanted().model;
    this.models.hidden = all.length < 2;
  }

  #wanted() {
    const { context_text: text, context_model: model } = this.state.get();
    return { text: text ?? comparedText(this.description.text), model: model ?? this.description.model };
  }

  #typed() {
    this.#stopWaiting();
    this.#stopWaiting = this.lifetime.after(QUICK, () =>
      this.state.set({
        context_text: this.input.value === comparedText(this.description.text) ? null : this.input.value,
        context_model: this.model.value === this.description.model ? null : this.model.value || null,
        context_word: null,
      }),
    );
  }

  /** @param {typeof PAIRS[0]} pair */
  #openPair(pair) {
    this.state.set({ context_text: null, context_word: null, context_layer: null, context_head: null });
    if (this.description.text === pair.texts[0]) this.state.set({ query: this.description.start?.query ?? null });
    else this.services.show?.(pair.texts[0]);
  }

  /** The reading on the right. */
  #there() {
    return this.#other ?? { source: this.source, description: this.description };
  }

  #queryHere() {
    return queryHere(this.state.get().query, this.description, this.#other?.description ?? null);
  }

  /** The words that are compared. */
  #words() {
    const units = unitsOf(this.description, "word");
    const here = units[unitOf(units, this.#queryHere())];
    const { description: of } = this.#there();
    const there = selectionThere(this.state.get(), here?.text ?? null, of, Boolean(this.#other));
    const unitsThere = unitsOf(of, "word");
    return { here, there, word: unitsThere[unitOf(unitsThere, there.query)] };
  }

  /** @param {Partial<import("./model.js").Selection>} chosen */
  #setRight({ layer, head, query }) {
    if (layer !== undefined) this.state.set({ context_layer: layer });
    if (head !== undefined) this.state.set({ context_head: head });
    if (query !== undefined) this.state.set({ context_word: String(query) });
  }

  /** Reads the text on the right, where it is another one. */
  #load() {
    const { description, input, services } = this;
    const { text, model: name } = this.#wanted();
    const key = text.trim() && (text !== description.text || name !== description.model) ? `${name}\n${text}` : "";
    if (input.value !== text && focusedBeside(input) !== input) input.value = text;
    const read = services.read;
    if (!read || key === this.#asked) return this.#show();
    this.#asked = key;
    if (!key) return this.#setOther(null);
    this.latest(
      (signal) => read(text, { model: name, signal }),
      (found) => this.#setOther(found),
      (error) => {
        this.problem.hidden = false;
        this.problem.textContent = error.message;
        this.#show();
      },
    );
  }

  /** @param {Other|null} other */
  #setOther(other) {
    if (this.#other !== this.services.beside) this.#other?.close();
    this.#other = other;
    this.problem.hidden = true;
    this.#show();
  }

  #show() {
    const { source, description, state } = this;
    const { layer, head } = state.get();
    const there = this.#there();
    this.left.show({ source, description, layer, head, query: this.#queryHere(), measure: measureOf(state.get(), description) });
    this.right.show({ ...there, ...this.#words().there, measure: measureOf(state.get(), there.description) });
    this.#loadMoves();
    this.#first.done();
  }

  #loadMoves() {
    const { description, source, said } = this;
    const { description: of, source: ask } = this.#there();
    const { here: one, word: two } = this.#words();
    this.compared = one && two ? `${printable(one.text)} with ${printable(two.text)} in ${quoted(printable(of.text))}` : "";
    this.vectors.hidden = !description.has.includes("states") || !of.has.includes("states") || !one || !two;
    if (this.vectors.hidden) return;
    const tokens = (/** @type {TokenRange} */ { first, last }) => Array.from({ length: last - first }, (_, piece) => first + piece);
    this.latestMoves(
      (signal) => Promise.all([source.ask("states", { tokens: tokens(one) }, { signal }), ask.ask("states", { tokens: tokens(two) }, { signal })]),
      (found) => {
        const [here, there] = found.map(({ arrays }) => arrays.state);
        this.#moves = description.model === of.model ? movesOf(here.toFloat32(), there.toFloat32(), here.shape, there.shape) : null;
        said.textContent = this.#moves ? saidOfMoves(this.#moves, one.text, two.text, !this.#other) : "The two texts were read by different models, whose vectors cannot be compared: compare the attention above.";
        this.#drawMoves();
        this.announce(said.textContent);
      },
      (error) => (said.textContent = error.message),
    );
  }

  #drawMoves() {
    const moves = this.#moves;
    replaced(this.chart, moves && this.#width > 120 ? movesChart(moves, this.#width, this.colours, this.state.get().layer) : []);
    replaced(this.numbers, moves ? movesTable(moves) : []);
  }

  /** Of no measure. */
  origin() {
    return { source: printable(this.description.source ?? this.description.model), compared: this.compared };
  }

  /** @returns {Table} */
  table() {
    const state = (/** @type {number} */ place) => (place ? `after layer ${numberOfLayer(this.description, place - 1)}` : "before the first layer");
    return {
      title: this.said.textContent ?? "",
      columns: ["state", "cosine", "distance"],
      rows: (this.#moves ?? []).map(({ cosine, distance }, place) => [state(place), cosine, distance]),
    };
  }
}
