/** The viewer: header with the levels of the zoom, where one is, the selected view, Adjust. Shared by the studio, notebooks and pages. */
import { keepAddress, stateAt } from "./address.js";
import { choosers } from "./choosers.js";
import { fly, positionsOf } from "../elements/dots.js";
import { makeColours } from "../elements/colours.js";
import { button, element, replaced } from "../elements/elements.js";
import { loadKernel } from "../engine/kernel.js";
import { invitation, keepAdjust, keepView, keptAdjust, openingView } from "./front.js";
import { levelBar, makeHeader, menuOf, themeSwitch, titleOf } from "./toolbar.js";
import { shareMenu } from "./share.js";
import { levelOf, levelsOf, onTheBar, viewOf, viewsBeside } from "./levels.js";
import { makeLifetime } from "../elements/lifetime.js";
import { makePlace } from "./place.js";
import { roles } from "./roles.js";
import { fitted, makeState, nameOfToken, tokenOfName } from "./state.js";
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
 * services  see views.js
 * @typedef {{wasm: Parameters<typeof loadKernel>[0], address?: boolean|import("./address.js").Host, remember?: boolean, title?: boolean,
 *   services?: Services}} Options
 * @param {{el: HTMLElement} & Options} options
 */
export function makeViewer({ el, wasm, address = false, remember = false, title = true, services = {} }) {
  const lifetime = makeLifetime();
  const state = makeState();
  const loaded = loadKernel(wasm);
  loaded.catch(() => {}); // `show` says why
  const live = element("p", { class: "regard-unseen", "aria-live": "polite", role: "status" });
  const [tabs, menu, save] = ["regard-tabs", "regard-menu", "regard-share"].map((name) => element("div", { class: name }));
  const adjust = button("Adjust", () => {
    setAdjusting(parts.adjust.hidden);
    if (remember) keepAdjust(!parts.adjust.hidden);
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
  const root = element("div", { class: "regard", "aria-busy": "true" }, skip, Object.values(parts), live);
  el.append(root);
  lifetime.add(() => root.remove());

  /** @type {{source: Source, description: Description, view: View|null, drawn: Drawn|null, lifetime: Lifetime|null}|null} */
  let shown = null;
  let settling = false; // while the state is adapted to another description
  const theme = themeSwitch(root, remember, lifetime, () => shown && drawView());
  const busy = busyWhile(root, lifetime);
  const announce = announcer(live, lifetime);

  const suiting = (/** @type {Description} */ description) => VIEWS.filter((view) => view.suits(description, services));

  /** @param {string|null} name @param {Description} description */
  function viewNamed(name, description) {
    return viewOf(name, suiting(description), description);
  }

  /** @param {boolean} open */
  function setAdjusting(open) {
    parts.adjust.hidden = !open;
    adjust.setAttribute("aria-expanded", String(open));
  }

  /** The view of each level that was shown last. @type {Map<string, string>} */
  const visited = new Map();

  /** @param {string} name of a level */
  function goTo(name) {
    const level = shown && levelsOf(suiting(shown.description)).find((one) => one.name === name);
    if (!level || !shown) return;
    const usual = viewNamed(null, shown.description);
    const view = level.views.find((one) => one.name === visited.get(name)) ?? (level.views.includes(usual) ? usual : level.views[0]);
    state.set({ view: view.name });
  }

  /** @param {boolean} [again] redraws the same view: the old one stays until the new one is ready */
  function drawView(again = false) {
    if (!shown) return;
    const { source, description } = shown;
    const from = positionsOf(root);
    endView();
    const view = viewNamed(state.get().view, description);
    const level = levelOf(view.name);
    if (level) visited.set(level.name, view.name);
    const part = lifetime.part();
    const colours = makeColours(theme.now());
    const inner = element("div", { class: `regard-${view.name}` });
    const uses = view.uses ?? ["layer", "head"];
    const known = roles(state, description, uses, part, source, services.show);
    const old = again ? parts.view.querySelector(`:scope > .regard-${view.name}:not([data-waits])`) : null;
    replaced(parts.view, element("h2", { class: "regard-unseen", text: level?.title ?? view.title }), old, inner);
    root.toggleAttribute("data-front", Boolean(view.front));
    root.setAttribute("data-view", view.name);
    if (shown.view !== view || !menu.firstChild) showHeader(view, level, description);
    Object.assign(shown, { view, el: inner, lifetime: part });
    try {
      shown.drawn = view.draw({ el: inner, source, description, state, colours, announce, lifetime: part, services });
    } catch (error) {
      showError(inner, /** @type {Error} */ (error));
    }
    const pictures = level ? (levelsOf(suiting(description)).find(({ name }) => name === level.name)?.views ?? []) : [];
    replaced(parts.place, view.front ? null : makePlace({ state, description, view, views: pictures, lifetime: part, said: known?.said ?? null, about: shown.drawn?.about ?? level?.about ?? "" }));
    const controls = [choosers(state, description, uses, part, colours), known?.questions, shown.drawn?.adjust].flat().filter((one) => one?.childElementCount);
    replaced(parts.adjust, controls);
    adjust.hidden = !controls.length;
    if (old) takeTurns(old, inner, shown.drawn?.ready);
    const { drawn } = shown;
    Promise.resolve(drawn?.ready).then(() => drawn === shown?.drawn && fly(root, from), () => {});
    replaced(save, shareMenu({ shown: () => shown, state, sharing: services.sharing, announce, colours }));
  }

  /** @param {View} view @param {import("./levels.js").Level|undefined} level @param {Description} description */
  function showHeader(view, level, description) {
    const views = suiting(description);
    const levels = levelsOf(views);
    const near = onTheBar(levels, level?.name);
    replaced(tabs, levelBar(near, level?.name, goTo, parts.view));
    if (!level) parts.view.setAttribute("aria-label", view.title);
    else parts.view.removeAttribute("aria-label");
    showTab(tabs);
    const far = levels.filter((one) => !near.includes(one)).map(({ name, title }) => ({ title, isShown: false, go: () => goTo(name) }));
    const beside = viewsBeside(views).map((one) => ({ title: one.title, isShown: one === view, go: () => state.set({ view: one.name }) }));
    replaced(menu, menuOf(description, [...far, ...beside], theme.el));
  }

  function endView() {
    shown?.drawn?.cleanUp();
    shown?.lifetime?.end();
    if (shown) Object.assign(shown, { drawn: null, lifetime: null });
  }

  if (remember) setAdjusting(keptAdjust());
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
    ? keepAddress({ state, described: () => shown?.description, usual: (description) => viewNamed(null, description).name, lifetime, host: address === true ? null : address })
    : null;

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
      if (opens) Object.assign(said, openingView(suiting(header).find((view) => view.front), remember));
      const goesOn = shown?.drawn?.update && viewNamed({ ...state.get(), ...said }.view, header) === shown.view ? shown : null;
      if (!goesOn) endView();
      const next = { source: { ask }, description: header };
      shown = goesOn ? Object.assign(goesOn, next) : { ...next, view: null, drawn: null, lifetime: null };
      settling = true;
      state.set(fitted({ ...state.get(), ...said }, header));
      settling = false;
      if (title) replaced(parts.title, titleOf(header));
      setStale(false);
      if (goesOn) goesOn.drawn?.update?.(next);
      else drawView(true);
      showHeader(/** @type {View} */ (shown.view), levelOf(shown.view?.name ?? ""), header);
      kept?.changed();
    } catch (error) {
      if (!lifetime.ended && !signal?.aborted) showError(parts.view, /** @type {Error} */ (error));
    }
  }

  /** Dims what is shown: it no longer belongs to the text. @param {boolean} stale */
  function setStale(stale) {
    root.classList.toggle("regard-stale", stale);
    for (const part of [parts.place, parts.adjust, parts.view]) part.inert = stale;
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
    host: parts.host,
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
function showError(el, error) {
  replaced(el, element("p", { class: "regard-error", role: "alert", text: error.message || String(error) }));
}
