/** Steps: one head for one query, every number from q, k and v to the output, and the steps after attention. */
import { element, replaced } from "../../elements.js";
import { latestOnly } from "../../lifetime.js";
import { largestOf, printedCount, printedNumber, projected, rowOf } from "../../numbers.js";
import { printable } from "../../words.js";
import { makeAfter } from "./after.js";
import { makeEditor } from "./editor.js";
import { flowDiagram } from "./flow.js";
import {
  UNCHANGED,
  headingOf,
  isChanged,
  keysToShow,
  pickedGiven,
  pickedSteps,
  projectedHead,
  saidOfChange,
  stepsOf,
  stepsTable,
  titleOfSteps,
  totalOf,
  visibleKeys,
} from "./model.js";
import { queryChooser } from "./query.js";
import { makeTable } from "./table.js";
import { makeWhatIf } from "./what_if.js";

const MOST_KEYS = 4096; // vectors per request
const SHOWN = 12; // rows of the table at first, for longer texts
const ALL_SHOWN = 20; // words up to which all rows are shown at first
const FLOWING = 10;
const AS_COMPUTED = 5e-3; // float16 vectors give up to 2e-3

export const steps = {
  name: "steps",
  title: "Steps",
  uses: ["layer", "head"],
  /** @param {any} description */
  suits: (description) => (description.has ?? []).includes("vectors") && (description.tokens?.length ?? 0) > 0,
  draw: drawSteps,
};

/** @param {any} context */
function drawSteps({ el, source, description, state, colours, announce, lifetime: outer }) {
  const lifetime = outer.part();
  const latest = latestOnly(lifetime);
  const tokens = description.tokens;
  const queryTokens = description.query_tokens ?? tokens;
  const long = tokens.length > MOST_KEYS;

  /** @type {import("./model.js").Given|null} */
  let given = null;
  /** @type {ArrayLike<number>|null} */
  let truth = null; // weights from the source
  /** @type {number[]|null} */
  let asked = null; // for a long text, the keys whose vectors are loaded
  /** @type {any} */
  let block = null; // the answer to "steps"
  let more = tokens.length <= ALL_SHOWN ? tokens.length : SHOWN;
  let width = 0;
  let fresh = true; // whether to animate the flow
  /** @type {any} */
  let drawnNow = null;

  const query = () => state.get().query ?? firstQuery(description);
  const ownKey = () => (description.first_query === null ? null : query() + (description.first_query ?? 0));
  const chooser = queryChooser(queryTokens, query(), (place) => state.set({ query: place }));
  const whatIf = makeWhatIf(state, lifetime, () => show());
  const table = makeTable(() => show());
  const after = makeAfter(() => show());
  const editing = description.editable ? makeEditor(description.editable, () => show()) : null;
  const title = element("h3", { class: "regard-steps-heading" });
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
  replaced(
    el,
    element("div", { class: "regard-bar" }, chooser.el),
    editing?.el,
    element(
      "section",
      { class: "regard-steps-part", "aria-label": "Scores and weights" },
      title,
      whatIf.el,
      table.el,
      element("div", { class: "regard-bar-group regard-steps-more" }, all, changedNote),
      note,
    ),
    element(
      "section",
      { class: "regard-steps-part regard-steps-sum", "aria-label": "The weighted sum" },
      element("h3", { class: "regard-steps-heading", text: "The weighted sum" }),
      flow,
    ),
    after.el,
  );
  editing?.draw(state.get().head);
  lifetime.resized(el, (entry) => {
    const next = Math.min(820, Math.floor(entry.contentRect.width));
    if (next === width) return;
    width = next;
    if (given) show();
  });

  function load() {
    const { layer, head } = state.get();
    const place = query();
    el.setAttribute("aria-busy", "true");
    latest(
      async (signal) => {
        const options = { signal };
        const whole = await source.ask("row", { layer, heads: [head], query: place, by: "token" }, options);
        const weights = whole.arrays.weight.toFloat32();
        const keys = long ? keysToShow(weights, SHOWN, ownKey()) : null;
        const [vectors, later] = await Promise.all([
          source.ask("vectors", { layer, head, query: place, ...(keys ? { keys } : {}) }, options),
          (description.has ?? []).includes("steps")
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

  /** @param {any} answer */
  function take({ weights, keys, vectors: { header, arrays }, later }) {
    truth = weights;
    asked = keys;
    block = later;
    note.classList.remove("regard-error");
    const [k, v] = [arrays.k, arrays.v].map((array) => array && { data: array.toFloat32(), shape: array.shape });
    const count = k.shape[0];
    const rows = (/** @type {any} */ matrix) => Array.from({ length: count }, (_, row) => rowOf(matrix, row));
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
    const { queries, keys, values } = projectedHead(editing.numbers, head);
    return { .../** @type {any} */ (given), query: queries[query()], keys, values };
  }

  function show() {
    if (!given) return;
    const { head } = state.get();
    const now = givenOf(head);
    const changes = whatIf.changes;
    const computed = stepsOf(now, changes);
    const before = isChanged(changes) ? stepsOf(now, UNCHANGED) : computed;
    if (asked) useTruth(computed, asked);
    const places = asked ?? keysToShow(computed.weight, more, ownKey());
    const some = {
      now: asked ? now : pickedGiven(now, places),
      computed: asked ? computed : pickedSteps(computed, places),
      before: asked ? before : pickedSteps(before, places),
    };
    const shownSum = some.computed.weight.reduce((sum, one) => sum + one, 0);
    const restCount = tokens.length - places.length;
    const rest = Math.max(0, totalOf(asked ? /** @type {any} */ (truth) : computed.weight) - shownSum);
    const own = ownKey() === null ? -1 : places.indexOf(/** @type {number} */ (ownKey()));
    const words = places.map((place) => tokens[place]);
    const queryWord = queryTokens[query()];
    title.textContent = titleOfSteps(printable(queryWord), now.query.length);
    drawnNow = {
      given: some.now,
      steps: some.computed,
      before: some.before,
      places,
      words,
      own: own < 0 ? null : own,
      queryWord,
      heading: headingOf(now, changes.divisor),
      rest,
      restCount,
    };
    table.show(drawnNow);
    all.hidden = Boolean(asked) || tokens.length <= ALL_SHOWN;
    all.textContent =
      more === SHOWN
        ? tokens.length <= 512
          ? `Show all ${tokens.length} words`
          : "Show the 512 strongest words"
        : `Show the ${SHOWN} strongest words`;
    changedNote.textContent = isChanged(changes) ? saidOfChange(before, computed) : "";
    say(before, changes);
    showFlow(computed);
    showAfter(head, computed, changes);
    fresh = false;
  }

  /** @param {any} computed */
  function showFlow(computed) {
    if (width < 40 || !drawnNow) return;
    const { words, steps: shown, places } = drawnNow;
    const strongest = new Set(keysToShow(shown.weight, FLOWING, drawnNow.own));
    const kept = words
      .map((/** @type {string} */ _, /** @type {number} */ row) => row)
      .filter((/** @type {number} */ row) => strongest.has(row));
    const weights = kept.map((/** @type {number} */ row) => shown.weight[row]);
    const sum = totalOf(weights);
    const everything = asked ? totalOf(/** @type {any} */ (truth)) : totalOf(computed.weight);
    const what = {
      words: kept.map((/** @type {number} */ row) => words[row]),
      weights,
      output: asked ? blockOutput() : computed.output,
      rest: Math.max(0, everything - sum),
      restCount: tokens.length - kept.length,
    };
    replaced(flow, flowDiagram(what, width, colours, fresh || places.length === 0));
  }

  function blockOutput() {
    return block?.arrays.outputs
      ? rowOf({ data: block.arrays.outputs.toFloat32(), shape: block.arrays.outputs.shape }, state.get().head)
      : null;
  }

  /** @param {number} head @param {any} computed @param {any} changes */
  function showAfter(head, computed, changes) {
    const edited = Boolean(editing?.edited);
    const changed = edited || isChanged(changes);
    /** @type {ArrayLike<number>[]} */
    let outputs = [];
    if (editing)
      outputs = Array.from({ length: description.heads }, (_, one) =>
        one === head ? computed.output : stepsOf(givenOfOther(one), changes).output,
      );
    else if (block?.arrays.outputs) {
      const every = { data: block.arrays.outputs.toFloat32(), shape: block.arrays.outputs.shape };
      outputs = Array.from({ length: every.shape[0] }, (_, one) =>
        one === head && isChanged(changes) && computed.output ? computed.output : rowOf(every, one),
      );
    } else if (computed.output && description.heads === 1) outputs = [computed.output];
    const nothingMore = outputs.length === 1 && !block?.arrays.projected && !editing?.numbers.w_o;
    after.el.hidden = nothingMore || !outputs.length || outputs.some((output) => !output);
    if (after.el.hidden) return;
    const arrays = Object.fromEntries(
      Object.entries(block?.arrays ?? {})
        .filter(([name]) => name !== "outputs")
        .map(([name, array]) => [name, /** @type {any} */ (array).toFloat32()]),
    );
    const { w_o: weight, b_o: bias } = editing?.numbers ?? {};
    const project = weight
      ? (/** @type {any} */ concatenated) =>
          projected(weight, concatenated).map((one, place) => one + (bias?.[place] ?? 0))
      : null;
    after.show({
      outputs,
      arrays: edited ? {} : arrays,
      formulas: block?.header.formulas ?? {},
      head,
      changed,
      project,
    });
  }

  /** @param {number} head */
  function givenOfOther(head) {
    const { queries, keys, values } = projectedHead(editing?.numbers, head);
    return { .../** @type {any} */ (given), query: queries[query()], keys, values };
  }

  /** Notes a difference between the weights computed here and the source's. @param {any} before @param {any} changes */
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

  /** @param {any} computed @param {number[]} keys */
  function useTruth(computed, keys) {
    keys.forEach((key, row) => (computed.weight[row] = /** @type {any} */ (truth)[key]));
    computed.weighted =
      computed.weighted?.map((/** @type {any} */ _, /** @type {number} */ row) =>
        Float64Array.from(/** @type {any} */ (given).values[row], (one) => one * computed.weight[row]),
      ) ?? null;
    computed.output = blockOutput();
  }

  lifetime.add(
    state.listen((now, before) => {
      if (now.head !== before.head) editing?.draw(now.head);
      if (now.query !== before.query) chooser.set(query());
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
      return stepsTable(drawnNow, title.textContent ?? "");
    },
  };
}

/** The initial query: the first word that is not a sink. @param {any} description */
function firstQuery(description) {
  const aside = new Set([...(description.special ?? []), ...(description.sinks ?? [])]);
  const count = (description.query_tokens ?? description.tokens).length;
  for (let place = 0; place < count; place++) if (!aside.has(place)) return place;
  return 0;
}
