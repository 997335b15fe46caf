/** The viewer: header with the levels of the zoom, where one is, the selected view, Adjust. Shared by the studio, notebooks and pages. */
import { keepAddress, stateAt } from "./address.js";
import { choosers } from "./choosers.js";
import { fly, positionsOf } from "../elements/dots.js";
import { makeColours } from "../elements/colours.js";
import { element, replaced } from "../elements/elements.js";
import { loadKernel } from "../engine/kernel.js";
import { makeFrame, showError, takeTurns } from "./frame.js";
import { keepView, openingView } from "./front.js";
import { themeSwitch, titleOf } from "./toolbar.js";
import { shareMenu } from "./share.js";
import { levelOf, levelsOf, viewOf } from "./levels.js";
import { makeLifetime } from "../elements/lifetime.js";
import { makeNavigation } from "./navigation.js";
import { makePlace } from "./place.js";
import { roles } from "./roles.js";
import { carriedOver, fitted, makeState } from "./state.js";
import { VIEWS } from "./views.js";

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
  const frame = makeFrame({ el, remember, lifetime });
  const { root, announce } = frame;
  const theme = themeSwitch(root, remember, lifetime, () => drawView());
  /** @type {{source: Source, description: Description, view: View|null, drawn: Drawn|null, lifetime: Lifetime|null}|null} */
  let shown = null;
  let settling = false; // while the state is adapted to another description
  const suiting = (/** @type {Description} */ description) => VIEWS.filter((view) => view.suits(description, services));
  const navigation = makeNavigation({ frame, state, theme, suiting });
  const viewNamed = (/** @type {string|null} */ name, /** @type {Description} */ description) => viewOf(name, suiting(description), description);

  /** @param {boolean} [again] redraws the same view: the old one stays until the new one is ready */
  function drawView(again = false) {
    if (!shown) return;
    const { source, description } = shown;
    const from = positionsOf(root);
    endView();
    const view = viewNamed(state.get().view, description);
    const level = levelOf(view.name);
    const part = lifetime.part();
    const colours = makeColours(theme.now());
    const inner = element("div", { class: `regard-${view.name}` });
    const uses = view.uses ?? ["layer", "head"];
    const known = roles(state, description, uses, part, source, services.show);
    const old = again ? frame.view.querySelector(`:scope > .regard-${view.name}:not([data-waits])`) : null;
    replaced(frame.view, element("h2", { class: "regard-unseen", text: level?.title ?? view.title }), old, inner);
    root.toggleAttribute("data-front", Boolean(view.front));
    root.setAttribute("data-view", view.name);
    if (shown.view !== view || !frame.menu.firstChild) navigation.show(view, description);
    Object.assign(shown, { view, el: inner, lifetime: part });
    try {
      shown.drawn = view.draw({ el: inner, source, description, state, colours, announce, lifetime: part, services });
    } catch (error) {
      showError(inner, /** @type {Error} */ (error));
    }
    const { drawn } = shown;
    const views = levelsOf(suiting(description)).find(({ name }) => name === level?.name)?.views ?? [];
    replaced(frame.place, view.front ? null : makePlace({ state, description, view, views, lifetime: part, said: known?.said ?? null, about: drawn?.about ?? level?.about ?? "" }));
    frame.setControls([choosers(state, description, uses, part, colours), known?.questions, drawn?.adjust].flat());
    replaced(frame.save, shareMenu({ shown: () => shown, state, sharing: services.sharing, announce, colours }));
    if (old) takeTurns(old, inner, drawn?.ready);
    Promise.resolve(drawn?.ready).then(() => drawn === shown?.drawn && fly(root, from), () => {});
  }

  function endView() {
    shown?.lifetime?.end();
    if (shown) Object.assign(shown, { drawn: null, lifetime: null });
  }

  lifetime.add(endView);
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

  /** The state for another description: where it still applies, or of the address. @param {Description} next @param {boolean} fromAddress */
  function stateFor(next, fromAddress) {
    const chosen = state.get();
    if (shown && !fromAddress) return fitted({ ...chosen, ...carriedOver(chosen, shown.description, next) }, next);
    const asked = stateAt(address ? location.hash : "", next, chosen);
    const opens = !shown && address && location.hash.length < 2 && asked.view === null;
    return fitted({ ...chosen, ...asked, ...(opens ? openingView(suiting(next).find((view) => view.front), remember) : {}) }, next);
  }

  /**
   * Show another source, keeping the state where it still applies, or with the state of the address.
   * @param {Source} source @param {{signal?: AbortSignal, fromAddress?: boolean}} [options]
   */
  async function show(source, { signal, fromAddress = !shown } = {}) {
    const ask = frame.busy(source.ask);
    try {
      const [answer] = await Promise.all([ask("describe", {}, { signal }), loaded]);
      const description = /** @type {Description} */ (answer.header);
      if (lifetime.ended || signal?.aborted) return;
      const next = { source: { ask }, description };
      const chosen = stateFor(description, fromAddress);
      const goesOn = shown?.drawn?.update && viewNamed(chosen.view ?? null, description) === shown.view ? shown : null;
      if (!goesOn) endView();
      shown = goesOn ? Object.assign(goesOn, next) : { ...next, view: null, drawn: null, lifetime: null };
      settling = true;
      state.set(chosen);
      settling = false;
      if (title) replaced(frame.title, titleOf(description));
      frame.setStale(false);
      if (goesOn) goesOn.drawn?.update?.(next);
      else drawView(true);
      navigation.show(/** @type {View} */ (shown.view), description);
      kept?.changed();
    } catch (error) {
      if (!lifetime.ended && !signal?.aborted) showError(frame.view, /** @type {Error} */ (error));
    }
  }

  const { invite, setStale, host } = frame;
  return { show, invite, setStale, addressChanged: kept?.changed ?? (() => {}), state, announce, root, host, cleanUp: lifetime.end };
}
