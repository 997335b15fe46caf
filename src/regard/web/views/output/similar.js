/** How similar the text is to other sentences: the cosine of their vectors. */
import { replacedOptions, uniqueId, walkable } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedNumber } from "../../maths/numbers.js";
import { rowsOf } from "../../maths/rows.js";
import { shortened, wordElement } from "../../elements/words.js";
import { similarTexts } from "./model.js";

const MOST = 24; // sentences
const LONGEST = 300; // characters of one
const LEAD =
  "This model does not write. Its output is one vector per text: the mean of its words' vectors after the last layer. " +
  "Texts that mean the same get vectors that point the same way.";

/** @param {Context} context @param {() => void} ready */
export function drawSimilar({ el, source, description, state, colours, lifetime, announce, services }, ready) {
  const latest = latestOnly(lifetime);
  const id = uniqueId("sentence");
  const input = element("input", { id, type: "text", maxlength: LONGEST, placeholder: "Another sentence", dir: "auto", autocomplete: "off" });
  const add = element("button", { type: "submit", class: "regard-button", text: "Compare" });
  const submit = (/** @type {Event} */ event) => (event.preventDefault(), append(input.value));
  const form = element("form", { class: "regard-output-add", onsubmit: submit }, element("label", { for: id, class: "regard-unseen", text: "Another sentence" }), input, add);
  const note = element("p", { class: "regard-note", role: "status" });
  const canAdd = Boolean(services.canEmbed);
  const list = element("ol", { class: "regard-output-similar", role: canAdd ? "listbox" : null, "aria-label": canAdd ? "Sentences compared; Delete removes one" : null });
  const text = element("bdi", { class: "regard-word", text: shortened(description.text, 90) });
  const heading = element("h2", { class: "regard-output-heading" }, "How similar to ", text, "?");
  replaced(el, element("p", { class: "regard-lead", text: LEAD }), heading, canAdd ? form : null, list, note);
  /** @type {ReturnType<typeof similarTexts>} */
  let found = [];

  const texts = () => {
    const own = state.get().output_texts;
    const given = Array.isArray(own) ? own.filter((text) => typeof text === "string").slice(0, MOST) : null;
    return canAdd && given ? given : (description.compared ?? []);
  };

  /** @param {string} text */
  function append(text) {
    const plain = text.trim();
    if (!plain || texts().includes(plain)) return;
    state.set({ output_texts: [plain, ...texts()].slice(0, MOST) });
    input.value = "";
  }

  function load() {
    const others = texts();
    latest(
      (signal) => source.ask("embed", { texts: [description.text, ...others] }, { signal }),
      ({ arrays }) => {
        found = similarTexts(rowsOf(arrays.vector), others);
        show();
        ready();
      },
      (error) => {
        note.textContent = error.message;
        ready();
      },
    );
  }

  function show() {
    replacedOptions(list, found.map(rowOfText));
    note.textContent = `Cosine of the vectors: 1 is the same direction, 0 no relation.${canAdd ? "" : " In the studio, compare sentences of your own."}`;
    if (found[0]) announce(`Most similar: ${shortened(found[0].text, 60)} ${printedNumber(found[0].cosine, 2)}`);
  }

  /** @param {{text: string, cosine: number}} one @param {number} place */
  function rowOfText({ text, cosine }, place) {
    const bar = element("i", { style: { transform: `scaleX(${Math.max(0, Math.min(1, cosine)).toFixed(4)})` } });
    return element(
      "li",
      canAdd ? { role: "option", "aria-selected": "false", tabindex: place ? "-1" : "0", "data-place": place } : {},
      wordElement(text, { class: "regard-output-text" }, 120),
      element("span", { class: "regard-output-track", "aria-hidden": "true" }, bar),
      element("span", { class: "regard-output-number", text: printedNumber(cosine, 2) }),
      canAdd ? element("span", { class: "regard-output-remove", title: "Remove", "aria-hidden": "true", text: "×", onclick: () => remove(text) }) : null,
    );
  }

  /** @param {string|undefined} text */
  function remove(text) {
    state.set({ output_texts: texts().filter((/** @type {string} */ other) => other !== text) });
  }
  walkable(list, () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[data-place]")]));
  list.addEventListener("keydown", ({ key, target }) => {
    if (key === "Delete" || key === "Backspace") remove(found[Number(/** @type {HTMLElement} */ (target).dataset.place)]?.text);
  });

  lifetime.add(state.listen(load, ["output_texts"]));
  load();
  return { table: () => ({ title: `Similarity to ${description.text}`, columns: ["text", "cosine"], rows: found.map(({ text, cosine }) => [text, cosine]) }) };
}
