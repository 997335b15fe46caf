/** Heads: every head of the model as a dot, by layer and head or over two measures, named in plain words. */
import { segments } from "../../elements/controls.js";
import { makeDots } from "../../elements/dots.js";
import { drawn, element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { svgText } from "../../page/export.js";
import { shortLabelOf } from "../../page/roles.js";
import { keptHeads, keptLayers, numberOfHead, numberOfLayer } from "../../page/state.js";
import { sinksOf, unitsOf } from "../../elements/words.js";
import { saidOfHead } from "../grid/about.js";
import { headsOf, printedStatistic, statisticsFrom, tableOfStatistics } from "../grid/model.js";
import { svgDocument } from "../matrix/figure.js";
import { LINE, MEASURES, byLayer, overMeasures, rangeOf, sharedNames } from "./model.js";

const MOSTLY = 0.5; // of a head's weight on sinks

export const dots = {
  name: "dots",
  title: "Dots",
  uses: [],
  /** @param {Description} description */
  suits: ({ kind, layers, heads, has }) => kind === "reading" && layers * heads > 1 && (has ?? []).includes("tile"),
  draw: drawDots,
};

/**
 * dots_across, dots_up  the measures over which dots are spread; without them, by layer and head
 * @param {Context} context @returns {Drawn}
 */
function drawDots({ el, source, description, state, colours, announce, lifetime }) {
  const latest = latestOnly(lifetime);
  const layers = keptLayers(description);
  const columns = keptHeads(description);
  const all = headsOf(description.layers, description.heads).filter(({ layer, head }) => layers.includes(layer) && columns.includes(head));
  const labels = all.map((head) => shortLabelOf(description, head));
  /** @type {import("../grid/model.js").HeadStatistics|null} */
  let known = null;
  let width = 0;
  let drawnOnce = () => {};
  /** @type {Promise<void>} */
  const ready = new Promise((done) => (drawnOnce = done));
  const picture = makeDots({ label: "Heads", choose: open, point });
  const frame = drawn("svg", { class: "regard-dots-frame", "aria-hidden": "true" });
  const stage = element("div", { class: "regard-dots-stage" }, frame, picture.el);
  const said = element("p", { class: "regard-dots-said" });
  const legend = element("p", { class: "regard-dots-legend" });
  const options = (/** @type {string} */ label) =>
    element("select", { class: "regard-select", "aria-label": label }, MEASURES.map(({ name, text }) => element("option", { value: name, text })));
  const [across, up] = [options("Across"), options("Up")];
  const pair = element("div", { class: "regard-bar-group" }, element("span", { class: "regard-label", text: "Across" }), across, element("span", { class: "regard-label", text: "Up" }), up);
  const arrange = segments(
    "Arrangement",
    [
      { value: false, text: "By layer" },
      { value: true, text: "Over two measures" },
    ],
    isSpread(),
    (value) => state.set(value ? { dots_across: "distance", dots_up: "entropy" } : { dots_across: undefined, dots_up: undefined }),
  );
  across.addEventListener("change", () => state.set({ dots_across: across.value }));
  up.addEventListener("change", () => state.set({ dots_up: up.value }));
  const names = element("ul", { class: "regard-dots-names" }); // where there is no room at the dots
  replaced(
    names,
    sharedNames(all, labels).map(([name, of]) => element("li", {}, element("b", { text: name }), ` ${of.map(({ layer, head }) => `${numberOfLayer(description, layer)}.${numberOfHead(description, head)}`).join(", ")}`)),
  );
  replaced(el, legend, stage, said, names);

  function isSpread() {
    return Boolean(state.get().dots_across && state.get().dots_up);
  }

  /** @param {HeadPlace} head */
  function open(head) {
    state.set({ ...head, heads: null, view: "sentence" });
  }

  /** @param {HeadPlace|null} head */
  function point(head) {
    for (const circle of picture.el.querySelectorAll("[data-pointed]")) circle.removeAttribute("data-pointed");
    if (head) picture.circleOf(head)?.setAttribute("data-pointed", "");
    said.textContent = head ? saidOfHead(head, known, description) : `${all.length} heads. Tap a dot to open its head.`;
    stage.toggleAttribute("data-on-dot", Boolean(head));
  }

  /** The numbers of a measure, one per head. @param {string} name */
  function numbersOf(name) {
    return name === "layer" ? all.map(({ layer }) => numberOfLayer(description, layer)) : all.map((head) => known?.of(name, head) ?? NaN);
  }

  function layout() {
    const names = [state.get().dots_across, state.get().dots_up];
    if (!isSpread() || !known) return byLayer(all, { layers, columns, width, labelled: labels.some(Boolean), labels });
    return overMeasures(all, { x: numbersOf(names[0]), y: numbersOf(names[1]) }, { width, height: Math.max(320, Math.min(560, width * 0.6)) });
  }

  function show() {
    if (width < 40) return;
    const placed = layout();
    picture.show(
      placed.dots.map((dot) => ({ ...dot, name: saidOfHead(dot, known, description) })),
      placed,
    );
    picture.mark((layer, head) => layer === state.get().layer && head === state.get().head);
    for (const dot of placed.dots) picture.circleOf(dot)?.toggleAttribute("data-sink", isSink(dot));
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${placed.width} ${placed.height}`, width: placed.width, height: placed.height })) frame.setAttribute(name, String(value));
    replaced(frame, "axes" in placed ? axesOf(placed.axes) : namesOf(placed));
    names.hidden = "lines" in placed && placed.lines.length > 0;
    arrange.set(isSpread());
    pair.hidden = !isSpread();
    [across.value, up.value] = [state.get().dots_across ?? "distance", state.get().dots_up ?? "entropy"];
    const { listed } = sinksOf(unitsOf(description, "word"));
    replaced(legend, known && all.some(isSink) ? [element("i", { class: "regard-vote-key" }), "looks at words ", element("i", { class: "regard-vote-key", "data-abstains": true }), `looks mostly at ${listed}`] : []);
    point(null);
    drawnOnce();
  }

  /** @param {HeadPlace} head */
  function isSink(head) {
    return (known?.of("sinks", head) ?? 0) > MOSTLY;
  }

  /** @param {string} text @param {number} x @param {number} y @param {string} anchor @param {string} [name] */
  function textAt(text, x, y, anchor, name = "") {
    return drawn("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor, class: name, text });
  }

  /** Numbers of layers and heads, and what heads are known for. @param {ReturnType<typeof byLayer>} placed */
  function namesOf({ rows, columns: across, dots: places, lines }) {
    return [
      ...rows.map(({ layer, y }) => textAt(`Layer ${numberOfLayer(description, layer)}`, 64, y + 4, "end")),
      ...across.map(({ head, x }) => textAt(`${numberOfHead(description, head)}`, x, 12, "middle")),
      ...lines.flatMap((texts, at) => texts.map((line, place) => textAt(line, places[at].x, places[at].y + places[at].r + 15 + LINE * place, "middle", "regard-dots-name"))),
    ];
  }

  /** @param {{left: number, right: number, top: number, bottom: number}} axes */
  function axesOf({ left, right, top, bottom }) {
    const named = (/** @type {string} */ name) => MEASURES.find((one) => one.name === name) ?? MEASURES[0];
    const [x, y] = [named(state.get().dots_across), named(state.get().dots_up)];
    const titleOf = (/** @type {typeof x} */ { text, unit }) => `${text}${unit ? ` (${unit})` : ""}`;
    const [[x0, x1], [y0, y1]] = [rangeOf(numbersOf(x.name)), rangeOf(numbersOf(y.name))];
    return [
      drawn("path", { d: `M${left} ${top}V${bottom}H${right}`, class: "regard-dots-axis" }),
      textAt(printedStatistic(x0), left, bottom + 18, "start"),
      textAt(printedStatistic(x1), right, bottom + 18, "end"),
      textAt(`${titleOf(x)} →`, (left + right) / 2, bottom + 18, "middle", "regard-dots-title"),
      textAt(printedStatistic(y0), left - 8, bottom, "end"),
      textAt(printedStatistic(y1), left - 8, top + 10, "end"),
      textAt(`↑ ${titleOf(y)}`, left, top - 10, "start", "regard-dots-title"),
    ];
  }

  lifetime.resized(el, ({ contentRect }) => {
    if (Math.abs(contentRect.width - width) < 1) return;
    width = contentRect.width;
    show();
  });
  lifetime.add(
    state.listen((now, before) => {
      if (now.view !== before.view) return;
      if (["dots_across", "dots_up", "layer", "head"].some((name) => now[name] !== before[name])) show();
      if (now.dots_across !== before.dots_across) announce(isSpread() ? "Heads over two measures" : "Heads by layer");
    }),
  );
  if ((description.has ?? []).includes("statistics"))
    latest(
      (signal) => source.ask("statistics", {}, { signal }),
      (frame) => {
        known = statisticsFrom(frame, description);
        show();
      },
      (error) => (said.textContent = error.message),
    );

  const title = "All heads";
  return {
    cleanUp() {},
    ready,
    adjust: (description.has ?? []).includes("statistics") ? [arrange.el, pair] : [],
    svg() {
      const placed = layout();
      const texts = [...frame.querySelectorAll("text")].map((one) => `<text x="${one.getAttribute("x")}" y="${one.getAttribute("y")}" text-anchor="${one.getAttribute("text-anchor")}" font-size="13" fill="${colours.ink}">${svgText(one.textContent ?? "")}</text>`);
      const axis = frame.querySelector(".regard-dots-axis")?.getAttribute("d");
      const circles = placed.dots.map((dot) => {
        const fill = isSink(dot) ? colours.ground : colours.accent;
        return `<circle cx="${dot.x.toFixed(1)}" cy="${dot.y.toFixed(1)}" r="${dot.r.toFixed(1)}" fill="${fill}" stroke="${isSink(dot) ? colours.muted : colours.accent}" stroke-width="1.6"><title>${svgText(saidOfHead(dot, known, description))}</title></circle>`;
      });
      const lines = axis ? [`<path d="${axis}" fill="none" stroke="${colours.muted}"/>`] : [];
      return svgDocument(placed.width, placed.height, title, colours.ground, [...lines, ...circles, ...texts]);
    },
    table: () => tableOfStatistics(all, known, description, title),
  };
}
