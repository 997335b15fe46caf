/** The stages from a word's vector to the next token: a line of them, played one after the other on request. */
import { walkable } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";

const PACE = 2200; // milliseconds per stage: long enough to read its sentence

/**
 * @typedef {{name: string, title: string, say: () => string}} Stage
 * @param {{el: HTMLElement, lifetime: Lifetime, announce: (text: string) => void}} given
 *   el  gets data-stage, by which the style sheet fades what comes later
 */
export function makeStory({ el, lifetime, announce }) {
  /** @type {Stage[]} */
  let stages = [];
  /** @type {string|null} */
  let now = null; // null: the whole picture
  let stopWaiting = () => {};
  let playing = false;
  const line = element("ol", { class: "regard-story-line" });
  const play = element("button", { type: "button", class: "regard-button regard-story-play", onclick: toggle });
  const said = element("p", { class: "regard-story-said", role: "status" });
  const box = element("section", { class: "regard-story", "aria-label": "The steps, one after the other" }, play, line, said);
  walkable(line, buttons);

  function buttons() {
    return [...line.querySelectorAll("button")];
  }

  /** @param {Stage[]} next */
  function set(next) {
    const same = next.map(({ name }) => name).join() === stages.map(({ name }) => name).join();
    stages = next;
    if (!same) {
      replaced(
        line,
        stages.map(({ name, title }) =>
          element("li", {}, element("button", { type: "button", "data-stage-name": name, text: title, onclick: () => choose(now === name ? null : name) })),
        ),
      );
      if (!stages.some(({ name }) => name === now)) now = null;
    }
    mark();
  }

  function mark() {
    buttons().forEach((button, place) => {
      const isNow = button.dataset.stageName === now;
      if (isNow) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
      button.tabIndex = isNow || (now === null && place === 0) ? 0 : -1;
    });
    play.textContent = playing ? "❚❚ Pause" : "▶ Play";
    if (now === null) delete el.dataset.stage;
    else el.dataset.stage = now;
    const stage = stages.find(({ name }) => name === now);
    said.textContent = stage ? stage.say() : "";
    said.hidden = !stage;
  }

  /** @param {string|null} name */
  function choose(name) {
    stop();
    now = name;
    mark();
    if (now) announce(said.textContent ?? "");
  }

  function stop() {
    stopWaiting();
    playing = false;
  }

  function toggle() {
    if (playing) {
      stop();
      return mark();
    }
    playing = true;
    const place = stages.findIndex(({ name }) => name === now);
    now = stages[place + 1 < stages.length ? place + 1 : 0]?.name ?? null;
    mark();
    stopWaiting = lifetime.after(PACE, forward);
  }

  function forward() {
    const place = stages.findIndex(({ name }) => name === now);
    now = stages[place + 1]?.name ?? null;
    if (now === null) playing = false;
    else stopWaiting = lifetime.after(PACE, forward);
    mark();
  }

  return { el: box, set };
}
