/** A short guided tour for newcomers to attention, beside the page and not modal. */
import { uniqueId } from "./controls.js";
import { element, replaced } from "./elements.js";
import { makeLifetime } from "./lifetime.js";
import { STOPS } from "./tour/stops.js";
import { VIEWS } from "./views.js";

const NARROW = 560; // pixels

/**
 * @param {{root: HTMLElement, state: any, description: any, announce: (text: string) => void, read?: (text: string) => void}} options
 * @returns {() => void} ends the tour
 */
export function startTour({ root, state, description, announce, read }) {
  const lifetime = makeLifetime();
  const before = state.get().view;
  const page = root.getRootNode();
  const came = /** @type {any} */ (page).activeElement;
  const stops = STOPS.filter(
    (stop) => !stop.view || VIEWS.some((view) => view.name === stop.view && view.suits(description)),
  );
  let place = 0;

  const id = uniqueId("tour");
  const heading = element("h2", { id, class: "regard-tour-title" });
  const body = element("div", { class: "regard-tour-body" });
  const count = element("span", { class: "regard-tour-count" });
  const back = element("button", {
    type: "button",
    class: "regard-button",
    text: "Back",
    onclick: () => go(place - 1),
  });
  const next = element("button", {
    type: "button",
    class: "regard-button",
    "data-kind": "main",
    onclick: () => (place + 1 < stops.length ? go(place + 1) : leave(true)),
  });
  const close = element("button", {
    type: "button",
    class: "regard-tour-close",
    text: "×",
    "aria-label": "Close the tour",
    title: "Close the tour (Esc)",
    onclick: () => leave(false),
  });
  const card = element(
    "div",
    { class: "regard-tour", role: "dialog", "aria-modal": "false", "aria-labelledby": id },
    close,
    heading,
    body,
    element("div", { class: "regard-tour-foot" }, count, back, next),
  );
  root.append(card);
  lifetime.add(() => card.remove());
  lifetime.add(unpoint);
  lifetime.listen(root.ownerDocument, "keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") leave(false);
  });

  /** @param {number} to */
  function go(to) {
    place = Math.min(Math.max(to, 0), stops.length - 1);
    const stop = stops[place];
    if (stop.view) state.set({ view: stop.view, ...stop.chosen });
    heading.textContent = stop.title;
    const button =
      read && stop.sentence
        ? element("button", {
            type: "button",
            class: "regard-button",
            text: "Read this sentence",
            onclick: () => read(/** @type {string} */ (stop.sentence)),
          })
        : null;
    replaced(
      body,
      stop.paragraphs.map((text) => element("p", { text })),
      stop.picture?.() ?? null,
      button,
    );
    count.textContent = `${place + 1} of ${stops.length}`;
    back.hidden = place === 0;
    next.textContent = place + 1 < stops.length ? "Next" : "Done";
    unpoint();
    const pointed = stop.points ? root.querySelector(stop.points) : null;
    pointed?.classList.add("regard-tour-pointed");
    // On a narrow screen the card covers the lower half.
    pointed?.scrollIntoView({ block: root.clientWidth < NARROW ? "start" : "nearest" });
    announce(`${stop.title}. ${stop.paragraphs.join(" ")}`);
  }

  function unpoint() {
    for (const pointed of root.querySelectorAll(".regard-tour-pointed"))
      pointed.classList.remove("regard-tour-pointed");
  }

  /** @param {boolean} done */
  function leave(done) {
    if (lifetime.ended) return;
    const inside = card.contains(/** @type {any} */ (page).activeElement);
    lifetime.end();
    if (!done) state.set({ view: before });
    if (inside) came?.focus?.();
  }

  go(0);
  next.focus();
  return lifetime.end;
}
