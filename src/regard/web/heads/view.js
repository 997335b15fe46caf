/** What heads do: dots over two metrics, the whole model on one screen, one head in detail; one model or two. */
import { makeColours } from "../elements/colours.js";
import { select } from "../elements/controls.js";
import { button, element, replaced } from "../elements/elements.js";
import { printedCount } from "../maths/numbers.js";
import { headingOf, makeHeader, makePage } from "../page/toolbar.js";
import { makeCard } from "./card.js";
import { BY_PATTERN, makeHeadMap } from "./head_map.js";
import { NONE, atlasOf, firstAxes, firstHead, legendOf, nameOf } from "./model.js";
import { makeScatter } from "./scatter.js";

const NARROW = 620; // pixels

/** Show the heads; the returned function removes the page. @param {HTMLElement} el @param {Frame} frame */
export function showHeads(el, frame) {
  const atlas = atlasOf(frame);
  const { lifetime, root, live, theme } = makePage(el, "regard-heads-page", () => draw());
  const body = element("div", { class: "regard-heads-body" });
  replaced(root, makeHeader({ tools: [theme.el] }), headerOf(atlas), body, live.el);
  const [x, y] = firstAxes(atlas);
  /** @type {{x: string, y: string, by: string, only: string|null, model: import("./model.js").Model, one: HeadPlace}} */
  const chosen = { x, y, by: BY_PATTERN, only: null, ...firstHead(atlas) };

  /** Once per theme. */
  function draw() {
    const colours = makeColours(theme.now());
    const legend = legendOf(atlas);
    const small = atlas.models.length > 1 || root.clientWidth < NARROW;
    const colourOf = (/** @type {string} */ pattern) =>
      pattern === NONE ? colours.muted : colours.head(legend.find(({ name }) => name === pattern)?.place ?? 0);
    const models = atlas.models.map((model) => {
      const choose = (/** @type {HeadPlace} */ one) => select(model, one);
      return {
        model,
        scatter: makeScatter(atlas, model, colours, colourOf, choose, small),
        map: makeHeadMap(atlas, model, colours, colourOf, choose),
      };
    });
    const card = makeCard(atlas, colours, live.announce, (metric) => change({ x: metric }));
    const names = atlas.metrics.map(({ name }) => ({ value: name, text: name }));
    const across = chooser("Across", names, chosen.x, (value) => change({ x: value }));
    const up = chooser("Up", names, chosen.y, (value) => change({ y: value }));
    const by = chooser("Colour cells by", [{ value: BY_PATTERN, text: "pattern" }, ...names], chosen.by, (value) => change({ by: value }));
    const meaning = element("p", { class: "regard-note" });
    const below = button("", () => card.el.scrollIntoView({ block: "start" }), { class: "regard-button regard-heads-below" });
    const swap = button("⇄ Swap", () => change({ x: chosen.y, y: chosen.x }));
    const patterns = legend.map(({ name, count }) => {
      const dot = element("i", { style: { background: name === NONE ? "transparent" : colourOf(name) } });
      const toggle = () => change({ only: chosen.only === name ? null : name });
      const quiet = element("span", { class: "regard-quiet", text: String(count) });
      return { name, el: button("", toggle, { class: "regard-heads-pattern", title: "Show only heads with this pattern" }, dot, `${name} `, quiet) };
    });
    const captioned = (/** @type {import("./model.js").Model} */ model, /** @type {Element} */ plot) =>
      element("figure", { class: "regard-heads-figure" }, atlas.models.length > 1 ? element("figcaption", { text: model.name }) : null, plot);
    replaced(
      body,
      element(
        "section",
        { class: "regard-heads-all", "aria-label": "All heads" },
        element("div", { class: "regard-bar" }, across.el, up.el, swap),
        meaning,
        element("div", { class: "regard-heads-plots" }, models.map(({ model, scatter }) => captioned(model, scatter.el))),
        below,
        element("div", { class: "regard-heads-legend", role: "group", "aria-label": "Patterns" }, patterns.map((pattern) => pattern.el)),
        element("h2", { class: "regard-subtitle", text: "The whole model: layers down, heads across" }),
        element("div", { class: "regard-bar" }, by.el),
        element("div", { class: "regard-heads-maps" }, models.map(({ model, map }) => captioned(model, map.el))),
        atlas.models.flatMap(({ notes }) => notes).map((text) => element("p", { class: "regard-note", text })),
      ),
      card.el,
    );

    /** @param {import("./model.js").Model} model @param {HeadPlace} one */
    function select(model, one) {
      Object.assign(chosen, { model, one });
      show();
      card.show(model, one);
      live.announce(`Layer ${one.layer}, head ${one.head} of ${model.name}: ${nameOf(model, one)}`);
    }

    /** @param {Partial<typeof chosen>} patch */
    function change(patch) {
      Object.assign(chosen, patch);
      show();
    }

    function show() {
      across.set(chosen.x);
      up.set(chosen.y);
      by.set(chosen.by);
      const said = (/** @type {string} */ name) => atlas.metrics.find((metric) => metric.name === name)?.meaning ?? "";
      replaced(meaning, element("b", { text: chosen.x }), `: ${said(chosen.x)}. `, element("b", { text: chosen.y }), `: ${said(chosen.y)}.`);
      below.textContent = `${chosen.one.layer}.${chosen.one.head}: ${nameOf(chosen.model, chosen.one)} ↓`;
      for (const { name, el: pattern } of patterns) pattern.setAttribute("aria-pressed", String(chosen.only === name));
      for (const { model, scatter, map } of models) {
        const one = model === chosen.model ? chosen.one : null;
        scatter.show(chosen.x, chosen.y, one, chosen.only);
        map.show(chosen.by, one, chosen.only);
      }
    }

    show();
    card.show(chosen.model, chosen.one);
  }

  draw();
  return lifetime.end;
}

/** @param {import("./model.js").Atlas} atlas */
function headerOf(atlas) {
  const facts = atlas.models.map(({ name, layers, heads, source, about }) => {
    const count = about.documents ?? about.sentences?.at(-1);
    const what = about.documents ? "text" : "sentence";
    const size = count ? `${printedCount(count)} ${what}${count === 1 ? "" : "s"}` : null;
    const tokens = about.tokens ? `${printedCount(about.tokens)} tokens` : null;
    return [`${name}: ${layers} layers × ${heads} heads`, `over ${source}`, size, tokens].filter(Boolean).join(", ");
  });
  const about =
    "Each dot is one attention head, placed by two of its statistics; its colour is the pattern it shows. " +
    "Select a dot or a cell to see what that head does. Choose other statistics for the axes, or one pattern below the dots.";
  return headingOf(atlas.title, facts, about);
}

/**
 * A select with a visible label.
 * @param {string} label @param {{value: string, text: string}[]} options @param {string} value @param {(value: string) => void} choose
 */
function chooser(label, options, value, choose) {
  const list = select(label, options, value, choose, { class: "regard-heads-select" });
  return {
    el: element("label", { class: "regard-heads-chooser" }, element("span", { class: "regard-label", text: label }), list),
    /** @param {string} to */
    set: (to) => (list.value = to),
  };
}
