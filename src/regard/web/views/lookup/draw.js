/** The controls and the table of the look-up. */
import { labelled, segments, select, slider } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { printedNumber } from "../../maths/numbers.js";
import { wordElement } from "../../elements/words.js";
import { bestRows, resultsOf } from "./dictionary.js";
import { SIMILARITIES, meantKey, saidTemperature, saidTie, saidWeak, temperatureAt } from "./model.js";

export const LONGEST = 60; // letters of a key or a value

/**
 * Which dictionary, which query, how keys are compared, and how hard the answer is.
 * @param {import("./dictionary.js").Dictionary[]} all @param {State} state @param {() => import("./dictionary.js").Dictionary} shown
 */
export function makeControls(all, state, shown) {
  const usual = { lookup_query: null, lookup_similarity: null, lookup_temperature: null };
  const change = (/** @type {string} */ place) => state.set({ lookup_example: Number(place), ...usual });
  const names = all.map(({ name }, place) => ({ value: String(place), text: name }));
  const example = select(null, names, "0", change, { class: null });
  const query = element("input", {
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    dir: "auto",
    class: "regard-lookup-query",
    oninput: () => state.set({ lookup_query: query.value }),
  });
  const ways = SIMILARITIES.map((name) => ({ value: name, text: name }));
  const choose = (/** @type {string} */ name) => state.set({ lookup_similarity: name });
  const similarity = select(null, ways, ways[0].value, choose, { class: null });
  const range = { least: 0, most: 100, step: 1, value: 50, said: (/** @type {number} */ place) => saidTemperature(temperatureAt(place, shown().temperature)) };
  const heat = slider("Temperature", range, (place) => state.set({ lookup_temperature: place }));
  heat.el.append(element("div", { class: "regard-lookup-ends", "aria-hidden": "true" }, element("span", { text: "hard" }), element("span", { text: "uniform" })));
  const meanings = [
    { value: "meaning", text: "Meaning", title: "Embeddings of minilm: texts of similar meaning are close" },
    { value: "spelling", text: "Spelling", title: "Groups of three letters that both texts have" },
  ];
  const by = segments("Compare keys by", meanings, "meaning", (value) => state.set({ lookup_by: value === "spelling" ? "spelling" : null }));
  const field = (/** @type {string} */ text, /** @type {HTMLElement} */ control) =>
    labelled(text, control, { class: "regard-field", label: null });
  return {
    el: element("div", { class: "regard-lookup-controls" }, field("Query", query), heat.el),
    /** For the Adjust panel. */
    adjust: [element("div", { class: "regard-lookup-choices" }, field("Dictionary", example), field("Similarity", similarity)), by.el],
    /** @param {number} place of the dictionary @param {ReturnType<typeof import("./dictionary.js").settingsOf>} settings */
    show(place, { query: asked, how, place: at, meaning }) {
      example.value = String(place);
      if (query.value !== asked) query.value = asked;
      similarity.value = how;
      similarity.disabled = shown().asks;
      heat.set(at);
      by.el.hidden = !shown().meant;
      by.set(meaning ? "meaning" : "spelling");
    },
  };
}

/** Keys, values and their probabilities. */
export function makeTable() {
  const body = element("tbody");
  const heads = ["Key", "Value", "Similarity", "Probability"].map((text, place) => element("th", { scope: "col", class: place === 2 ? "regard-number" : null, text }));
  const caption = element("caption", { class: "regard-unseen", text: "Keys, values and their probabilities" });
  return {
    el: element("table", { class: "regard-table regard-lookup-table" }, caption, element("thead", {}, element("tr", {}, heads)), body),
    /** @param {import("./dictionary.js").Dictionary} shown @param {import("./dictionary.js").Answer|null} answer */
    show({ keys, values }, answer) {
      const best = bestRows(answer?.weights ?? []);
      const row = (/** @type {string} */ key, /** @type {number} */ place) => {
        const weight = answer ? answer.weights[place] : null;
        const bar = element("i", { style: { transform: `scaleX(${(weight ?? 0).toFixed(4)})` } });
        return element(
          "tr",
          { "data-best": best.has(place) || null },
          element("th", { scope: "row" }, wordElement(key, {}, LONGEST)),
          element("td", {}, wordElement(values[place], {}, LONGEST)),
          element("td", { class: "regard-number", text: answer ? printedNumber(answer.scores[place], 3) : "" }),
          element("td", { class: "regard-lookup-share" }, element("span", { class: "regard-lookup-bar", "aria-hidden": "true" }, bar), element("span", { class: "regard-number", text: weight === null ? "" : printedNumber(weight, 3) })),
        );
      };
      replaced(body, keys.map(row));
    },
  };
}

/** How the query reads. @param {ReturnType<typeof import("./dictionary.js").settingsOf>} settings */
export function formulaOf({ query, how, temperature }) {
  return [
    "SELECT value WHERE key ",
    element("b", { text: temperature === 0 ? "closest to" : "≈" }),
    " ",
    wordElement(query || "…", { class: "regard-word" }, LONGEST),
    `  ·  probability = softmax(${how} ÷ ${saidTemperature(temperature).split(",")[0]})`,
  ];
}

/**
 * Where the answer is weak, and what may have been meant.
 * @param {import("./dictionary.js").Dictionary} shown @param {import("./dictionary.js").Answer} answer @param {ReturnType<typeof import("./dictionary.js").settingsOf>} settings
 * @param {(key: string) => void} choose
 */
export function remarksOf({ keys, textual }, answer, { query, how, temperature }, choose) {
  const meant = textual ? meantKey(query, keys) : null;
  const weak = saidTie(keys, answer, temperature) || (textual ? saidWeak(answer.scores, how) : "");
  const offer = meant ? ["Did you mean ", button(meant, () => choose(meant), { class: "regard-link" }), "?"] : [];
  return [weak, weak && meant ? " " : null, ...offer];
}

/** What is found, hard and soft. @param {import("./dictionary.js").Dictionary} shown @param {import("./dictionary.js").Answer} answer @param {string} asked */
export function resultLines(shown, answer, asked) {
  return resultsOf(shown, answer, asked).flatMap(({ name, values, isText, note }) => {
    const value = values.flatMap((text, place) => [place ? " or " : "", isText ? wordElement(text, {}, LONGEST) : text]);
    return [element("dt", { text: name }), element("dd", {}, element("span", { class: "regard-lookup-value" }, value), note ? element("span", { class: "regard-note", text: note }) : null)];
  });
}
