/** Architecture: the model as blocks with shapes and parameters, and where the current layer and head lie in it. */
import { choosable, replacedOptions } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { latestOnly, makeReady } from "../../elements/lifetime.js";
import { numberOfHead } from "../../page/state.js";
import { printable } from "../../elements/words.js";
import { blockElements, headElements, lineElements, sharesElements } from "./draw.js";
import { leadOf, nameOfBlock, rowsOf, shownBlock } from "./model.js";

export const architecture = {
  name: "architecture",
  title: "Architecture",
  uses: [],
  /** @param {Description} description */
  suits: ({ has = [] }) => has.includes("architecture"),
  draw: drawArchitecture,
};

/** @param {Context} context @returns {Drawn} */
function drawArchitecture({ el, source, description, state, colours, lifetime }) {
  const latest = latestOnly(lifetime);
  const { ready, done: drawnOnce } = makeReady();
  /** @type {import("./model.js").Architecture|null} */
  let found = null;
  const lead = element("p", { class: "regard-lead" });
  const line = element("div", { class: "regard-arch-line", role: "group", tabindex: "0", "aria-label": "From the text to the output" });
  const block = element("section", { class: "regard-arch-block", "aria-label": "Inside the layer" });
  const heads = element("div");
  const open = button("", () => state.set({ view: "steps" }));
  const head = element("section", { class: "regard-arch-head", "aria-label": "Inside the head" }, heads, open);
  const shares = element("section", { class: "regard-arch-shares", "aria-label": "Where the parameters are" });
  replaced(el, lead, line, element("div", { class: "regard-arch-inside" }, block, head), shares);
  choosable(line, (layer) => state.set({ layer }));
  choosable(heads, (chosen) => state.set({ head: chosen, heads: null }));

  latest(
    (signal) => source.ask("architecture", {}, { signal }),
    ({ header }) => {
      found = /** @type {import("./model.js").Architecture} */ (header);
      lead.textContent = leadOf(found, description);
      replaced(shares, sharesElements(found, colours));
      show();
      drawnOnce();
    },
    (error) => {
      lead.textContent = error.message;
      drawnOnce();
    },
  );

  function show() {
    if (!found) return;
    const { layer, head: chosen } = state.get();
    const here = shownBlock(found, layer);
    replacedOptions(line, lineElements(found, here, description));
    if (!here) return;
    replaced(block, element("h2", { class: "regard-arch-heading", text: `Inside ${nameOfBlock(found, here, description)}` }), blockElements(here));
    const stage = (here.block.parts ?? []).find((part) => part.id === here.part);
    head.hidden = !stage;
    if (stage) replacedOptions(heads, headElements(/** @type {Required<import("./model.js").Stage>} */ (stage), chosen, found.width, description));
    open.textContent = `Compute one number of head ${numberOfHead(description, chosen)}`;
  }

  lifetime.add(state.listen(show, ["layer", "head"]));

  return {
    ready,
    table: () => ({ title: `Architecture of ${printable(description.model)}`, columns: ["part", "count", "shapes", "parameters", "note"], rows: found ? rowsOf(found) : [] }),
  };
}
