/** Title line, tabs, theme switch and export buttons. */
import { segments, walkable } from "./controls.js";
import { element } from "./elements.js";
import { fileName, handOver, toCsv, toLatex, toPng } from "./export.js";
import { printable, shortened } from "./words.js";

const KEPT_THEME = "regard-theme";

/**
 * @param {any} description
 * @param {{title: boolean, tools: Node[], beginTour: () => void}} options
 */
export function headerOf(description, { title, tools, beginTour }) {
  const heading = shortened(description.title || description.text || "Attention", 140);
  const tour = element("button", {
    type: "button",
    class: "regard-button",
    text: "Tour",
    "aria-haspopup": "dialog",
    onclick: beginTour,
  });
  return [
    element(
      "div",
      { class: "regard-heading" },
      title ? element("h1", { class: "regard-title", dir: "auto", text: heading }) : null,
      element("p", { class: "regard-about" }, aboutOf(description)),
      description.note ? element("p", { class: "regard-about", text: printable(description.note) }) : null,
    ),
    element("div", { class: "regard-tools" }, tour, tools),
  ];
}

/** Model, sizes, certificate. @param {any} description */
function aboutOf(description) {
  const tokens = description.tokens?.length ?? 0;
  const facts = [
    description.model && description.model !== "given" ? printable(description.model) : null,
    description.layers > 1 ? `${description.layers} layers${keptOf(description.kept?.layers)}` : null,
    description.heads > 1 ? `${description.heads} heads${keptOf(description.kept?.heads)}` : null,
    tokens
      ? `${tokens.toLocaleString("en")} ${description.kind === "lookup" ? "keys" : tokens === 1 ? "token" : "tokens"}`
      : null,
  ].filter(Boolean);
  const line = description.certificate?.line;
  return [
    element("span", { text: facts.join(" · ") }),
    line
      ? element(
          "span",
          { class: "regard-certificate", title: "Verified against float64 when the text was read" },
          element("span", { text: "✓ ", "aria-hidden": "true" }),
          printable(line),
        )
      : null,
  ];
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

/**
 * Light, dark, or the system setting.
 * @param {HTMLElement} root @param {boolean} remember @param {any} lifetime @param {() => void} changed
 */
export function themeSwitch(root, remember, lifetime, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = (remember && kept()) || "auto";
  const now = () => (chosen === "auto" ? (system.matches ? "dark" : "light") : chosen);
  const apply = () => root.setAttribute("data-theme", now());
  const options = [
    { value: "light", text: "Light" },
    { value: "auto", text: "Auto", title: "Follow the system setting" },
    { value: "dark", text: "Dark" },
  ];
  const control = segments("Theme", options, chosen, (value) => {
    chosen = value;
    if (remember) keep(value);
    apply();
    changed();
  });
  lifetime.listen(system, "change", () => {
    if (chosen !== "auto") return;
    apply();
    changed();
  });
  apply();
  return { el: control.el, now: /** @type {() => "light"|"dark"} */ (now) };
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
 * @param {() => any} shown
 * @param {(text: string) => void} announce
 */
export function exportButtons(shown, announce) {
  const drawn = shown()?.drawn;
  const kinds = [
    { name: "SVG", able: drawn?.svg, make: async () => ["svg", "image/svg+xml", await shown().drawn.svg()] },
    { name: "PNG", able: drawn?.svg, make: async () => ["png", "image/png", await toPng(await shown().drawn.svg())] },
    {
      name: "CSV",
      able: drawn?.table,
      make: async () => ["csv", "text/csv;charset=utf-8", toCsv(await shown().drawn.table())],
    },
    {
      name: "LaTeX",
      able: drawn?.table,
      make: async () => ["tex", "application/x-tex", toLatex(await shown().drawn.table())],
    },
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
            `${fileName(`${view.title} ${description.title || description.text || ""}`)}.${ending}`,
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
