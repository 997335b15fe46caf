/** Heads: every head of the model as a dot, by layer and head or over two measures, named in plain words. */
import { segments, select } from "../../elements/controls.js";
import { makeDots } from "../../elements/dots.js";
import { drawn, element, replaced } from "../../elements/elements.js";
import { makeReady } from "../../elements/lifetime.js";
import { shortLabelOf } from "../../page/roles.js";
import { headsOf, isKept, numberOfHead, numberOfLayer } from "../../page/state.js";
import { sinksOf, unitsOf } from "../../elements/words.js";
import { saidOfHead } from "../grid/about.js";
import { askStatistics, tableOfStatistics } from "../grid/model.js";
import { dotKey } from "../vote/panel.js";
import { isSpread, layoutOf, MEASURES, sharedNames } from "./model.js";

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
function drawDots(context) {
  const { el, description, state, announce, lifetime } = context;
  const all = headsOf(description.layers, description.heads).filter((head) => isKept(head, description));
  const labels = all.map((head) => shortLabelOf(description, head));
  /** @type {import("../grid/model.js").HeadStatistics|null} */
  let known = null;
  let width = 0;
  const { ready, done: drawnOnce } = makeReady();
  const picture = makeDots({ label: "Heads", choose: open, point });
  const frame = drawn("svg", { class: "regard-dots-frame", "aria-hidden": "true" });
  const stage = element("div", { class: "regard-dots-stage" }, frame, picture.el);
  const said = element("p", { class: "regard-dots-said" });
  const legend = element("p", { class: "regard-dots-legend" });
  const measures = MEASURES.map(({ name, text }) => ({ value: name, text }));
  const across = select("Across", measures, "", (measure) => state.set({ dots_across: measure }));
  const up = select("Up", measures, "", (measure) => state.set({ dots_up: measure }));
  const pair = element("div", { class: "regard-bar-group" }, element("span", { class: "regard-label", text: "Across" }), across, element("span", { class: "regard-label", text: "Up" }), up);
  const arrange = segments(
    "Arrangement",
    [
      { value: false, text: "By layer" },
      { value: true, text: "Over two measures" },
    ],
    isSpread(state.get()),
    (value) => state.set(value ? { dots_across: "distance", dots_up: "entropy" } : { dots_across: undefined, dots_up: undefined }),
  );
  const names = element("ul", { class: "regard-dots-names" }); // where there is no room at the dots
  replaced(
    names,
    sharedNames(all, labels).map(([name, of]) => element("li", {}, element("b", { text: name }), ` ${of.map(({ layer, head }) => `${numberOfLayer(description, layer)}.${numberOfHead(description, head)}`).join(", ")}`)),
  );
  replaced(el, legend, stage, said, names);

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

  function show() {
    if (width < 40) return;
    const placed = layoutOf(all, { description, labels, known, chosen: state.get(), width });
    picture.show(placed.dots.map((dot) => ({ ...dot, name: saidOfHead(dot, known, description) })), placed);
    picture.mark((layer, head) => layer === state.get().layer && head === state.get().head);
    for (const dot of placed.dots) picture.circleOf(dot)?.toggleAttribute("data-sink", isSink(dot));
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${placed.width} ${placed.height}`, width: placed.width, height: placed.height })) frame.setAttribute(name, String(value));
    const written = placed.texts.map(({ text, x, y, anchor, kind }) => drawn("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor, class: kind ? `regard-dots-${kind}` : "", text }));
    replaced(frame, placed.axis ? drawn("path", { d: placed.axis, class: "regard-dots-axis" }) : null, written);
    names.hidden = placed.lines.length > 0;
    arrange.set(isSpread(state.get()));
    pair.hidden = !isSpread(state.get());
    [across.value, up.value] = [state.get().dots_across ?? "distance", state.get().dots_up ?? "entropy"];
    const { listed } = sinksOf(unitsOf(description, "word"));
    replaced(legend, known && all.some(isSink) ? [dotKey("first"), "looks at words ", dotKey("abstains"), `looks mostly at ${listed}`] : []);
    point(null);
    drawnOnce();
  }

  /** @param {HeadPlace} head */
  function isSink(head) {
    return (known?.of("sinks", head) ?? 0) > MOSTLY;
  }

  lifetime.widths(el, (now) => {
    width = now;
    show();
  });
  lifetime.add(state.listen(show, ["dots_across", "dots_up", "layer", "head"]));
  lifetime.add(state.listen((now) => announce(isSpread(now) ? "Heads over two measures" : "Heads by layer"), ["dots_across"]));
  const take = (/** @type {import("../grid/model.js").HeadStatistics} */ numbers) => {
    known = numbers;
    show();
  };
  askStatistics(context, take, (error) => (said.textContent = error.message));

  return {
    ready,
    adjust: (description.has ?? []).includes("statistics") ? [arrange.el, pair] : [],
    table: () => tableOfStatistics(all, known, description, "All heads"),
  };
}
