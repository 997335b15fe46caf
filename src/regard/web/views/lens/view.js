/** Layer by layer: the word that the model would say next if it ended after each layer (the logit lens). */
import { element, replaced } from "../../elements/elements.js";
import { heatTable } from "../../elements/heat_table.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printable, shortened, unitsOf, wordElement } from "../../elements/words.js";
import { keptLayers, numberOfLayer } from "../../page/state.js";
import { printedNumber } from "../../maths/numbers.js";
import { drawMissing, isOfModel } from "../matter/missing.js";
import { queryChooser } from "../steps/query.js";
import { askerOf } from "../vote/model.js";
import { mapOf, settledAfter } from "./model.js";

const ABOUT = "What the model would say next if it stopped after each layer: the logit lens.";
const MOST_TOKENS = 60; // columns: the last ones of a longer text

export const lens = {
  name: "lens",
  title: "Layer by layer",
  uses: [],
  suits: isOfModel,
  draw: drawLens,
};

/** @param {Context} context @returns {Drawn} */
function drawLens(context) {
  const { el, source, description, state, colours, announce, lifetime } = context;
  const missing = drawMissing("lens", context, ABOUT);
  if (missing) return missing;
  const latest = latestOnly(lifetime);
  const units = unitsOf(description, "word");
  const tokens = (description.tokens ?? []).map(printable);
  const layers = keptLayers(description).map((layer) => String(numberOfLayer(description, layer)));
  const shown = tokens.map((_, token) => token).slice(-MOST_TOKENS);
  const asker = () => Math.max(0, askerOf(units, state.get(), description));
  /** @type {import("./model.js").Lens|null} */
  let known = null;
  const said = element("p", { class: "regard-matter-said", "aria-live": "polite", text: "Computing …" });
  const legend = element("p", { class: "regard-matter-control", text: "Stronger colour: more likely. Bold: the token that does follow in the text." });
  const map = element("div", {});
  const from = queryChooser(units.map(({ text }) => text), asker(), (word) => state.set({ query: units[word].first }), "After");
  replaced(el, from.el, said, legend, map);

  function show() {
    if (!known) return;
    from.set(asker());
    const token = units[asker()].last - 1;
    const { tops, probability } = known;
    const end = tops.length - 1;
    const settled = settledAfter(tops, token);
    const when = settled === 0 ? "already before the first layer" : `from layer ${layers[settled - 1]} on`;
    replaced(said, "After ", wordElement(units[asker()].text, { class: "regard-word" }, 20), " the model says ", element("b", { text: `“${shortened(tops[end][token], 20)}”` }), ` with probability ${printedNumber(probability[end * tokens.length + token], 2)}; ${when} this is its first choice.`);
    for (const cell of map.querySelectorAll("[data-column]")) cell.removeAttribute("data-column");
    const place = shown.indexOf(token);
    for (const row of map.querySelectorAll("tr")) row.children[place + 1]?.setAttribute("data-column", "");
  }

  latest(
    (signal) => source.ask("lens", {}, { signal }),
    ({ header, arrays }) => {
      known = { tops: header.tops, probability: arrays.probability.toFloat32(), rank: arrays.rank.toFloat32() };
      replaced(map, heatTable(mapOf(known, tokens, layers, shown), colours));
      show();
      announce(said.textContent ?? "");
    },
    (error) => (said.textContent = error.message),
  );
  lifetime.add(state.listen(show, ["query"]));
  const title = `Logit lens of ${description.model}`;
  return {
    about: ABOUT,
    table() {
      const rows = (known?.tops ?? []).flatMap((line, layer) => line.map((top, token) => [layer ? `layer ${layers[layer - 1]}` : "embedding", token, tokens[token], top, known?.probability[layer * tokens.length + token], known?.rank[layer * tokens.length + token]]));
      return { title, columns: ["after", "position", "token", "top", "probability", "rank of the token that follows"], rows: rows.map((row) => row.map((cell) => (Number.isNaN(cell) ? "" : cell))) };
    },
  };
}
