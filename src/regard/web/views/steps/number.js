/** One number: how one word gets its weight from another, from q and k facing each other to the sum. */
import { element, replaced } from "../../elements/elements.js";
import { largestOf, printedNumber, productsOf } from "../../maths/numbers.js";
import { shortened } from "../../elements/words.js";
import { strip } from "./vector.js";

const BARS = 24; // words among which the softmax is drawn

/**
 * @param {(key: number) => void} choose another word whose weight is shown
 */
export function makeNumber(choose) {
  const title = element("h3", { class: "regard-number-title" });
  const stages = element("ol", { class: "regard-number-stages" });
  const el = element("section", { class: "regard-one-number", "aria-label": "One number" }, title, stages);

  /**
   * @param {{given: import("./model.js").Given, steps: import("./model.js").Steps, words: string[], places: number[], word: string, row: number, heading: string}} shown
   *   row: of the key whose weight is shown
   */
  function show({ given, steps, words, places, word, row, heading }) {
    const key = shortened(words[row], 16);
    const two = (/** @type {number} */ number) => printedNumber(number, 2);
    const products = productsOf(given.query, given.keys[row]);
    const top = Math.max(largestOf(given.query), largestOf(given.keys[row]));
    const weight = steps.visible[row] ? steps.weight[row] : null;
    replaced(title, "How much does ", element("b", { text: shortened(word, 16) }), " take from ", element("b", { text: key }), "? ", element("b", { class: "regard-number-answer", text: weight === null ? "nothing: masked" : two(weight) }));
    const lane = (/** @type {string} */ name, /** @type {ArrayLike<number>} */ vector, /** @type {number} */ most) => [element("span", { text: name }), strip(vector, most, "regard-strip-wide")];
    const card = (/** @type {string} */ name, /** @type {string} */ heading, /** @type {import("../../elements/elements.js").Child[]} */ ...inside) => element("li", { class: "regard-number-stage", "data-stage-card": name }, element("p", { class: "regard-number-heading", text: heading }), inside);
    const values = given.values?.[row];
    const weighted = steps.weighted?.[row];
    replaced(
      stages,
      card(
        "score",
        "q · k",
        element("div", { class: "regard-number-lanes" }, lane(`q of ${shortened(word, 9)}`, given.query, top), lane(`k of ${shortened(words[row], 9)}`, given.keys[row], top), lane("q × k", products, largestOf(products))),
        element("p", { class: "regard-number-result" }, `add all ${products.length}: `, element("b", { text: two(steps.score[row]) })),
      ),
      card("scaled", heading.replace("score/", "÷ ").replace("score ×", "×"), element("p", { class: "regard-number-result" }, element("b", { text: two(steps.scaled[row]) })), element("p", { class: "regard-about", text: `so that sums of ${products.length} products stay small` })),
      card("weight", "softmax", softmaxBars(steps, words, row), element("p", { class: "regard-number-result" }, "share of all words: ", element("b", { text: weight === null ? "0" : two(weight) }))),
      values && weighted
        ? card(
            "sum",
            "Σ weight · v",
            element("div", { class: "regard-number-lanes" }, lane(`v of ${shortened(words[row], 9)}`, values, largestOf(values)), lane(`× ${two(steps.weight[row])}`, weighted, largestOf(values)), steps.output ? lane("all words added", steps.output, largestOf(values)) : []),
          )
        : null,
    );

    /** The weights of the words, the strongest if there are many: each opens its own number. @param {import("./model.js").Steps} of @param {string[]} names @param {number} chosen */
    function softmaxBars(of, names, chosen) {
      const order = names.map((_, place) => place).sort((one, other) => of.weight[other] - of.weight[one]).slice(0, BARS);
      const most = Math.max(...order.map((place) => of.weight[place]), 1e-9);
      return element(
        "div",
        { class: "regard-number-bars", role: "listbox", "aria-label": "Weights of all words" },
        order.sort((one, other) => one - other).map((place) => {
          const bar = element("i", { style: { height: `${(100 * of.weight[place]) / most}%` } });
          return element("span", { role: "option", "aria-selected": String(place === chosen), tabindex: place === chosen ? "0" : "-1", "data-key": places[place], title: `${names[place]} ${two(of.weight[place])}`, "aria-label": `${names[place]}, ${two(of.weight[place])}` }, bar);
        }),
      );
    }
  }

  /** @param {Event} event */
  const keyOf = (event) => /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("[data-key]"))?.dataset.key;
  stages.addEventListener("click", (event) => keyOf(event) !== undefined && choose(Number(keyOf(event))));
  stages.addEventListener("keydown", (event) => {
    const bar = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("[data-key]"));
    const next = /** @type {HTMLElement|null|undefined} */ (event.key === "ArrowRight" ? bar?.nextElementSibling : event.key === "ArrowLeft" ? bar?.previousElementSibling : null);
    if (!next) return;
    event.preventDefault();
    choose(Number(next.dataset.key));
    /** @type {HTMLElement|null} */ (stages.querySelector(`[data-key="${next.dataset.key}"]`))?.focus();
  });
  return { el, show };
}
