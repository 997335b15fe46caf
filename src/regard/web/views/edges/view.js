/** One link is cut: a word may not look at another, in one head, in one layer or in all; and what that changes. */
import { optionRow, replacedOptions } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { unitOf, unitsOf } from "../../elements/words.js";
import { countsOf } from "../../maths/votes.js";
import { keptLayers, nameOfHead, numberOfLayer } from "../../page/state.js";
import { drawMissing, isOfModel } from "../matter/missing.js";
import { makeOutcome } from "../matter/outcome.js";
import { queryChooser } from "../steps/query.js";
import { askerOf } from "../vote/model.js";
import { WHERE, asksFor, canLook, controlKey, firstKey, whereOf } from "./model.js";

const ABOUT = "Forbid one word to look at another, and see what changes.";

export const edges = {
  name: "edges",
  title: "Without one link",
  uses: ["layer", "head"],
  suits: isOfModel,
  draw: drawEdges,
};

/**
 * query, key    the words at both ends of the link
 * edge_where    "layer" or "head": only there; else in all layers
 * @param {Context} context @returns {Drawn}
 */
function drawEdges(context) {
  const { el, description, state, lifetime } = context;
  const missing = drawMissing("flow", context, ABOUT);
  if (missing) return missing;
  const units = unitsOf(description, "word");
  const layers = keptLayers(description);
  const outcome = makeOutcome(context);
  const asker = () => Math.max(0, askerOf(units, state.get(), description));
  const possible = () => units.flatMap((unit, word) => (word !== asker() && !unit.sink && canLook(description, units[asker()], unit, layers) ? [word] : []));
  const where = () => whereOf(state.get().edge_where);
  const texts = units.map(({ text }) => text);
  const from = queryChooser(texts, asker(), (word) => state.set({ query: units[word].first }), "This word");
  const to = queryChooser(texts, -1, (word) => state.set({ key: units[word].first }), "may not look at");
  const places = element("div", {});
  replaced(el, element("div", { class: "regard-edges-choice" }, from.el, to.el, places), outcome.el);

  /** The word that is cut off: the chosen one, or the one with the most votes. */
  function key() {
    const chosen = unitOf(units, state.get().key);
    return chosen >= 0 && chosen !== asker() ? chosen : firstKey(countsOf(outcome.votes(), units.length), possible());
  }

  function showPlaces() {
    const { layer, head } = state.get();
    const name = nameOfHead({ layer, head }, description);
    const texts = ["All layers", `Layer ${numberOfLayer(description, layer)}`, name];
    replacedOptions(places, optionRow("Where", texts, WHERE.indexOf(where()), (place) => state.set({ edge_where: place ? WHERE[place] : undefined })).el);
  }

  function update() {
    const { layer, head } = state.get();
    showPlaces();
    from.set(asker());
    outcome.withVotes(asker(), () => {
      const cut = key();
      to.set(cut);
      const word = units[asker()];
      if (cut < 0) return outcome.rest(asker(), [`${word.text} has no other word to look at.`]);
      if (!canLook(description, word, units[cut], layers))
        return outcome.rest(asker(), [`${word.text} cannot look at ${units[cut].text} anyway: in this model a word sees only the words before it. Choose an earlier word.`]);
      const asks = (/** @type {number} */ to) => asksFor({ asker: word, key: units[to], where: where(), layer, head });
      const other = controlKey(possible(), cut);
      const first = where() === "all" ? layers[0] : layer;
      outcome.show({
        asker: asker(),
        name: `Without ${word.text} → ${units[cut].text}`,
        asks: asks(cut),
        first,
        from: first,
        struck: new Set(),
        control: other < 0 ? null : { asks: asks(other), text: `Without ${word.text} → ${units[other].text} instead` },
      });
    });
  }

  lifetime.add(state.listen(update, ["query", "key", "layer", "head", "edge_where"]));
  update();
  return { about: ABOUT };
}
