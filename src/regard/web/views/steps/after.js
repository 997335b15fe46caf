/** After attention: concatenated outputs, W_O, residual, feed-forward; and the effect of silencing a head. */
import { walkable } from "../../elements/controls.js";
import { button, element, refocused, replaced } from "../../elements/elements.js";
import { digitsFor, largestOf, lengthOf, printedNumber } from "../../maths/numbers.js";
import { numberOfHead } from "../../page/state.js";
import { concatenatedOf } from "./model.js";
import { asWritten, isTransposed } from "./product.js";
import { FEW, makeOpener, strip, vectorCell, vectorNumbers } from "./vector.js";

/** @type {{name: string, title: string, usual: string}[]} */
const STAGES = [
  { name: "projected", title: "× W_O", usual: "all heads mixed by W_O" },
  { name: "attended", title: "Residual", usual: "added to the residual stream" },
  { name: "fed_forward", title: "Feed-forward", usual: "two layers, per token" },
  { name: "result", title: "Result", usual: "the token's vector after this block" },
];

/**
 * @typedef {{outputs: ArrayLike<number>[], arrays: Record<string, ArrayLike<number>>, formulas: Record<string, string>,
 *   head: number, original: ArrayLike<number>[]|null,
 *   through: ((concatenated: ArrayLike<number>) => {[stage: string]: ArrayLike<number>|undefined})|null,
 *   arithmetic: ((concatenated: ArrayLike<number>, stages: {[stage: string]: ArrayLike<number>}) => Record<string, import("./stages.js").Arithmetic>)|null}} After
 *   original  the outputs without a change, where something is changed
 *   through   computes the stages from the concatenated outputs, where W_O is known; `arithmetic` says how
 * @param {State} state  holds the silenced heads, and so does the address
 * @param {() => void} again
 * @param {Description} description
 */
export function makeAfter(state, again, description) {
  const number = (/** @type {number} */ head) => numberOfHead(description, head);
  /** @type {Set<number>} */
  let silenced = new Set();
  const heads = element("div", { class: "regard-after-heads" });
  const effect = element("p", { class: "regard-quiet", role: "status" });
  const rest = element("div", { class: "regard-after-rest" });
  const el = element(
    "section",
    { class: "regard-steps-part regard-steps-after", "aria-label": "After attention" },
    element("h2", { class: "regard-steps-heading", text: "After attention" }),
    heads,
    effect,
    rest,
  );

  const opener = makeOpener(el, again);
  const toggles = () => [.../** @type {NodeListOf<HTMLElement>} */ (heads.querySelectorAll(".regard-silence"))];
  walkable(heads, toggles);

  /** @param {After} after */
  function show(after) {
    const { outputs, head } = after;
    silenced = new Set(silencedIn(state).filter((one) => one < outputs.length));
    const all = concatenatedOf(outputs, new Set());
    const about = { top: largestOf(all), digits: Math.max(2, digitsFor(all)) };
    refocused(heads, "data-silences", () => {
      replaced(heads, outputs.map((output, place) => headBox(output, place, { ...about, chosen: place === head })));
      toggles().forEach((toggle, place) => (toggle.tabIndex = place ? -1 : 0));
    });
    const left = concatenatedOf(outputs, silenced);
    effect.textContent = saidOf(all, left, [...silenced].map(number), outputs.length);
    replaced(rest, stagesOf(after, silenced, isTransposed(state.get())).map(stage));
  }

  /** @param {ArrayLike<number>} output @param {number} place @param {{top: number, digits: number, chosen: boolean}} about */
  function headBox(output, place, { top, digits, chosen }) {
    const off = silenced.has(place);
    const toggle = button(off ? "silenced" : "silence", () => {
      const left = silencedIn(state).filter((one) => one !== place);
      const all = off ? left : [...left, place].sort((one, other) => one - other);
      state.set({ steps_silenced: all.length ? all.join(",") : null });
    }, { class: "regard-silence", "aria-pressed": String(off), "data-silences": String(place), "aria-label": `Silence head ${number(place)}` });
    const shown = off ? new Float64Array(output.length) : output;
    const about = { name: `output of head ${number(place)}`, top, digits };
    const inside = output.length <= FEW ? vectorCell(shown, about) : strip(shown, top, "regard-strip-wide");
    const kind = `regard-after-head${chosen ? " regard-after-chosen" : ""}${off ? " regard-after-off" : ""}`;
    const name = element("span", { text: `head ${number(place)}` });
    return element("div", { class: kind }, element("div", { class: "regard-after-name" }, name, toggle), inside);
  }

  /** @param {ReturnType<typeof stagesOf>[number]} stage */
  function stage({ name, title, formula, vector, note, arithmetic }) {
    const key = `after-${name}`;
    const about = { name: title, top: largestOf(vector), digits: Math.max(2, digitsFor(vector)), opens: { opener, key } };
    const quiet = (/** @type {string} */ text) => element("span", { class: "regard-quiet", text });
    const stale = note ? element("span", { class: "regard-after-stale", text: note }) : null;
    const length = quiet(`length ${printedNumber(lengthOf(vector), 2)}`);
    return element(
      "div",
      { class: "regard-after-stage" },
      element("div", { class: "regard-after-title" }, element("strong", { text: title }), quiet(formula), stale),
      element("div", { class: "regard-after-vector" }, vectorCell(vector, about), length),
      opener.isOpen(key) ? vectorNumbers(vector, title, arithmetic) : null,
    );
  }

  return {
    el,
    show,
    /** The heads that are silenced, in order. */
    get silenced() {
      return [...silenced];
    },
  };
}

/** The heads that are silenced, in order. @param {State} state */
function silencedIn(state) {
  const { steps_silenced: listed } = state.get();
  const heads = typeof listed === "string" || typeof listed === "number" ? String(listed).split(",").map(Number) : [];
  return [...new Set(heads.filter((one) => Number.isInteger(one) && one >= 0))].sort((one, other) => one - other);
}

/**
 * The vectors after attention that can be shown, and what is said of a change: computed again where W_O is known.
 * @param {After} after @param {Set<number>} silenced @param {boolean} transposed
 * @returns {{name: string, title: string, formula: string, vector: ArrayLike<number>, note: string|null, arithmetic?: import("./stages.js").Arithmetic}[]}
 */
export function stagesOf({ outputs, original, through, arithmetic, arrays, formulas }, silenced, transposed) {
  const left = concatenatedOf(outputs, silenced);
  const whole = concatenatedOf(original ?? outputs, new Set());
  const isChanged = silenced.size > 0 || Boolean(original);
  const computed = through?.(left) ?? null;
  const was = isChanged && through ? through(whole) : null;
  const how = computed && arithmetic ? arithmetic(left, /** @type {Record<string, ArrayLike<number>>} */ (computed)) : {};
  const first = {
    name: "concatenated",
    title: outputs.length > 1 ? "Concatenated" : "Output",
    formula: formulas.concatenated ?? "the outputs of all heads, concatenated",
    vector: left,
    note: isChanged ? movedBy(left, whole) : null,
  };
  const others = STAGES.flatMap(({ name, title, usual }) => {
    const again = was ? computed?.[name] : undefined;
    const vector = again ?? arrays[name] ?? (isChanged ? undefined : computed?.[name]);
    if (!vector) return [];
    const note = again ? movedBy(again, /** @type {ArrayLike<number>} */ (was?.[name])) : isChanged ? "not computed again: its weights are not at hand here" : null;
    return [{ name, title: asWritten(title, transposed), formula: asWritten(formulas[name] ?? usual, transposed), vector, note, arithmetic: how[name] }];
  });
  return [first, ...others];
}

/** @param {ArrayLike<number>} now @param {ArrayLike<number>} was */
function movedBy(now, was) {
  const far = lengthOf(Float64Array.from(now, (one, place) => one - was[place]));
  const share = far / Math.max(lengthOf(was), 1e-30);
  return share < 1e-9 ? "unchanged" : `changed: moved by ${printedNumber(100 * share, share < 0.1 ? 1 : 0)} % of its length`;
}

/** @param {Float64Array} all @param {Float64Array} left @param {number[]} silenced the model's numbers @param {number} heads */
function saidOf(all, left, silenced, heads) {
  if (heads === 1 && !silenced.length) return "";
  if (!silenced.length) return "Silence a head to see what remains without it.";
  const [before, after] = [lengthOf(all), lengthOf(left)];
  const share = before > 0 ? 1 - (after * after) / (before * before) : 0;
  const names = silenced.sort((one, other) => one - other).join(", ");
  const lengths = `length ${printedNumber(before, 2)} → ${printedNumber(after, 2)}`;
  return `Without head ${names}: ${lengths}; ${printedNumber(100 * share, 0)} % of the squared norm removed.`;
}
