/** Grid: all heads of all layers as small maps, in model order or sorted by a statistic. */
import { element, replaced } from "../../elements/elements.js";
import { printedWeight } from "../../maths/numbers.js";
import { isKept, nameOfHead } from "../../page/state.js";
import { shortened } from "../../elements/words.js";
import { makeAbout } from "./about.js";
import { arrange, colourBar, makeCells, makeControls } from "./draw.js";
import { listenToMaps } from "./input.js";
import { makeMaps } from "./maps.js";
import { askStatistics, isDense, orderOf, ordered, saidOfCell, tableOfStatistics } from "./model.js";

const TITLE = "All heads: layer · head";

export const grid = {
  name: "grid",
  title: "Small maps",
  uses: [],
  /** @param {Description} description */
  suits: (description) => (description.has ?? []).includes("thumbnails") && description.layers * description.heads > 1,
  /** @param {Context} context @returns {Drawn} */
  draw: (context) => new GridPicture(context),
};

/** All heads as small maps, and the one that is pointed at. */
class GridPicture {
  /** @type {import("./model.js").HeadStatistics|null} */
  known = null; // once loaded
  about = "One map per head: queries run down, keys across. Point at a map for its words; tap one to choose its head.";

  /** @param {Context} context */
  constructor(context) {
    const { el, description, state, colours, lifetime } = context;
    this.lifetime = lifetime;
    this.description = description;
    this.state = state;
    this.note = element("p", { class: "regard-note regard-grid-said", role: "status" });
    this.box = element("div", { class: "regard-grid-box", tabindex: "0", role: "listbox", "aria-label": "Heads as small maps" });
    this.tip = element("div", { class: "regard-grid-tip", "aria-hidden": "true", hidden: true });
    this.cells = makeCells(description); // in the order of the model
    this.order = this.cells.map(({ one }) => one); // of the drawing
    this.maps = makeMaps({ ...context, came: (layer) => this.#layerCame(layer), failed: (error) => this.#fail(error) });
    this.card = makeAbout(context, this.maps, () => this.#isAlike());
    this.controls = makeControls(state, { order: orderOf(state.get()).value, isDense: this.#isDense(), isAlike: this.#isAlike() });
    this.adjust = this.controls.el;
    this.legend = colourBar(colours);
    replaced(el, this.note, element("div", { class: "regard-grid-body" }, element("div", { class: "regard-grid-frame" }, this.legend.el, this.box, this.tip), this.card.el));
    this.#listen();
    this.legend.show(this.#isAlike());
    this.#arrange();
    const take = (/** @type {import("./model.js").HeadStatistics} */ known) => {
      this.known = known;
      this.#arrange();
    };
    askStatistics(context, take, (error) => this.#fail(error));
  }

  #listen() {
    const { lifetime, maps, box, state } = this;
    const observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) if (entry.isIntersecting) maps.want(Number(/** @type {HTMLElement} */ (entry.target).dataset.layer));
      },
      { rootMargin: "240px" },
    );
    lifetime.add(() => observer.disconnect());
    for (const { option } of this.cells) observer.observe(option);
    const meanings = {
      choose: (/** @type {number} */ place) => isKept(this.order[place], this.description) && state.set({ ...this.order[place], heads: null }),
      point: (/** @type {number} */ place) => this.card.show(this.order[place], this.known),
      leave: () => {
        this.tip.hidden = true;
        this.card.show(this.#chosen(), this.known);
      },
      over: (/** @type {number|null} */ place, /** @type {PointerEvent} */ event) => this.#showTip(place, event),
      focus: (/** @type {number} */ place) => this.#focus(place),
      across: () => (box.classList.contains("regard-grid-model") ? this.description.heads : getComputedStyle(box).gridTemplateColumns.split(" ").length),
      count: this.cells.length,
    };
    listenToMaps(box, meanings, lifetime);
    lifetime.add(state.listen((now, before) => this.#follow(now, before)));
  }

  /** @param {Error} error */
  #fail(error) {
    this.note.textContent = error.message;
  }

  #isDense() {
    return isDense(this.state.get(), this.cells.length);
  }

  #isAlike() {
    return this.state.get().grid_shading === "alike";
  }

  #chosen() {
    const { layer, head } = this.state.get();
    return { layer, head };
  }

  /** @param {HeadPlace} one */
  #cellOf({ layer, head }) {
    return this.cells[layer * this.description.heads + head];
  }

  #arrange() {
    const { description, known } = this;
    const { statistic, down, value, said: text } = orderOf(this.state.get());
    const all = this.cells.map(({ one }) => one);
    this.order = ordered(all, statistic ? known?.arrays[statistic] : undefined, down);
    const said = statistic && !known ? "Loading statistics…" : statistic ? text : "";
    const hasLabels = !this.#isDense() && description.known && known && all.some((one) => known.patternOf(one));
    this.note.textContent = [said, hasLabels ? `Labels: in general (${description.known?.treebank}), not measured in this text.` : ""].filter(Boolean).join(" ");
    arrange(this.box, this.order.map((one) => this.#cellOf(one)), { description, known, statistic, inModel: value === "model" || !known, isDense: this.#isDense() });
    this.#mark();
  }

  #mark() {
    const { layer, head } = this.#chosen();
    for (const { one, option } of this.cells) {
      const chosen = one.layer === layer && one.head === head;
      option.setAttribute("aria-selected", String(chosen));
      option.tabIndex = chosen ? 0 : -1;
    }
    this.card.show({ layer, head }, this.known);
  }

  /** @param {number} place */
  #focus(place) {
    for (const { option } of this.cells) option.tabIndex = -1;
    const { option } = this.#cellOf(this.order[place]);
    option.tabIndex = 0;
    option.focus();
  }

  /** @param {number} layer */
  #layerCame(layer) {
    for (const { one, canvas } of this.cells) if (one.layer === layer) this.maps.draw(canvas, one.layer, one.head, this.#isAlike());
    if (this.maps.sampled(layer)) this.note.textContent = `Maps from sampled rows (${this.maps.sampled(layer)}).`;
    if (this.state.get().layer === layer) this.card.show(this.#chosen(), this.known);
  }

  #shade() {
    for (const { one, canvas } of this.cells) this.maps.draw(canvas, one.layer, one.head, this.#isAlike());
    this.legend.show(this.#isAlike());
    this.card.again();
  }

  /** The words and the weight under the pointer. @param {number|null} place @param {PointerEvent} event */
  #showTip(place, { clientX, clientY }) {
    const { tip, description } = this;
    const one = place === null ? null : this.order[place];
    const over = one && this.#cellOf(one).canvas.getBoundingClientRect();
    const [across, down] = over ? [(clientX - over.left) / over.width, (clientY - over.top) / over.height] : [-1, -1];
    const inside = across >= 0 && across < 1 && down >= 0 && down < 1;
    const cell = one && inside ? this.maps.at(one.layer, one.head, across, down) : null;
    tip.hidden = !cell;
    if (!cell || !one) return;
    const { query, key, weight } = saidOfCell(cell, description, one.layer, printedWeight);
    replaced(
      tip,
      element("b", { text: `${shortened(query, 18)} → ${shortened(key, 18)}` }),
      element("span", { text: weight }),
      element("span", { class: "regard-quiet", text: nameOfHead(one, description) }),
    );
    const frame = /** @type {HTMLElement} */ (tip.parentElement).getBoundingClientRect();
    const left = Math.min(clientX - frame.left + 14, frame.width - tip.offsetWidth - 4);
    tip.style.transform = `translate(${Math.max(0, left)}px, ${clientY - frame.top + 18}px)`;
  }

  /** @param {Chosen} now @param {Chosen} before */
  #follow(now, before) {
    if (now.grid_order !== before.grid_order || now.grid_density !== before.grid_density) {
      this.controls.orders.set(orderOf(now).value);
      this.controls.density.set(this.#isDense() ? "dense" : "labels");
      this.#arrange();
    } else if (now.grid_shading !== before.grid_shading) {
      this.controls.shading.set(now.grid_shading ?? null);
      this.#shade();
    } else if (now.layer !== before.layer || now.head !== before.head) this.#mark();
  }

  table() {
    return tableOfStatistics(this.order, this.known, this.description, TITLE);
  }
}
