/** The text of the view Output: the less the model expected a word, the stronger its colour; choose a position. */
import { choosableText, replacedOptions } from "../../elements/controls.js";
import { element } from "../../elements/elements.js";
import { wordElement } from "../../elements/words.js";
import { textOf } from "./model.js";

/** @param {{description: Description, colours: Colours, here: () => number, choose: (place: number) => void}} options */
export function makeTokens({ description, colours, here, choose }) {
  const list = element("div", { class: "regard-output-tokens", role: "listbox", "aria-label": "The text: choose a position", "aria-orientation": "horizontal" });
  const { given } = description;
  const written = given === null || given === undefined ? "" : " Underlined: written by the model.";
  const note = element("p", { class: "regard-note", role: "status", text: `The stronger the colour of a word, the less the model expected it.${written}` });
  choosableText(list, { here, count: () => description.tokens.length, choose });

  /** @param {ReturnType<typeof textOf>["words"][number]} word */
  function pieceOf({ place, text, isJoined, isWritten, surprise, label, title }) {
    const colour = colours.shade(surprise);
    const isHere = place === here();
    return wordElement(text, {
      class: "regard-output-piece",
      role: "option",
      "aria-selected": String(isHere),
      "aria-label": label,
      title,
      tabindex: isHere ? "0" : "-1",
      "data-place": place,
      "data-joined": isJoined || null,
      "data-written": isWritten || null,
      style: { background: colour, color: colours.contrast(colour) },
    });
  }

  return {
    el: [list, note],
    /** @param {{probability: Float32Array, rank: Float32Array}|null} likelihood */
    show(likelihood) {
      const { words, before, after } = textOf(description, likelihood, here());
      replacedOptions(list, before ? "… " : null, words.map(pieceOf), after ? " …" : null);
    },
    /** @param {string} problem */
    fail: (problem) => (note.textContent = problem),
  };
}
