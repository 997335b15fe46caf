/**
 * The guided tour for newcomers to attention: beside the page, never over it. Every stop sets text, model, view, layer,
 * head and word, and says what is to be seen there; it can be left and resumed.
 */
import { uniqueId } from "../elements/controls.js";
import { element, replaced } from "../elements/elements.js";
import { latestOnly, makeLifetime } from "../elements/lifetime.js";
import { MODEL, SENTENCE, STOPS, startOf } from "./tour_stops.js";
import { VIEWS } from "./views.js";

const SETTLED = 60; // milliseconds after the last change of the page before pointing again

/**
 * @typedef {{root: HTMLElement, state: State, shown: () => {source: Source, description: Description}|null,
 *   announce: (text: string) => void, read?: (text: string, model: string) => void, stop: number,
 *   left: (stop: number, before: any, wasRead: boolean) => void}} Options
 *   read  reads another text, where the host can; left  called when the tour is left, with the stop to resume at
 * @param {Options} options
 */
export function startTour({ root, state, shown, announce, read, stop, left }) {
  const lifetime = makeLifetime();
  const latest = latestOnly(lifetime);
  const before = state.get();
  const page = root.getRootNode();
  const came = /** @type {HTMLElement|null} */ (/** @type {Document} */ (page).activeElement);
  let place = stop;
  let wasRead = false;

  const id = uniqueId("tour");
  const heading = element("h2", { id, class: "regard-tour-title", tabindex: "-1" });
  const body = element("div", { class: "regard-tour-body" });
  const count = element("span", { class: "regard-tour-count" });
  const progress = element("div", { class: "regard-tour-progress", "aria-hidden": "true" }, element("i"));
  const button = (/** @type {string} */ text, /** @type {() => void} */ act, /** @type {import("../elements/elements.js").Attributes} */ more = {}) =>
    element("button", { type: "button", class: "regard-button", text, onclick: act, ...more });
  const back = button("Back", () => go(place - 1));
  const next = button("", () => (place + 1 < stops().length ? go(place + 1) : leave(true)), { "data-kind": "main" });
  const close = button("×", () => leave(false), {
    class: "regard-tour-close",
    "aria-label": "Leave the tour",
    title: "Leave the tour (Esc); it resumes at this stop",
  });
  const card = element(
    "div",
    { class: "regard-tour", role: "dialog", "aria-modal": "false", "aria-labelledby": id },
    progress,
    close,
    heading,
    body,
    element("div", { class: "regard-tour-foot" }, count, back, next),
  );
  root.append(card);
  root.toggleAttribute("data-touring", true);
  lifetime.add(() => {
    card.remove();
    root.removeAttribute("data-touring");
    unpoint();
  });
  lifetime.listen(root.ownerDocument, "keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") leave(false);
  });

  const stops = () =>
    STOPS.filter(({ view, suits }) => {
      const description = shown()?.description;
      if (!description || (suits && !suits(description))) return false;
      return VIEWS.some((one) => one.name === view && one.suits(description));
    });

  /** @param {number} to */
  function go(to) {
    const all = stops();
    place = Math.min(Math.max(to, 0), all.length - 1);
    const { description } = /** @type {{description: Description}} */ (shown());
    if (read && !wasRead && (description.text !== SENTENCE || description.model !== MODEL)) {
      wasRead = true;
      read(SENTENCE, MODEL); // the viewer calls `refresh` when the reading is shown
    }
    state.set({ ...startOf(description), view: all[place].view, lookup_example: null, lookup_query: null, tour_stop: place });
    show(true);
  }

  /** @param {boolean} arrived at another stop, not only other numbers */
  function show(arrived) {
    const scene = shown();
    const all = stops();
    const stop = all[place];
    if (!scene || !stop) return;
    heading.textContent = stop.title;
    count.textContent = `${place + 1} of ${all.length}`;
    (/** @type {HTMLElement} */ (progress.firstElementChild)).style.transform = `scaleX(${(place + 1) / all.length})`;
    back.disabled = place === 0;
    next.textContent = place + 1 < all.length ? "Next" : "Done";
    if (arrived) {
      replaced(body);
      pending = true;
      point(true);
      waiting();
      waiting = lifetime.after(SETTLED, () => point(pending));
    }
    latest(
      (signal) => stop.say({ ...scene, chosen: { ...startOf(scene.description), ...chosenNow() }, signal }),
      (paragraphs) => {
        replaced(
          body,
          paragraphs.map((text) => element("p", { text })),
        );
        if (arrived) announce(`${stop.title}. ${paragraphs.join(" ")}`);
      },
      (error) => replaced(body, element("p", { class: "regard-error", text: error.message })),
    );
  }

  /** What is chosen now; a query that is not chosen is left to the start. @returns {Chosen} */
  function chosenNow() {
    const { query, ...now } = state.get();
    return /** @type {Chosen} */ (query === null ? now : { ...now, query });
  }

  let waiting = () => {};
  /** Marks what the stop is about, and scrolls to it on arrival. @param {boolean} scroll */
  function point(scroll) {
    const stop = stops()[place];
    const targets = stop ? [...root.querySelectorAll(stop.points(state.get()))] : [];
    const marked = [...root.querySelectorAll(".regard-tour-pointed")];
    for (const one of marked) if (!targets.includes(one)) one.classList.remove("regard-tour-pointed");
    for (const one of targets) one.classList.add("regard-tour-pointed");
    if (!scroll) return;
    const ready = targets.length > 0 && root.getAttribute("aria-busy") === "false";
    pending = !ready;
    if (targets.length) bringIntoView(targets);
  }
  let pending = false; // what is pointed at is not drawn yet, or may still move

  /** Scrolls so that the targets are free: below the tabs, above a card at the bottom. @param {Element[]} targets */
  function bringIntoView(targets) {
    const top = root.querySelector(".regard-top")?.getBoundingClientRect().height ?? 0;
    const under = getComputedStyle(card).getPropertyValue("--regard-under").trim() === "1";
    root.style.setProperty("--regard-tour-top", `${top + 12}px`);
    root.style.setProperty("--regard-tour-bottom", `${under ? card.getBoundingClientRect().height + 12 : 12}px`);
    const [first, last] = [targets[0], targets[targets.length - 1]];
    last.scrollIntoView({ block: "nearest", inline: "nearest" });
    first.scrollIntoView({ block: under ? "start" : "nearest", inline: "nearest" });
  }

  function unpoint() {
    for (const pointed of root.querySelectorAll(".regard-tour-pointed")) pointed.classList.remove("regard-tour-pointed");
  }

  // Views draw when their data arrives, and draw again when something is chosen.
  const observer = new MutationObserver((records) => {
    if (records.every(({ target }) => card.contains(target))) return;
    waiting();
    waiting = lifetime.after(SETTLED, () => point(pending));
  });
  observer.observe(root, { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-busy", "hidden"] });
  lifetime.add(() => observer.disconnect());
  lifetime.add(
    state.listen((now, then) => {
      const names = ["layer", "head", "query", "key", "by", "lookup_query", "lookup_example", "lookup_temperature"];
      const { tour_stop: to } = now; // Back and Forward
      if (Number.isInteger(to) && to !== place) go(to);
      else if (names.some((name) => now[name] !== then[name])) show(false);
    }),
  );

  /** @param {boolean} done */
  function leave(done) {
    if (lifetime.ended) return;
    const inside = card.contains(/** @type {Document} */ (page).activeElement);
    lifetime.end();
    state.set({ tour_stop: null });
    left(done ? 0 : place, done ? null : before, wasRead);
    if (inside) came?.focus?.();
  }

  go(place);
  next.focus({ preventScroll: true });
  return {
    /** Another reading is shown. */
    refresh: () => go(place),
    end: lifetime.end,
  };
}
