/** Query chooser. */
import { optionRow, stepper } from "../../elements/controls.js";
import { element } from "../../elements/elements.js";
import { printedCount } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";

const SHOWN = 40; // words up to which all are shown in a row
const LISTED = 2000; // words up to which a list is used

/** @param {string[]} words @param {number} query @param {(query: number) => void} choose @param {string} [name] of the control */
export function queryChooser(words, query, choose, name = "Query") {
  if (words.length <= SHOWN) return optionRow(name, words.map((word) => wordElement(word, {}, 16)), query, choose);
  const label = element("span", { class: "regard-label", text: name, "aria-hidden": "true" });
  const names = () => words.map((word, place) => `${printedCount(place)} ${shortened(word, 20)}`);
  const { el, set } = words.length <= LISTED ? stepper(name, names(), query, choose) : byNumber(words, query, choose, name);
  return { el: element("div", { class: "regard-head-chooser" }, label, el), set };
}

/** @param {string[]} words @param {number} query @param {(query: number) => void} choose @param {string} name */
function byNumber(words, query, choose, name) {
  const word = wordElement(words[query]);
  const input = element("input", { type: "number", min: 0, max: words.length - 1, "aria-label": `${name} by position`, class: "regard-entry regard-entry-wide", value: String(query) });
  /** @param {number} chosen */
  const set = (chosen) => {
    if (Number(input.value) !== chosen) input.value = String(chosen);
    word.textContent = shortened(words[chosen]);
  };
  input.addEventListener("change", () => {
    const place = Math.round(Number(input.value));
    if (place >= 0 && place < words.length) choose(place);
    else input.value = String(query);
  });
  return { el: element("span", { class: "regard-bar-group" }, input, word), set };
}
