/** Steps: one head for one query, every number from q, k and v to the output, and the steps after attention. */
import { afterHeads, blockFrom, inputOf } from "../../maths/block.js";
import { segments } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { columnOf, largestOf, printedCount, printedNumber, projected, rowOf } from "../../maths/numbers.js";
import { makeState, numberOfHead } from "../../page/state.js";
import { printable } from "../../elements/words.js";
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
  numbered,
  outputTable,
  pickedGiven,
  pickedSteps,
  projectedHead,
  saidOfChange,
  saidOfEdits,
  softmaxFormula,
  stagesOf,
  stepsOf,
  stepsTable,
  titleOfSteps,
  totalOf,
  visibleKeys,
} from "./model.js";
import { makeNext } from "./next.js";
import { makeOrigin, originOf, originOfNumbers } from "./origin.js";
import { queryChooser } from "./query.js";
import { linearArithmetic, stageArithmetic } from "./stages.js";
import { makeStory } from "./story.js";
import { makeTable } from "./table.js";
import { makeWhatIf } from "./what_if.js";

const MOST_KEYS = 4096; // vectors per request
const SHOWN = 12; // rows of the table at first, for longer texts
const ALL_SHOWN = 20; // words up to which all rows are shown at first
const FLOWING = 10;
const MOST_INPUTS = 512; // tokens whose vectors before the layer are loaded
const AS_COMPUTED = 5e-3; // float16 vectors give up to 2e-3

export const steps = {
  name: "steps",
  title: "Steps",
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
  if (description.editable) return drawOne({ ...context, el: el.appendChild(element("div")) });
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
  replaced(el, body);
  /** @type {any} */
  let shown = null;
  function isExample() {
    return String(state.get().steps_example ?? "") === "1";
  }
  function draw() {
    shown?.cleanUp();
    choice.set(isExample());
    root?.toggleAttribute("data-example", isExample());
    const inner = element("div");
    replaced(body, inner);
    const other = { source: exampleSource(), description: SMALL_EXAMPLE, state: makeState({ query: 1 }) };
    shown = drawOne({ ...context, ...(isExample() ? other : {}), el: inner, choice: choice.el });
  }
  lifetime.add(state.listen((now, before) => now.steps_example !== before.steps_example && draw()));
  lifetime.add(() => root?.removeAttribute("data-example"));
  draw();
  return { cleanUp: () => shown?.cleanUp(), svg: () => shown.svg(), table: () => shown.table(), origin: () => shown.origin() };
}

/**
 * @typedef {any[]} Outputs  of the heads
 * @param {Context & {choice?: HTMLElement}} context
 */
function drawOne({ el, source, description, state, colours, announce, lifetime: outer, choice }) {
  const lifetime = outer.part();
  const latest = latestOnly(lifetime);
  const latestWeights = latestOnly(lifetime);
  const has = (/** @type {string} */ kind) => (description.has ?? []).includes(kind);
  const long = description.tokens.length > MOST_KEYS;

  /** @type {import("./model.js").Given|null} */
  let given = null;
  /** @type {ArrayLike<number>|null} */
  let truth = null; // weights from the source
  /** @type {number[]|null} */
  let asked = null; // for a long text, the keys whose vectors are loaded
  /** @type {Frame|null} */
  let block = null; // the answer to "steps"
  let more = description.tokens.length <= ALL_SHOWN ? ALL_SHOWN : SHOWN;
  /** @type {{layer: number, block: import("../../maths/block.js").Block, x: ArrayLike<number>[], inputs: ArrayLike<number>[]}|null} */
  let weights = null; // of the layer, with the vectors before it
  /** @type {import("./origin.js").Made} */
  let made = { parts: [], isNormed: false }; // how x of the query came about, before the first layer
  let width = 0;
  let fresh = true; // whether to animate the flow
  /** @type {any} */
  let drawnNow = null;
  /** @type {any} */
  let wholeNow = null; // the steps of all keys

  const editing = description.editable ? makeEditor(description.editable, () => edited()) : null;
  const tokens = () => (editing ? editing.numbers.tokens : description.tokens);
  const queryTokens = () => description.query_tokens ?? tokens();
  const query = () => Math.min(state.get().query ?? firstQuery(description), queryTokens().length - 1);
  const ownKey = () => (description.first_query === null ? null : query() + (description.first_query ?? 0));
  let chooser = makeChooser();
  const whatIf = makeWhatIf(state, lifetime, () => show());
  const table = makeTable(() => show());
  const after = makeAfter(state, () => show(), description);
  const origin = makeOrigin(() => show());
  const story = makeStory({ el, lifetime, announce });
  const next = makeNext({ source, description, lifetime, announce });
  const title = element("h2", { class: "regard-steps-heading" });
  const note = element("p", { class: "regard-note", role: "status" });
  const all = element("button", {
    type: "button",
    class: "regard-button",
    hidden: true,
    onclick: () => {
      more = more === SHOWN ? 512 : SHOWN;
      show();
    },
  });
  const changedNote = element("p", { class: "regard-quiet", role: "status" });
  const flow = element("div", { class: "regard-steps-flow" });
  const bar = element("div", { class: "regard-bar" }, chooser.el, choice);
  replaced(
    el,
    bar,
    story.el,
    editing?.el,
    origin.el,
    element(
      "section",
      { class: "regard-steps-part regard-steps-scores", "aria-label": "Scores and weights" },
      title,
      whatIf.el,
      table.el,
      element("div", { class: "regard-bar-group regard-steps-more" }, all, changedNote),
      note,
    ),
    element(
      "section",
      { class: "regard-steps-part regard-steps-sum", "aria-label": "The weighted sum" },
      element("h2", { class: "regard-steps-heading", text: "The weighted sum" }),
      flow,
    ),
    after.el,
    next.el,
  );
  editing?.draw(state.get().head);
  lifetime.resized(el, (entry) => {
    const next = Math.min(820, Math.floor(entry.contentRect.width));
    if (next === width) return;
    width = next;
    if (given) show();
  });

  function makeChooser() {
    return queryChooser(queryTokens(), query(), (place) => state.set({ query: place }));
  }

  /** Words may have been renamed, added or removed. */
  function edited() {
    chooser = makeChooser();
    replaced(bar, chooser.el, choice);
    show();
  }

  /** The weights of the layer and the vectors before it: what comes before q, and after the heads. */
  function loadWeights() {
    const { layer } = state.get();
    const count = description.tokens.length;
    if (!has("block") || !has("states") || count > MOST_INPUTS || description.first_query !== 0) return;
    const own = query();
    latestWeights(
      async (signal) => {
        const tokens = Array.from({ length: count }, (_, token) => token);
        const known = weights?.layer === layer ? weights : null;
        const [found, states, embedding] = await Promise.all([
          known ? null : source.ask("block", { layer }, { signal }),
          known ? null : source.ask("states", { layer, tokens }, { signal }),
          layer === 0 && has("embedding") ? source.ask("embedding", { tokens: [own] }, { signal }) : null,
        ]);
        return { known, found, states, embedding };
      },
      ({ known, found, states, embedding }) => {
        weights = known ?? (found && states && weightsOf(layer, found, states));
        made = embedding ? madeOf(embedding, queryTokens()[own], own) : { parts: [], isNormed: false };
        show();
      },
      () => {
        weights = null; // a page holds the weights of some layers
        show();
      },
    );
  }

  function load() {
    const { layer, head } = state.get();
    const place = Math.min(query(), description.tokens.length - 1);
    if (weights?.layer !== layer) weights = null;
    made = { parts: [], isNormed: false };
    el.setAttribute("aria-busy", "true");
    loadWeights();
    latest(
      async (signal) => {
        const options = { signal };
        const whole = await source.ask("row", { layer, heads: [head], query: place, by: "token" }, options);
        const weights = whole.arrays.weight.toFloat32();
        const keys = long ? keysToShow(weights, SHOWN, ownKey()) : null;
        const [vectors, later] = await Promise.all([
          source.ask("vectors", { layer, head, query: place, ...(keys ? { keys } : {}) }, options),
          has("steps")
            ? source.ask("steps", { layer, head, query: place }, options).catch(() => null)
            : null,
        ]);
        return { weights, keys, vectors, later };
      },
      take,
      (error) => {
        el.setAttribute("aria-busy", "false");
        note.textContent = error.message;
        note.classList.add("regard-error");
      },
    );
  }

  /** @param {{weights: Float32Array, keys: number[]|null, vectors: Frame, later: Frame|null}} answer */
  function take({ weights, keys, vectors: { header, arrays }, later }) {
    truth = weights;
    asked = keys;
    block = later;
    note.classList.remove("regard-error");
    const [k, v] = [arrays.k, arrays.v].map((array) => array && { data: array.toFloat32(), shape: array.shape });
    const count = k.shape[0];
    const rows = (/** @type {{data: Float32Array, shape: number[]}} */ matrix) => Array.from({ length: count }, (_, row) => rowOf(matrix, row));
    given = {
      query: arrays.q.toFloat32(),
      keys: rows(k),
      values: v ? rows(v) : null,
      scale: header.scale ?? description.scale ?? k.shape[1] ** -0.5,
      softcap: header.softcap ?? description.softcap ?? null,
      bias: arrays.bias?.toFloat32() ?? null,
      visible: arrays.visible?.data ?? (keys ? null : visibleKeys(description, ownKey(), count)),
      sink: header.sink ?? null,
      own: ownKey(),
    };
    const mask = description.causal ? "causal" : Array.from(given.visible ?? []).some((one) => !one) ? "other" : null;
    whatIf.fit(k.shape[1], given.scale, mask);
    whatIf.disable(long ? `“What if” needs all keys; this text has more than ${printedCount(MOST_KEYS)}.` : null);
    el.setAttribute("aria-busy", "false");
    fresh = true;
    show();
  }

  /** The inputs, with edits applied. @param {number} head */
  function givenOf(head) {
    if (!editing?.edited) return /** @type {import("./model.js").Given} */ (given);
    return givenOfOther(head);
  }

  function show() {
    if (!given) return;
    const { head, layer } = state.get();
    const now = givenOf(head);
    const changes = whatIf.changes;
    const computed = stepsOf(now, changes);
    const before = isChanged(changes) ? stepsOf(now, UNCHANGED) : computed;
    const words = tokens();
    if (asked) useTruth(computed, asked);
    const places = asked ?? keysToShow(computed.weight, more, ownKey());
    const some = {
      now: asked ? now : pickedGiven(now, places),
      computed: asked ? computed : pickedSteps(computed, places),
      before: asked ? before : pickedSteps(before, places),
    };
    const shownSum = some.computed.weight.reduce((sum, one) => sum + one, 0);
    const restCount = words.length - places.length;
    const rest = Math.max(0, totalOf(asked ? /** @type {ArrayLike<number>} */ (truth) : computed.weight) - shownSum);
    const own = ownKey() === null ? -1 : places.indexOf(/** @type {number} */ (ownKey()));
    const queryWord = queryTokens()[query()];
    title.textContent = titleOfSteps(printable(queryWord), now.query.length);
    const heading = headingOf(now, changes.divisor);
    wholeNow = { given: now, steps: computed, words, own: ownKey(), heading, changes };
    drawnNow = {
      given: some.now,
      steps: some.computed,
      before: some.before,
      places,
      words: places.map((place) => words[place]),
      own: own < 0 ? null : own,
      queryWord,
      heading,
      rest,
      restCount,
      labels: labelsOf(changes, Boolean(editing?.edited)),
      logits: asked ? null : ofPlaces(softmaxFormula(computed, now, changes), places),
      origins: (/** @type {"q"|"k"|"v"} */ letter, /** @type {number} */ row) => originAt(letter, letter === "q" ? (ownKey() ?? query()) : places[row], now),
    };
    origin.show(
      printable(queryWord),
      (letter) => ((ownKey() ?? Infinity) >= words.length ? null : originAt(letter, /** @type {number} */ (ownKey()), now)),
      made,
    );
    table.show(drawnNow);
    all.hidden = Boolean(asked) || words.length <= ALL_SHOWN;
    all.textContent =
      more === SHOWN
        ? words.length <= 512
          ? `Show all ${words.length} words`
          : "Show the 512 strongest words"
        : `Show the ${SHOWN} strongest words`;
    changedNote.textContent = isChanged(changes) ? saidOfChange(before, computed) : "";
    say(before, changes);
    showFlow(computed);
    showAfter(head, computed, changes);
    const { silenced } = after;
    const changed = isChanged(changes) || silenced.length > 0;
    next.show({ layer, head, query: query(), word: printable(queryWord), silenced, changes, changed });
    story.set(stagesOf({ given: now, steps: computed, words, word: printable(queryWord), heading: drawnNow.heading, own: ownKey(), hasOrigin: !origin.el.hidden, hasAfter: !after.el.hidden, hasNext: !next.el.hidden, writes: has("next"), rotary: weights?.block.rotary ?? null, made }));
    fresh = false;
  }

  /** How a vector of this head and word is computed; null where W is not known. @param {"q"|"k"|"v"} letter @param {number} place @param {any} now */
  function originAt(letter, place, now) {
    const { head } = state.get();
    const used = letter === "q" ? now.query : (letter === "k" ? now.keys : now.values)?.[asked ? asked.indexOf(place) : place];
    if (!used) return null;
    if (editing) return originOfNumbers(editing.numbers, letter, head, place, used);
    const { layer } = state.get();
    if (!weights || weights.layer !== layer) return null;
    const { block: of, x, inputs } = weights;
    return originOf(of, { letter, head, x: x[place], input: inputs[place], position: place, count: x.length, used });
  }

  /** @param {import("./model.js").Steps} computed */
  function showFlow(computed) {
    if (width < 40 || !drawnNow) return;
    const { words, steps: shown, places } = drawnNow;
    const strongest = new Set(keysToShow(shown.weight, FLOWING, drawnNow.own));
    const kept = words
      .map((/** @type {string} */ _, /** @type {number} */ row) => row)
      .filter((/** @type {number} */ row) => strongest.has(row));
    const weights = kept.map((/** @type {number} */ row) => (shown.visible[row] ? shown.weight[row] : null));
    const sum = totalOf(weights.map(Number));
    const everything = asked ? totalOf(/** @type {ArrayLike<number>} */ (truth)) : totalOf(computed.weight);
    const what = {
      words: kept.map((/** @type {number} */ row) => words[row]),
      weights,
      output: asked ? blockOutput() : computed.output,
      rest: Math.max(0, everything - sum),
      restCount: tokens().length - kept.length,
    };
    replaced(flow, flowDiagram(what, width, colours, fresh || places.length === 0));
  }

  function blockOutput() {
    return block?.arrays.outputs
      ? rowOf({ data: block.arrays.outputs.toFloat32(), shape: block.arrays.outputs.shape }, state.get().head)
      : null;
  }

  /** @param {number} head @param {import("./model.js").Steps} computed @param {import("./model.js").Changes} changes */
  function showAfter(head, computed, changes) {
    const isEdited = Boolean(editing?.edited);
    const [outputs, original] = outputsOf(head, computed, changes);
    const nothingMore = outputs.length === 1 && !block?.arrays.projected && !editing?.numbers.w_o;
    after.el.hidden = nothingMore || !outputs.length || outputs.some((output) => !output);
    if (after.el.hidden) return;
    const arrays = Object.fromEntries(
      Object.entries(block?.arrays ?? {})
        .filter(([name]) => name !== "outputs")
        .map(([name, array]) => [name, array.toFloat32()]),
    );
    after.show({ outputs, original, arrays: isEdited ? {} : arrays, formulas: block?.header.formulas ?? {}, head, ...throughBlock() });
  }

  /** The outputs of all heads, and those without a change. @param {number} head @param {import("./model.js").Steps} computed @param {import("./model.js").Changes} changes @returns {[Outputs, Outputs|null]} */
  function outputsOf(head, computed, changes) {
    if (editing) {
      const all = (/** @type {import("./model.js").Changes} */ how) => Array.from({ length: description.heads }, (_, one) => stepsOf(givenOfOther(one), how).output);
      return [all(changes), isChanged(changes) ? all(UNCHANGED) : null];
    }
    if (block?.arrays.outputs) {
      const every = { data: block.arrays.outputs.toFloat32(), shape: block.arrays.outputs.shape };
      const original = Array.from({ length: every.shape[0] }, (_, one) => rowOf(every, one));
      if (!isChanged(changes) || !computed.output) return [original, null];
      return [original.map((one, place) => (place === head ? computed.output : one)), original];
    }
    return [computed.output && description.heads === 1 ? [computed.output] : [], null];
  }

  /** Computes what follows the concatenated outputs, and says how; null where W_O is not known. */
  function throughBlock() {
    const { w_o: matrix, b_o: bias } = editing?.numbers ?? {};
    if (matrix)
      return {
        through: (/** @type {ArrayLike<number>} */ concatenated) => ({ projected: projected(concatenated, matrix, bias) }),
        arithmetic: (/** @type {ArrayLike<number>} */ concatenated) => ({
          projected: (/** @type {number} */ place) => linearArithmetic(concatenated, columnOf(matrix, place), bias?.[place], { x: "concatenated", column: `column ${place} of W_O` }),
        }),
      };
    const own = ownKey();
    const x = weights && weights.layer === state.get().layer && own !== null ? weights.x[own] : null;
    if (!x || !weights) return { through: null, arithmetic: null };
    const of = weights.block;
    return {
      through: (/** @type {ArrayLike<number>} */ concatenated) => afterHeads(of, x, concatenated),
      arithmetic: (/** @type {ArrayLike<number>} */ concatenated, /** @type {Record<string, ArrayLike<number>>} */ stages) => stageArithmetic(of, x, concatenated, stages),
    };
  }

  /** @param {number} head */
  function givenOfOther(head) {
    const { queries, keys, values } = projectedHead(/** @type {NonNullable<typeof editing>} */ (editing).numbers, head);
    const known = /** @type {import("./model.js").Given} */ (given);
    const isSame = keys.length === known.keys.length;
    const [visible, bias] = isSame ? [known.visible, known.bias] : [visibleKeys(description, ownKey(), keys.length), null];
    return { ...known, query: queries[query()], keys, values, visible, bias, own: ownKey() };
  }

  /** Notes a difference between the weights computed here and the source's. @param {import("./model.js").Steps} before @param {import("./model.js").Changes} changes */
  function say(before, changes) {
    if (editing?.edited)
      return void (note.textContent = "Edited: the other views show the original example.");
    const own = asked ? null : truth;
    const far = own
      ? largestOf(before.weight.map((/** @type {number} */ one, /** @type {number} */ key) => one - own[key]))
      : 0;
    const said = `The model's weights differ from these by up to ${printedNumber(far, 3)}`;
    note.textContent = far > AS_COMPUTED ? `${said}: its scores have a stage that is not known here.` : "";
    if (isChanged(changes)) announce(changedNote.textContent ?? "");
  }

  /** @param {import("./model.js").Steps} computed @param {number[]} keys */
  function useTruth(computed, keys) {
    keys.forEach((key, row) => (computed.weight[row] = /** @type {ArrayLike<number>} */ (truth)[key]));
    computed.weighted =
      computed.weighted?.map((/** @type {unknown} */ _, /** @type {number} */ row) =>
        Float64Array.from(/** @type {ArrayLike<number>[]} */ (given?.values)[row], (one) => one * computed.weight[row]),
      ) ?? null;
    computed.output = /** @type {Float64Array|null} */ (blockOutput());
  }

  lifetime.add(
    state.listen((now, before) => {
      if (now.head !== before.head) editing?.draw(now.head);
      if (now.query !== before.query) chooser.set(query());
      if (now.steps_silenced !== before.steps_silenced) show();
      if (now.layer !== before.layer || now.head !== before.head || now.query !== before.query) load();
    }),
  );
  load();

  return {
    cleanUp: lifetime.end,
    svg: () => {
      const picture = flow.firstElementChild?.cloneNode(true);
      if (!picture) throw new Error("Nothing is drawn yet.");
      /** @type {Element} */ (picture)
        .querySelectorAll(".regard-flow-moving")
        .forEach((/** @type {Element} */ one) => one.remove());
      return new XMLSerializer().serializeToString(picture);
    },
    table: () => {
      if (!drawnNow) throw new Error("Nothing is drawn yet.");
      return exported();
    },
    origin: () => {
      const silenced = after.silenced.map((head) => numberOfHead(description, head));
      const edited = saidOfEdits(whatIf.changes, silenced, Boolean(editing?.edited));
      const isTyped = editing?.edited || description === SMALL_EXAMPLE;
      return isTyped ? { source: "typed by hand", layer: null, heads: [], text: printable(tokens().join(" ")), edited } : { edited };
    },
  };

  /** The steps of all keys, with what they start from and what follows the heads, where `regard check` can compute them again. */
  function exported() {
    const { heads } = description;
    const several = heads > 1 ? state.get().head : null;
    const label = numbered(queryTokens())[query()];
    const name = titleOfSteps(label, drawnNow.given.query.length, several);
    if (asked) return stepsTable({ ...drawnNow, changes: UNCHANGED }, name);
    const { given: now, changes, steps: computed, words } = wholeNow;
    const isRoot = Math.abs(now.scale * now.scale * now.query.length - 1) < 1e-5;
    const { b_q: q, b_k: k, b_v: v, b_o: o } = editing?.numbers ?? {};
    const numbers = editing && !q && !k && !v && !o ? editing.numbers : null;
    const inputs = inputTables({ words, query: label, heads: numbers ? heads : 1, divisor: changes.divisor ?? (isRoot ? null : 1 / now.scale), visible: computed.visible, numbers });
    const results = [];
    if (numbers && !after.el.hidden && !after.silenced.length) {
      const [outputs] = outputsOf(state.get().head, computed, changes);
      const { through } = throughBlock();
      results.push(outputTable(label, outputs, through?.(concatenatedOf(outputs, new Set())).projected ?? null));
    }
    return { ...stepsTable(wholeNow, numbers || heads === 1 ? name : titleOfSteps(label, now.query.length)), inputs, results };
  }
}

/** A function of rows of the table, by the key of the row. @param {(key: number) => string} of @param {number[]} places */
function ofPlaces(of, places) {
  return (/** @type {number} */ row) => of(places[row]);
}

/** @param {number} layer @param {Frame} found @param {Frame} states */
function weightsOf(layer, found, states) {
  const block = blockFrom(found);
  const { state } = states.arrays;
  const matrix = { data: state.toFloat32(), shape: state.shape };
  const x = Array.from({ length: state.shape[0] }, (_, token) => rowOf(matrix, token));
  return { layer, block, x, inputs: x.map((row) => inputOf(block, row)) };
}

/** How the vector before the first layer came about. @param {Frame} frame @param {string} word @param {number} place */
function madeOf({ arrays }, word, place) {
  const found = [{ name: `embedding of ${printable(word)}`, vector: arrays.embedding.toFloat32() }];
  if (arrays.position) found.push({ name: `position ${place}`, vector: arrays.position.toFloat32() });
  return { parts: found, isNormed: Boolean(arrays.normed) };
}

/** The initial query: the first word that is not a sink. @param {Description} description */
function firstQuery(description) {
  const aside = new Set([...(description.special ?? []), ...(description.sinks ?? [])]);
  const count = (description.query_tokens ?? description.tokens).length;
  for (let place = 0; place < count; place++) if (!aside.has(place)) return place;
  return 0;
}
