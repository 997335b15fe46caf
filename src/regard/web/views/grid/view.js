/** Grid: all heads of all layers as small maps, in model order or sorted by a statistic. */
import { segments } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { svgText } from "../../page/export.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedWeight } from "../../maths/numbers.js";
import { hasLayers, nameOfHead, numberOfHead, numberOfLayer } from "../../page/state.js";
import { shortened } from "../../elements/words.js";
import { svgDocument } from "../matrix/figure.js";
import { isKept, makeAbout, printedStatistic, saidOfHead } from "./about.js";
import { makeMaps } from "./maps.js";
import { ORDERS, STATISTICS, headsOf, isDense, layersAcross, ordered, saidOfCell, walked } from "./model.js";

const UNKNOWN = "no clear pattern";

export const grid = {
  name: "grid",
  title: "Grid",
  uses: [],
  /** @param {Description} description */
  suits: (description) => (description.has ?? []).includes("thumbnails") && description.layers * description.heads > 1,
  draw: drawGrid,
};

/** @param {Context} context @returns {Drawn} */
function drawGrid(context) {
  const { el, source, description, state, lifetime: outer } = context;
  const lifetime = outer.part();
  const latest = latestOnly(lifetime);
  const { layers, heads } = description;
  const all = headsOf(layers, heads);
  const placeOf = (/** @type {{layer: number, head: number}} */ one) => one.layer * heads + one.head;
  /** @type {any} */
  let known = null; // statistics, once loaded
  /** @type {{layer: number, head: number}[]} in the order of the drawing */
  let order = all;

  const note = element("p", { class: "regard-note regard-grid-said", role: "status" });
  const box = element("div", { class: "regard-grid-box", tabindex: "0", role: "group", "aria-label": "Heads as small maps" });
  const tip = element("div", { class: "regard-grid-tip", "aria-hidden": "true", hidden: true });
  const maps = makeMaps({
    ...context,
    lifetime,
    came: layerCame,
    failed: (error) => (note.textContent = error.message),
  });
  const about = makeAbout(context, maps, () => isAlike());
  const orders = segments(
    "Order",
    ORDERS.map(({ value, text, said: title }) => ({ value, text, title })),
    orderNow().value,
    (value) => state.set({ grid_order: value === "model" ? null : value }),
  );
  const density = segments(
    "Size",
    [
      { value: "labels", text: "With labels", title: "Larger maps, each with what its head is known for" },
      { value: "dense", text: "Dense", title: "All heads on one screen" },
    ],
    dense() ? "dense" : "labels",
    (value) => state.set({ grid_density: value }),
  );
  const shading = segments(
    "Shading",
    [
      { value: null, text: "Each head", title: "Each map is shaded up to its own largest weight" },
      { value: "alike", text: "All alike", title: "All maps are shaded from 0 to 1" },
    ],
    isAlike() ? "alike" : null,
    (value) => state.set({ grid_shading: value }),
  );
  const legend = colourBar(context.colours);
  const group = (/** @type {string} */ name, /** @type {Node} */ control) =>
    element("div", { class: "regard-bar-group" }, element("span", { class: "regard-label", text: name, "aria-hidden": "true" }), control);
  replaced(
    el,
    element("div", { class: "regard-bar" }, group("Order", orders.el), group("Shade", shading.el), density.el, legend.el),
    note,
    element("div", { class: "regard-grid-body" }, element("div", { class: "regard-grid-frame" }, box, tip), about.el),
    element("p", {
      class: "regard-note regard-grid-hint",
      text: "One map per head: queries run down, keys across. Point at a map for its words; arrow keys move, Enter selects a head.",
    }),
  );

  const cells = all.map((one) => {
    const canvas = element("canvas", { width: 1, height: 1, class: "regard-grid-map" });
    const caption = element("span", { class: "regard-grid-caption" });
    const button = element("button", { type: "button", class: "regard-grid-cell", tabindex: "-1" }, canvas, caption);
    const kept = isKept(one, description);
    if (!kept) button.setAttribute("aria-disabled", "true");
    return { one, canvas, caption, button, kept };
  });

  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries)
        if (entry.isIntersecting) maps.want(Number(/** @type {HTMLElement} */ (entry.target).dataset.layer));
    },
    { rootMargin: "240px" },
  );
  lifetime.add(() => observer.disconnect());
  for (const { button, one } of cells) {
    button.dataset.layer = String(one.layer);
    observer.observe(button);
  }

  function orderNow() {
    return ORDERS.find(({ value }) => value === state.get().grid_order) ?? ORDERS[0];
  }

  function dense() {
    return isDense(state.get(), all.length);
  }

  function isAlike() {
    return state.get().grid_shading === "alike";
  }

  function arrange() {
    const { statistic, down, value, said: text } = orderNow();
    const inModel = value === "model" || !known;
    const turned = inModel && layersAcross(dense(), layers, heads);
    order = turned
      ? Array.from({ length: all.length }, (_, place) => ({ layer: place % layers, head: Math.floor(place / layers) }))
      : ordered(all, statistic ? known?.arrays[statistic] : undefined, down);
    const said = statistic && !known ? "Loading statistics…" : statistic ? text : "";
    const hasLabels = !dense() && description.known && known && all.some((one) => known.patternOf(one));
    note.textContent = [said, hasLabels ? `Labels: in general (${description.known?.treebank}), not measured in this text.` : ""].filter(Boolean).join(" ");
    box.classList.toggle("regard-grid-model", inModel);
    box.classList.toggle("regard-grid-dense", dense());
    const across = turned ? layers : heads;
    box.style.setProperty("--regard-across", String(across));
    const corner = (/** @type {string} */ name) => element("span", { class: "regard-grid-corner", text: name, "aria-hidden": "true" });
    const parts = inModel ? [corner(turned ? "Head" : hasLayers(description) ? "Layer" : ""), ...columnNames(across, turned)] : [];
    for (const [place, one] of order.entries()) {
      if (inModel && place % across === 0)
        parts.push(element("span", { class: "regard-grid-layer", text: String(turned ? numberOfHead(description, one.head) : numberOfLayer(description, one.layer)), "aria-hidden": "true" }));
      parts.push(cellAt(one, place, inModel, statistic));
    }
    replaced(box, parts);
    mark();
  }

  /** @param {number} across @param {boolean} turned */
  function columnNames(across, turned) {
    const number = turned ? numberOfLayer : numberOfHead;
    const each = across > 16 ? 5 : 1; // of many columns, every fifth
    return Array.from({ length: across }, (_, place) =>
      element("span", { class: "regard-grid-column", text: place % each ? "" : String(number(description, place)), "aria-hidden": "true" }),
    );
  }

  /** @param {{layer: number, head: number}} one @param {number} place @param {boolean} inModel @param {string} [statistic] */
  function cellAt(one, place, inModel, statistic) {
    const cell = cells[placeOf(one)];
    const number = statistic && known ? printedStatistic(known.of(statistic, one)) : "";
    const pattern = known?.patternOf(one) ?? "";
    const shown = !dense() && pattern !== UNKNOWN;
    replaced(
      cell.caption,
      inModel && cell.kept && !pattern ? null : element("span", { class: "regard-grid-name", text: inModel ? "" : shortNameOf(one, description) }),
      number ? element("span", { class: "regard-grid-number", text: number }) : null,
      shown && pattern ? element("span", { class: "regard-grid-label", text: pattern }) : null,
      cell.kept ? null : element("span", { class: "regard-grid-label", text: "not kept" }),
    );
    cell.caption.hidden = dense() && inModel;
    cell.button.setAttribute("aria-label", saidOfHead(one, known, description));
    cell.button.dataset.place = String(place);
    return cell.button;
  }

  function mark() {
    const { layer, head } = state.get();
    for (const { one, button } of cells) {
      const chosen = one.layer === layer && one.head === head;
      button.setAttribute("aria-pressed", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
    about.show({ layer, head }, known);
  }

  /** @param {number} layer */
  function layerCame(layer) {
    for (const { one, canvas } of cells) if (one.layer === layer) maps.draw(canvas, one.layer, one.head, isAlike());
    if (maps.sampled(layer)) note.textContent = `Maps from sampled rows (${maps.sampled(layer)}).`;
    if (state.get().layer === layer) about.show({ layer, head: state.get().head }, known);
  }

  function shade() {
    for (const { one, canvas } of cells) maps.draw(canvas, one.layer, one.head, isAlike());
    legend.show(isAlike());
    about.again();
  }

  /** @param {Event} event */
  const headAt = (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest?.(".regard-grid-cell");
    return button ? order[Number(/** @type {HTMLElement} */ (button).dataset.place)] : null;
  };
  lifetime.listen(box, "click", (event) => {
    const one = headAt(event);
    if (one && isKept(one, description)) state.set({ ...one, heads: null });
  });
  lifetime.listen(box, "pointerover", (event) => {
    const one = headAt(event);
    if (one) about.show(one, known);
  });
  lifetime.listen(box, "pointermove", (event) => showTip(event));
  lifetime.listen(box, "pointerleave", () => {
    tip.hidden = true;
    about.show({ layer: state.get().layer, head: state.get().head }, known);
  });
  lifetime.listen(box, "focusin", (event) => {
    const one = headAt(event);
    if (one) about.show(one, known);
  });
  lifetime.listen(box, "keydown", (event) => {
    const one = headAt(event);
    if (!one || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = order.indexOf(one);
    const to = walked(event.key, here, order.length, across());
    if (to === null) return;
    event.preventDefault();
    for (const { button } of cells) button.tabIndex = -1;
    const { button } = cells[placeOf(order[to])];
    button.tabIndex = 0;
    button.focus();
  });

  /** The words and the weight under the pointer. @param {PointerEvent} event */
  function showTip(event) {
    const one = event.pointerType === "touch" ? null : headAt(event);
    const canvas = one && cells[placeOf(one)].canvas;
    const over = canvas?.getBoundingClientRect();
    const [across, down] = over ? [(event.clientX - over.left) / over.width, (event.clientY - over.top) / over.height] : [-1, -1];
    const inside = across >= 0 && across < 1 && down >= 0 && down < 1;
    const cell = one && inside ? maps.at(one.layer, one.head, across, down) : null;
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
    const left = Math.min(event.clientX - frame.left + 14, frame.width - tip.offsetWidth - 4);
    tip.style.transform = `translate(${Math.max(0, left)}px, ${event.clientY - frame.top + 18}px)`;
  }

  /** Maps per row. */
  function across() {
    if (box.classList.contains("regard-grid-model")) return layersAcross(dense(), layers, heads) ? layers : heads;
    return getComputedStyle(box).gridTemplateColumns.split(" ").length;
  }

  lifetime.add(
    state.listen((now, before) => {
      if (now.grid_order !== before.grid_order || now.grid_density !== before.grid_density) {
        orders.set(orderNow().value);
        density.set(dense() ? "dense" : "labels");
        arrange();
      } else if (now.grid_shading !== before.grid_shading) {
        shading.set(now.grid_shading ?? null);
        shade();
      } else if (now.layer !== before.layer || now.head !== before.head) mark();
    }),
  );
  legend.show(isAlike());
  arrange();

  if ((description.has ?? []).includes("statistics")) {
    latest(
      (signal) => source.ask("statistics", {}, { signal }),
      ({ header, arrays }) => {
        const numbers = Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, array.toFloat32()]));
        known = {
          arrays: numbers,
          of: (/** @type {string} */ name, /** @type {HeadPlace} */ one) => numbers[name][placeOf(one)],
          patternOf: (/** @type {HeadPlace} */ one) => header.patterns?.[one.layer]?.[one.head] ?? null,
        };
        arrange();
      },
      (error) => (note.textContent = error.message),
    );
  }

  const title = "All heads: layer · head";
  return {
    cleanUp: lifetime.end,
    svg: async () => {
      await maps.all();
      return gridSvg(cells, order, description, title, context.colours, (one) => placeOf(one));
    },
    table: () => {
      const shown = STATISTICS.filter(({ name }) => known?.arrays[name]);
      return {
        title,
        columns: ["layer", "head", ...shown.map(({ name }) => name), ...(known ? ["pattern"] : [])],
        rows: order.map((one) => [
          numberOfLayer(description, one.layer),
          numberOfHead(description, one.head),
          ...shown.map(({ name }) => known.of(name, one)),
          ...(known ? [known.patternOf(one) ?? ""] : []),
        ]),
      };
    },
  };
}

/** The colour scale of the maps. @param {Colours} colours */
function colourBar(colours) {
  const bar = element("span", { class: "regard-grid-scale", "aria-hidden": "true" });
  const stops = Array.from({ length: 9 }, (_, place) => colours.weight(place / 8));
  bar.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  const end = element("span", {});
  return {
    el: element("div", { class: "regard-grid-legend" }, element("span", { text: "0" }), bar, end),
    /** @param {boolean} alike */
    show: (alike) => (end.textContent = alike ? "1" : "largest weight of each head"),
  };
}

/**
 * @param {any[]} cells
 * @param {HeadPlace[]} order
 * @param {Description} description
 * @param {string} title
 * @param {Colours} colours
 * @param {(one: HeadPlace) => number} placeOf
 */
function gridSvg(cells, order, description, title, colours, placeOf) {
  const across = Math.min(description.heads, 16);
  const [side, step, line, top] = [72, 80, 94, 40];
  const [width, height] = [32 + across * step, top + Math.ceil(order.length / across) * line + 8];
  const maps = order.map((one, place) => {
    const [x, y] = [16 + (place % across) * step, top + Math.floor(place / across) * line];
    const { canvas, kept } = cells[placeOf(one)];
    const how = `preserveAspectRatio="none" style="image-rendering:pixelated"`;
    const frame = `x="${x}" y="${y}" width="${side}" height="${side}"`;
    const text = `x="${x + side / 2}" y="${y + side / 2 + 4}" text-anchor="middle" font-size="11" fill="${colours.muted}"`;
    return [
      kept
        ? `<image ${frame} ${how} href="${canvas.toDataURL("image/png")}"/>`
        : `<rect ${frame} fill="none" stroke="${colours.rule}" stroke-dasharray="3 3"/><text ${text}>not kept</text>`,
      `<text x="${x}" y="${y + side + 12}" font-size="11" fill="${colours.muted}">${shortNameOf(one, description)}</text>`,
    ];
  });
  const heading = `<text x="16" y="24" font-size="15" font-weight="600" fill="${colours.ink}">${svgText(title)}</text>`;
  return svgDocument(width, height, title, colours.ground, [heading, ...maps.flat()]);
}

/** @param {{layer: number, head: number}} head @param {Description} description */
function shortNameOf({ layer, head }, description) {
  return `${numberOfLayer(description, layer)} · ${numberOfHead(description, head)}`;
}
