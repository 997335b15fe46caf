/** Another text: heads' outputs, or the vectors of single words, come from another text, and the answer moves towards that text's. */
import { optionRow } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { heatTable } from "../../elements/heat_table.js";
import { latestOnly } from "../../elements/lifetime.js";
import { shortened, unitsOf } from "../../elements/words.js";
import { keptHeads, keptLayers, numberOfLayer } from "../../page/state.js";
import { swapped } from "../guess/model.js";
import { drawMissing, isOfModel } from "../matter/missing.js";
import { textOf } from "../matter/model.js";
import { queryChooser } from "../steps/query.js";
import { askerOf } from "../vote/model.js";
import { heatOf, printedShare, saidOfMeasure, strongestCells } from "./model.js";

const ABOUT = "Take what a head or a word holds from another text, and see whether the answer changes to that text’s.";
const STRUCK = 3; // of the strongest heads, struck out by a button

export const patching = {
  name: "patching",
  title: "From another text",
  uses: [],
  suits: isOfModel,
  draw: drawPatching,
};

/**
 * patch_text   the text that activations are taken from; without it, this one with its nouns swapped
 * patch_by     "position": words before each layer; else heads
 * @param {Context} context @returns {Drawn}
 */
function drawPatching(context) {
  const { el, source, description, state, colours, announce, lifetime } = context;
  const missing = drawMissing("patching", context, ABOUT);
  if (missing) return missing;
  const latest = latestOnly(lifetime);
  const units = unitsOf(description, "word");
  const [layers, heads] = [keptLayers(description), keptHeads(description)];
  const asker = () => Math.max(0, askerOf(units, state.get(), description));
  const by = () => /** @type {import("./model.js").By} */ (state.get().patch_by === "position" ? "position" : "head");
  const other = () => String(state.get().patch_text ?? swapped(description.text) ?? "");
  /** @type {(Float32Array|null)[]} */
  let effects = [];
  /** @type {import("./model.js").Measured|null} */
  let measured = null;

  const field = element("input", { type: "text", class: "regard-patching-field", maxlength: "1000", dir: "auto", spellcheck: "false", "aria-label": "The other text", placeholder: "This text with a word replaced" });
  const said = element("p", { class: "regard-matter-said", "aria-live": "polite" });
  const meaning = element("p", { class: "regard-matter-control" });
  const map = element("div", {});
  const strike = button(`Strike out the ${STRUCK} strongest heads`, strikeOut, { class: "regard-vote-action", hidden: true });
  const choice = optionRow("Taken", ["Head by head", "Word by word"], 0, (place) => state.set({ patch_by: place ? "position" : undefined }));
  const work = makeWork(layers.length, { stop, goOn: compute });
  const from = queryChooser(units.map(({ text }) => text), asker(), (word) => state.set({ query: units[word].first }), "Answer after");
  const label = element("label", {}, element("span", { class: "regard-label", text: "The other text" }), field);
  const choices = element("div", { class: "regard-patching-choice" }, label, choice.el, from.el);
  replaced(el, choices, said, work.el, meaning, map, strike);
  field.addEventListener("change", () => state.set({ patch_text: field.value.trim() || undefined }));

  const heatMap = () => heatOf(description, by(), effects, { layers, heads });

  function show() {
    const drawn = heatMap();
    replaced(map, heatTable(drawn, colours));
    const [top] = strongestCells(effects, 1);
    const done = effects.filter(Boolean).length;
    meaning.textContent = measured ? saidOfMeasure(measured, shortened(units[asker()].text, 20)) : "";
    if (!top) return;
    replaced(said, saidOfStrongest(top.effect, drawn.nameOf(top.layer, top.column), done < layers.length));
    strike.hidden = by() !== "head" || done < layers.length;
    if (done === layers.length) announce(said.textContent ?? "");
  }

  function strikeOut() {
    const chosen = strongestCells(effects, STRUCK).map(({ layer, column }) => ({ layer: layers[layer], head: heads[column] }));
    state.set({ matter_struck: textOf(chosen), view: "matter" });
  }

  /** Layer after layer, so that the map fills while it is computed. */
  function load() {
    const text = other();
    if (field.value !== text) field.value = text;
    choice.set(by() === "head" ? 0 : 1);
    from.set(asker());
    effects = layers.map(() => null);
    measured = null;
    strike.hidden = true;
    work.hide();
    replaced(meaning);
    replaced(map);
    abort();
    if (!text) return replaced(said, "Type this text again with one word replaced by another, such as a name: what the model computes for it is put into this text, piece by piece.");
    replaced(said, "Reading the other text …");
    compute();
  }

  /** The layers that are not computed yet. */
  function compute() {
    const text = other();
    work.show(effects.filter(Boolean).length, true);
    latest(
      async (signal) => {
        for (const [place, layer] of layers.entries()) {
          if (effects[place]) continue;
          const { header, arrays } = await source.ask("patching", { text, by: by(), layer, query: units[asker()].first }, { signal, inBackground: place > 0 });
          if (signal.aborted) return;
          effects[place] = arrays.effect.toFloat32();
          measured = header.measured;
          work.show(place + 1, true);
          show();
        }
      },
      () => {},
      (error) => {
        work.hide();
        replaced(said, error.message);
      },
    );
  }

  function abort() {
    latest(async () => {}, () => {});
  }

  function stop() {
    abort();
    work.show(effects.filter(Boolean).length, false);
  }

  lifetime.add(state.listen(load, ["query", "patch_text", "patch_by"]));
  load();
  const title = () => `Effects of activations from “${shortened(other(), 60)}”`;
  return {
    about: ABOUT,
    table() {
      const { columns } = heatMap();
      const rows = effects.flatMap((row, place) => Array.from(row ?? [], (effect, column) => [numberOfLayer(description, layers[place]), columns[column], effect]));
      return { title: title(), columns: ["layer", by() === "head" ? "head" : "token", "effect"], rows };
    },
  };
}

/** @param {number} effect of the cell @param {string} name @param {boolean} isPart whether layers are still to come */
function saidOfStrongest(effect, name, isPart) {
  const share = element("b", { text: `${printedShare(Math.abs(effect))} %` });
  return [`${isPart ? "So far the strongest" : "The strongest"}: ${name}, taken from the other text, moves the answer `, share, ` ${effect < 0 ? "away from" : "of the way to"} the other’s.`];
}

/**
 * How many layers are computed, with a button that stops and goes on: a large model takes minutes.
 * @param {number} layers @param {{stop: () => void, goOn: () => void}} act
 */
function makeWork(layers, { stop, goOn }) {
  let isGoing = false;
  const bar = element("progress", { max: String(layers), value: "0", "aria-label": "Layers computed" });
  const said = element("span", { class: "regard-quiet" });
  const press = button("", () => (isGoing ? stop() : goOn()));
  const el = element("div", { class: "regard-bar-group", hidden: true }, bar, said, press);
  return {
    el,
    /** @param {number} done @param {boolean} going */
    show(done, going) {
      isGoing = going;
      el.hidden = done === layers;
      bar.value = done;
      said.textContent = `${done} of ${layers} layers computed${going ? "" : ", stopped"}`;
      press.textContent = going ? "Cancel" : "Go on";
    },
    hide: () => (el.hidden = true),
  };
}
