/** Where one is in the model: all heads as dots with the shown one marked, its name, what it is known for. */
import { segments, select } from "../elements/controls.js";
import { element } from "../elements/elements.js";
import { makeDots } from "../elements/dots.js";
import { isOverLayers, measureOf, nameOfMeasure } from "./measures.js";
import { labelOf } from "./roles.js";
import { hasLayers, keptHeads, keptLayers, nameOfHead, numberOfHead, numberOfLayer } from "./state.js";

/**
 * @param {{state: State, description: Description, view: View, views: View[], lifetime: Lifetime, said: HTMLElement|null, about: string}} given
 *   views: the pictures of this level; said: the evidence for what the head is known for
 */
export function makePlace({ state, description, view, views, lifetime, said, about }) {
  const uses = view.uses ?? [];
  const hasHead = uses.some((use) => use === "head" || use === "heads") && description.layers > 0;
  const title = element("b", { class: "regard-place-name" });
  const label = element("span", { class: "regard-place-label" });
  const why = element("details", { class: "regard-place-why" }, element("summary", { text: "i", "aria-label": "How is this known?", title: "How is this known?" }), said);
  const [layers, heads] = [keptLayers(description), keptHeads(description)];
  const all = layers.flatMap((layer) => heads.map((head) => ({ layer, head })));
  const dots = hasHead && all.length > 1 ? makePicker(all) : null;

  /** @param {HeadPlace[]} places */
  function makePicker(places) {
    const picker = makeDots({ label: "Heads", choose: (head) => state.set({ ...head, heads: null }) });
    const turned = layers.length > heads.length;
    const pitch = places.length > 400 ? 4 : places.length > 150 ? 7 : 9;
    picker.el.classList.add("regard-place-dots");
    const at = (/** @type {number} */ layer, /** @type {number} */ head) => (turned ? [layer, head] : [head, layer]);
    picker.show(
      places.map(({ layer, head }) => {
        const [x, y] = at(layers.indexOf(layer), heads.indexOf(head));
        return { layer, head, x: (x + 0.5) * pitch, y: (y + 0.5) * pitch, r: pitch * 0.36, name: [nameOfHead({ layer, head }, description), labelOf(description, layer, head)].filter(Boolean).join(", ") };
      }),
      { width: pitch * (turned ? layers.length : heads.length), height: pitch * (turned ? heads.length : layers.length) },
    );
    return picker;
  }

  function show() {
    const chosen = state.get();
    const measure = measureOf(chosen, description);
    const isAll = uses.includes("measure") && isOverLayers(measure);
    const several = uses.includes("heads") && chosen.heads && chosen.heads.length > 1 ? chosen.heads : null;
    const known = isAll || several || !hasHead ? "" : labelOf(description, chosen.layer, chosen.head);
    title.textContent = !hasHead || all.length < 2 ? "" : isAll ? nameOfMeasure(measure, description) : several ? nameOfHeads(several, chosen, description) : nameOfHead(chosen, description);
    label.textContent = known && `in general: ${known}`;
    why.hidden = !said?.textContent || view.name === "steps"; // said where the head is chosen
    if (chosen.roles_asked) why.open = true; // the answer to a question
    dots?.mark((layer, head) => !isAll && layer === chosen.layer && (several ?? [chosen.head]).includes(head));
  }

  const choose = (/** @type {string} */ name) => state.set({ view: name });
  // Few pictures stand side by side; more are a list, so that few controls are in sight.
  const names = views.map((one) => ({ value: one.name, text: one.title }));
  const isList = views.length > 3;
  const pictures = isList ? select("Picture", names, view.name, choose) : segments("Picture", names, view.name, choose).el;
  const el = element(
    "div",
    { class: "regard-place" },
    dots?.el,
    element("div", { class: "regard-place-said" }, element("p", {}, title, label, why), element("p", { class: "regard-place-about", text: about })),
    views.length > 1 ? pictures : null,
  );
  lifetime.add(state.listen(show));
  if (said) {
    const observer = new MutationObserver(show);
    observer.observe(said, { childList: true, subtree: true });
    lifetime.add(() => observer.disconnect());
  }
  show();
  return el;
}

/** "Layer 3, mean of heads 1, 5". @param {number[]} heads @param {Chosen} chosen @param {Description} description */
function nameOfHeads(heads, { layer, sentence_apart: apart }, description) {
  const numbers = heads.length === description.heads ? `all ${heads.length} heads` : `heads ${heads.map((head) => numberOfHead(description, head)).join(", ")}`;
  const name = apart ? numbers : `mean of ${numbers}`;
  return hasLayers(description) ? `Layer ${numberOfLayer(description, layer)}, ${name}` : name.replace(/^./, (letter) => letter.toUpperCase());
}
