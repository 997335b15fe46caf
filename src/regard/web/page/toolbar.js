/** The header: levels of the zoom, the menu beside it, theme. */
import { walkable } from "../elements/controls.js";
import { button, element } from "../elements/elements.js";
import { makeLifetime } from "../elements/lifetime.js";
import { store, stored } from "../elements/storage.js";
import { numberOfHead, numberOfLayer } from "./state.js";
import { printable, shortened } from "../elements/words.js";

const KEPT_THEME = "regard-theme";

/**
 * The header of every page of the family: the name, the way through the page, tools. On a site the links of its pages stand above.
 * @param {{navigation?: Node|null, tools?: (Node|null)[]}} [parts]
 */
export function makeHeader({ navigation = null, tools = [] } = {}) {
  return element("header", { class: "regard-top" }, element("h1", { class: "regard-name", text: "Regard" }), navigation, element("div", { class: "regard-tools" }, tools));
}

/** A line for screen readers, and what announces in it. */
export function makeLive() {
  const el = element("p", { class: "regard-unseen", "aria-live": "polite", role: "status" });
  return { el, announce: (/** @type {string} */ text) => void (el.textContent = text) };
}

/**
 * A page of its own: its root, which ends with its lifetime, a line for screen readers, the theme.
 * @param {HTMLElement} el @param {string} name a class @param {() => void} changed called when the theme has changed
 */
export function makePage(el, name, changed) {
  const lifetime = makeLifetime();
  const root = el.appendChild(element("div", { class: `regard ${name}` }));
  lifetime.add(() => root.remove());
  return { lifetime, root, live: makeLive(), theme: themeSwitch(root, true, lifetime, changed) };
}

/** The heading of a page of its own: what is shown, facts, and how to read it. @param {string} title @param {string[]} facts @param {string} about */
export function headingOf(title, facts, about) {
  const parts = [
    element("h2", { class: "regard-title", text: title }),
    element("p", { class: "regard-about", text: facts.join(" · ") }),
    element("p", { class: "regard-training-about", text: about }),
  ];
  return element("header", { class: "regard-header" }, element("div", { class: "regard-heading" }, parts));
}

/** What is shown, in one line. @param {Description} description */
export function titleOf(description) {
  const heading = shortened(description.title || "", 140);
  return [
    heading && !(description.text ?? "").startsWith(heading.replace(/…$/, "")) ? element("p", { class: "regard-title", dir: "auto", text: heading, title: heading }) : null,
    description.note ? element("p", { class: "regard-about", text: printable(description.note) }) : null,
  ];
}

/**
 * A popover: a summary that opens a panel; Escape, and a click or focus elsewhere, close it.
 * @param {string} label @param {import("../elements/elements.js").Attributes} attributes of the summary @param {...import("../elements/elements.js").Children} content
 */
export function popover(label, attributes, ...content) {
  const el = element("details", { class: "regard-popover" }, element("summary", { text: label, ...attributes }), element("div", { class: "regard-popover-panel" }, ...content));
  closesOutside(el);
  return el;
}

/**
 * The menu beside the zoom: other levels and views, what is shown, its certificate, the theme.
 * @param {Description} description @param {{title: string, isShown: boolean, go: () => void}[]} places @param {Node} theme
 */
export function menuOf(description, places, theme) {
  const shown = places.find(({ isShown }) => isShown);
  const menu = popover(
    shown?.title ?? "More",
    { class: "regard-more", "aria-current": shown ? "page" : null, "aria-label": shown ? `More: ${shown.title}` : "More" },
    places.map(({ title, isShown, go }) =>
      button(title, () => {
        menu.open = false;
        go();
      }, { class: "regard-menu-item", "aria-current": isShown ? "page" : null }),
    ),
    element("div", { class: "regard-menu-foot" }, element("p", { class: "regard-about", text: factsOf(description) }), certificateOf(description), theme),
  );
  return menu;
}

/** Model and sizes. @param {Description} description */
function factsOf(description) {
  const tokens = description.tokens?.length ?? 0;
  const facts = [
    description.model && description.model !== "given" ? printable(description.model) : null,
    countOf("layer", description, numberOfLayer),
    countOf("head", description, numberOfHead),
    tokens
      ? `${tokens.toLocaleString("en")} ${description.kind === "lookup" ? "keys" : tokens === 1 ? "token" : "tokens"}`
      : null,
  ];
  return facts.filter(Boolean).join(" · ");
}

/** What was verified; for a reading from a file also what was not. @param {Description} description */
function certificateOf({ certificate }) {
  if (!certificate?.line) return null;
  const { line, unverified } = certificate;
  return element(
    "p",
    { class: "regard-about regard-certificate" },
    unverified ? "✓ Numbers verified against float64 when the file was opened: " : "✓ Verified against float64 when the text was read: ",
    element("span", { text: `${printable(line)}.` }),
    unverified ? ` ${printable(unverified)}` : null,
  );
}

/** Escape, and a click or focus elsewhere, close an open `details`. @param {HTMLDetailsElement} el */
export function closesOutside(el) {
  el.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !el.contains(/** @type {Node} */ (event.relatedTarget))) el.open = false;
  });
  el.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !el.open) return;
    event.stopPropagation();
    el.open = false;
    el.querySelector("summary")?.focus();
  });
  const close = (/** @type {Event} */ event) => {
    if (!el.contains(/** @type {Node} */ (event.target))) el.open = false;
  };
  el.addEventListener("toggle", () => {
    if (el.open) document.addEventListener("pointerdown", close);
    else document.removeEventListener("pointerdown", close);
  });
}

/**
 * How many layers or heads there are, or which of the model's.
 * @param {"layer"|"head"} axis @param {Description} description @param {(description: Description, place: number) => number} numberOf
 */
function countOf(axis, description, numberOf) {
  const count = description[`${axis}s`];
  const numbers = (/** @type {number[]} */ places) => places.map((place) => numberOf(description, place)).join(", ");
  const all = Array.from({ length: count ?? 0 }, (_, place) => place);
  const kept = description.kept?.[`${axis}s`];
  const some = all.some((place) => numberOf(description, place) !== place);
  if (!some && !(count > 1)) return null;
  const name = some ? `${axis}${count > 1 ? "s" : ""} ${numbers(all)}` : `${count} ${axis}s`;
  return `${name}${kept ? ` (kept in this page: ${numbers(kept)})` : ""}`;
}

/**
 * The levels of the zoom as one list; arrow keys move through it.
 * @param {ReturnType<typeof import("./levels.js").levelsOf>} levels @param {string|undefined} chosen the level that is shown
 * @param {(level: string) => void} go @param {HTMLElement} panel
 */
export function levelBar(levels, chosen, go, panel) {
  const list = element("div", { role: "tablist", "aria-label": "Zoom: from the sentence to a number", class: "regard-tablist" });
  panel.id ||= `regard-panel-${Math.random().toString(36).slice(2, 10)}`;
  const idOf = (/** @type {string} */ name) => `${panel.id}-${name}`;
  const tabs = levels.map(({ name, title, about }, place) => {
    const on = name === chosen;
    return button(title, () => change(name), {
      class: "regard-tab",
      role: "tab",
      id: idOf(name),
      "data-level": name,
      "aria-selected": String(on),
      "aria-controls": panel.id,
      tabindex: on || (!chosen && !place) ? "0" : "-1",
      title: about,
    });
  });
  if (chosen) panel.setAttribute("aria-labelledby", idOf(chosen));

  /** The bar is drawn again with the level: restore the focus. @param {string} name */
  function change(name) {
    go(name);
    const page = /** @type {Document} */ (list.getRootNode());
    (page.getElementById?.(idOf(name)) ?? document.getElementById(idOf(name)))?.focus();
  }
  walkable(list, () => tabs, (tab) => change(levels[tabs.indexOf(tab)].name));
  list.append(...tabs);
  return list;
}

const THEMES = {
  auto: { icon: "◐", text: "as the system" },
  light: { icon: "☀", text: "light" },
  dark: { icon: "☾", text: "dark" },
};

/**
 * One button for the theme: the system setting, light, dark.
 * @param {HTMLElement} root @param {boolean} remember @param {Lifetime} lifetime @param {() => void} changed
 */
export function themeSwitch(root, remember, lifetime, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  /** @type {keyof typeof THEMES} */
  let chosen = /** @type {"auto"|"light"|"dark"} */ ((remember && stored(KEPT_THEME)) || "auto");
  if (!(chosen in THEMES)) chosen = "auto";
  const now = () => (chosen === "auto" ? (system.matches ? "dark" : "light") : chosen);
  const el = button("", next, { class: "regard-button regard-theme" });
  function apply() {
    const { icon, text } = THEMES[chosen];
    root.setAttribute("data-theme", now());
    el.textContent = icon;
    el.setAttribute("aria-label", `Theme: ${text}`);
    el.title = `Theme: ${text}. Click to change.`;
  }
  function next() {
    const order = /** @type {(keyof typeof THEMES)[]} */ (system.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"]);
    chosen = order[(order.indexOf(chosen) + 1) % order.length];
    if (remember) store(KEPT_THEME, chosen);
    apply();
    changed();
  }
  lifetime.listen(system, "change", () => {
    if (chosen !== "auto") return;
    apply();
    changed();
  });
  apply();
  return { el, now: /** @type {() => "light"|"dark"} */ (now) };
}
