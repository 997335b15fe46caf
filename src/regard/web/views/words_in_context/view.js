/** Words in context: attention given and received by a word, entropy along the text, and the strongest links. */
import { toggle } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { latestOnly, makeReady } from "../../elements/lifetime.js";
import { maskingOf } from "../../maths/masking.js";
import { printedNumber } from "../../maths/numbers.js";
import { numberOfHead, numberOfLayer } from "../../page/state.js";
import { printable, queryUnits, unitOf, unitsOf, wordElement } from "../../elements/words.js";
import { sinkLabel } from "../sentence/captions.js";
import { chosenHeads, gatherRow } from "../sentence/weights.js";
import { makeAlong } from "./along.js";
import { makeBars, makeText } from "./draw.js";
import { makeLinks } from "./links.js";
import { barsOf, rowsOf, shownUnit, textOf } from "./model.js";
import { gatherAlong, gatherReceived } from "./weights.js";

const LINKS = 40;

export const wordsInContext = {
  name: "words",
  title: "Words",
  uses: ["layer", "heads", "by"],
  /** @param {Description} description */
  suits: (description) => description.layers > 0 && description.has?.includes("along"),
  /** @param {Context} context @returns {Drawn} */
  draw: (context) => new WordsPicture(context),
};

class WordsPicture {
  /** @type {Unit[]} */
  #units = [];
  /** @type {Unit[]} */
  #queries = [];
  /** @type {import("./model.js").Along|null} */
  #along = null;
  /** @type {import("./model.js").AttentionOfWord|null} */
  #word = null;
  #first = makeReady();
  ready = this.#first.ready;
  about = "Tap a word: what it looks at, and which words look at it.";

  /** @param {Context} context */
  constructor({ el, source, description, state, colours, announce, lifetime }) {
    this.source = source;
    this.description = description;
    this.state = state;
    this.announce = announce;
    this.shift = description.first_query ?? 0;
    this.apartWords = Boolean(description.query_tokens);
    this.askAlong = latestOnly(lifetime);
    this.askWord = latestOnly(lifetime);
    this.askLinks = latestOnly(lifetime);
    const choose = (/** @type {number} */ place) => this.#choose(place);
    this.text = makeText({ colours, here: () => this.#shownUnit(), count: () => this.#units.length, choose });
    this.gives = makeBars(choose);
    this.receives = makeBars((place) => choose(this.#unitOfQuery(place)));
    this.received = makeAlong({ label: "Received", kind: "bars", unit: "", choose, colours });
    this.entropy = makeAlong({ label: "Entropy of each word's attention", kind: "line", unit: " nats", choose: (place) => choose(this.#unitOfQuery(place)), colours });
    this.links = makeLinks((query, key) => state.set({ query, key }));
    this.note = element("p", { class: "regard-note", hidden: true });
    this.itself = toggle("Include words' attention to themselves", Boolean(state.get().words_itself), (on) => state.set({ words_itself: on }));
    this.sinks = toggle("Set sinks aside", !state.get().sinks, (aside) => state.set({ sinks: !aside }));
    this.sinks.el.hidden = !description.sinks?.length;
    this.adjust = [this.sinks.el, this.itself.el];
    this.#layOut(el);
    lifetime.add(state.listen((now, before) => this.#follow(now, before)));
    this.#load();
  }

  /** @param {HTMLElement} el */
  #layOut(el) {
    const panel = (/** @type {string} */ title, /** @type {HTMLElement[]} */ ...parts) =>
      element("section", { class: "regard-words-panel" }, element("h2", { class: "regard-words-heading", text: title }), parts);
    replaced(
      el,
      this.text.el,
      this.note,
      element(
        "div",
        { class: "regard-words-columns" },
        this.gives.el,
        this.receives.el,
        panel("Along the text", this.received.el, this.entropy.el),
        panel("Strongest links", element("div", { class: "regard-wide" }, this.links.el)),
      ),
    );
  }

  /** @param {number} place */
  #choose(place) {
    const unit = this.#units[place];
    if (!unit) return;
    this.state.set({ query: unit.first });
    this.announce(`${printable(unit.text)}: receives ${this.#along ? printedNumber(this.#along.received[place], 2) : ""}`);
  }

  /** The word of a query, which differs where queries are other words than keys. @param {number} place */
  #unitOfQuery(place) {
    return this.apartWords ? place : unitOf(this.#units, this.#queries[place].first);
  }

  #shownUnit() {
    return shownUnit(this.#units, this.state.get().query, this.#along);
  }

  /** @param {Error} error */
  #fail(error) {
    this.note.hidden = false;
    this.note.textContent = error.message;
    this.#first.done();
  }

  #load() {
    const { layer, by } = this.state.get();
    const units = (this.#units = unitsOf(this.description, by));
    const queries = (this.#queries = queryUnits(this.description, by));
    this.askAlong(
      (signal) => gatherAlong(this.source, { layer, heads: chosenHeads(this.state.get()), units, queries, shift: this.shift }, signal),
      (found) => {
        this.#along = found;
        this.note.hidden = !found.sampled;
        this.note.textContent = found.sampled ? `From ${found.sampled}.` : "";
        this.#show();
        this.#loadWord();
      },
      (error) => this.#fail(error),
    );
    this.#loadLinks();
  }

  #loadLinks() {
    const { layer, sinks, words_itself: itself } = this.state.get();
    this.askLinks(
      (signal) => this.source.ask("links", { layer, heads: chosenHeads(this.state.get()), count: LINKS, itself: Boolean(itself), sinks }, { signal }),
      ({ arrays }) => {
        const links = Array.from(arrays.weight.toFloat32(), (weight, place) => {
          const [query, key] = [arrays.query.data[place] + (this.apartWords ? 0 : this.shift), arrays.key.data[place]];
          return { query, key, weight, distance: Math.abs(query - key) };
        });
        this.links.show(links, this.#units, this.#queries);
      },
      (error) => this.#fail(error),
    );
  }

  #loadWord() {
    const place = this.#shownUnit();
    if (place < 0) return;
    const { source, shift } = this;
    const { layer, by } = this.state.get();
    const [units, queries, heads] = [this.#units, this.#queries, chosenHeads(this.state.get())];
    const key = units[place];
    const asker = queries.find((unit) => unit.first === key.first);
    this.askWord(
      async (signal) => {
        const [row, column] = await Promise.all([
          asker ? gatherRow(source, { layer, heads, query: asker.first - shift, by, keys: units }, signal) : null,
          gatherReceived(source, { layer, heads, key, queries, shift }, signal),
        ]);
        return { place, row, column };
      },
      (found) => {
        this.#word = found;
        this.#showWord();
        this.#first.done();
      },
      (error) => this.#fail(error),
    );
  }

  #show() {
    const along = this.#along;
    if (!along) return;
    const [place, aside] = [this.#shownUnit(), !this.state.get().sinks];
    this.text.show(textOf({ units: this.#units, along, chosen: place, aside }), place);
    this.received.show(along.received, this.#units, place);
    this.entropy.show(along.entropy, this.#queries, unitOf(this.#queries, this.#units[place]?.first ?? null));
    this.sinks.set(aside, sinkLabel(this.#units, null, null));
    this.itself.set(Boolean(this.state.get().words_itself));
  }

  #showWord() {
    const word = this.#word;
    if (!word) return;
    const { given, taken, most } = barsOf({ units: this.#units, queries: this.#queries, word, aside: !this.state.get().sinks });
    const name = () => wordElement(this.#units[word.place].text, { class: "regard-word" }, 18);
    const total = element("span", { class: "regard-words-total", text: this.#along ? printedNumber(this.#along.received[word.place], 2) : "" });
    this.gives.show([name(), " looks at"], given, most);
    this.receives.show([name(), " receives ", total, " in all, from"], taken, most);
  }

  /** @param {Chosen} now @param {Chosen} before */
  #follow(now, before) {
    const changed = (/** @type {string[]} */ names) => names.some((name) => String(now[name]) !== String(before[name]));
    if (changed(["layer", "head", "heads", "by"])) return this.#load();
    if (changed(["sinks", "words_itself"])) this.#loadLinks();
    this.#show();
    if (changed(["query"])) this.#loadWord();
    else this.#showWord();
  }

  /** @returns {Table} */
  table() {
    const { description, apartWords } = this;
    if (!this.#along) throw new Error("Nothing is drawn yet.");
    const { layer } = this.state.get();
    const heads = chosenHeads(this.state.get()).map((head) => numberOfHead(description, head));
    const name = this.#word ? printable(this.#units[this.#word.place].text).slice(0, 40) : "";
    const masking = maskingOf(description, { layer });
    const rows = rowsOf({ units: this.#units, queries: this.#queries, along: this.#along, word: this.#word, masking, apartWords });
    return { title: `Layer ${numberOfLayer(description, layer)}, heads ${heads.join(", ")}`, columns: ["word", "received", "entropy", "distance", `given by ${name}`], rows };
  }
}
