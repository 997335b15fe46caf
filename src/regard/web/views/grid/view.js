/** Grid: all heads of all layers as small maps, in model order or sorted by a statistic. */
import { segments } from "../../controls.js";
import { element, replaced } from "../../elements.js";
import { svgText } from "../../export.js";
import { latestOnly } from "../../lifetime.js";
import { isKept, makeAbout, printedStatistic, saidOfHead } from "./about.js";
import { makeMaps } from "./maps.js";
import { ORDERS, STATISTICS, headsOf, ordered, walked } from "./model.js";
import { svgDocument } from "../matrix/figure.js";

export const grid = {
  name: "grid",
  title: "Grid",
  uses: [],
  /** @param {any} description */
  suits: (description) => (description.has ?? []).includes("thumbnails") && description.layers * description.heads > 1,
  draw: drawGrid,
};

/** @param {any} context */
function drawGrid(context) {
  const { el, source, description, state, lifetime: outer } = context;
  const lifetime = outer.part();
  const latest = latestOnly(lifetime);
  const all = headsOf(description.layers, description.heads);
  const placeOf = (/** @type {{layer: number, head: number}} */ one) => one.layer * description.heads + one.head;
  /** @type {any} */
  let known = null; // statistics, once loaded
  /** @type {{layer: number, head: number}[]} */
  let order = all;

  const note = element("p", { class: "regard-note", role: "status" });
  const said = element("p", { class: "regard-note" });
  const box = element("div", { class: "regard-grid-box" });
  const maps = makeMaps({
    ...context,
    lifetime,
    came: layerCame,
    failed: (error) => (note.textContent = error.message),
  });
  const about = makeAbout(context, maps);
  const chooser = segments(
    "Order",
    ORDERS.map(({ value, text, said: title }) => ({ value, text, title })),
    orderNow().value,
    (value) => state.set({ grid_order: value === "model" ? null : value }),
  );
  const label = element("span", { class: "regard-label", text: "Order", "aria-hidden": "true" });
  replaced(
    el,
    element("div", { class: "regard-bar" }, label, chooser.el, said),
    note,
    element("div", { class: "regard-grid-body" }, box, about.el),
    element("p", {
      class: "regard-note regard-grid-hint",
      text:
        "Queries run down, keys across; each map is shaded up to its own largest weight. " +
        "Arrow keys move, Enter selects a head.",
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

  function arrange() {
    const { statistic, down, value, said: text } = orderNow();
    order = ordered(all, statistic ? known?.arrays[statistic] : undefined, down);
    said.textContent = statistic && !known ? "Loading statistics…" : text;
    const inModel = value === "model" || !known;
    box.classList.toggle("regard-grid-model", inModel);
    box.style.setProperty("--regard-across", String(description.heads));
    const parts = [];
    for (const [place, one] of order.entries()) {
      if (inModel && one.head === 0 && description.layers > 1)
        parts.push(element("span", { class: "regard-grid-layer", text: `Layer ${one.layer}` }));
      else if (inModel && one.head === 0) parts.push(element("span", { class: "regard-grid-layer", text: "Heads" }));
      const cell = cells[placeOf(one)];
      const name = inModel ? String(one.head) : `${one.layer} · ${one.head}`;
      const number = statistic && known ? printedStatistic(known.of(statistic, one)) : "";
      const pattern = known?.patternOf(one) ?? "";
      replaced(
        cell.caption,
        element("span", { class: "regard-grid-name", text: name }),
        number ? element("span", { class: "regard-grid-number", text: number }) : null,
        pattern ? element("span", { class: "regard-grid-label", text: pattern }) : null,
        cell.kept ? null : element("span", { class: "regard-grid-label", text: "not kept" }),
      );
      cell.button.setAttribute("aria-label", saidOfHead(one, known, description));
      cell.button.dataset.place = String(place);
      parts.push(cell.button);
    }
    replaced(box, parts);
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Heads as small maps");
    mark();
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
    for (const { one, canvas } of cells) if (one.layer === layer) maps.draw(canvas, one.layer, one.head);
    if (maps.sampled(layer)) note.textContent = `Maps from sampled rows (${maps.sampled(layer)}).`;
    if (state.get().layer === layer) about.show({ layer, head: state.get().head }, known);
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
  lifetime.listen(box, "pointerleave", () => about.show({ layer: state.get().layer, head: state.get().head }, known));
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

  /** Maps per row. */
  function across() {
    if (box.classList.contains("regard-grid-model")) return description.heads;
    return getComputedStyle(box).gridTemplateColumns.split(" ").length;
  }

  lifetime.add(
    state.listen((now, before) => {
      if (now.grid_order !== before.grid_order) {
        chooser.set(orderNow().value);
        arrange();
      } else if (now.layer !== before.layer || now.head !== before.head) mark();
    }),
  );
  arrange();

  if ((description.has ?? []).includes("statistics")) {
    latest(
      (signal) => source.ask("statistics", {}, { signal }),
      ({ header, arrays }) => {
        const numbers = Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, array.toFloat32()]));
        known = {
          arrays: numbers,
          of: (/** @type {string} */ name, /** @type {any} */ one) => numbers[name][placeOf(one)],
          patternOf: (/** @type {any} */ one) => header.patterns?.[one.layer]?.[one.head] ?? null,
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
          one.layer,
          one.head,
          ...shown.map(({ name }) => known.of(name, one)),
          ...(known ? [known.patternOf(one) ?? ""] : []),
        ]),
      };
    },
  };
}

/**
 * @param {any[]} cells
 * @param {any[]} order
 * @param {any} description
 * @param {string} title
 * @param {any} colours
 * @param {(one: any) => number} placeOf
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
      `<text x="${x}" y="${y + side + 12}" font-size="11" fill="${colours.muted}">${one.layer} · ${one.head}</text>`,
    ];
  });
  const heading = `<text x="16" y="24" font-size="15" font-weight="600" fill="${colours.ink}">${svgText(title)}</text>`;
  return svgDocument(width, height, title, colours.ground, [heading, ...maps.flat()]);
}
