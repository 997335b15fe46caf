/** Title line, tabs, certificate, theme and export buttons. */
import { walkable } from "./controls.js";
import { element } from "./elements.js";
import { fileName, handOver, toCsv, toLatex, toPng, withCaption } from "./export.js";
import { isOverLayers, measureOf, nameOfMeasure } from "./measures.js";
import { printable, shortened } from "./words.js";

const KEPT_THEME = "regard-theme";

/** The title line. @param {any} description */
export function titleOf(description) {
  const heading = shortened(description.title || description.text || "Attention", 140);
  return [
    element("h1", { class: "regard-title", dir: "auto", text: heading, title: heading }),
    description.note ? element("p", { class: "regard-about", text: printable(description.note) }) : null,
  ];
}

/**
 * Beside the tabs: what is shown, its certificate, the tour, the theme.
 * @param {any} description
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

/** Model and sizes. @param {any} description */
function factsOf(description) {
  const tokens = description.tokens?.length ?? 0;
  const facts = [
    description.model && description.model !== "given" ? printable(description.model) : null,
    description.layers > 1 ? `${description.layers} layers${keptOf(description.kept?.layers)}` : null,
    description.heads > 1 ? `${description.heads} heads${keptOf(description.kept?.heads)}` : null,
    tokens
      ? `${tokens.toLocaleString("en")} ${description.kind === "lookup" ? "keys" : tokens === 1 ? "token" : "tokens"}`
      : null,
  ];
  return facts.filter(Boolean).join(" · ");
}

/** A check mark that opens. @param {any} description */
function certificateOf({ certificate }) {
  if (!certificate?.line) return null;
  const el = element(
    "details",
    { class: "regard-certificate regard-popover" },
    element("summary", { "aria-label": "Verified: show the certificate", title: "Verified against float64", text: "✓" }),
    element(
      "p",
      {},
      "Verified against float64 when the text was read: ",
      element("span", { text: `${printable(certificate.line)}.` }),
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

/** @param {number[]|null|undefined} kept */
function keptOf(kept) {
  return kept ? ` (kept in this page: ${kept.join(", ")})` : "";
}

/**
 * The tabs; arrow keys select them.
 * @param {any[]} views @param {any} chosen @param {any} state @param {HTMLElement} panel
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

  /** Drawing the view redraws the tabs: restore the focus. @param {any} view */
  function go(view) {
    state.set({ view: view.name });
    const again =
      list.getRootNode().getElementById?.(`${panel.id}-${view.name}`) ??
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
 * @param {HTMLElement} root @param {boolean} remember @param {any} lifetime @param {() => void} changed
 */
export function themeSwitch(root, remember, lifetime, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  /** @type {keyof typeof THEMES} */
  let chosen = /** @type {any} */ ((remember && kept()) || "auto");
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

/** What an export shows: model, layer and heads, or what is shown of all layers. @param {any} description @param {any} chosen */
export function captionOf(description, { layer, head, heads: several, ...chosen }) {
  const { model, layers, heads } = description;
  const measure = measureOf(chosen, description);
  const named = model && model !== "given" ? printable(model) : "";
  if (isOverLayers(measure)) return [named, nameOfMeasure(measure, description)].filter(Boolean).join(", ");
  const shown = several?.length > 1 ? `heads ${several.join(", ")}` : heads > 1 ? `head ${several?.[0] ?? head}` : "";
  const parts = [named, measure === "norm" ? nameOfMeasure(measure, description) : "", layers > 1 ? `layer ${layer}` : "", shown];
  return parts.filter(Boolean).join(", ");
}

/**
 * @param {() => any} shown
 * @param {any} state
 * @param {(text: string) => void} announce
 */
export function exportButtons(shown, state, announce) {
  const drawn = shown()?.drawn;
  const caption = () => captionOf(shown().description, state.get());
  const svg = async () => withCaption(await shown().drawn.svg(), caption());
  const table = async () => {
    const made = await shown().drawn.table();
    return { ...made, notes: [...(made.notes ?? []), caption()].filter(Boolean) };
  };
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
            `${fileName(`${view.title} ${caption()} ${description.title || description.text || ""}`)}.${ending}`,
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
