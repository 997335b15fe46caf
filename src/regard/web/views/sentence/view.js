/** Sentence: queries on the left, keys on the right, and lines between them by weight. */
import { segments, toggle } from "../../elements/controls.js";
import { drawn, element, replaced } from "../../elements/elements.js";
import { latestOnly, makeReady } from "../../elements/lifetime.js";
import { maskingOf } from "../../maths/masking.js";
import { isOverLayers, measureOf, saidOfMeasure } from "../../page/measures.js";
import { numberOfHead } from "../../page/state.js";
import { queryUnits, unitOf, unitsOf } from "../../elements/words.js";
import { chosenHeads, gather, gatherRow, takenBySinks } from "./weights.js";
import { matrix } from "../matrix/view.js";
import { pathOf, strokeOf } from "./lines.js";
import { SMALL, inSight, isVisible, orNull, pagedTo, pairOf, pointedWord, rangesOf, shownWord, strongestKey } from "./model.js";
import { captionOf, elsewhereOf, sinkLabel, titleOf } from "./captions.js";
import { sceneOf, tableOf } from "./scene.js";
import { makeSide } from "./side.js";
import { makeRunning } from "./running.js";
import { makeWhichHeads } from "./which_heads.js";

const ROW = 30; // pixels, as in sentence.css
const MAPPED = 400; // tokens up to which the whole map is shown beside

export const sentence = {
  name: "sentence",
  title: "Threads",
  uses: ["layer", "heads", "by", "measure"],
  /** @param {Description} description */
  suits: (description) => description.layers > 0 && description.has?.includes("tile"),
  /** @param {Context} context @returns {Drawn} */
  draw: (context) => new SentencePicture(context),
};

/** @typedef {Awaited<ReturnType<typeof import("./weights.js").gatherRow>>} Row */

/** The words of both sides, the threads between them, and the map beside. */
class SentencePicture {
  /** @type {import("./model.js").Units} */
  #units = { queries: [], keys: [] };
  /** @type {import("./weights.js").Gathered|null} */
  #gathered = null;
  /** @type {{unit: number, row: Row}|null} the selected query's weights on the whole text, if not all of it is visible */
  #farther = null;
  /** @type {import("./model.js").Word|null} */
  #hovered = null;
  /** @type {import("./model.js").Word|null} a word to focus once it is visible */
  #goal = null;
  #first = makeReady();
  ready = this.#first.ready;

  /** @param {Context} context */
  constructor(context) {
    const { source, description, state, colours, announce, lifetime } = context;
    this.source = source;
    this.description = description;
    this.state = state;
    this.colours = colours;
    this.announce = announce;
    this.shift = description.first_query ?? 0;
    this.latest = latestOnly(lifetime);
    this.latestRow = latestOnly(lifetime);
    this.left = this.#side("query", () => this.right.focus(this.#strongestKey() ?? 0));
    this.right = this.#side("key", () => this.left.focus(this.#chosen().query ?? 0));
    this.lines = drawn("svg", { class: "regard-sentence-lines", "aria-hidden": "true", preserveAspectRatio: "none" });
    this.said = element("p", { class: "regard-sentence-said" });
    this.meaning = element("p", { class: "regard-note regard-sentence-meaning", hidden: true });
    this.sinks = toggle("Set sinks aside", !state.get().sinks, (aside) => state.set({ sinks: !aside }));
    const ways = [
      { value: false, text: "Mean" },
      { value: true, text: "Separate" },
    ];
    this.apart = segments("Several heads", ways, Boolean(state.get().sentence_apart), (value) => state.set({ sentence_apart: value }));
    const scales = [
      { value: null, text: "0 to 1", title: "Bars and lines between 0 and 1" },
      { value: "relative", text: "Relative", title: "Bars and lines relative to the largest weight" },
    ];
    this.scale = segments("Scale", scales, state.get().sentence_scale ?? null, (value) => state.set({ sentence_scale: value }));
    const hasHeads = description.has.includes("heads_for") && description.layers * description.heads > 1;
    this.which = hasHeads ? makeWhichHeads({ source, description, lifetime, choose: (layer, head) => state.set({ layer, head, heads: null }) }) : null;
    const isRunning = unitsOf(description, "word").length > SMALL && !description.query_tokens && this.shift === 0;
    this.running = isRunning ? makeRunning({ description, choose: (unit) => this.#choose("query", unit), point: (unit) => this.#choose("key", unit), announce }) : null;
    this.stage = element("div", { class: "regard-sentence-stage" }, this.left.el, element("div", { class: "regard-sentence-middle" }, this.lines), this.right.el);
    this.#layOut(context);
    lifetime.add(state.listen((now, before) => this.#follow(now, before)));
    this.#load();
  }

  /** Controls for the Adjust panel. */
  get adjust() {
    return [this.apart.el, this.scale.el, this.description.sinks?.length ? this.sinks.el : null];
  }

  /** @param {"query"|"key"} side @param {() => void} across */
  #side(side, across) {
    const isQuery = side === "query";
    return makeSide({
      side,
      label: isQuery ? "looks" : "is looked at",
      hint: side,
      hover: (unit) => this.#hover(side, unit),
      choose: (unit) => this.#choose(side, unit),
      walk: (unit) => this.#walk(side, unit),
      across,
      page: (by) => {
        const name = isQuery ? "queries" : "keys";
        const start = pagedTo(rangesOf(this.#units, this.state.get())[name][0], by, this.#units[name].length);
        this.state.set({ [isQuery ? "sentence_rows" : "sentence_columns"]: start });
      },
    });
  }

  /** @param {Context} context */
  #layOut(context) {
    const { description } = context;
    const hasMap = matrix.suits(description) && description.tokens.length <= MAPPED && !description.long;
    const beside = element("div", { class: "regard-sentence-map", hidden: !hasMap });
    const threads = element("div", { class: "regard-sentence-threads" }, this.stage, this.which?.el);
    replaced(context.el, this.said, this.meaning, this.running?.el, element("div", { class: "regard-sentence-body" }, threads, beside));
    if (hasMap) matrix.draw({ ...context, el: beside });
  }

  #measure() {
    return measureOf(this.state.get(), this.description);
  }

  #isSeveral() {
    return chosenHeads(this.state.get()).length > 1 && !isOverLayers(this.#measure());
  }

  #isApart() {
    return Boolean(this.state.get().sentence_apart) && this.#isSeveral();
  }

  #isRelative() {
    return this.state.get().sentence_scale === "relative" || this.#measure() === "norm";
  }

  #queryUnit() {
    return unitOf(this.#units.queries, this.state.get().query);
  }

  /** The selection, or the hovered word. */
  #chosen() {
    return shownWord(this.#hovered, this.#units, this.state.get());
  }

  #masking() {
    return maskingOf(this.description, { layer: this.state.get().layer, measure: this.#measure() });
  }

  /** @param {"query"|"key"} side */
  #list(side) {
    return side === "query" ? this.#units.queries : this.#units.keys;
  }

  /** @param {"query"|"key"} side @param {number|null} unit */
  #hover(side, unit) {
    const token = unit === null ? null : this.#list(side)[unit].first;
    this.state.set({ pointed: token === null ? null : side === "query" ? [token, null] : [null, token] });
  }

  /** @param {"query"|"key"} side @param {number|null} unit */
  #choose(side, unit) {
    this.state.set({ pointed: null });
    this.state.set({ [side]: unit === null ? null : this.#list(side)[unit].first });
    this.announce(this.said.textContent ?? "");
  }

  /** @param {"query"|"key"} side @param {number} to */
  #walk(side, to) {
    const list = this.#list(side);
    const unit = Math.min(Math.max(to, 0), list.length - 1);
    this.state.set({ pointed: null });
    this.state.set({ [side]: list[unit].first });
    if (isVisible(this.#gathered, { side, unit })) this.#focus({ side, unit });
    else this.#goal = { side, unit };
    this.announce(this.said.textContent ?? "");
  }

  /** @param {import("./model.js").Word} word */
  #focus({ side, unit }) {
    (side === "query" ? this.left : this.right).focus(unit);
  }

  #strongestKey() {
    const { query } = this.#chosen();
    return this.#gathered && query !== null ? strongestKey(this.#gathered, query) : null;
  }

  #load() {
    const { description, state, shift } = this;
    const { layer, by } = state.get();
    const units = (this.#units = { queries: queryUnits(description, by), keys: unitsOf(description, by) });
    if (!units.keys.length || !units.queries.length) return;
    const { queries: rows, keys: columns } = rangesOf(units, state.get());
    const asked = { layer, heads: chosenHeads(state.get()), ...units, rows, columns, shift, measure: this.#measure(), words: description.words };
    this.stage.setAttribute("aria-busy", "true");
    this.latest(
      (signal) => gather(this.source, asked, signal),
      (found) => {
        this.#gathered = found;
        if (!pointedWord(state.get().pointed, units, found)) state.set({ pointed: null }); // the list moved below the pointer
        this.left.fill(units.queries, rows, `${by} ${rows}`);
        this.right.fill(units.keys, columns, `${by} ${columns}`);
        this.stage.removeAttribute("aria-busy");
        this.#show();
        this.#loadRow();
        this.#first.done();
        if (this.#goal) this.#focus(this.#goal);
        this.#goal = null;
      },
      (error) => {
        this.said.textContent = error.message;
        this.#first.done();
      },
    );
  }

  /** Whether all keys are in sight. */
  #isWhole() {
    const [first, end] = this.#gathered?.columns ?? [0, 0];
    return end - first === this.#units.keys.length;
  }

  #loadRow() {
    const query = this.#queryUnit();
    this.#farther = null;
    if (!this.#gathered || query < 0 || this.#isWhole()) return;
    if (this.#measure() === "norm") return; // norms of the visible words alone
    const { keys, queries } = this.#units;
    const { layer, by } = this.state.get();
    const asked = { layer, heads: chosenHeads(this.state.get()), query: queries[query].first - this.shift, by, keys, measure: this.#measure() };
    this.latestRow(
      (signal) => gatherRow(this.source, asked, signal),
      (row) => {
        this.#farther = { unit: query, row };
        this.#show();
      },
      () => {},
    );
  }

  #show() {
    const gathered = this.#gathered;
    if (!gathered) return;
    const { state, description } = this;
    const units = this.#units;
    this.#hovered = pointedWord(state.get().pointed, units, gathered);
    const { query, key } = this.#chosen();
    const how = { aside: !state.get().sinks, apart: this.#isApart(), relative: this.#isRelative() };
    const scene = sceneOf(gathered, units, this.#masking(), { query, key, ...how });
    const row = this.#farther && this.#farther.unit === query ? this.#farther.row : null;
    this.#showSides(scene, row);
    this.#drawLines(scene);
    const wholeRow = row ? row.mean : this.#isWhole() ? scene.gets : null;
    const measure = this.#measure();
    const taken = wholeRow && key === null && measure !== "norm" ? takenBySinks(wholeRow, units.keys) : null;
    this.sinks.set(!state.get().sinks, sinkLabel(units.keys, taken, query === null ? null : units.queries[query].text));
    const pair = pairOf(gathered, row ? row.mean : null, units, state.get());
    const { by, layer } = state.get();
    this.which?.show(pair && { ...pair, by, layer, heads: chosenHeads(state.get()), shift: this.shift });
    const asker = this.#queryUnit();
    this.running?.show(units.keys, this.#farther && this.#farther.unit === asker ? this.#farther.row.mean : null, orNull(asker));
    replaced(this.said, captionOf({ query, key, row: row ? row.mean : scene.gets, start: row ? 0 : gathered.columns[0], gives: scene.gives, firstRow: gathered.rows[0], units, aside: !state.get().sinks, measure }));
    this.said.title = this.said.textContent ?? "";
    this.scale.set(this.#isRelative() ? "relative" : null);
    this.scale.el.hidden = !scene.alone || measure === "norm";
    this.apart.el.hidden = !this.#isSeveral();
    this.apart.set(Boolean(state.get().sentence_apart));
    this.meaning.textContent = saidOfMeasure(measure, description);
    this.meaning.hidden = !this.meaning.textContent;
  }

  /** @param {ReturnType<typeof sceneOf>} scene @param {Row|null} row */
  #showSides(scene, row) {
    const { heads, columns } = /** @type {import("./weights.js").Gathered} */ (this.#gathered);
    const { pointed, key } = this.state.get();
    const common = { most: scene.most, largest: scene.largest, heads, colours: this.colours };
    const hovered = this.#hovered;
    const { keys } = this.#units;
    this.left.show({
      ...common,
      weights: scene.gives,
      parts: scene.givesParts,
      masked: scene.maskedQueries,
      chosen: orNull(this.#queryUnit()),
      pointed: hovered?.side === "query" ? hovered.unit : null,
      aside: new Set(),
    });
    this.right.show({
      ...common,
      weights: scene.gets,
      parts: scene.getsParts,
      masked: scene.maskedKeys,
      chosen: orNull(unitOf(keys, key)),
      pointed: hovered && pointed?.[1] !== null ? orNull(unitOf(keys, pointed?.[1] ?? null)) : null,
      aside: scene.aside,
      elsewhere: row && elsewhereOf(row.mean, columns, keys),
    });
  }

  /** @param {{links: import("./lines.js").Link[], alone: boolean, height: number}} scene */
  #drawLines({ links, alone, height }) {
    const { heads } = /** @type {import("./weights.js").Gathered} */ (this.#gathered);
    this.lines.setAttribute("viewBox", `0 0 100 ${height * ROW}`);
    this.lines.style.height = `${height * ROW}px`;
    const paths = links.map((link) => {
      const { width, opacity } = strokeOf(link, alone);
      const stroke = this.#isApart() ? this.colours.head(heads[link.place]) : this.colours.accent;
      return drawn("path", { d: pathOf(link, ROW, 0, 100), "stroke-width": width, "stroke-opacity": opacity, stroke });
    });
    replaced(this.lines, paths);
  }

  /** @param {Chosen} now @param {Chosen} before */
  #follow(now, before) {
    if (now.pointed !== before.pointed) return this.#show();
    const gathered = this.#gathered;
    const changed = (/** @type {string[]} */ names) => names.some((name) => String(now[name]) !== String(before[name]));
    if (changed(["query"]) && gathered && !inSight(now.query, this.#units.queries, gathered.rows)) this.state.set({ sentence_rows: null, sentence_columns: null });
    const { queries, keys } = rangesOf(this.#units, this.state.get());
    const moved = gathered && (String(queries) !== String(gathered.rows) || String(keys) !== String(gathered.columns));
    if (changed(["layer", "head", "heads", "by", "measure"]) || moved) return this.#load();
    if (changed(["query"])) this.#loadRow();
    this.#show();
  }

  table() {
    const gathered = this.#gathered;
    if (!gathered) throw new Error("Nothing is drawn yet.");
    const title = titleOf(this.state.get(), this.#measure(), this.description);
    const heads = gathered.heads.map((head) => numberOfHead(this.description, head));
    return tableOf(gathered, this.#units, this.#masking(), this.#chosen().query, this.#isApart() ? heads : null, title);
  }
}
