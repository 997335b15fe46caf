/** The way through the page: levels on the bar, other levels and views in the menu beside it. */
import { replaced } from "../elements/elements.js";
import { levelOf, levelsOf, onTheBar, viewOf, viewOfLevel, viewsBeside } from "./levels.js";
import { levelBar, menuOf } from "./toolbar.js";

/**
 * @param {{frame: ReturnType<typeof import("./frame.js").makeFrame>, state: State, theme: {el: HTMLElement},
 *   suiting: (description: Description) => View[]}} options  suiting: the views of a description
 */
export function makeNavigation({ frame, state, theme, suiting }) {
  /** The view of each level that was shown last. @type {Map<string, string>} */
  const visited = new Map();

  /** @param {View} view @param {Description} description */
  function show(view, description) {
    const views = suiting(description);
    const levels = levelsOf(views);
    const level = levelOf(view.name);
    const near = onTheBar(levels, level?.name);
    if (level) visited.set(level.name, view.name);
    const goTo = (/** @type {string} */ name) => {
      const next = viewOfLevel(levels, name, visited.get(name), viewOf(null, views, description));
      if (next) state.set({ view: next.name });
    };
    frame.setTabs(levelBar(near, level?.name, goTo, frame.view));
    if (!level) frame.view.setAttribute("aria-label", view.title);
    else frame.view.removeAttribute("aria-label");
    const far = levels.filter((one) => !near.includes(one)).map(({ name, title }) => ({ title, isShown: false, go: () => goTo(name) }));
    const beside = viewsBeside(views).map((one) => ({ title: one.title, isShown: one === view, go: () => state.set({ view: one.name }) }));
    const menu = menuOf(description, [...far, ...beside], theme.el);
    menu.open = Boolean(frame.menu.querySelector("details")?.open); // a text that is read meanwhile does not close it
    replaced(frame.menu, menu);
  }

  return { show };
}
