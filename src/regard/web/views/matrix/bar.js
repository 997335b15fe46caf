/** The controls above the matrix. */
import { segments, toggle } from "../../elements/controls.js";
import { button, element } from "../../elements/elements.js";

const HELP = [
  "Wheel or pinch to zoom, drag to move, click to select a query and a key, Shift-drag to select a region.",
  "Keys: arrows walk from cell to cell, with Shift they choose a region; + and − zoom; Page up and Page down move by a " +
    "screen; Home shows the whole matrix; Enter selects query and key; Escape clears the selection.",
];

/**
 * @param {State} state
 * @param {{nearer: () => void, farther: () => void, whole: () => void, toRegion: () => void, forget: () => void}} acts
 * @param {number} count
 * @param {"linear"|"log"} usual colour scale
 */
export function makeBar(state, acts, count, usual) {
  const named = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) => button(text, act, { "aria-label": label, title: label });
  const farther = named("−", "Zoom out", acts.farther);
  const nearer = named("+", "Zoom in", acts.nearer);
  const whole = named("Whole", "Show the whole matrix", acts.whole);
  const pool = segments(
    "Pooling",
    [
      { value: "mean", text: "Mean", title: "Cells that pool several weights show the mean" },
      { value: "max", text: "Max", title: "Cells that pool several weights show the largest" },
    ],
    state.get().pool,
    (value) => state.set({ pool: value }),
  );
  const colour = segments(
    "Colour",
    [
      { value: "linear", text: "Linear", title: "Colour proportional to the weight" },
      { value: "log", text: "Log", title: "Colour by the logarithm of the weight, which separates small weights" },
    ],
    state.get().colour ?? usual,
    (value) => state.set({ colour: value }),
  );
  let choosing = false;
  const choose = toggle("Drag chooses a region", false, (on) => (choosing = on));
  const toRegion = named("Zoom to region", "Zoom to the region", acts.toRegion);
  const forget = named("Forget region", "Forget the region", acts.forget);
  const group = (/** @type {string} */ label, /** @type {HTMLElement[]} */ ...inside) =>
    element("div", { class: "regard-bar-group", role: "group", "aria-label": label }, inside);
  const el = element(
    "div",
    { class: "regard-bar" },
    group("Zoom", farther, nearer, whole),
    count > 256 ? pool.el : null,
    colour.el,
    group("Region", choose.el, toRegion, forget),
  );
  const summary = element("summary", { text: "Mouse, touch and keyboard" });
  const help = element("details", { class: "regard-details" }, summary, HELP.map((text) => element("p", { text })));
  toRegion.hidden = forget.hidden = state.get().region === null;
  return {
    el,
    help,
    selecting: () => choosing,
    /** @param {Chosen} now */
    set(now) {
      pool.set(now.pool);
      colour.set(now.colour ?? usual);
      toRegion.hidden = forget.hidden = now.region === null;
    },
    /** @param {boolean} isWhole @param {boolean} isNearest @param {boolean} region */
    show(isWhole, isNearest, region) {
      farther.disabled = whole.disabled = isWhole;
      nearer.disabled = isNearest;
      toRegion.hidden = forget.hidden = !region;
    },
  };
}
