/** Matrix: every weight of one head, from three words with numbers in the cells to a map of 100,000 tokens. */
import { element, replaced } from "../../elements/elements.js";
import { maskingOf } from "../../maths/masking.js";
import { measureOf, nameOfMeasure } from "../../page/measures.js";
import { printedWeight, roundedUp } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";
import { makeBar } from "./bar.js";
import { drawFrame, drawnAt } from "./draw.js";
import { makeExact } from "./exact.js";
import { matrixSvg, matrixTable, strongestIn } from "./figure.js";
import {
  LARGEST_CELL,
  WHOLE,
  cellAt,
  cellsShown,
  following,
  isHidden,
  levelFor,
  panned,
  regionView,
  smallestCell,
  tilesOver,
  wholeTile,
  wholeView,
  within,
  zoomed,
} from "./geometry.js";
import { layoutFor } from "./layout.js";
import { colourOf } from "./pixels.js";
import { makeProgress } from "./progress.js";
import { listenToInput } from "./input.js";
import { makeLegend, makeReadout, makeStrongest, queriesOf } from "./readout.js";
import { nameOfMatrix, regionOfText, saidOfCells, saidOfPool, saidOfSampling, titleOfMatrix } from "./captions.js";
import { smallTable } from "./small_table.js";
import { coarseness, makeTiles } from "./tiles.js";

const SETTLED = 160; // milliseconds without movement after which the scale and the lists update

export const matrix = {
  name: "matrix",
  title: "Matrix",
  uses: ["layer", "head", "measure"],
  /** @param {Description} description */
  suits: (description) => (description.has ?? []).includes("tile") && (description.tokens?.length ?? 0) > 0,
  draw: drawMatrix,
};

/** @param {Context} context @returns {Drawn} */
function drawMatrix({ el, source, description, state, colours, announce, lifetime: outer }) {
  const lifetime = outer.part();
  const tokens = description.tokens;
  const queryTokens = queriesOf(description);
  const whole = { rows: queryTokens.length, columns: tokens.length };
  const canvas = element("canvas", { class: "regard-matrix-canvas", "aria-hidden": "true" });
  const stage = element(
    "div",
    { class: "regard-matrix-stage", tabindex: "0", role: "application", "aria-roledescription": "matrix" },
    canvas,
  );
  const drawing = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
  const readout = makeReadout(description);
  const legend = makeLegend();
  const strongest = makeStrongest(description, (rows, columns) => {
    cursor = { row: Math.floor((rows[0] + rows[1] - 1) / 2), column: Math.floor((columns[0] + columns[1] - 1) / 2) };
    const around = (/** @type {number[]} */ [first, last]) => [first - 4 * (last - first), last + 4 * (last - first)];
    if (rows[1] - rows[0] > 1) look(regionView([...around(rows), ...around(columns)], whole, plot));
    else state.set({ query: rows[0], key: columns[0] });
    schedule();
  });
  const note = element("p", { class: "regard-matrix-note", role: "status" });
  const asTable = smallTable();
  const bar = makeBar(
    state,
    {
      nearer: () => zoom(1.5),
      farther: () => zoom(1 / 1.5),
      whole: () => look(wholeView(whole, plot)),
      toRegion: () => {
        const { region } = state.get();
        if (region) look(regionView(region, whole, plot));
      },
      forget: () => state.set({ region: null }),
    },
    Math.max(whole.rows, whole.columns),
    colourOf({ colour: null }, description),
  );
  const panel = element("div", { class: "regard-matrix-panel" }, readout.el, legend.el, strongest.el);
  const progress = makeProgress({ source, description, lifetime });
  replaced(el, bar.el, note, progress.el, element("div", { class: "regard-matrix-body" }, stage, panel), asTable.el, bar.help);

  let plot = { left: 0, top: 0, width: 0, height: 0 };
  let ratio = 1;
  /** @type {import("./geometry.js").Placed|null} */
  let view = null;
  /** @type {{row: number, column: number}|null} */
  let cursor = null;
  let byKeys = false;
  /** @type {number[]|null} */
  let draft = null; // a region being selected
  /** @type {{row: number, column: number}|null} */
  let anchor = null; // start of a region selected by keyboard
  let scale = { top: 1, colour: colourOf(state.get(), description), colours };
  let scaleOf = ""; // what the upper end of the scale was chosen for
  let said = "";
  let awaited = false;
  let focused = false;
  let settledOnce = false;
  let settling = () => {};
  /** @type {string|null} */
  let ownView = null; // written to the address by this view

  const whose = () => {
    const { layer, head, pool } = state.get();
    return { layer, head, pool, measure: measureOf(state.get(), description) };
  };
  const masking = () => maskingOf(description, whose());
  const tiles = makeTiles({ ask: source.ask, whole, came: tileCame, failed: (error) => say(error.message, true) });
  const exact = makeExact({ source, whole, lifetime, whose, came: schedule });
  lifetime.add(tiles.end);

  function schedule() {
    if (awaited || lifetime.ended) return;
    awaited = true;
    lifetime.nextFrame(frame);
  }

  function frame() {
    awaited = false;
    if (!view || !plot.width) return;
    const what = seen();
    tiles.want(whose(), [wholeTile(whole), ...what.sharp]);
    if (drawFrame(drawing, what)) schedule();
    showReadout(what);
  }

  /** Everything a frame shows. */
  /** @returns {import("./geometry.js").Picture} */
  function seen() {
    const placed = /** @type {import("./geometry.js").Placed} */ (view);
    const shown = cellsShown(placed, whole, plot);
    const level = levelFor(placed.size, ratio);
    const sharp = tilesOver(level, shown, whole);
    const here = (sharp.length ? sharp : [wholeTile(whole)])
      .map((tile) => tiles.find(whose(), tile))
      .filter((tile) => tile !== undefined);
    const every = tiles.all(whose());
    const single = every.filter((tile) => coarseness(tile) === 1);
    // The best fitting tile comes last, on top.
    const loaded = [...every.filter((tile) => !here.includes(tile)), ...here];
    const finest = 1 / (placed.size * ratio);
    const drawnWeight = (/** @type {number} */ row, /** @type {number} */ column) =>
      drawnAt(loaded, row, column, finest)?.weight ?? null;
    const weightAt = (/** @type {number} */ row, /** @type {number} */ column) =>
      drawnAt(single, row, column, 0)?.weight ?? null;
    const { query, key, region } = state.get();
    return {
      view: placed,
      plot,
      ratio,
      shown,
      level,
      sharp,
      here,
      tiles: loaded,
      finest,
      scale,
      colours,
      description,
      masking: masking(),
      whole,
      tokens,
      queryTokens,
      chosen: { query, key },
      region: draft ?? region,
      cursor,
      focused,
      drawnWeight,
      weightAt,
    };
  }

  function tileCame() {
    if (settledOnce) settleSoon();
    else settle(); // the first map sets the scale
    schedule();
  }

  function settleSoon() {
    settling();
    settling = lifetime.after(SETTLED, settle);
  }

  function settle() {
    if (!view || !plot.width) return;
    const what = seen();
    const coarsest = tiles.find(whose(), wholeTile(whole));
    const here = what.here.length ? what.here : coarsest ? [coarsest] : [];
    if (here.length) {
      const found = strongestIn(here, what.shown, 5);
      const top = topFor(found[0]?.weight ?? 0, whose().measure === "norm" ? Infinity : 1);
      // The exact map replaces the sampled one in the same colours: the scale changes with what is looked at alone.
      const { x, y, size } = view;
      const of = JSON.stringify([whose(), x, y, size, plot.width, Math.max(...here.map(coarseness))]);
      if (of !== scaleOf && top !== scale.top) scale = { ...scale, top };
      scaleOf = of;
      strongest.show(found);
      settledOnce = true;
      sayWhatIsShown(here);
      asTable.show(what);
    }
    const isWhole = view.size <= smallestCell(whole, plot) * 1.0001;
    const { rows, columns } = what.shown;
    ownView = isWhole ? null : [...rows, ...columns].join(",");
    state.set({ matrix_view: ownView });
    stage.style.setProperty("touch-action", isWhole ? "pan-x pan-y" : "none");
    bar.show(isWhole, view.size >= LARGEST_CELL * 0.999, state.get().region !== null);
    schedule();
  }

  /** @param {import("./tiles.js").Loaded[]} here */
  function sayWhatIsShown(here) {
    const name = whose().measure === "weight" ? "weight" : nameOfMeasure(whose().measure, description);
    legend.show(scale, saidOfCells(here, state.get().pool, { ...scale, name }, view?.size ?? 0), masking());
    say(saidOfSampling(here), false);
    progress.watch(whose(), here.some((tile) => !tile.done));
    const label = nameOfMatrix(whole, state.get(), description, name === "weight" ? undefined : name);
    if (label !== said) stage.setAttribute("aria-label", (said = label));
  }

  /** @param {string} text @param {boolean} failed */
  function say(text, failed) {
    if (note.textContent !== text) note.textContent = text;
    note.classList.toggle("regard-error", failed);
  }

  /** @param {import("./geometry.js").Picture} what */
  function showReadout(what) {
    if (!cursor) return readout.show(null);
    const { row, column } = cursor;
    const hidden = isHidden(what.masking, [row, row + 1], [column, column + 1]);
    const found = drawnAt(what.tiles, row, column, what.finest);
    const alone = what.weightAt(row, column) ?? (hidden ? 0 : exact.at(row, column));
    const failed = typeof alone === "string" ? alone : null;
    const weight = typeof alone === "string" ? null : alone;
    readout.show(cursor, {
      weight,
      hidden,
      failed,
      pooled: found && coarseness(found.tile) > 1 ? saidOfPool(found, state.get().pool) : null,
    });
    if (byKeys && (weight !== null || hidden)) {
      byKeys = false;
      const said = hidden ? "masked" : printedWeight(weight ?? 0);
      announce(`${shortened(queryTokens[row], 40)} to ${shortened(tokens[column], 40)}: ${said}`);
    }
  }

  /** @param {import("./geometry.js").Placed} next */
  function look(next) {
    if (view && next.x === view.x && next.y === view.y && next.size === view.size) return false;
    view = next;
    settleSoon();
    schedule();
    return true;
  }

  /** @param {number} factor @param {{x: number, y: number}} [at] of the canvas */
  function zoom(factor, at) {
    if (!view) return false;
    const middle =
      cursor && focused
        ? { x: (cursor.column + 0.5 - view.x) * view.size, y: (cursor.row + 0.5 - view.y) * view.size }
        : { x: plot.width / 2, y: plot.height / 2 };
    return look(zoomed(view, factor, at ? { x: at.x - plot.left, y: at.y - plot.top } : middle, whole, plot));
  }

  /** @param {{x: number, y: number}} at of the canvas */
  function cellUnder(at) {
    return view && cellAt(view, at.x - plot.left, at.y - plot.top, whole, plot);
  }

  /** @param {{row: number, column: number}} one @param {{row: number, column: number}} other @param {number} step */
  function between(one, other, step = 1) {
    const range = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ most) => [
      Math.min(a, b),
      Math.min(most, Math.max(a, b) + step),
    ];
    return [...range(one.row, other.row, whole.rows), ...range(one.column, other.column, whole.columns)];
  }

  const inside = (/** @type {number} */ row, /** @type {number} */ column) => ({
    row: Math.min(Math.max(row, 0), whole.rows - 1),
    column: Math.min(Math.max(column, 0), whole.columns - 1),
  });

  listenToInput(
    stage,
    {
      pan: (right, down) => view && look(panned(view, right, down, whole, plot)),
      zoom,
      hover(at) {
        const next = at && cellUnder(at);
        if (next?.row === cursor?.row && next?.column === cursor?.column) return;
        if (!next && focused && !at) return; // the keyboard's cursor stays
        cursor = next;
        schedule();
      },
      choose(at) {
        const cell = cellUnder(at);
        if (!cell) return;
        cursor = cell;
        state.set({ query: cell.row, key: cell.column });
      },
      selecting: bar.selecting,
      select(from, to, done) {
        if (!view) return;
        const held = (/** @type {{x: number, y: number}} */ at) => ({
          x: Math.min(Math.max(at.x, plot.left), plot.left + plot.width - 1),
          y: Math.min(Math.max(at.y, plot.top), plot.top + plot.height - 1),
        });
        const [one, other] = [cellUnder(held(from)), cellUnder(held(to))];
        draft = one && other ? between(one, other) : draft;
        if (done) {
          const region = draft;
          draft = null;
          if (region) state.set({ region });
        }
        schedule();
      },
      step(down, across, extend) {
        if (!view) return;
        const step = 2 ** levelFor(view.size, ratio);
        const { query, key } = state.get();
        const shown = cellsShown(view, whole, plot);
        const start = cursor ?? { row: query ?? shown.rows[0], column: key ?? shown.columns[0] };
        if (extend) anchor ??= start;
        else anchor = null;
        cursor = cursor || extend ? inside(start.row + down * step, start.column + across * step) : start;
        byKeys = true;
        if (anchor) state.set({ region: between(anchor, cursor, step) });
        look(following(view, cursor.row, cursor.column, whole, plot));
        schedule();
      },
      page(down) {
        if (!view) return;
        const far = Math.max(1, Math.floor((plot.height / view.size) * 0.9)) * down;
        cursor = inside((cursor?.row ?? Math.floor(view.y)) + far, cursor?.column ?? Math.floor(view.x));
        byKeys = true;
        look(following(view, cursor.row, cursor.column, whole, plot));
        schedule();
      },
      whole: () => look(wholeView(whole, plot)),
      take: () => cursor && state.set({ query: cursor.row, key: cursor.column }),
      clear() {
        anchor = null;
        state.set(state.get().region ? { region: null } : { query: null, key: null });
      },
    },
    lifetime,
  );

  lifetime.listen(stage, "focus", () => ((focused = true), schedule()));
  lifetime.listen(stage, "blur", () => ((focused = false), (cursor = null), schedule()));

  /** @param {number} width */
  function resize(width) {
    if (width < 40) return;
    const layout = layoutFor(tokens, whole, width, window.innerHeight);
    const wasWhole = !view || view.size <= smallestCell(whole, plot) * 1.0001;
    const before = view && plot.width ? cellsShown(view, whole, plot) : null;
    plot = layout.plot;
    ratio = Math.min(window.devicePixelRatio || 1, 3);
    canvas.width = Math.round(layout.width * ratio);
    canvas.height = Math.round(layout.height * ratio);
    canvas.style.setProperty("width", `${layout.width}px`);
    canvas.style.setProperty("height", `${layout.height}px`);
    const kept = view ? null : regionOfText(state.get().matrix_view);
    if (kept) view = regionView(kept, whole, plot);
    else if (wasWhole || !before) view = wholeView(whole, plot);
    else view = within(regionView([...before.rows, ...before.columns], whole, plot), whole, plot);
    settleSoon();
    frame();
  }
  lifetime.resized(el, (entry) => resize(entry.contentRect.width));

  lifetime.add(
    state.listen((now, before) => {
      if (now.colour !== before.colour) scale = { ...scale, colour: colourOf(now, description) };
      if (now.layer !== before.layer || now.head !== before.head || now.pool !== before.pool || now.measure !== before.measure)
        settledOnce = false;
      const other = now.matrix_view !== before.matrix_view && now.matrix_view !== ownView && plot.width > 0;
      const edges = other ? regionOfText(now.matrix_view) : null;
      if (other) view = edges ? regionView(edges, whole, plot) : wholeView(whole, plot);
      bar.set(now);
      settleSoon();
      schedule();
    }),
  );

  return {
    cleanUp: lifetime.end,
    svg: () => matrixSvg(seen(), canvas, titleOfMatrix(description, state.get())),
    table: () => {
      const what = seen();
      const coarse = what.sharp.length ? 2 ** what.level : Math.ceil(Math.max(whole.rows, whole.columns) / WHOLE);
      return matrixTable(what, titleOfMatrix(description, state.get()), coarse);
    },
  };
}

/**
 * Upper end of the scale; of weights at most 1 despite rounding.
 * @param {number} largest @param {number} most
 */
function topFor(largest, most) {
  return Math.min(most, roundedUp(largest));
}
