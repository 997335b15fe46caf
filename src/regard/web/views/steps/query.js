/** Query chooser. */
import { stepper, walkable } from "../../elements/controls.js";
import { element } from "../../elements/elements.js";
import { printedCount } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";

const BUTTONS = 40; // words up to which all are buttons in a row
const LISTED = 2000; // words up to which a list is used

/** @param {string[]} words @param {number} query @param {(query: number) => void} choose */
export function queryChooser(words, query, choose) {
  const label = element("span", { class: "regard-label", text: "Query", "aria-hidden": "true" });
  if (words.length > BUTTONS) {
    const control =
      words.length <= LISTED
        ? stepper(
            "Query",
            words.map((word, place) => `${printedCount(place)} ${shortened(word, 20)}`),
            query,
            choose,
          )
        : byNumber(words, query, choose);
    return { el: element("div", { class: "regard-head-chooser" }, label, control.el), set: control.set };
  }
  const row = element("div", { class: "regard-heads", role: "group", "aria-label": "Query" });
  const buttons = words.map((word, place) =>
    element(
      "button",
      { type: "button", class: "regard-head", onclick: () => choose(place) },
      wordElement(word, {}, 16),
    ),
  );
  row.append(...buttons);
  walkable(row, () => buttons);
  /** @param {number} chosen */
  const set = (chosen) =>
    buttons.forEach((button, place) => {
      button.setAttribute("aria-pressed", String(place === chosen));
      button.tabIndex = place === chosen ? 0 : -1;
    });
  set(query);
  return { el: element("div", { class: "regard-head-chooser" }, label, row), set };
}

/** @param {string[]} words @param {number} query @param {(query: number) => void} choose */
function byNumber(words, query, choose) {
  const word = wordElement(words[query]);
  const input = element("input", {
    type: "number",
    min: 0,
    max: words.length - 1,
    "aria-label": "Query by position",
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
