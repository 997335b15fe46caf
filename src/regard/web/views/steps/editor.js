/** Editable embeddings and matrices of a small example. */
import { button, element, replaced } from "../../elements/elements.js";
import { asWritten, shapeOf, transposeOf } from "./product.js";

const MOST_WORDS = 16;
const FEW_ENTRIES = 100; // entries up to which all are visible at once

/**
 * @param {import("../../description.js").Editable} editable of the description
 * @param {() => void} changed
 * @param {() => boolean} transposed whether W is written as in x · Wᵀ
 */
export function makeEditor(editable, changed, transposed) {
  /** @type {import("../../description.js").Editable} */
  let numbers = structuredClone(editable);
  let edited = false;
  const box = element("div", { class: "regard-matrices" });
  const reset = button("Reset", () => {
    numbers = structuredClone(editable);
    edited = false;
    reset.disabled = true;
    draw(head);
    changed();
  }, { disabled: true });
  const explanation = element("p", { class: "regard-quiet" });
  const entries = [editable.embedding, .../** @type {const} */ (["w_q", "w_k", "w_v"]).map((name) => editable[name][0])].flat(2).length;
  const el = element(
    "details",
    { class: "regard-steps-part regard-steps-edited", open: entries <= FEW_ENTRIES },
    element("summary", {}, element("h2", { class: "regard-steps-heading", text: "Embeddings and matrices" })),
    element(
      "div",
      { class: "regard-what-if-title" },
      explanation,
      reset,
    ),
    box,
  );
  let head = 0;

  /**
   * @param {string} title @param {number[][]} matrix @param {string[]|null} names of the rows
   * @param {string} spoken
   * @param {boolean} [turned] drawn transposed
   */
  function matrixOf(title, matrix, names, spoken, turned = false) {
    const rows = (turned ? transposeOf(matrix) : matrix).map((row, down) =>
      element(
        "tr",
        {},
        names ? element("th", { scope: "row" }, wordOf(names, down)) : null,
        row.map((entry, across) =>
          element(
            "td",
            {},
            entryOf(matrix, turned ? across : down, turned ? down : across, entry, `${names ? names[down] : `${spoken} row ${down}`}, ${across}`),
          ),
        ),
      ),
    );
    return element(
      "div",
      { class: "regard-matrix-edited", style: { "--regard-letters": String(widest(matrix)) } },
      element("p", { class: "regard-subtitle", text: `${title}: ${shapeOf(matrix.length, matrix[0].length, turned)}` }),
      element("table", {}, element("tbody", {}, rows)),
    );
  }

  function touched() {
    edited = true;
    reset.disabled = false;
    changed();
  }

  /** @param {string[]} names @param {number} place */
  function wordOf(names, place) {
    const input = element("input", { type: "text", dir: "auto", class: "regard-entry regard-entry-word", maxlength: "40", "aria-label": `Word ${place}`, value: names[place] });
    input.addEventListener("input", () => {
      names[place] = input.value.trim() || "·";
      touched();
    });
    const remove = button("×", () => {
      names.splice(place, 1);
      numbers.embedding.splice(place, 1);
      draw(head);
      touched();
    }, { class: "regard-entry-remove", "aria-label": `Remove word ${place}`, hidden: names.length < 2 });
    return element("span", { class: "regard-entry-named" }, remove, input);
  }

  const add = button("Add a word", () => {
    numbers.tokens.push("word");
    numbers.embedding.push(numbers.embedding[0].map(() => 0));
    draw(head);
    touched();
    /** @type {HTMLInputElement|null} */ (box.querySelector(`[aria-label="Word ${numbers.tokens.length - 1}"]`))?.select();
  });

  /**
   * @param {number[][]} matrix
   * @param {number} down
   * @param {number} across
   * @param {number} entry
   * @param {string} name
   */
  function entryOf(matrix, down, across, entry, name) {
    const input = element("input", {
      type: "text",
      inputmode: "decimal",
      class: "regard-entry",
      "aria-label": name,
      value: String(Number(entry.toPrecision(4))),
    });
    // Displayed numbers may be rounded; the computation uses the exact ones until they are edited.
    input.addEventListener("input", () => {
      const number = Number(input.value.replace("−", "-").replace(",", "."));
      const valid = input.value.trim() !== "" && Number.isFinite(number) && Math.abs(number) <= 1e6;
      input.setAttribute("aria-invalid", String(!valid));
      if (!valid) return;
      matrix[down][across] = number;
      touched();
    });
    input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
      event.preventDefault();
      const number = Number(input.value) + (event.key === "ArrowUp" ? 1 : -1) * (event.shiftKey ? 0.1 : 1);
      if (!Number.isFinite(number)) return;
      input.value = String(Number(number.toFixed(6)));
      input.dispatchEvent(new Event("input"));
    });
    return input;
  }

  /** @param {number} of */
  function draw(of) {
    head = of;
    const several = numbers.w_q.length > 1 ? `, head ${head}` : "";
    const turned = transposed();
    explanation.textContent = asWritten("Edit any number or word: q = x · W_Q, k = x · W_K, v = x · W_V, with x a row of E; everything below is recomputed.", turned);
    add.hidden = numbers.tokens.length >= MOST_WORDS;
    replaced(
      box,
      element("div", {}, matrixOf("Embeddings E", numbers.embedding, numbers.tokens, "E"), add),
      /** @type {const} */ (["q", "k", "v"]).map((letter) =>
        matrixOf(`W_${letter.toUpperCase()}${several}`, numbers[`w_${letter}`][head], null, `W ${letter}`, turned),
      ),
      numbers.w_o ? matrixOf("W_O", numbers.w_o, null, "W O", turned) : null,
    );
  }

  return {
    el,
    draw,
    get numbers() {
      return numbers;
    },
    get edited() {
      return edited;
    },
  };
}

/** Characters of the longest entry. @param {number[][]} matrix */
function widest(matrix) {
  return Math.max(3, ...matrix.flat().map((entry) => String(Number(entry.toPrecision(4))).length));
}
