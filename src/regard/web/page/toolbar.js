/** Title line, tabs, certificate, theme and export buttons. */
import { walkable } from "../elements/controls.js";
import { element } from "../elements/elements.js";
import { fileName, handOver, toCsv, toLatex, toPng, withCaption } from "./export.js";
import { isOverLayers, measureOf, nameOfMeasure } from "./measures.js";
import { hasHeads, hasLayers, numberOfHead, numberOfLayer } from "./state.js";
import { provenance } from "./provenance.js";
import { printable, shortened } from "../elements/words.js";

const KEPT_THEME = "regard-theme";

/** The title line. @param {Description} description */
export function titleOf(description) {
  const heading = shortened(description.title || description.text || "Attention", 140);
  return [
    element("h1", { class: "regard-title", dir: "auto", text: heading, title: heading }),
    description.note ? element("p", { class: "regard-about", text: printable(description.note) }) : null,
  ];
}

/**
 * Beside the tabs: what is shown, its certificate, the tour, the theme.
 * @param {Description} description
 * @param {{tools: Node[], beginTour: () => void, resumes?: boolean}} options
 */
export function toolsOf(description, { tools, beginTour, resumes = false }) {
  const tour = element("button", {
    type: "button",
    class: "regard-button",
    text: resumes ? "Resume tour" : "Tour",
    "aria-haspopup": "dialog",
    onclick: beginTour,
  });
  return [element("span", { class: "regard-about", text: factsOf(description) }), certificateOf(description), tour, tools];
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

/** A check mark that opens; for a reading from a file it says what was not checked. @param {Description} description */
function certificateOf({ certificate }) {
  if (!certificate?.line) return null;
  const { line, unverified } = certificate;
  const label = unverified ? "Numbers verified, text and model not" : "Verified";
  const el = element(
    "details",
    { class: "regard-certificate regard-popover" },
    element("summary", { "aria-label": `${label}: show the certificate`, title: `${label} (against float64)`, text: unverified ? "✓ numbers only" : "✓" }),
    element(
      "p",
      {},
      unverified ? "Verified against float64 when the file was opened: " : "Verified against float64 when the text was read: ",
      element("span", { text: `${printable(line)}.` }),
      unverified ? ` ${printable(unverified)}` : null,
    ),
  );
  closesOutside(el);
  return el;
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
 * The tabs; arrow keys select them.
 * @param {View[]} views @param {View} chosen @param {State} state @param {HTMLElement} panel
 */
export function tabsOf(views, chosen, state, panel) {
  const list = element("div", { role: "tablist", "aria-label": "Views", class: "regard-tablist" });
  panel.id ||= `regard-panel-${Math.random().toString(36).slice(2, 10)}`;
  const tabs = views.map((view) => {
    const on = view === chosen;
    return element("button", {
      type: "button",
      role: "tab",
      id: `${panel.id}-${view.name}`,
      class: "regard-tab",
      "aria-selected": String(on),
      "aria-controls": panel.id,
      tabindex: on ? "0" : "-1",
      text: view.title,
      onclick: () => go(view),
    });
  });
  panel.setAttribute("aria-labelledby", `${panel.id}-${chosen.name}`);

  /** Drawing the view redraws the tabs: restore the focus. @param {View} view */
  function go(view) {
    state.set({ view: view.name });
    const again =
      /** @type {Document} */ (list.getRootNode()).getElementById?.(`${panel.id}-${view.name}`) ??
      document.getElementById(`${panel.id}-${view.name}`);
    again?.focus();
  }
  walkable(
    list,
    () => tabs,
    (tab) => go(views[tabs.indexOf(tab)]),
  );
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
  let chosen = /** @type {"auto"|"light"|"dark"} */ ((remember && kept()) || "auto");
  if (!(chosen in THEMES)) chosen = "auto";
  const now = () => (chosen === "auto" ? (system.matches ? "dark" : "light") : chosen);
  const button = element("button", { type: "button", class: "regard-button regard-theme", onclick: next });
  function apply() {
    const { icon, text } = THEMES[chosen];
    root.setAttribute("data-theme", now());
    button.textContent = icon;
    button.setAttribute("aria-label", `Theme: ${text}`);
    button.title = `Theme: ${text}. Click to change.`;
  }
  function next() {
    const order = /** @type {(keyof typeof THEMES)[]} */ (system.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"]);
    chosen = order[(order.indexOf(chosen) + 1) % order.length];
    if (remember) keep(chosen);
    apply();
    changed();
  }
  lifetime.listen(system, "change", () => {
    if (chosen !== "auto") return;
    apply();
    changed();
  });
  apply();
  return { el: button, now: /** @type {() => "light"|"dark"} */ (now) };
}

function kept() {
  try {
    return localStorage.getItem(KEPT_THEME);
  } catch {
    return null;
  }
}

/** @param {string} theme */
function keep(theme) {
  try {
    localStorage.setItem(KEPT_THEME, theme);
  } catch {
    // without storage the theme is not remembered
  }
}

/**
 * Where an export's numbers come from: model, layer, heads and text, or what the view says instead.
 * @param {Description} description @param {Chosen} chosen
 * @param {{uses?: string[], origin?: import("./provenance.js").Origin}} [view] the choosers of the view, and what differs from the description
 */
export function captionOf(description, { layer, head, heads: several, measure: wanted }, { uses = ["layer", "head"], origin = {} } = {}) {
  const measure = uses.includes("measure") ? measureOf({ measure: wanted }, description) : "weight";
  const named = printable(description.source ?? (description.model === "given" ? "" : (description.model ?? "")));
  const isOfHead = !isOverLayers(measure) && uses.some((name) => name.startsWith("head"));
  const ofHeads = several && several.length > 1 ? several : [several?.[0] ?? head];
  return provenance({
    source: [named, measure === "weight" ? "" : nameOfMeasure(measure, description)].filter(Boolean).join(", "),
    layer: isOfHead && hasLayers(description) ? numberOfLayer(description, layer) : null,
    heads: isOfHead && hasHeads(description) ? ofHeads.map((/** @type {number} */ one) => numberOfHead(description, one)) : [],
    text: printable(description.text ?? ""),
    ...origin,
  });
}

/**
 * @param {() => any} shown
 * @param {State} state
 * @param {(text: string) => void} announce
 * @param {Colours} colours
 */
export function exportButtons(shown, state, announce, colours) {
  const drawn = shown()?.drawn;
  const caption = () => captionOf(shown().description, state.get(), { uses: shown().view.uses, origin: shown().drawn.origin?.() });
  const svg = async () => withCaption(await shown().drawn.svg(), caption(), colours);
  const table = async () => {
    const made = await shown().drawn.table();
    return { ...made, source: caption(), notes: [...(made.notes ?? []), caption()] };
  };
  /** @type {{name: string, able: unknown, make: () => Promise<[string, string, string|Blob]>}[]} */
  const kinds = [
    { name: "SVG", able: drawn?.svg, make: async () => ["svg", "image/svg+xml", await svg()] },
    { name: "PNG", able: drawn?.svg, make: async () => ["png", "image/png", await toPng(await svg())] },
    { name: "CSV", able: drawn?.table, make: async () => ["csv", "text/csv;charset=utf-8", toCsv(await table())] },
    { name: "LaTeX", able: drawn?.table, make: async () => ["tex", "application/x-tex", toLatex(await table())] },
  ];
  const buttons = kinds.map(({ name, able, make }) =>
    element("button", {
      type: "button",
      class: "regard-button",
      text: name,
      disabled: !able,
      title: able ? null : "Not available in this view",
      onclick: async () => {
        try {
          const [ending, type, content] = await make();
          const { description, view } = shown();
          handOver(
            content,
            `${fileName(`${view.title} ${caption()} ${description.text ? "" : description.title || ""}`)}.${ending}`,
            type,
          );
          announce(`${name} saved`);
        } catch (error) {
          announce(/** @type {Error} */ (error).message);
        }
      },
    }),
  );
  const group = element("div", { class: "regard-export", role: "group", "aria-label": "Export" });
  group.append(element("span", { class: "regard-label", text: "Export", "aria-hidden": "true" }), ...buttons);
  return group;
}
