/** Matrix: every weight of one head, from three words with numbers in the cells to a map of 100,000 tokens. */
import { element, replaced } from "../../elements/elements.js";
import { maskingOf } from "../../maths/masking.js";
import { measureOf, nameOfMeasure } from "../../page/measures.js";
import { printedWeight } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";
import { makeBar } from "./bar.js";
import { drawFrame, drawnAt } from "./draw.js";
import { makeExact } from "./exact.js";
import { drawsAs } from "../../page/picture.js";
import { matrixSvg, matrixTable, strongestIn } from "./figure.js";
import { LARGEST_CELL, WHOLE, cellAt, cellsShown, following, isHidden, levelFor, panned, regionView, smallestCell, wholeTile, wholeView, within, zoomed } from "./geometry.js";
import { aroundRegion, between, frameOf, inside, layoutFor, scaleFor } from "./model.js";
import { colourOf } from "./pixels.js";
import { makeMinimap } from "./minimap.js";
import { makeProgress } from "./progress.js";
import { listenToInput } from "./input.js";
import { makeLegend, makeReadout, makeStrongest, queriesOf } from "./readout.js";
import { nameOfMatrix, regionOfText, saidOfCells, saidOfPool, saidOfSampling, titleOfMatrix } from "./captions.js";
import { smallTable } from "./small_table.js";
import { coarseness, makeTiles } from "./tiles.js";

const SETTLED = 160; // milliseconds without movement after which the scale and the lists update

export const matrix = {
  name: "matrix",
  title: "Map",
  uses: ["layer", "head", "measure"],
  /** @param {Description} description */
  suits: (description) => (description.has ?? []).includes("tile") && (description.tokens?.length ?? 0) > 0,
  /** @param {Context} context @returns {Drawn} */
  draw: (context) => new MatrixPicture(context),
};

/** The map of one head, the part of it that is shown, and what stands beside it. */
class MatrixPicture {
  about = "Every weight of this head: rows look, columns are looked at. Tap a cell.";
  #plot = { left: 0, top: 0, width: 0, height: 0 };
  #ratio = 1;
  /** @type {import("./geometry.js").Placed|null} */
  #view = null;
  /** @type {import("./model.js").Cell|null} */
  #cursor = null;
  #byKeys = false;
  /** @type {number[]|null} */
  #draft = null; // a region being selected
  /** @type {import("./model.js").Cell|null} */
  #anchor = null; // start of a region selected by keyboard
  #scaleOf = ""; // what the upper end of the scale was chosen for
  #said = "";
  #awaited = false;
  #focused = false;
  #settledOnce = false;
  #settling = () => {};
  /** @type {string|null} */
  #ownView = null; // written to the address by this view

  /** @param {Context} context */
  constructor({ el, source, description, state, colours, announce, lifetime }) {
    this.lifetime = lifetime;
    this.description = description;
    this.state = state;
    this.colours = colours;
    this.announce = announce;
    this.queryTokens = queriesOf(description);
    const whole = (this.whole = { rows: this.queryTokens.length, columns: description.tokens.length });
    /** @type {import("./pixels.js").Scale} */
    this.scale = { top: 1, colour: colourOf(state.get(), description), colours };
    this.canvas = element("canvas", { class: "regard-matrix-canvas", "aria-hidden": "true" });
    this.stage = element("div", { class: "regard-matrix-stage", tabindex: "0", role: "application", "aria-roledescription": "matrix" }, this.canvas);
    this.drawing = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d", { alpha: false }));
    this.readout = makeReadout(description);
    this.legend = makeLegend();
    this.strongest = makeStrongest(description, (rows, columns) => this.#goTo(rows, columns));
    this.note = element("p", { class: "regard-matrix-note", role: "status" });
    this.asTable = smallTable();
    this.bar = makeBar(state, this.#buttons(), Math.max(whole.rows, whole.columns), colourOf({ colour: null }, description));
    this.adjust = [this.bar.el];
    this.minimap = makeMinimap(whole, (row, column) => this.#center(row, column));
    this.progress = makeProgress({ source, description, lifetime });
    this.tiles = makeTiles({ ask: source.ask, whole, came: () => this.#tileCame(), failed: (error) => this.#say(error.message, true) });
    this.exact = makeExact({ source, whole, lifetime, whose: () => this.#whose(), came: () => this.#schedule() });
    const panel = element("div", { class: "regard-matrix-panel" }, this.minimap.el, this.readout.el, this.legend.el, this.strongest.el);
    replaced(el, this.note, this.progress.el, element("div", { class: "regard-matrix-body" }, this.stage, panel), this.asTable.el, this.bar.help);
    lifetime.add(this.tiles.end);
    lifetime.add(() => state.set({ pointed: null }));
    listenToInput(this.stage, this.#meanings(), lifetime);
    lifetime.listen(this.stage, "focus", () => this.#focus(true));
    lifetime.listen(this.stage, "blur", () => this.#focus(false));
    lifetime.widths(el, (width) => this.#resize(width));
    lifetime.add(state.listen((now, before) => this.#follow(now, before)));
    drawsAs(this.canvas, () => matrixSvg(this.#seen(), this.canvas, titleOfMatrix(description, state.get())));
  }

  /** @returns {Parameters<typeof makeBar>[1]} */
  #buttons() {
    return {
      nearer: () => this.#zoom(1.5),
      farther: () => this.#zoom(1 / 1.5),
      whole: () => this.#look(wholeView(this.whole, this.#plot)),
      toRegion: () => {
        const { region } = this.state.get();
        if (region) this.#look(regionView(region, this.whole, this.#plot));
      },
      forget: () => this.state.set({ region: null }),
    };
  }

  #whose() {
    const { layer, head, pool } = this.state.get();
    return { layer, head, pool, measure: measureOf(this.state.get(), this.description) };
  }

  #masking() {
    return maskingOf(this.description, this.#whose());
  }

  /** To one of the strongest weights. @param {number[]} rows @param {number[]} columns */
  #goTo(rows, columns) {
    const { cell, region } = aroundRegion(rows, columns);
    this.#cursor = cell;
    if (rows[1] - rows[0] > 1) this.#look(regionView(region, this.whole, this.#plot));
    else this.state.set({ query: rows[0], key: columns[0] });
    this.#schedule();
  }

  /** @param {number} row @param {number} column */
  #center(row, column) {
    if (!this.#view) return;
    const { width, height } = this.#plot;
    const [down, across] = [height / this.#view.size / 2, width / this.#view.size / 2];
    this.#look(within({ ...this.#view, x: column - across, y: row - down }, this.whole, this.#plot));
  }

  /** @param {boolean} focused */
  #focus(focused) {
    this.#focused = focused;
    if (!focused) this.#cursor = null;
    this.#schedule();
  }

  #schedule() {
    if (this.#awaited || this.lifetime.ended) return;
    this.#awaited = true;
    this.lifetime.nextFrame(() => this.#frame());
  }

  #frame() {
    this.#awaited = false;
    if (!this.#view || !this.#plot.width) return;
    const what = this.#seen();
    this.tiles.want(this.#whose(), [wholeTile(this.whole), ...what.sharp]);
    if (drawFrame(this.drawing, what)) this.#schedule();
    this.#showReadout(what);
  }

  /** Everything a frame shows. @returns {import("./geometry.js").Picture} */
  #seen() {
    const { description, colours, scale, queryTokens, whole } = this;
    const whose = this.#whose();
    const view = /** @type {import("./geometry.js").Placed} */ (this.#view);
    const frame = frameOf({ view, plot: this.#plot, ratio: this.#ratio, whole }, { find: (tile) => this.tiles.find(whose, tile), all: this.tiles.all(whose) });
    const { query, key, region, pointed } = this.state.get();
    return {
      ...frame,
      scale,
      colours,
      description,
      masking: this.#masking(),
      tokens: description.tokens,
      queryTokens,
      chosen: pointed ? { query: pointed[0], key: pointed[1] } : { query, key },
      region: this.#draft ?? region,
      cursor: this.#cursor,
      focused: this.#focused,
    };
  }

  #tileCame() {
    if (this.#settledOnce) this.#settleSoon();
    else this.#settle(); // the first map sets the scale
    this.#schedule();
  }

  #settleSoon() {
    this.#settling();
    this.#settling = this.lifetime.after(SETTLED, () => this.#settle());
  }

  #settle() {
    if (!this.#view || !this.#plot.width) return;
    const what = this.#seen();
    const coarsest = this.tiles.find(this.#whose(), wholeTile(this.whole));
    const here = what.here.length ? what.here : coarsest ? [coarsest] : [];
    if (here.length) {
      const found = strongestIn(here, what.shown, 5);
      const of = JSON.stringify(this.#whose());
      if (of !== this.#scaleOf && coarsest) {
        this.scale = { ...this.scale, ...scaleFor(coarsest, this.whole, this.#whose()) };
        this.#scaleOf = of;
      }
      this.strongest.show(found);
      this.#settledOnce = true;
      this.#sayWhatIsShown(here);
      this.asTable.show(what);
    }
    const isWhole = this.#isWhole();
    const { rows, columns } = what.shown;
    this.#ownView = isWhole ? null : [...rows, ...columns].join(",");
    this.state.set({ matrix_view: this.#ownView });
    this.stage.style.setProperty("touch-action", isWhole ? "pan-x pan-y" : "none");
    this.minimap.show(coarsest, this.scale, this.#masking(), what.shown, isWhole);
    this.bar.show(isWhole, this.#view.size >= LARGEST_CELL * 0.999, this.state.get().region !== null);
    this.#schedule();
  }

  #isWhole() {
    return !this.#view || this.#view.size <= smallestCell(this.whole, this.#plot) * 1.0001;
  }

  /** @param {import("./tiles.js").Loaded[]} here */
  #sayWhatIsShown(here) {
    const { description, state } = this;
    const { measure } = this.#whose();
    const name = measure === "weight" ? "weight" : nameOfMeasure(measure, description);
    this.legend.show(this.scale, saidOfCells(here, state.get().pool, { ...this.scale, name }, this.#view?.size ?? 0), this.#masking());
    this.#say(saidOfSampling(here), false);
    this.progress.watch(this.#whose(), here.some((tile) => !tile.done));
    const label = nameOfMatrix(this.whole, state.get(), description, name === "weight" ? undefined : name);
    if (label !== this.#said) this.stage.setAttribute("aria-label", (this.#said = label));
  }

  /** @param {string} text @param {boolean} failed */
  #say(text, failed) {
    if (this.note.textContent !== text) this.note.textContent = text;
    this.note.classList.toggle("regard-error", failed);
  }

  /** @param {import("./geometry.js").Picture} what */
  #showReadout(what) {
    if (!this.#cursor) return this.readout.show(null);
    const { row, column } = this.#cursor;
    const hidden = isHidden(what.masking, [row, row + 1], [column, column + 1]);
    const found = drawnAt(what.tiles, row, column, what.finest);
    const alone = what.weightAt(row, column) ?? (hidden ? 0 : this.exact.at(row, column));
    const failed = typeof alone === "string" ? alone : null;
    const weight = typeof alone === "string" ? null : alone;
    const pooled = found && coarseness(found.tile) > 1 ? saidOfPool(found, this.state.get().pool) : null;
    this.readout.show(this.#cursor, { weight, hidden, failed, pooled });
    if (this.#byKeys && (weight !== null || hidden)) {
      this.#byKeys = false;
      const said = hidden ? "masked" : printedWeight(weight ?? 0);
      this.announce(`${shortened(what.queryTokens[row], 40)} to ${shortened(what.tokens[column], 40)}: ${said}`);
    }
  }

  /** @param {import("./geometry.js").Placed} next */
  #look(next) {
    const view = this.#view;
    if (view && next.x === view.x && next.y === view.y && next.size === view.size) return false;
    this.#view = next;
    this.#settleSoon();
    this.#schedule();
    return true;
  }

  /** @param {number} factor @param {import("./input.js").At} [at] */
  #zoom(factor, at) {
    const [view, plot, cursor] = [this.#view, this.#plot, this.#cursor];
    if (!view) return false;
    const middle =
      cursor && this.#focused
        ? { x: (cursor.column + 0.5 - view.x) * view.size, y: (cursor.row + 0.5 - view.y) * view.size }
        : { x: plot.width / 2, y: plot.height / 2 };
    return this.#look(zoomed(view, factor, at ? { x: at.x - plot.left, y: at.y - plot.top } : middle, this.whole, plot));
  }

  /** @param {import("./input.js").At} at */
  #cellUnder(at) {
    return this.#view && cellAt(this.#view, at.x - this.#plot.left, at.y - this.#plot.top, this.whole, this.#plot);
  }

  /** @returns {import("./input.js").Meanings} */
  #meanings() {
    return {
      pan: (right, down) => this.#view && this.#look(panned(this.#view, right, down, this.whole, this.#plot)),
      zoom: (factor, at) => this.#zoom(factor, at),
      hover: (at) => this.#hover(at),
      choose: (at) => {
        const cell = this.#cellUnder(at);
        if (!cell) return;
        this.#cursor = cell;
        this.state.set({ query: cell.row, key: cell.column });
      },
      selecting: this.bar.selecting,
      select: (from, to, done) => this.#select(from, to, done),
      step: (down, across, extend) => this.#step(down, across, extend),
      page: (down) => this.#page(down),
      whole: () => this.#look(wholeView(this.whole, this.#plot)),
      take: () => this.#cursor && this.state.set({ query: this.#cursor.row, key: this.#cursor.column }),
      clear: () => {
        this.#anchor = null;
        this.state.set(this.state.get().region ? { region: null } : { query: null, key: null });
      },
    };
  }

  /** @param {import("./input.js").At|null} at */
  #hover(at) {
    const next = at && this.#cellUnder(at);
    if (next?.row === this.#cursor?.row && next?.column === this.#cursor?.column) return;
    if (!next && this.#focused && !at) return; // the keyboard's cursor stays
    this.#cursor = next;
    this.state.set({ pointed: next ? [next.row, next.column] : null });
    this.#schedule();
  }

  /** @param {import("./input.js").At} from @param {import("./input.js").At} to @param {boolean} done */
  #select(from, to, done) {
    if (!this.#view) return;
    const { left, top, width, height } = this.#plot;
    const held = (/** @type {import("./input.js").At} */ at) => ({
      x: Math.min(Math.max(at.x, left), left + width - 1),
      y: Math.min(Math.max(at.y, top), top + height - 1),
    });
    const [one, other] = [this.#cellUnder(held(from)), this.#cellUnder(held(to))];
    this.#draft = one && other ? between(one, other, this.whole) : this.#draft;
    if (done) {
      const region = this.#draft;
      this.#draft = null;
      if (region) this.state.set({ region });
    }
    this.#schedule();
  }

  /** @param {number} down @param {number} across @param {boolean} extend */
  #step(down, across, extend) {
    if (!this.#view) return;
    const step = 2 ** levelFor(this.#view.size, this.#ratio);
    const { query, key } = this.state.get();
    const shown = cellsShown(this.#view, this.whole, this.#plot);
    const start = this.#cursor ?? { row: query ?? shown.rows[0], column: key ?? shown.columns[0] };
    if (extend) this.#anchor ??= start;
    else this.#anchor = null;
    const next = this.#cursor || extend ? inside(start.row + down * step, start.column + across * step, this.whole) : start;
    if (this.#anchor) this.state.set({ region: between(this.#anchor, next, this.whole, step) });
    this.#moveTo(next);
  }

  /** @param {number} down */
  #page(down) {
    if (!this.#view) return;
    const far = Math.max(1, Math.floor((this.#plot.height / this.#view.size) * 0.9)) * down;
    this.#moveTo(inside((this.#cursor?.row ?? Math.floor(this.#view.y)) + far, this.#cursor?.column ?? Math.floor(this.#view.x), this.whole));
  }

  /** The cursor, by keyboard. @param {import("./model.js").Cell} cell */
  #moveTo(cell) {
    if (!this.#view) return;
    this.#cursor = cell;
    this.#byKeys = true;
    this.#look(following(this.#view, cell.row, cell.column, this.whole, this.#plot));
    this.#schedule();
  }

  /** @param {number} width */
  #resize(width) {
    if (width < 40) return;
    const { whole, canvas, description } = this;
    const layout = layoutFor(description.tokens, whole, width, window.innerHeight);
    const wasWhole = this.#isWhole();
    const before = this.#view && this.#plot.width ? cellsShown(this.#view, whole, this.#plot) : null;
    const plot = (this.#plot = layout.plot);
    const ratio = (this.#ratio = Math.min(window.devicePixelRatio || 1, 3));
    for (const side of /** @type {const} */ (["width", "height"])) {
      canvas[side] = Math.round(layout[side] * ratio);
      canvas.style.setProperty(side, `${layout[side]}px`);
    }
    const kept = this.#view ? null : regionOfText(this.state.get().matrix_view);
    if (kept) this.#view = regionView(kept, whole, plot);
    else if (wasWhole || !before) this.#view = wholeView(whole, plot);
    else this.#view = within(regionView([...before.rows, ...before.columns], whole, plot), whole, plot);
    this.#settleSoon();
    this.#frame();
  }

  /** @param {Chosen} now @param {Chosen} before */
  #follow(now, before) {
    if (now.colour !== before.colour) this.scale = { ...this.scale, colour: colourOf(now, this.description) };
    if (now.layer !== before.layer || now.head !== before.head || now.pool !== before.pool || now.measure !== before.measure) this.#settledOnce = false;
    if (now.pointed !== before.pointed) return this.#schedule();
    const other = now.matrix_view !== before.matrix_view && now.matrix_view !== this.#ownView && this.#plot.width > 0;
    const edges = other ? regionOfText(now.matrix_view) : null;
    if (other) this.#view = edges ? regionView(edges, this.whole, this.#plot) : wholeView(this.whole, this.#plot);
    this.bar.set(now);
    this.#settleSoon();
    this.#schedule();
  }

  /** What is shown, as a table. */
  table() {
    const what = this.#seen();
    const coarse = what.sharp.length ? 2 ** what.level : Math.ceil(Math.max(this.whole.rows, this.whole.columns) / WHOLE);
    return matrixTable(what, titleOfMatrix(this.description, this.state.get()), coarse);
  }
}
