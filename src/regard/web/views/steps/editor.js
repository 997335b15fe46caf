/** Editable embeddings and matrices of a small example. */
import { button, element, replaced } from "../../elements/elements.js";
import { matrixAt, steppedNumber, typedNumber, withEntry, withName, withoutWord, withWord } from "./edits.js";
import { asWritten, shapeOf, transposeOf } from "./product.js";

const MOST_WORDS = 16;
const FEW_ENTRIES = 100; // entries up to which all are visible at once
const INVITATION = "Edit any number or word: q = x · W_Q, k = x · W_K, v = x · W_V, with x a row of E; everything below is recomputed.";

/**
 * @typedef {import("./edits.js").Editable} Editable
 * @param {Editable} editable of the description
 * @param {() => void} changed
 * @param {() => boolean} transposed whether W is written as in x · Wᵀ
 */
export function makeEditor(editable, changed, transposed) {
  let [numbers, head] = [editable, 0];
  const box = element("div", { class: "regard-matrices" });
  const reset = button("Reset", () => set(editable, true), { disabled: true });
  const add = button("Add a word", () => {
    set(withWord(numbers), true);
    /** @type {HTMLInputElement|null} */ (box.querySelector(`[aria-label="Word ${numbers.tokens.length - 1}"]`))?.select();
  });
  const explanation = element("p", { class: "regard-quiet" });
  const entries = [editable.embedding, .../** @type {const} */ (["w_q", "w_k", "w_v"]).map((name) => editable[name][0])].flat(2).length;
  const el = element(
    "details",
    { class: "regard-steps-part regard-steps-edited", open: entries <= FEW_ENTRIES },
    element("summary", {}, element("h2", { class: "regard-steps-heading", text: "Embeddings and matrices" })),
    element("div", { class: "regard-what-if-title" }, explanation, reset),
    box,
  );

  /** @param {Editable} next @param {boolean} [redraws] otherwise the field that is typed into stays */
  function set(next, redraws = false) {
    numbers = next;
    reset.disabled = numbers === editable;
    if (redraws) draw(head);
    changed();
  }

  /**
   * @param {string} title @param {import("./edits.js").MatrixPlace} place
   * @param {string} spoken of the rows, where they have no words
   */
  function matrixTable(title, place, spoken) {
    const matrix = matrixAt(numbers, place);
    const names = place.name === "embedding" ? numbers.tokens : null;
    const turned = !names && transposed();
    const cellOf = (/** @type {number} */ entry, /** @type {number} */ down, /** @type {number} */ across) => {
      const name = `${names ? names[down] : `${spoken} row ${down}`}, ${across}`;
      const at = /** @type {[number, number]} */ (turned ? [across, down] : [down, across]);
      return element("td", {}, entryField(entry, name, (value) => set(withEntry(numbers, place, at, value))));
    };
    const rows = (turned ? transposeOf(matrix) : matrix).map((row, down) => {
      const word = names ? element("th", { scope: "row" }, wordField(names, down)) : null;
      return element("tr", {}, word, row.map((entry, across) => cellOf(entry, down, across)));
    });
    const letters = Math.max(3, ...matrix.flat().map((entry) => printedEntry(entry).length));
    return element(
      "div",
      { class: "regard-matrix-edited", style: { "--regard-letters": String(letters) } },
      element("p", { class: "regard-subtitle", text: `${title}: ${shapeOf(matrix.length, matrix[0].length, turned)}` }),
      element("table", {}, element("tbody", {}, rows)),
    );
  }

  /** @param {string[]} names @param {number} place */
  function wordField(names, place) {
    const input = element("input", { type: "text", dir: "auto", class: "regard-entry regard-entry-word", maxlength: "40", "aria-label": `Word ${place}`, value: names[place] });
    input.addEventListener("input", () => set(withName(numbers, place, input.value)));
    const remove = button("×", () => set(withoutWord(numbers, place), true), { class: "regard-entry-remove", "aria-label": `Remove word ${place}`, hidden: names.length < 2 });
    return element("span", { class: "regard-entry-named" }, remove, input);
  }

  /** @param {number} of */
  function draw(of) {
    head = of;
    const several = numbers.w_q.length > 1 ? `, head ${head}` : "";
    explanation.textContent = asWritten(INVITATION, transposed());
    add.hidden = numbers.tokens.length >= MOST_WORDS;
    replaced(
      box,
      element("div", {}, matrixTable("Embeddings E", { name: "embedding" }, "E"), add),
      /** @type {const} */ (["q", "k", "v"]).map((letter) => matrixTable(`W_${letter.toUpperCase()}${several}`, { name: `w_${letter}`, head }, `W ${letter}`)),
      numbers.w_o ? matrixTable("W_O", { name: "w_o" }, "W O") : null,
    );
  }

  return {
    el,
    draw,
    get numbers() {
      return numbers;
    },
    get edited() {
      return numbers !== editable;
    },
  };
}

/** @param {number} entry */
function printedEntry(entry) {
  return String(Number(entry.toPrecision(4)));
}

/**
 * A number in a field. Displayed numbers may be rounded; the computation uses the exact ones until they are edited.
 * @param {number} entry @param {string} name @param {(value: number) => void} change
 */
function entryField(entry, name, change) {
  const input = element("input", { type: "text", inputmode: "decimal", class: "regard-entry", "aria-label": name, value: printedEntry(entry) });
  input.addEventListener("input", () => {
    const number = typedNumber(input.value);
    input.setAttribute("aria-invalid", String(number === null));
    if (number !== null) change(number);
  });
  input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowUp" || event.key === "ArrowDown") event.preventDefault();
    const number = steppedNumber(input.value, event);
    if (number === null) return;
    input.value = String(number);
    input.dispatchEvent(new Event("input"));
  });
  return input;
}
