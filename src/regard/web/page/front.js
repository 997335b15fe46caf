/** The first screen: when a page opens with it, its header, and whether someone has been here before. */
import { element } from "../elements/elements.js";
import { shortened } from "../elements/words.js";

const KEPT_VIEW = "regard-view";

/** The header of the first screen. @param {() => void} leave to all views */
export function frontHeader(leave) {
  const all = element("button", { type: "button", class: "regard-button", text: "All views", onclick: leave });
  return element("div", { class: "regard-front" }, element("h1", { text: "Regard" }), all);
}

/**
 * The first screen before anything is read: the sentence, why it waits, and what can be done.
 * @param {string} text @param {string} reason @param {{text: string, act: () => void}[]} ways
 */
export function invitation(text, reason, ways) {
  return element(
    "div",
    { class: "regard-vote" },
    element("p", { class: "regard-vote-words regard-vote-waits", dir: "auto", text: shortened(text, 140) }),
    element("p", { class: "regard-vote-said", text: reason }),
    element(
      "div",
      { class: "regard-vote-actions" },
      ways.map(({ text: name, act }) => element("button", { type: "button", class: "regard-vote-action", "data-kind": "main", text: name, onclick: act })),
    ),
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
  try {
    const view = localStorage.getItem(KEPT_VIEW);
    return view && /^[a-z_]+$/.test(view) ? view : null;
  } catch {
    return null;
  }
}

/** @param {string} view */
export function keepView(view) {
  try {
    localStorage.setItem(KEPT_VIEW, view);
  } catch {
    // without storage every visit is the first
  }
}
