/** Query chooser. */
import { stepper, walkable } from "../../elements/controls.js";
import { element } from "../../elements/elements.js";
import { printedCount } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";

const BUTTONS = 40; // words up to which all are buttons in a row
const LISTED = 2000; // words up to which a list is used

/** @param {string[]} words @param {number} query @param {(query: number) => void} choose @param {string} [name] of the control */
export function queryChooser(words, query, choose, name = "Query") {
  const label = element("span", { class: "regard-label", text: name, "aria-hidden": "true" });
  if (words.length > BUTTONS) {
    const control =
      words.length <= LISTED
        ? stepper(
            name,
            words.map((word, place) => `${printedCount(place)} ${shortened(word, 20)}`),
            query,
            choose,
          )
        : byNumber(words, query, choose, name);
    return { el: element("div", { class: "regard-head-chooser" }, label, control.el), set: control.set };
  }
  const row = element("div", { class: "regard-heads", role: "listbox", "aria-label": name, "aria-orientation": "horizontal" });
  const options = words.map((word, place) => element("span", { class: "regard-head", role: "option", onclick: () => choose(place) }, wordElement(word, {}, 16)));
  row.append(...options);
  walkable(row, () => options);
  row.addEventListener("keydown", (event) => {
    const place = options.indexOf(/** @type {HTMLElement} */ (event.target));
    if (place < 0 || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    choose(place);
  });
  /** @param {number} chosen */
  const set = (chosen) =>
    options.forEach((option, place) => {
      option.setAttribute("aria-selected", String(place === chosen));
      option.tabIndex = place === chosen ? 0 : -1;
    });
  set(query);
  return { el: element("div", { class: "regard-head-chooser" }, label, row), set };
}

/** @param {string[]} words @param {number} query @param {(query: number) => void} choose @param {string} name */
function byNumber(words, query, choose, name) {
  const word = wordElement(words[query]);
  const input = element("input", {
    type: "number",
    min: 0,
    max: words.length - 1,
    "aria-label": `${name} by position`,
    class: "regard-entry regard-entry-wide",
    value: String(query),
  });
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
