/** One number: one head for one query, every number from q, k and v to the output, and the steps after attention. */
import { segments } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { largestOf, printedCount, printedNumber } from "../../maths/numbers.js";
import { strongest } from "../../maths/links.js";
import { makeState, numberOfHead } from "../../page/state.js";
import { numbered, printable } from "../../elements/words.js";
import { makeAfter } from "./after.js";
import { makeEditor } from "./editor.js";
import { SMALL_EXAMPLE, exampleSource } from "./example.js";
import { flowDiagram } from "./flow.js";
import {
  UNCHANGED,
  concatenatedOf,
  headingOf,
  inputTables,
  isChanged,
  keysToShow,
  labelsOf,
  outputTable,
  pickedGiven,
  pickedSteps,
  saidOfChange,
  saidOfEdits,
  softmaxFormula,
  stagesOf,
  stepsOf,
  stepsTable,
  titleOfSteps,
  totalOf,
} from "./model.js";
import { makeNext } from "./next.js";
import { makeNumber } from "./number.js";
import { MOST_KEYS, SHOWN, StepNumbers } from "./numbers.js";
import { makeOrigin } from "./origin.js";
import { PRODUCTS, isTransposed } from "./product.js";
import { queryChooser } from "./query.js";
import { makeStory } from "./story.js";
import { makeTable } from "./table.js";
import { makeWhatIf } from "./what_if.js";

const ALL_SHOWN = 20; // words up to which all rows are shown at first
const FLOWING = 10;
const AS_COMPUTED = 5e-3; // float16 vectors give up to 2e-3

export const steps = {
  name: "steps",
  title: "One number",
  uses: ["layer", "head"],
  /** @param {Description} description */
  suits: (description) => (description.has ?? []).includes("vectors") && (description.tokens?.length ?? 0) > 0,
  draw: drawSteps,
};

/**
 * The steps of the text, or of a small example in which everything can be edited.
 * @param {Context} context @returns {Drawn}
 */
function drawSteps(context) {
  const { el, description, state, lifetime } = context;
  if (description.editable) {
    const shown = new StepsPicture({ ...context, el: el.appendChild(element("div")) });
    return { adjust: [shown.adjust], table: () => shown.exported(), origin: () => shown.origin() };
  }
  const root = el.closest(".regard");
  const choice = segments(
    "What is shown",
    [
      { value: false, text: "This text" },
      { value: true, text: "A small example to edit", title: "Three words with four numbers each: change anything" },
    ],
    isExample(),
    (value) => state.set({ steps_example: value ? "1" : null }),
  );
  const body = element("div");
  const adjust = element("div", { class: "regard-bar" });
  replaced(el, body);
  /** @type {StepsPicture|null} */
  let shown = null;
  function isExample() {
    return String(state.get().steps_example ?? "") === "1";
  }
  function draw() {
    shown?.lifetime.end();
    choice.set(isExample());
    root?.toggleAttribute("data-example", isExample());
    const inner = element("div");
    replaced(body, inner);
    const other = { source: exampleSource(), description: SMALL_EXAMPLE, state: makeState({ query: 1, steps_product: state.get().steps_product }) };
    shown = new StepsPicture({ ...context, ...(isExample() ? other : {}), el: inner });
    replaced(adjust, choice.el, shown.adjust);
  }
  lifetime.add(state.listen(draw, ["steps_example"]));
  lifetime.add(() => root?.removeAttribute("data-example"));
  draw();
  const drawn = () => /** @type {StepsPicture} */ (shown);
  return { adjust: [adjust], table: () => drawn().exported(), origin: () => drawn().origin() };
}

/**
 * whole  the steps of all keys, with the change and before it; shown: the rows of the table
 * @typedef {import("./model.js").Steps} Steps
 * @typedef {{given: import("./model.js").Given, steps: Steps, before: Steps, words: string[], own: number|null, heading: string,
 *   changes: import("./model.js").Changes}} Whole
 * @typedef {import("./table.js").Shown} Shown
 */

/** What is drawn of the steps of one text. */
class StepsPicture {
  #isFresh = true; // whether to animate the flow
  #width = 0;
  /** @type {{whole: Whole, shown: Shown}|null} */
  #drawn = null;

  /** @param {Context} context */
  constructor({ el, source, description, state, colours, announce, lifetime: outer }) {
    this.el = el;
    this.description = description;
    this.state = state;
    this.colours = colours;
    this.announce = announce;
    const lifetime = (this.lifetime = outer.part());
    this.rows = description.tokens.length <= ALL_SHOWN ? ALL_SHOWN : SHOWN;
    this.editing = description.editable ? makeEditor(description.editable, () => this.#edited(), () => isTransposed(state.get())) : null;
    this.numbers = new StepNumbers({ source, description, state, lifetime, editing: this.editing, came: (isNew) => (isNew ? this.#take() : this.#show()), failed: (error) => this.#fail(error) });
    this.chooser = this.#makeChooser();
    this.whatIf = makeWhatIf(state, lifetime, () => this.#show());
    this.product = segments(
      "Matrices are written as",
      [
        { value: PRODUCTS[0], text: "x · W", title: "A row vector times W, a row of W per number of x" },
        { value: PRODUCTS[1], text: "x · Wᵀ", title: "As lectures and PyTorch's Linear write it: a row of W per number of the result" },
      ],
      PRODUCTS[Number(this.numbers.transposed)],
      (value) => state.set({ steps_product: value === PRODUCTS[0] ? undefined : value }),
    );
    this.number = makeNumber((key) => state.set({ key }));
    this.table = makeTable(() => this.#show());
    this.after = makeAfter(state, () => this.#show(), description);
    this.origins = makeOrigin(() => this.#show());
    this.story = makeStory({ el, announce, target: (stage) => this.#targetOf(stage) });
    this.next = makeNext({ source, description, lifetime, announce });
    this.title = element("h2", { class: "regard-steps-heading" });
    this.note = element("p", { class: "regard-note", role: "status" });
    this.all = button("", () => this.#showMore(), { hidden: true });
    this.changedNote = element("p", { class: "regard-quiet", role: "status" });
    this.flow = element("div", { class: "regard-steps-flow" });
    this.bar = element("div", { class: "regard-bar" }, this.chooser.el);
    this.#layOut();
    this.editing?.draw(state.get().head);
    lifetime.widths(el, (width) => this.#resize(width));
    lifetime.add(state.listen((now, before) => this.#follow(now, before)));
    this.#load();
  }

  /** Controls for the Adjust panel. */
  get adjust() {
    return element("div", { class: "regard-bar" }, this.origins.choice, this.product.el, this.whatIf.el);
  }

  #layOut() {
    const isReading = this.description.kind === "reading"; // its table is long, the one number is the beginning
    const table = element(
      "section",
      { class: "regard-steps-part regard-steps-scores", "aria-label": "Scores and weights" },
      this.title,
      this.table.el,
      element("div", { class: "regard-bar-group regard-steps-more" }, this.all, this.changedNote),
      this.note,
    );
    this.tablePart = isReading ? element("details", { class: "regard-steps-all" }, element("summary", { text: "All words as a table" }), table) : table;
    if (this.tablePart instanceof HTMLDetailsElement && this.state.get().steps_table) this.tablePart.open = true;
    this.tablePart.addEventListener("toggle", () => isReading && this.state.set({ steps_table: /** @type {HTMLDetailsElement} */ (this.tablePart).open || undefined }));
    const sum = element("section", { class: "regard-steps-part regard-steps-sum", "aria-label": "The weighted sum" }, element("h2", { class: "regard-steps-heading", text: "The weighted sum" }), this.flow);
    replaced(this.el, this.bar, this.story.el, this.editing?.el, this.origins.el, this.number.el, this.tablePart, sum, this.after.el, this.next.el);
  }

  /** What a stage of the story explains. @param {string} stage @returns {HTMLElement|null} */
  #targetOf(stage) {
    const parts = /** @type {Record<string, HTMLElement>} */ ({ origin: this.origins.el, position: this.origins.el, after: this.after.el, next: this.next.el });
    return parts[stage] ?? this.el.querySelector(`[data-stage-card="${stage}"]`);
  }

  #makeChooser() {
    return queryChooser(this.numbers.queryTokens, this.numbers.query, (place) => this.state.set({ query: place }));
  }

  /** Words may have been renamed, added or removed. */
  #edited() {
    this.chooser = this.#makeChooser();
    replaced(this.bar, this.chooser.el);
    this.#show();
  }

  #showMore() {
    this.rows = this.rows === SHOWN ? 512 : SHOWN;
    this.#show();
  }

  /** @param {number} width */
  #resize(width) {
    const next = Math.min(820, Math.floor(width));
    if (next === this.#width) return;
    this.#width = next;
    if (this.numbers.given) this.#show();
  }

  /** @param {Chosen} now @param {Chosen} before */
  #follow(now, before) {
    if (now.head !== before.head) this.editing?.draw(now.head);
    if (now.query !== before.query) this.chooser.set(this.numbers.query);
    if (now.layer !== before.layer || now.head !== before.head || now.query !== before.query) this.#load();
    else if (now.steps_product !== before.steps_product) this.#writeAgain();
    else if (now.steps_silenced !== before.steps_silenced || now.key !== before.key) this.#show();
  }

  #writeAgain() {
    this.product.set(PRODUCTS[Number(this.numbers.transposed)]);
    this.editing?.draw(this.state.get().head);
    this.#show();
  }

  #load() {
    this.el.setAttribute("aria-busy", "true");
    this.numbers.load();
  }

  /** @param {Error} error */
  #fail(error) {
    this.el.setAttribute("aria-busy", "false");
    this.note.textContent = error.message;
    this.note.classList.add("regard-error");
  }

  #take() {
    const { given, isLong } = this.numbers;
    if (!given) return;
    this.note.classList.remove("regard-error");
    const mask = this.description.causal ? "causal" : Array.from(given.visible ?? []).some((one) => !one) ? "other" : null;
    this.whatIf.fit(given.query.length, given.scale, mask);
    this.whatIf.disable(isLong ? `“What if” needs all keys; this text has more than ${printedCount(MOST_KEYS)}.` : null);
    this.el.setAttribute("aria-busy", "false");
    this.#isFresh = true;
    this.#show();
  }

  #show() {
    const { numbers, whatIf } = this;
    if (!numbers.given) return;
    const { head } = this.state.get();
    const given = numbers.givenOf(head);
    const { changes } = whatIf;
    const steps = stepsOf(given, changes);
    const before = isChanged(changes) ? stepsOf(given, UNCHANGED) : steps;
    numbers.useTruth(steps);
    const { tokens: words, ownKey: own } = numbers;
    const whole = { given, steps, before, words, own, heading: headingOf(given, changes.divisor), changes };
    const shown = this.#rowsShown(whole);
    this.#drawn = { whole, shown };
    const word = printable(shown.queryWord);
    this.title.textContent = titleOfSteps(word, given.query.length);
    const isHere = own !== null && own < words.length;
    this.origins.show(word, (letter) => (isHere ? numbers.originAt(letter, own, given) : null), numbers.made);
    this.table.show(shown);
    this.#showNumber(shown, word);
    this.#showRest(whole, shown, word);
  }

  /** The weight on all keys. @param {Steps} steps */
  #totalOf({ weight }) {
    const { asked, truth } = this.numbers;
    return totalOf(asked && truth ? truth : weight);
  }

  /** @param {Whole} whole @returns {Shown} */
  #rowsShown({ given, steps: computed, before, words, own: ownKey, heading, changes }) {
    const { asked, queryTokens, query } = this.numbers;
    const places = asked ?? keysToShow(computed.weight, this.rows, ownKey);
    const steps = asked ? computed : pickedSteps(computed, places);
    const own = ownKey === null ? -1 : places.indexOf(ownKey);
    const formula = asked ? null : softmaxFormula(computed, given, changes);
    return {
      given: asked ? given : pickedGiven(given, places),
      steps,
      before: asked ? before : pickedSteps(before, places),
      places,
      words: places.map((place) => words[place]),
      own: own < 0 ? null : own,
      queryWord: queryTokens[query],
      heading,
      rest: Math.max(0, this.#totalOf(computed) - totalOf(steps.weight)),
      restCount: words.length - places.length,
      labels: labelsOf(changes, Boolean(this.editing?.edited)),
      logits: formula && ((row) => formula(places[row])),
      origins: (letter, row) => this.numbers.originAt(letter, letter === "q" ? (ownKey ?? query) : places[row], given),
    };
  }

  /** The weight of the chosen key, or of the strongest one. @param {Shown} shown @param {string} word */
  #showNumber({ places, steps, own, given, words, heading }, word) {
    const chosen = places.indexOf(this.state.get().key ?? -1);
    const sinks = new Set(this.description.sinks ?? []);
    const [best] = strongest(steps.weight, 1, { skip: (row) => row === own || sinks.has(places[row]) });
    this.number.show({ given, steps, words, places, word, row: chosen >= 0 ? chosen : (best ?? 0), heading });
  }

  /** What comes after the table. @param {Whole} whole @param {Shown} shown @param {string} word */
  #showRest(whole, shown, word) {
    const { numbers, description, next, after, origins } = this;
    const { steps, before, words, changes } = whole;
    const { head, layer } = this.state.get();
    this.all.hidden = Boolean(numbers.asked) || words.length <= ALL_SHOWN;
    this.all.textContent = this.rows !== SHOWN ? `Show the ${SHOWN} strongest words` : words.length <= 512 ? `Show all ${words.length} words` : "Show the 512 strongest words";
    this.changedNote.textContent = isChanged(changes) ? saidOfChange(before, steps) : "";
    this.#say(before, changes);
    this.#showFlow(shown, steps);
    this.#showAfter(head, steps, changes);
    const { silenced } = after;
    next.show({ layer, head, query: numbers.query, word, silenced, changes, changed: isChanged(changes) || silenced.length > 0 });
    const parts = { hasOrigin: !origins.el.hidden, hasAfter: !after.el.hidden, hasNext: !next.el.hidden };
    const { made, transposed, weights } = numbers;
    const rotary = weights?.block.rotary ?? null;
    this.story.set(stagesOf({ ...whole, ...parts, word, writes: description.has.includes("next"), rotary, made, transposed }));
    this.#isFresh = false;
  }

  /** @param {Shown} shown @param {Steps} computed */
  #showFlow({ words, steps, places, own }, computed) {
    if (this.#width < 40) return;
    const rows = keysToShow(steps.weight, FLOWING, own);
    const weights = rows.map((row) => (steps.visible[row] ? steps.weight[row] : null));
    const what = {
      words: rows.map((row) => words[row]),
      weights,
      output: computed.output,
      rest: Math.max(0, this.#totalOf(computed) - totalOf(weights.map(Number))),
      restCount: this.numbers.tokens.length - rows.length,
    };
    replaced(this.flow, flowDiagram(what, this.#width, this.colours, this.#isFresh || places.length === 0));
  }

  /** @param {number} head @param {Steps} computed @param {import("./model.js").Changes} changes */
  #showAfter(head, computed, changes) {
    const { block } = this.numbers;
    const [outputs, original] = this.numbers.outputsOf(head, computed, changes);
    const nothingMore = outputs.length === 1 && !block?.arrays.projected && !this.editing?.numbers.w_o;
    this.after.el.hidden = nothingMore || !outputs.length || outputs.some((output) => !output);
    if (this.after.el.hidden) return;
    const arrays = Object.fromEntries(
      Object.entries(block?.arrays ?? {})
        .filter(([name]) => name !== "outputs")
        .map(([name, array]) => [name, array.toFloat32()]),
    );
    this.after.show({ outputs, original, arrays: this.editing?.edited ? {} : arrays, formulas: block?.header.formulas ?? {}, head, ...this.numbers.throughBlock() });
  }

  /** Notes a difference between the weights computed here and the source's. @param {Steps} before @param {import("./model.js").Changes} changes */
  #say(before, changes) {
    if (this.editing?.edited) return void (this.note.textContent = "Edited: the other views show the original example.");
    const truth = this.numbers.asked ? null : this.numbers.truth;
    const far = truth ? largestOf(before.weight.map((one, key) => one - truth[key])) : 0;
    const said = `The model's weights differ from these by up to ${printedNumber(far, 3)}`;
    this.note.textContent = far > AS_COMPUTED ? `${said}: its scores have a stage that is not known here.` : "";
    if (isChanged(changes)) this.announce(this.changedNote.textContent ?? "");
  }

  origin() {
    const silenced = this.after.silenced.map((head) => numberOfHead(this.description, head));
    const edited = saidOfEdits(this.whatIf.changes, silenced, Boolean(this.editing?.edited));
    const isTyped = this.editing?.edited || this.description === SMALL_EXAMPLE;
    return isTyped ? { source: "typed by hand", layer: null, heads: [], text: printable(this.numbers.tokens.join(" ")), edited } : { edited };
  }

  /** The steps of all keys, with what they start from and what follows the heads, where `regard check` can compute them again. */
  exported() {
    if (!this.#drawn) throw new Error("Nothing is drawn yet.");
    const { whole, shown } = this.#drawn;
    const { description, editing, numbers: of } = this;
    const { heads } = description;
    const several = heads > 1 ? this.state.get().head : null;
    const label = numbered(of.queryTokens)[of.query];
    const name = titleOfSteps(label, shown.given.query.length, several);
    if (of.asked) return stepsTable({ ...shown, changes: UNCHANGED }, name);
    const { given: now, changes, steps: computed, words } = whole;
    const isRoot = Math.abs(now.scale * now.scale * now.query.length - 1) < 1e-5;
    const { b_q: q, b_k: k, b_v: v, b_o: o } = editing?.numbers ?? {};
    const numbers = editing && !q && !k && !v && !o ? editing.numbers : null;
    const inputs = inputTables({ words, query: label, heads: numbers ? heads : 1, divisor: changes.divisor ?? (isRoot ? null : 1 / now.scale), visible: computed.visible, numbers, transposed: of.transposed });
    const results = [];
    if (numbers && !this.after.el.hidden && !this.after.silenced.length) {
      const [outputs] = of.outputsOf(this.state.get().head, computed, changes);
      const { through } = of.throughBlock();
      results.push(outputTable(label, outputs, through?.(concatenatedOf(outputs, new Set())).projected ?? null));
    }
    return { ...stepsTable(whole, numbers || heads === 1 ? name : titleOfSteps(label, now.query.length)), inputs, results };
  }
}
