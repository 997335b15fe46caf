/** Does it matter? Heads are struck out, and the change is followed through the later layers to the answer. */
import { select } from "../../elements/controls.js";
import { makeDots } from "../../elements/dots.js";
import { button, drawn, element, replaced } from "../../elements/elements.js";
import { makeReady } from "../../elements/lifetime.js";
import { headsOf, keptHeads, keptLayers, nameOfHead, numberOfLayer } from "../../page/state.js";
import { shortLabelOf } from "../../page/roles.js";
import { unitsOf, wordElement } from "../../elements/words.js";
import { byLayer } from "../dots/model.js";
import { nameOf } from "../../maths/votes.js";
import { askerOf } from "../vote/model.js";
import { counted } from "../vote/result.js";
import { drawMissing, isOfModel } from "./missing.js";
import { controlFor, groupsOf, headsFrom, textOf, toggled } from "./model.js";
import { makeOutcome } from "./outcome.js";

export const matter = {
  name: "matter",
  title: "Without heads",
  uses: [],
  suits: isOfModel,
  draw: drawMatter,
};

/**
 * matter_struck  the heads that are struck out, "3.1,5.2"
 * @param {Context} context @returns {Drawn}
 */
function drawMatter(context) {
  const { el, description, state, lifetime } = context;
  const missing = drawMissing("flow", context, "Whether a head matters is found out by computing again without it.");
  if (missing) return missing;
  const [layers, columns] = [keptLayers(description), keptHeads(description)];
  const all = headsOf(description.layers, description.heads);
  const units = unitsOf(description, "word");
  const writes = (description.has ?? []).includes("next");
  const struck = () => headsFrom(state.get().matter_struck, description);
  const asker = () => Math.max(0, askerOf(units, state.get(), description));
  const set = (/** @type {HeadPlace[]} */ heads) => state.set({ matter_struck: textOf(heads) });
  const outcome = makeOutcome(context);
  let width = 0;
  const { ready, done: drawnOnce } = makeReady(); // then dots fly here from the level before

  const picture = makeDots({ label: "Heads: tap to strike out", several: true, choose: (head) => set(toggled(struck(), head)), point });
  const hint = element("p", { class: "regard-matter-hint" });
  const groups = element("div", { class: "regard-matter-groups", role: "group", "aria-label": "Strike out" });
  const heads = element("div", { class: "regard-matter-heads" }, picture.el, hint, groups);
  replaced(el, heads, outcome.el);

  /** @param {HeadPlace|null} head */
  function point(head) {
    hint.textContent = head ? [nameOfHead(head, description), shortLabelOf(description, head)].filter(Boolean).join(": ") : "";
  }

  function showDots() {
    if (width < 40) return;
    const placed = byLayer(all, { layers, columns, width: Math.min(width, 640), labelled: false });
    picture.show(placed.dots.map((dot) => ({ ...dot, name: nameOfHead(dot, description) })), placed);
    for (const text of picture.el.querySelectorAll("text")) text.remove();
    picture.el.append(...placed.rows.map(({ layer, y }) => drawn("text", { x: 64, y: y + 4, "text-anchor": "end", "aria-hidden": "true", text: `Layer ${numberOfLayer(description, layer)}` })));
    picture.mark((layer, head) => struck().some((one) => one.layer === layer && one.head === head));
    drawnOnce();
  }

  /** @param {HeadPlace[]} heads */
  const asksFor = (heads) => ({ silenced: heads.map(({ layer, head }) => [layer, head]) });

  function load() {
    const heads = struck();
    const word = wordElement(units[asker()].text, { class: "regard-word" }, 20);
    if (!heads.length)
      return outcome.rest(asker(), ["Tap dots to strike out heads. The model then computes again without them, and you see where ", word, " looks in later layers, how far its vector moves", writes ? ", and the next word." : "."]);
    const name = heads.length === all.length ? "Without any head" : heads.length === 1 ? `Without ${nameOfHead(heads[0], description).replace(/^./, (letter) => letter.toLowerCase())}` : `Without ${heads.length} of ${counted(all.length)}`;
    const first = Math.min(...heads.map(({ layer }) => layer));
    const others = controlFor(heads, all);
    const control = others && { asks: asksFor(others), text: `${heads.length === 1 ? "Another head" : `${heads.length} other heads`} of the same layers, struck out instead` };
    outcome.show({ asker: asker(), name, asks: asksFor(heads), first, from: first + 1, struck: new Set(heads.map(nameOf)), control });
  }

  /** Groups of heads in a list, and a button that puts all back. */
  function loadGroups() {
    outcome.withVotes(asker(), () => {
      const some = groupsOf(outcome.votes(), units);
      const now = textOf(struck());
      const chosen = some.findIndex(({ heads }) => textOf(heads) === now);
      const none = { value: "", text: "Strike out several …" };
      const options = [none, ...some.map(({ text }, place) => ({ value: String(place), text }))];
      const value = chosen < 0 ? "" : String(chosen);
      const list = select("Strike out several", options, value, (place) => set(place ? some[Number(place)].heads : []));
      const focused = groups.contains(document.activeElement);
      replaced(groups, list, now ? button("Put all back", () => set([]), { class: "regard-vote-action" }) : null);
      if (focused) list.focus();
    });
  }

  lifetime.widths(heads, (now) => {
    width = now;
    showDots();
  });
  const change = () => {
    showDots();
    update();
  };
  lifetime.add(state.listen(change, ["matter_struck", "query"]));

  function update() {
    loadGroups();
    load();
  }

  update();
  return { ready };
}
