/** What if: another divisor, a temperature, another mask. The state holds them, and so does the address. */
import { segments, slider } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";
import { UNCHANGED, isChanged } from "./model.js";

const WARMEST = 10;

/** @param {State} state @returns {import("./model.js").Changes} */
function changesIn(state) {
  const { steps_divisor: divisor, steps_temperature: temperature, steps_mask: mask } = state.get();
  const isPositive = (/** @type {unknown} */ value) => typeof value === "number" && value > 0 && value < 1e6;
  return {
    divisor: isPositive(divisor) ? divisor : null,
    temperature: isPositive(temperature) ? temperature : 1,
    mask: mask === "none" || mask === "causal" ? mask : "model",
  };
}

/**
 * @typedef {{size: number, scale: number, mask: "causal"|"other"|null}} About  size: of a head
 * @typedef {ReturnType<typeof controlsFor>} Controls
 *
 * @param {State} state @param {Lifetime} lifetime @param {() => void} changed
 */
export function makeWhatIf(state, lifetime, changed) {
  const box = element("div", { class: "regard-what-if-controls" });
  const why = element("p", { class: "regard-quiet" });
  const reset = button("Reset", () => set(UNCHANGED));
  const heading = element("h2", { class: "regard-subtitle", text: "What if?" });
  const title = element("div", { class: "regard-what-if-title" }, heading, reset);
  const el = element("section", { class: "regard-card regard-what-if", "aria-label": "What if" }, title, box, why);
  /** @type {Controls|null} */
  let controls = null;
  /** @type {About|null} */
  let about = null;
  let disabled = false;

  /** @param {import("./model.js").Changes} next */
  function set({ divisor, temperature, mask }) {
    state.set({
      steps_divisor: divisor,
      steps_temperature: temperature === 1 ? null : Number(temperature.toPrecision(4)),
      steps_mask: mask === "model" ? null : mask,
    });
  }

  function follow() {
    const changes = changesIn(state);
    reset.disabled = !isChanged(changes);
    if (!controls || !about) return;
    controls.divisor.set(changes.divisor ?? 1 / about.scale);
    controls.temperature.set(Math.log10(changes.temperature));
    controls.mask.set(changes.mask);
  }

  const change = () => {
    follow();
    changed();
  };
  lifetime.add(state.listen(change, ["steps_divisor", "steps_temperature", "steps_mask"]));

  return {
    el,
    get changes() {
      return disabled ? UNCHANGED : changesIn(state);
    },
    /** The softmax can be recomputed only if all keys are known. @param {string|null} reason */
    disable(reason) {
      why.textContent = reason ?? "";
      box.hidden = reset.hidden = disabled = Boolean(reason);
    },
    /** @param {number} size @param {number} scale @param {"causal"|"other"|null} mask */
    fit(size, scale, mask) {
      if (about && about.size === size && about.scale === scale && about.mask === mask) return;
      about = { size, scale, mask };
      controls = controlsFor(about, (patch) => set({ ...changesIn(state), ...patch }));
      const { divisor, temperature, mask: choice } = controls;
      const label = element("span", { text: "Mask", "aria-hidden": "true" });
      replaced(box, divisor.el, temperature.el, element("div", { class: "regard-bar-group" }, label, choice.el));
      follow();
    },
  };
}

/**
 * Sliders and a choice for a head.
 * @param {About} about @param {(patch: Partial<import("./model.js").Changes>) => void} set
 */
function controlsFor({ size, scale, mask }, set) {
  const usual = 1 / scale;
  const root = Math.abs(usual * usual - size) < 1e-6 * size ? "√d_k = " : "";
  const step = size <= 16 ? 0.1 : size <= 64 ? 0.25 : 0.5;
  const isUsual = (/** @type {number} */ value) => Math.abs(value - usual) < step * 0.51;
  const named = (/** @type {number} */ value) =>
    isUsual(value) ? `${root}${printedNumber(usual, Number.isInteger(usual) ? 0 : 2)}` : printedNumber(value, 2);
  const divisors = { least: Math.min(1, usual), most: Math.max(size, usual), step, value: usual, said: named };
  const power = (/** @type {number} */ value) => printedNumber(10 ** value, 2);
  const temperatures = { least: -1, most: Math.log10(WARMEST), step: 0.02, value: 0, said: power };
  /** @type {{value: import("./model.js").Changes["mask"], text: string, title: string}[]} */
  const masks = [
    { value: mask ? "none" : "model", text: "Off", title: "Every key is visible" },
    { value: "causal", text: "Causal", title: "Later words are masked" },
  ];
  if (mask) masks.unshift({ value: "model", text: "On", title: "The model's mask" });
  return {
    divisor: slider("Divide scores by", divisors, (value) => set({ divisor: isUsual(value) ? null : value })),
    temperature: slider("Temperature", temperatures, (value) => set({ temperature: Math.abs(value) < 0.011 ? 1 : 10 ** value })),
    mask: segments("Mask", mask === "causal" ? masks.slice(0, 2) : masks, "model", (value) => set({ mask: value })),
  };
}
