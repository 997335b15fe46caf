/** One side of the comparison: a text shaded by the attention of one of its words, and the words it attends to most. */
import { stepper, steppedTo } from "../../elements/controls.js";
import { element, focusedBeside, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { strongest } from "../../maths/links.js";
import { isMasked, maskingOf } from "../../maths/masking.js";
import { verbOf } from "../../page/measures.js";
import { printedNumber } from "../../maths/numbers.js";
import { keptHeads, keptLayers, numberOfHead, numberOfLayer } from "../../page/state.js";
import { shortened, sinksOf, unitOf, unitsOf, wordElement } from "../../elements/words.js";
import { gather, gatherRow } from "../sentence/weights.js";

const SHOWN = 4; // words listed
const TEXT = 160; // words of the text

/**
 * @param {{label: string, colours: Colours, lifetime: Lifetime, set: (chosen: {layer?: number, head?: number, query?: number}) => void,
 *   text?: Node|null}} options  text: the control for the text, where it can be changed
 */
export function makePane({ label, colours, lifetime, set, text: editor = null }) {
  const latest = latestOnly(lifetime);
  const heading = element("h2", { class: "regard-context-title" });
  const choosers = element("div", { class: "regard-choosers" });
  const words = element("div", { class: "regard-context-words", role: "listbox", "aria-label": `${label}: choose a word`, "aria-orientation": "horizontal" });
  const list = element("ol", { class: "regard-words-bars regard-context-bars" });
  const said = element("p", { class: "regard-context-said" });
  const note = element("p", { class: "regard-note", role: "status" });
  const el = element("section", { class: "regard-context-pane", "aria-label": label }, heading, choosers, words, said, list, note);
  /** @type {any} */
  let now = null; // source, description, layer, head, query
  /** @type {Float32Array|null} */
  let weights = null;
  /** @type {Description|null} */
  let drawnFor = null;

  lifetime.listen(words, "click", (event) => {
    const place = event.target.closest?.(".regard-context-word")?.dataset.unit;
    if (place !== undefined) set({ query: units()[Number(place)].first });
  });
  lifetime.listen(words, "keydown", (/** @type {KeyboardEvent} */ event) => {
    const to = steppedTo(event, Math.max(unitOf(units(), now.query), 0), units().length);
    if (to === null) return;
    set({ query: units()[to].first });
    /** @type {HTMLElement|null} */ (words.querySelector('[tabindex="0"]'))?.focus();
  });
  const units = () => unitsOf(now.description, "word");

  /** @param {{source: Source, description: Description, layer: number, head: number, query: number, measure: Measure}} shown */
  function show(shown) {
    now = shown;
    const { description, source, layer, head, query, measure } = shown;
    const model = description.model && description.model !== "given" ? ` ${description.model}` : "";
    const text = element("bdi", { text: shortened(description.text || description.title, 90) });
    if (drawnFor !== description)
      replaced(heading, element("span", { class: "regard-label", text: `${label} ` }), editor ?? [text, element("span", { class: "regard-quiet", text: model })]);
    if (drawnFor !== description) drawChoosers();
    drawnFor = description;
    draw();
    const shift = description.first_query ?? 0;
    const row = (/** @type {AbortSignal} */ signal) => /** @type {Promise<{mean: Float32Array}>} */ (
      measure === "weight"
        ? gatherRow(source, { layer, heads: [head], query: query - shift, by: "word", keys: units() }, signal)
        : gather(source, { layer, heads: [head], queries: [units()[unitOf(units(), query)]], keys: units(), rows: [0, 1], columns: [0, units().length], shift, measure, words: description.words }, signal));
    latest(
      row,
      ({ mean }) => {
        weights = mean;
        note.textContent = "";
        draw();
      },
      (error) => (note.textContent = error.message),
    );
  }

  function drawChoosers() {
    const { description } = now;
    const [layers, heads] = [keptLayers(description), keptHeads(description)];
    weights = null;
    const number = (/** @type {string} */ name, /** @type {number} */ one) => (name === "Layer" ? numberOfLayer : numberOfHead)(description, one);
    const chooser = (/** @type {string} */ name, /** @type {number[]} */ kept, /** @type {number} */ at, /** @type {(value: number) => void} */ choose) =>
      kept.length > 1 ? stepper(`${label} ${name.toLowerCase()}`, kept.map((one) => `${name} ${number(name, one)}`), Math.max(kept.indexOf(at), 0), (place) => choose(kept[place])) : null;
    current = {
      layer: chooser("Layer", layers, now.layer, (layer) => set({ layer })),
      head: chooser("Head", heads, now.head, (head) => set({ head })),
      layers,
      heads,
    };
    replaced(choosers, current.layer?.el, current.head?.el);
  }
  /** @type {any} */
  let current = null;

  function draw() {
    const { query } = now;
    const all = units();
    const own = unitOf(all, query);
    current?.layer?.set(current.layers.indexOf(now.layer));
    current?.head?.set(current.heads.indexOf(now.head));
    const skip = (/** @type {number} */ place) => all[place].sink || place === own;
    const usable = weights?.length === all.length ? weights : null;
    const top = now.measure === "norm" && usable ? Math.max(...usable, 1e-9) : 1;
    const masking = maskingOf(now.description, now);
    const focused = words.contains(focusedBeside(words));
    replaced(
      words,
      all.slice(0, TEXT).map((unit, place) => {
        const weight = usable ? usable[place] : 0;
        const isHidden = own >= 0 && isMasked(masking, [all[own].first, all[own].last], [unit.first, unit.last]);
        const word = wordElement(unit.text, {
          class: "regard-context-word",
          role: "option",
          "data-unit": place,
          "aria-selected": String(place === own),
          tabindex: place === own ? "0" : "-1",
          "data-special": unit.special || null,
          title: !usable ? null : isHidden ? "masked" : printedNumber(weight, 3),
        });
        word.setAttribute("aria-label", `${shortened(unit.text, 40)}${!usable ? "" : isHidden ? ", masked" : `, ${printedNumber(weight, 2)}`}`);
        const colour = colours.shade(Math.min(1, weight / top));
        word.style.background = colour;
        word.style.color = colours.contrast(colour);
        return word;
      }),
      all.length > TEXT ? " …" : null,
    );
    if (focused) /** @type {HTMLElement|null} */ (words.querySelector('[tabindex="0"]'))?.focus();
    const best = usable ? strongest(usable, SHOWN, { skip }) : [];
    replaced(said, wordElement(all[own]?.text ?? "", { class: "regard-word" }), best.length ? `${verbOf(now.measure)}(itself and sinks left out)` : "");
    replaced(
      list,
      best.map((place) => {
        const bar = element("i");
        bar.style.transform = `scaleX(${Math.min(1, usable ? usable[place] / top : 0).toFixed(4)})`;
        return element(
          "li",
          {},
          element(
            "div",
            { class: "regard-context-bar" },
            wordElement(all[place].text, { class: "regard-words-name" }, 18),
            element("span", { class: "regard-words-bar", "aria-hidden": "true" }, bar),
            element("span", { class: "regard-words-number", text: printedNumber(usable ? usable[place] : 0, 2) }),
          ),
        );
      }),
    );
    const sinks = all.filter((unit) => unit.sink);
    const taken = usable ? all.reduce((sum, unit, place) => sum + (unit.sink ? usable[place] : 0), 0) : 0;
    const { listed, several } = sinksOf(sinks);
    if (usable && sinks.length && now.measure !== "norm") note.textContent = `${listed} ${several ? "take" : "takes"} ${printedNumber(taken, 2)}.`;
  }

  return { el, show, rows: () => (weights && now ? units().map((unit, place) => [unit.text, weights?.[place] ?? null]) : []) };
}
