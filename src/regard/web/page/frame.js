/** The frame of the viewer: header, host, place, Adjust, view; and what it says of itself: busy, stale, announced. */
import { button, element, replaced } from "../elements/elements.js";
import { store, stored } from "../elements/storage.js";
import { invitation } from "./front.js";
import { makeHeader, makeLive } from "./toolbar.js";

const KEPT_ADJUST = "regard-adjust"; // whether Adjust was open at the last visit

/** @param {{el: HTMLElement, remember: boolean, lifetime: Lifetime}} options */
export function makeFrame({ el, remember, lifetime }) {
  const live = makeLive();
  const [tabs, menu, save] = ["regard-tabs", "regard-menu", "regard-share"].map((name) => element("div", { class: name }));
  const adjust = button("Adjust", () => {
    setAdjusting(parts.adjust.hidden);
    if (remember) store(KEPT_ADJUST, parts.adjust.hidden ? "" : "open");
  }, { class: "regard-button regard-adjust-button", "aria-expanded": "false" });
  const parts = {
    top: makeHeader({ navigation: tabs, tools: [menu, save, adjust] }),
    host: element("div", { class: "regard-host" }), // of the host: a text to read
    title: element("div", { class: "regard-header" }),
    place: element("div", { class: "regard-place-line" }),
    adjust: element("section", { class: "regard-adjust", "aria-label": "Adjust", hidden: true }),
    view: element("section", { class: "regard-view", role: "tabpanel", tabindex: "-1" }),
  };
  const skip = button("Skip to the view", () => parts.view.focus(), { class: "regard-skip" });
  const root = element("div", { class: "regard", "aria-busy": "true" }, skip, Object.values(parts), live.el);
  el.append(root);
  lifetime.add(() => root.remove());
  lifetime.widths(tabs, () => markMore(tabs));
  if (remember) setAdjusting(stored(KEPT_ADJUST) === "open");

  /** @param {boolean} open */
  function setAdjusting(open) {
    parts.adjust.hidden = !open;
    adjust.setAttribute("aria-expanded", String(open));
  }

  return {
    ...parts,
    root,
    menu,
    save,
    busy: busyWhile(root, lifetime),
    announce: debounced(live.announce, lifetime),
    /** @param {Element} bar */
    setTabs(bar) {
      replaced(tabs, bar);
      showTab(tabs);
    },
    /** @param {(HTMLElement|null|undefined)[]} controls of the Adjust panel; those without content are left out */
    setControls(controls) {
      const some = controls.filter((one) => one?.childElementCount);
      replaced(parts.adjust, some);
      adjust.hidden = !some.length;
    },
    /** Dims what is shown: it no longer belongs to the text. @param {boolean} stale */
    setStale(stale) {
      root.classList.toggle("regard-stale", stale);
      for (const part of [parts.place, parts.adjust, parts.view]) part.inert = stale;
    },
    /** Before anything is read, say what to do. @param {Parameters<typeof invitation>} given */
    invite(...given) {
      root.setAttribute("data-front", "");
      root.setAttribute("aria-busy", "false");
      replaced(parts.view, invitation(...given));
    },
  };
}

/**
 * A source's `ask` that marks the viewer busy until the frame after the answer, because an answer may lead to the
 * next query. Background queries do not mark it busy.
 * @param {HTMLElement} root @param {Lifetime} lifetime
 */
function busyWhile(root, lifetime) {
  let waiting = 0;
  const answered = () => {
    waiting -= 1;
    if (!waiting) root.setAttribute("aria-busy", "false");
  };
  return (/** @type {Source["ask"]} */ ask) =>
    /** @type {typeof ask} */
    async (kind, parameters, options) => {
      if (options?.inBackground) return ask(kind, parameters, options);
      waiting += 1;
      root.setAttribute("aria-busy", "true");
      try {
        return await ask(kind, parameters, options);
      } finally {
        if (!lifetime.ended) lifetime.nextFrame(answered);
      }
    };
}

/**
 * Only the last of several announcements is heard.
 * @param {(text: string) => void} announce @param {Lifetime} lifetime
 */
function debounced(announce, lifetime) {
  let stop = () => {};
  return (/** @type {string} */ text) => {
    stop();
    stop = lifetime.after(120, () => announce(text));
  };
}

/** Replaces the old view by the new one as soon as it is drawn. @param {Element} old @param {HTMLElement} inner @param {Promise<void>|undefined} ready */
export function takeTurns(old, inner, ready) {
  const turn = () => {
    old.remove();
    inner.removeAttribute("data-waits");
  };
  if (!ready) return turn();
  /** @type {HTMLElement} */ (old).inert = true;
  inner.setAttribute("data-waits", ""); // invisible but laid out: views draw as soon as they have a width
  return ready.then(turn, turn);
}

/** Scrolls the tabs so that the selected one is visible. @param {HTMLElement} tabs */
function showTab(tabs) {
  const list = /** @type {HTMLElement|null} */ (tabs.firstElementChild);
  const chosen = /** @type {HTMLElement|null|undefined} */ (list?.querySelector('[aria-selected="true"]'));
  if (!list || !chosen) return;
  list.onscroll = () => markMore(tabs);
  list.scrollLeft = chosen.offsetLeft - (list.clientWidth - chosen.offsetWidth) / 2;
  markMore(tabs);
}

/** Marks the sides on which there are more tabs. @param {HTMLElement} tabs */
function markMore(tabs) {
  const list = tabs.firstElementChild;
  if (!list) return;
  tabs.toggleAttribute("data-more-before", list.scrollLeft > 2);
  tabs.toggleAttribute("data-more-after", list.scrollLeft < list.scrollWidth - list.clientWidth - 2);
}

/** @param {HTMLElement} el @param {Error} error */
export function showError(el, error) {
  replaced(el, element("p", { class: "regard-error", role: "alert", text: error.message || String(error) }));
}
