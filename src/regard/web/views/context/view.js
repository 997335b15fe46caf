/** In context: one word in two texts side by side, and how its vector moves apart, layer by layer. */
import { uniqueId } from "../../elements/controls.js";
import { element, focusedBeside, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { quoted } from "../../page/provenance.js";
import { keptHeads, keptLayers, numberOfLayer, tokenOfName } from "../../page/state.js";
import { printable, unitOf, unitsOf } from "../../elements/words.js";
import { movesChart, movesTable } from "./chart.js";
import { PAIRS, comparedText, movesOf, otherWord, saidOfMoves, sameWord, sharedWord } from "./model.js";
import { measureOf } from "../../page/measures.js";
import { makePane } from "./pane.js";

const QUICK = 250; // milliseconds after the last key

export const inContext = {
  name: "context",
  title: "In context",
  uses: ["measure"],
  /** @param {Description} description */
  suits: (description) => description.layers > 0 && description.has?.includes("row") && !description.query_tokens,
  draw: drawContext,
};

/** @param {Context} context @returns {Drawn} */
function drawContext({ el, source, description, state, colours, announce, lifetime, services }) {
  const [latest, latestMoves] = [latestOnly(lifetime), latestOnly(lifetime)];
  let drawnOnce = () => {};
  /** @type {Promise<void>} */
  const ready = new Promise((done) => (drawnOnce = done));
  /** @type {import("../../page/views.js").Other|null} the reading on the right; null: the same as on the left */
  let other = services.beside ?? null;
  let asked = ""; // text and model of `other`
  let stopWaiting = () => {};
  /** @type {{cosine: number, distance: number}[]|null} */
  let moves = null;
  let compared = ""; // the two words, for exports
  let width = 0;
  lifetime.add(() => other !== services.beside && other?.close());

  const canRead = Boolean(services.read);
  const ids = { text: uniqueId("text"), model: uniqueId("model") };
  const input = element("input", { id: ids.text, type: "text", dir: "auto", autocomplete: "off", placeholder: "Another text with this word", oninput: typed });
  const model = element("select", { id: ids.model, class: "regard-select", onchange: typed });
  const editor = canRead
    ? element(
        "div",
        { class: "regard-context-editor" },
        element("label", { for: ids.text, class: "regard-unseen", text: "Text on the right" }),
        input,
        element("label", { for: ids.model, class: "regard-unseen", text: "Model on the right" }),
        model,
      )
    : null;
  const left = makePane({ label: "Here", colours, lifetime, set: (chosen) => state.set(chosen) });
  const right = makePane({ label: "There", colours, lifetime, set: setRight, text: editor });
  const examples = element(
    "div",
    { class: "regard-studio-examples", role: "group", "aria-label": "Examples" },
    element("span", { class: "regard-label", text: "Try", "aria-hidden": "true" }),
    PAIRS.map((pair) => element("button", { type: "button", class: "regard-studio-example", text: pair.name, onclick: () => openPair(pair) })),
  );
  const problem = element("p", { class: "regard-error", role: "alert", hidden: true });
  const said = element("p", { class: "regard-context-moved" });
  const chart = element("div", { class: "regard-context-moves" });
  const table = element("div");
  const heading = element("h2", { class: "regard-arch-heading", text: "The word's vector, layer by layer" });
  const vectors = element("section", { "aria-label": "How far the vectors move apart" }, heading, said, chart, table);
  replaced(
    el,
    element("p", {
      class: "regard-lead",
      text: `Every layer adds what a word has looked up to its vector. So the same word gets another vector in another text${canRead || other ? ": compare two" : ". This page holds one text: compare two of its words"}.`,
    }),
    canRead && services.show ? examples : null,
    problem,
    element("div", { class: "regard-context-panes" }, left.el, right.el),
    vectors,
  );
  lifetime.resized(vectors, (entry) => {
    const next = Math.min(860, Math.floor(entry.contentRect.width));
    if (next === width) return;
    width = next;
    drawMoves();
  });

  const wanted = () => ({ text: state.get().context_text ?? comparedText(description.text), model: state.get().context_model ?? description.model });

  function typed() {
    stopWaiting();
    stopWaiting = lifetime.after(QUICK, () => {
      const usual = comparedText(description.text);
      state.set({
        context_text: input.value === usual ? null : input.value,
        context_model: model.value === description.model ? null : model.value,
        context_word: null,
      });
    });
  }

  /** @param {typeof PAIRS[0]} pair */
  function openPair(pair) {
    state.set({ context_text: null, context_word: null, context_layer: null, context_head: null });
    if (description.text === pair.texts[0]) return void state.set({ query: description.start?.query ?? null });
    services.show?.(pair.texts[0]);
  }

  /** The reading on the right. */
  function there() {
    return other ?? { source, description, close: () => {} };
  }

  /** Layer, head and word on the right: chosen, or as on the left. */
  function chosenThere() {
    const { description: of } = there();
    const { layer, head, context_layer: ownLayer, context_head: ownHead, context_word: word } = state.get();
    const fits = (/** @type {number[]} */ kept, /** @type {number} */ own, /** @type {number} */ same) => (kept.includes(own) ? own : kept.includes(same) ? same : kept[0]);
    const named = typeof word === "string" || typeof word === "number" ? tokenOfName(String(word), of) : undefined;
    return {
      layer: fits(keptLayers(of), ownLayer, layer),
      head: fits(keptHeads(of), ownHead, head),
      query: named !== undefined && named < of.tokens.length ? named : other ? sameWord(wordHere(), of) : otherWord(wordHere(), of),
    };
  }

  function queryHere() {
    const { query } = state.get();
    const isChosen = query !== null && query !== description.start?.query;
    const shared = other && !isChosen ? sharedWord(description, other.description) : null;
    return shared ?? query ?? sameWord(null, description);
  }

  function wordHere() {
    const units = unitsOf(description, "word");
    return units[unitOf(units, queryHere())]?.text ?? null;
  }

  /** @param {Partial<Chosen>} chosen */
  function setRight({ layer, head, query }) {
    if (layer !== undefined) state.set({ context_layer: layer });
    if (head !== undefined) state.set({ context_head: head });
    if (query !== undefined) state.set({ context_word: String(query) });
  }

  /** Reads the text on the right, where it is another one. */
  function load() {
    const { text, model: name } = wanted();
    const key = text.trim() && (text !== description.text || name !== description.model) ? `${name}\n${text}` : "";
    if (input.value !== text && focusedBeside(input) !== input) input.value = text;
    if (!canRead || key === asked) return show();
    asked = key;
    if (!key) {
      other?.close();
      other = null;
      return show();
    }
    latest(
      (signal) => /** @type {NonNullable<Services["read"]>} */ (services.read)(text, { model: name, signal }),
      (found) => {
        if (other !== services.beside) other?.close();
        other = found;
        problem.hidden = true;
        show();
      },
      (error) => {
        problem.hidden = false;
        problem.textContent = error.message;
        show();
      },
    );
  }

  function show() {
    const { layer, head } = state.get();
    left.show({ source, description, layer, head, query: queryHere(), measure: measureOf(state.get(), description) });
    right.show({ ...there(), ...chosenThere(), measure: measureOf(state.get(), there().description) });
    loadMoves();
    drawnOnce();
  }

  function loadMoves() {
    const units = unitsOf(description, "word");
    const { description: of, source: ask } = there();
    const unitsThere = unitsOf(of, "word");
    const [one, two] = [units[unitOf(units, queryHere())], unitsThere[unitOf(unitsThere, chosenThere().query)]];
    compared = one && two ? `${printable(one.text)} with ${printable(two.text)} in ${quoted(printable(of.text))}` : "";
    const both = description.has.includes("states") && of.has.includes("states");
    vectors.hidden = !both || !one || !two;
    if (vectors.hidden) return;
    const pieces = (/** @type {TokenRange} */ { first, last }) => Array.from({ length: last - first }, (_, piece) => first + piece);
    latestMoves(
      (signal) => Promise.all([source.ask("states", { tokens: pieces(one) }, { signal }), ask.ask("states", { tokens: pieces(two) }, { signal })]),
      ([here, there]) => {
        const [a, b] = [here.arrays.state, there.arrays.state];
        moves = description.model === of.model ? movesOf(a.toFloat32(), b.toFloat32(), a.shape, b.shape) : null;
        said.textContent = moves ? saidOfMoves(moves, one.text, two.text, !other) : "The two texts were read by different models, whose vectors cannot be compared: compare the attention above.";
        drawMoves();
        announce(said.textContent);
      },
      (error) => (said.textContent = error.message),
    );
  }

  function drawMoves() {
    replaced(chart, moves && width > 120 ? movesChart(moves, width, colours, state.get().layer) : []);
    replaced(table, moves ? movesTable(moves) : []);
  }

  if (services.models)
    services.models().then(
      (names) => {
        if (lifetime.ended) return;
        replaced(model, [...new Set([description.model, ...names])].map((name) => element("option", { value: name, text: name })));
        model.value = wanted().model;
        model.hidden = model.options.length < 2;
      },
      () => (model.hidden = true),
    );

  lifetime.add(
    state.listen((now, before) => {
      const names = ["layer", "head", "query", "measure", "context_text", "context_model", "context_layer", "context_head", "context_word"];
      if (names.some((name) => now[name] !== before[name])) load();
    }),
  );
  load();

  return {
    ready,
    cleanUp() {},
    table: () => ({
      title: said.textContent ?? "",
      columns: ["state", "cosine", "distance"],
      rows: (moves ?? []).map(({ cosine, distance }, place) => [place ? `after layer ${numberOfLayer(description, place - 1)}` : "before the first layer", cosine, distance]),
    }),
    origin: () => ({ source: printable(description.source ?? description.model), compared }), // of no measure
  };
}
