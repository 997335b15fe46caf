/** The stages from a word's vector to the output: told one after the other, at the reader's pace. */
import { pressable, walkable } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";

/**
 * @typedef {{name: string, title: string, say: () => string}} Stage
 * @param {{el: HTMLElement, announce: (text: string) => void, target: (stage: string) => HTMLElement|null}} given
 *   el  gets data-stage, by which the style sheet fades what comes later; target  what a stage explains
 */
export function makeStory({ el, announce, target }) {
  /** @type {Stage[]} */
  let stages = [];
  /** @type {string|null} */
  let now = null; // null: the whole picture
  const line = element("ol", { class: "regard-story-line", role: "listbox", "aria-label": "Steps" });
  const play = button("", forward, { class: "regard-button regard-story-play", "data-kind": "main" });
  const said = element("p", { class: "regard-story-said", role: "status" });
  const box = element("div", { class: "regard-story", role: "toolbar", "aria-label": "The steps, one after the other" }, play, line, said);
  walkable(box, () => [play, ...options()]);
  pressable(line);

  function options() {
    return [...line.querySelectorAll("li")];
  }

  /** @param {Stage[]} next */
  function set(next) {
    const written = (/** @type {Stage[]} */ list) => list.map(({ name, title }) => `${name} ${title}`).join();
    const same = written(next) === written(stages);
    stages = next;
    if (!same) {
      replaced(
        line,
        stages.map(({ name, title }) =>
          element("li", { role: "option", "data-stage-name": name, text: title, onclick: () => choose(now === name ? null : name) }),
        ),
      );
      if (!stages.some(({ name }) => name === now)) now = null;
    }
    mark();
  }

  const place = () => stages.findIndex(({ name }) => name === now);

  function mark() {
    for (const option of options()) {
      option.setAttribute("aria-selected", String(option.dataset.stageName === now));
      if (option !== option.ownerDocument.activeElement) option.tabIndex = -1;
    }
    play.textContent = now === null ? "▶ Play" : place() + 1 < stages.length ? "Next ›" : "Show all";
    if (now === null) delete el.dataset.stage;
    else el.dataset.stage = now;
    const stage = stages.find(({ name }) => name === now);
    said.textContent = stage ? stage.say() : "";
    said.hidden = !stage;
  }

  /** Tells a stage, and scrolls to what it explains. @param {string|null} name */
  function choose(name) {
    now = name;
    mark();
    if (!now) return;
    announce(said.textContent ?? "");
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const there = target(now);
    const box = there?.getBoundingClientRect();
    const top = play.parentElement?.getBoundingClientRect().bottom ?? 0;
    if (there && box && (box.top < top || box.bottom > innerHeight)) there.scrollIntoView({ block: box.height > innerHeight - top ? "start" : "center", behavior: still ? "auto" : "smooth" });
  }

  /** The next stage, when the reader wants it; after the last one, the whole picture again. */
  function forward() {
    choose(stages[place() + 1]?.name ?? null);
  }

  return { el: box, set };
}
