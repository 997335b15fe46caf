/**
 * The page's address: what the host adds (text and model), then the state of the viewer. Another view, text or model is a
 * new entry of the history, as are the votes after a guess; selections within a view replace the entry.
 */
import { addressOf, encoded, fitted, partsOf, stateOf, UNCHOSEN } from "./state.js";

const WAIT = 150; // milliseconds; browsers limit the rate of address changes

/**
 * names    of the parts that the host adds to the address
 * parts    these, as they are now
 * restore  called with these parts when the user goes back or forward to others
 * @typedef {{names: string[], parts: () => Record<string, string>, restore: (parts: Record<string, string>) => void}} Host
 */

/**
 * The whole state that an address stands for: what it omits is as the page opens.
 * @param {string} address @param {Description} description @param {Chosen} [before] whose other keys are reset
 */
export function stateAt(address, description, before) {
  const unset = Object.fromEntries(Object.keys(before ?? {}).map((name) => [name, undefined]));
  return fitted({ ...unset, ...UNCHOSEN, ...description.start, ...stateOf(address, description) }, description);
}

/**
 * Keeps the address.
 * @param {{state: State, described: () => Description|undefined, usual: (description: Description) => string, lifetime: Lifetime,
 *   host?: Host|null}} options  usual: the view of a state that names none; an empty address would open the first screen
 */
export function keepAddress({ state, described, usual, lifetime, host = null }) {
  let stop = () => {};
  let isNew = false; // whether the next change is a new entry of the history
  let restoring = false;
  let isWaiting = false; // whether a change is still to be written
  let since = ""; // the address when that change came

  /** @param {Chosen} [chosen] */
  function write(chosen = state.get()) {
    isWaiting = false;
    const description = described();
    if (!description && !host) return;
    if (location.hash !== since) return; // a navigation whose popstate is still to come
    const own = Object.entries(host?.parts() ?? {}).map(([name, value]) => `${encoded(name)}=${encoded(value)}`);
    const rest = description ? addressOf(chosen, description).slice(1) : "";
    const wanted = [...own, rest].filter(Boolean).join("&") || (chosen.view === null && description ? `view=${usual(description)}` : "");
    const push = isNew;
    isNew = false;
    if (wanted === location.hash.slice(1)) return;
    try {
      const there = wanted ? `#${wanted}` : location.pathname + location.search;
      if (push) history.pushState(null, "", there);
      else history.replaceState(history.state, "", there);
    } catch {
      // sandboxed frames may not change their address
    }
  }

  /** @param {boolean} [another] whether this is a new entry of the history */
  function changed(another = false) {
    if (restoring) return;
    isNew ||= another;
    stop();
    isWaiting = true;
    since = location.hash;
    stop = lifetime.after(WAIT, () => write());
  }

  lifetime.listen(window, "popstate", () => {
    stop();
    isNew = isWaiting = false;
    const parts = partsOf(location.hash);
    const description = described();
    const own = host?.parts() ?? {};
    if (host?.names.some((name) => name in parts && parts[name] !== own[name])) return host.restore(parts);
    if (!description) return;
    restoring = true;
    state.set(stateAt(location.hash, description, state.get()));
    restoring = false;
  });
  lifetime.add(
    state.listen((now, before) => {
      const another = now.view !== before.view || Boolean(now.vote_open) !== Boolean(before.vote_open);
      if (another && isWaiting && !restoring) write(before); // an entry of its own
      changed(another);
    }),
  );
  return { changed };
}
