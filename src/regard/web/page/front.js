/** The first screen: when a page opens with it, and whether someone has been here before. */
import { button, element } from "../elements/elements.js";
import { store, stored } from "../elements/storage.js";
import { shortened } from "../elements/words.js";

const KEPT_VIEW = "regard-view";

/**
 * The first screen before anything is read: the sentence, why it waits, and what can be done.
 * @param {string} text @param {string} reason @param {{text: string, act: () => void}[]} ways
 */
export function invitation(text, reason, ways) {
  const buttons = ways.map(({ text: name, act }) => button(name, act, { class: "regard-vote-action", "data-kind": "main" }));
  return element(
    "div",
    { class: "regard-vote" },
    element("p", { class: "regard-vote-words regard-vote-waits", dir: "auto", text: shortened(text, 140) }),
    element("p", { class: "regard-vote-said", text: reason }),
    element("div", { class: "regard-vote-actions" }, buttons),
  );
}

/**
 * What a page opens with if no place is asked for: the first screen, or where a returning visitor was.
 * @param {View|undefined} front @param {boolean} remember @returns {Partial<Chosen>}
 */
export function openingView(front, remember) {
  const view = remember ? keptView() : null;
  if (view && view !== front?.name) return { view };
  return front ? { view: front.name, ...(view ? { vote_open: true } : {}) } : {};
}

/** The view that was shown last; null on a first visit. */
function keptView() {
  const view = stored(KEPT_VIEW);
  return view && /^[a-z_]+$/.test(view) ? view : null;
}

/** @param {string} view */
export function keepView(view) {
  store(KEPT_VIEW, view);
}
