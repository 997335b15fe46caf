/** The viewer: title, tabs, choosers, the selected view, export. Shared by the studio, notebooks and pages. */
import { keepAddress, stateAt } from "./address.js";
import { choosers } from "./choosers.js";
import { makeColours } from "../elements/colours.js";
import { element, replaced } from "../elements/elements.js";
import { loadKernel } from "../engine/kernel.js";
import { frontHeader, invitation, keepView, openingView } from "./front.js";
import { exportButtons, tabsOf, themeSwitch, titleOf, toolsOf } from "./toolbar.js";
import { makeLifetime } from "../elements/lifetime.js";
import { roles } from "./roles.js";
import { fitted, makeState, nameOfToken, tokenOfName } from "./state.js";
import { startTour } from "./tour.js";
import { VIEWS } from "./views.js";

/**
 * Mount the viewer for a source; the returned function removes it.
 * @param {{model: Source, el: HTMLElement} & Options} options
 * @returns {() => void}
 */
export function mount({ model, el, ...options }) {
  const viewer = makeViewer({ el, ...options });
  viewer.show(model);
  return viewer.cleanUp;
}

/**
 * wasm      where the kernel is, or its bytes: views compute with it
 * address   keep the state in the page's address; with what the host adds to it, if it adds something. Such a page opens
 *           with the first screen, unless its address asks for a place
 * remember  keep the theme and the last view between visits
 * title     show the title; false where the host shows it
 * read      reads another text, with a model of this name if it is there: used by the tour
 * services  see views.js
 * @typedef {{wasm: Parameters<typeof loadKernel>[0], address?: boolean|import("./address.js").Host, remember?: boolean, title?: boolean, read?: (text: string, model?: string) => void,
 *   services?: Services}} Options
 * @param {{el: HTMLElement} & Options} options
 */
export function makeViewer({ el, wasm, address = false, remember = false, title = true, read, services = {} }) {
  const lifetime = makeLifetime();
  const state = makeState();
  const loaded = loadKernel(wasm);
  loaded.catch(() => {}); // `show` says why
  const live = element("p", { class: "regard-unseen", "aria-live": "polite", role: "status" });
  const parts = {
    front: frontHeader(() => {
      root.removeAttribute("data-front");
      state.set({ view: "sentence" });
      parts.view.focus({ preventScroll: true });
    }),
    header: element("header", { class: "regard-header" }),
    top: element("div", { class: "regard-top" }),
    choosers: element("div", { class: "regard-choosers-line" }),
    view: element("section", { class: "regard-view", role: "tabpanel", tabindex: "-1" }),
    footer: element("footer", { class: "regard-footer" }),
  };
  const [tabs, tools] = ["regard-tabs", "regard-tools"].map((name) => element("div", { class: name }));
  parts.top.append(tabs, tools);
  const skip = element("button", {
    type: "button",
    class: "regard-skip",
    text: "Skip to the view",
    onclick: () => parts.view.focus(),
  });
  const root = element("div", { class: "regard", "aria-busy": "true" }, skip, Object.values(parts), live);
  el.append(root);
  lifetime.add(() => root.remove());

  /** @type {{source: Source, description: Description, view: View|null, drawn: Drawn|null, lifetime: Lifetime|null}|null} */
  let shown = null;
  let settling = false; // while the state is adapted to another description
  const theme = themeSwitch(root, remember, lifetime, () => shown && drawView());
  const busy = busyWhile(root, lifetime);
  const announce = announcer(live, lifetime);

  /** @param {string|null} name @param {Description} description */
  function viewNamed(name, description) {
    const suiting = VIEWS.filter((view) => view.suits(description));
    const heatMap = description.kind === "reading" && !description.text ? suiting.find((view) => view.name === "matrix") : null;
    return suiting.find((view) => view.name === name) ?? heatMap ?? suiting.find(({ front }) => !front) ?? suiting[0]; // vectors without words open as a heat map
  }

  /** @param {boolean} [again] redraws the same view: the old one stays until the new one is ready */
  function drawView(again = false) {
    if (!shown) return;
    const { source, description } = shown;
    endView();
    const view = viewNamed(state.get().view, description);
    const part = lifetime.part();
    const colours = makeColours(theme.now());
    const inner = element("div", { class: `regard-${view.name}` });
    const uses = view.uses ?? ["layer", "head"];
    replaced(parts.choosers, choosers(state, description, uses, part, colours), roles(state, description, uses, part, source, services.show));
    const old = again ? parts.view.querySelector(`:scope > .regard-${view.name}:not([hidden])`) : null;
    replaced(parts.view, element("h2", { class: "regard-unseen", text: view.title }), old, inner);
    tabs.replaceChildren(
      tabsOf(
        VIEWS.filter((one) => one.suits(description)),
        view,
        state,
        parts.view,
      ),
    );
    showTab(tabs);
    root.toggleAttribute("data-front", Boolean(view.front));
    Object.assign(shown, { view, lifetime: part });
    try {
      shown.drawn = view.draw({ el: inner, source, description, state, colours, announce, lifetime: part, services });
    } catch (error) {
      showError(inner, /** @type {Error} */ (error));
    }
    if (old) takeTurns(old, inner, shown.drawn?.ready);
    replaced(
      parts.footer,
      exportButtons(() => shown, state, announce, colours),
    );
  }

  function endView() {
    shown?.drawn?.cleanUp();
    shown?.lifetime?.end();
    if (shown) Object.assign(shown, { drawn: null, lifetime: null });
  }

  lifetime.add(endView);
  lifetime.resized(tabs, () => markMore(tabs));
  lifetime.add(
    state.listen((now, before) => {
      if (shown && !settling && now.view !== before.view) drawView();
      const front = shown?.view?.front;
      if (remember && shown?.view && (front ? now.vote_open && !before.vote_open : now.view !== before.view)) keepView(shown.view.name);
    }),
  );
  const kept = address
    ? keepAddress({ state, described: () => shown?.description, lifetime, host: address === true ? null : address })
    : null;

  /** @type {ReturnType<typeof startTour>|null} */
  let tour = null;
  let resumeAt = 0;
  lifetime.add(() => tour?.end());

  /** @param {number} stop */
  function beginTour(stop) {
    tour?.end();
    const text = shown?.description.text;
    const { model } = shown?.description ?? {};
    tour = startTour({
      root,
      state,
      shown: () => shown,
      announce,
      read,
      stop,
      left(at, before, wasRead) {
        tour = null;
        resumeAt = at;
        showTools();
        if (before) state.set(before);
        if (before && wasRead) read?.(text ?? "", model);
      },
    });
  }

  function showTools() {
    if (!shown) return;
    const begin = () => beginTour(resumeAt);
    replaced(tools, toolsOf(shown.description, { tools: [theme.el], beginTour: begin, resumes: resumeAt > 0 }));
  }

  /**
   * Show another source, keeping the state where it still applies, or with the state of the address.
   * @param {Source} source
   * @param {{signal?: AbortSignal, fromAddress?: boolean}} [options]
   */
  async function show(source, { signal, fromAddress = !shown } = {}) {
    const ask = busy(source.ask);
    try {
      const [answer] = await Promise.all([ask("describe", {}, { signal }), loaded]);
      const header = /** @type {Description} */ (answer.header);
      if (lifetime.ended || signal?.aborted) return;
      const said =
        fromAddress || !shown
          ? stateAt(address ? location.hash : "", header, state.get())
          : { ...carriedOver(state.get(), shown.description, header), ...openingOf(state.get(), shown.description, header), roles_asked: null };
      const opens = !shown && address && location.hash.length < 2 && said.view === null;
      if (opens) Object.assign(said, openingView(VIEWS.find((view) => view.front && view.suits(header)), remember));
      const goesOn = shown?.drawn?.update && viewNamed({ ...state.get(), ...said }.view, header) === shown.view ? shown : null;
      if (!goesOn) endView();
      const next = { source: { ask }, description: header };
      shown = goesOn ? Object.assign(goesOn, next) : { ...next, view: null, drawn: null, lifetime: null };
      settling = true;
      state.set(fitted({ ...state.get(), ...said }, header));
      settling = false;
      if (title) replaced(parts.header, titleOf(header));
      showTools();
      setStale(false);
      if (goesOn) goesOn.drawn?.update?.(next);
      else drawView(true);
      kept?.changed();
      const { tour_stop: stop } = state.get();
      if (tour) tour.refresh();
      else if (Number.isInteger(stop)) beginTour(stop);
    } catch (error) {
      if (!lifetime.ended && !signal?.aborted) showError(parts.view, /** @type {Error} */ (error));
    }
  }

  /** Dims what is shown: it no longer belongs to the text. @param {boolean} stale */
  function setStale(stale) {
    root.classList.toggle("regard-stale", stale);
    for (const part of [parts.choosers, parts.view, parts.footer]) part.inert = stale;
  }

  /** Before anything is read, say what to do. @type {(...given: Parameters<typeof invitation>) => void} */
  function invite(...given) {
    root.setAttribute("data-front", "");
    root.setAttribute("aria-busy", "false");
    replaced(parts.view, invitation(...given));
  }

  return {
    show,
    invite,
    setStale,
    addressChanged: kept?.changed ?? (() => {}),
    state,
    announce,
    root,
    cleanUp: lifetime.end,
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

/** The same word in another text, or the same position. @param {Chosen} chosen @param {Description} before @param {Description} after */
function carriedOver(chosen, before, after) {
  /** @type {Partial<Chosen>} */
  const carried = {};
  for (const name of ["query", "key"]) {
    const token = chosen[name];
    if (token === null || before.tokens?.[token] === after.tokens?.[token]) continue;
    carried[name] = tokenOfName(nameOfToken(token, before), after) ?? null;
  }
  if (before.tokens?.length !== after.tokens?.length) carried.region = null;
  return carried;
}

/**
 * Another text opens at its own start, unless a head was chosen by hand: then that head stays, and the word if it is
 * there. @param {Chosen} chosen @param {Description} before @param {Description} after
 */
function openingOf(chosen, before, after) {
  const { start } = before;
  const untouched = start && /** @type {const} */ (["layer", "head", "query"]).every((name) => chosen[name] === start[name]);
  return untouched && after.start && !chosen.heads ? after.start : {};
}

/** Announces to screen readers, debounced. @param {HTMLElement} live @param {Lifetime} lifetime */
function announcer(live, lifetime) {
  let stop = () => {};
  return (/** @type {string} */ text) => {
    stop();
    stop = lifetime.after(120, () => (live.textContent = text));
  };
}

/** Replaces the old view by the new one as soon as it is drawn. @param {Element} old @param {HTMLElement} inner @param {Promise<void>|undefined} ready */
function takeTurns(old, inner, ready) {
  const turn = () => {
    old.remove();
    inner.hidden = false;
  };
  if (!ready) return turn();
  /** @type {HTMLElement} */ (old).inert = true;
  inner.hidden = true;
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
function showError(el, error) {
  replaced(el, element("p", { class: "regard-error", role: "alert", text: error.message || String(error) }));
}
