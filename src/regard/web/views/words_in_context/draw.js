/** The parts of the view Words: the text, and lists of words with bars. */
import { choosable, choosableText, replacedOptions } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";
import { printable, shortened, wordElement } from "../../elements/words.js";

/**
 * The text, shaded by attention received.
 * @param {{colours: Colours, here: () => number, count: () => number, choose: (place: number) => void}} options
 */
export function makeText({ colours, here, count, choose }) {
  const el = element("div", { class: "regard-words-text", role: "listbox", "aria-label": "The text, shaded by attention received", "aria-orientation": "horizontal" });
  choosableText(el, { here, count, choose });
  const dots = () => element("span", { text: "…", "aria-hidden": "true" });

  /** @param {ReturnType<typeof import("./model.js").textOf>["words"][number]} word @param {boolean} isChosen */
  function wordOf({ place, text, weight, share, isAside }, isChosen) {
    const colour = isAside ? colours.ground : colours.shade(share);
    const shown = wordElement(text, {
      class: "regard-words-word",
      role: "option",
      "aria-selected": String(isChosen),
      "aria-label": `${printable(text).slice(0, 60)}, receives ${printedNumber(weight, 2)}`,
      tabindex: isChosen ? "0" : "-1",
      "data-place": place,
      "data-aside": isAside || null,
      style: { background: colour, color: isAside ? colours.muted : colours.contrast(colour) },
    });
    shown.title ||= `receives ${printedNumber(weight, 3)}`;
    return shown;
  }

  /** @param {ReturnType<typeof import("./model.js").textOf>} scene @param {number} chosen */
  function show({ words, before, after }, chosen) {
    replacedOptions(el, before ? dots() : null, words.map((word) => wordOf(word, word.place === chosen)), after ? dots() : null);
  }
  return { el, show };
}

/** Words with bars: the attention of one word, or the attention it receives. @param {(place: number) => void} choose */
export function makeBars(choose) {
  const heading = element("h2", { class: "regard-words-heading" });
  const list = element("div", { class: "regard-words-bars", role: "listbox" });
  choosable(list, choose);

  /** @param {(Node|string)[]} title @param {import("./model.js").Bar[]} bars strongest first @param {number} most */
  function show(title, bars, most) {
    replaced(heading, title);
    list.setAttribute("aria-label", heading.textContent ?? "");
    const none = element("p", { class: "regard-note", text: "No weight." });
    replacedOptions(list, bars.length ? bars.map((bar, at) => barOf(bar, most, at === 0)) : none);
  }
  return { el: element("section", { class: "regard-words-panel" }, heading, list), show };
}

/** @param {import("./model.js").Bar} bar @param {number} most @param {boolean} isFirst */
function barOf({ place, weight, unit }, most, isFirst) {
  const number = printedNumber(weight, 3);
  const option = { role: "option", "aria-selected": "false", tabindex: isFirst ? "0" : "-1", "data-place": place };
  const attributes = { class: "regard-words-row", ...option, "aria-label": `${shortened(unit.text, 60)}, ${number}` };
  return element("div", attributes, barParts(unit.text, weight / (most || 1), number));
}

/** A word, its bar, its number. @param {string} text @param {number} share @param {string} number */
export function barParts(text, share, number) {
  const bar = element("i", { style: { transform: `scaleX(${Math.min(share, 1).toFixed(4)})` } });
  return [
    wordElement(text, { class: "regard-words-name" }, 18),
    element("span", { class: "regard-words-bar", "aria-hidden": "true" }, bar),
    element("span", { class: "regard-words-number", text: number }),
  ];
}
