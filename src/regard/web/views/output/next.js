/** The probabilities of the next token, under temperature, top k and top p. */
import { choosable, replacedOptions, slider } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { printedCount, printedNumber } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";
import { LAST_K, SHOWN, isUsual, likelyTokens, nameOfToken, saidOfBits, settingsOf, topKAt } from "./model.js";

const MORE = 100; // tokens listed on request

/**
 * @typedef {ReturnType<typeof settingsOf>} Settings
 * @typedef {{text: string, begins: boolean}} Token
 * @typedef {{header: Frame["header"], logits: Float32Array, word: string}} Likelihoods
 */

/** How the next token is sampled, for the Adjust panel. @param {State} state */
export function makeSampling(state) {
  const temperature = slider(
    "Temperature",
    { least: 0, most: 2, step: 0.05, value: 1, said: (value) => (value === 0 ? "0, the most likely" : printedNumber(value, 2)) },
    (value) => state.set({ output_temperature: value === 1 ? null : Number(value.toFixed(2)) }),
  );
  const topK = slider(
    "Top k",
    { least: 1, most: LAST_K, step: 1, value: LAST_K, said: (value) => (topKAt(value) === null ? "all tokens" : `${value}`) },
    (value) => state.set({ output_top_k: topKAt(value) }),
  );
  const topP = slider(
    "Top p",
    { least: 0.05, most: 1, step: 0.01, value: 1, said: (value) => (value >= 1 ? "1, all tokens" : printedNumber(value, 2)) },
    (value) => state.set({ output_top_p: value >= 1 ? null : Number(value.toFixed(2)) }),
  );
  const reset = button("Reset", () => state.set({ output_temperature: null, output_top_k: null, output_top_p: null }));
  return {
    el: element("div", { class: "regard-output-sliders", role: "group", "aria-label": "Sampling" }, temperature.el, topK.el, topP.el, reset),
    /** @param {Settings} settings */
    set(settings) {
      temperature.set(settings.temperature);
      topK.set(settings.topK ?? LAST_K);
      topP.set(settings.topP ?? 1);
      reset.disabled = isUsual(settings);
    },
  };
}

/**
 * @param {{state: State, take: ((token: Token) => void)|null}} options  take: the token is appended
 *   to the text, where the host can read it
 */
export function makeNext({ state, take }) {
  const heading = element("h2", { class: "regard-output-heading" });
  const list = element("div", { class: "regard-output-bars", role: take ? "listbox" : null, "aria-label": take && "The most likely tokens: choose one to append it" });
  const said = element("p", { class: "regard-note" });
  const bits = element("p", { class: "regard-note" });
  let count = SHOWN;
  /** @type {Likelihoods|null} */
  let now = null;
  const more = button("", () => {
    count = count === SHOWN ? MORE : SHOWN;
    draw();
  }, { class: "regard-link" });
  const el = element("section", { class: "regard-output-next", "aria-label": "Next token" }, heading, bits, list, more, said);
  if (take) choosable(list, (place) => now && take(now.header.tokens[place]));

  function draw() {
    if (!now) return;
    const settings = settingsOf(state.get());
    const { header, logits, word } = now;
    const { rows, kept, bits: undecided, rest, restShare, vocabulary } = likelyTokens(logits, header.tokens, settings, count);
    replaced(heading, "After ", wordElement(word, { class: "regard-word" }, 24), ", the model expects");
    bits.textContent = settings.temperature === 0 ? "Always the most likely token." : `${saidOfBits(undecided)}.`;
    const most = Math.max(...rows.map((row) => Math.max(row.probability, row.share)), 1e-9);
    replacedOptions(list, rows.map((row, place) => rowOf(row, place, most, settings)), restRow(rest, restShare, vocabulary - rows.length, most, settings));
    more.textContent = count === SHOWN ? `Show ${Math.min(MORE, vocabulary)} tokens` : `Only the ${SHOWN} most likely`;
    more.hidden = header.tokens.length <= SHOWN;
    said.textContent = saidOfSampling(settings, kept, vocabulary, header.follows);
  }

  /** @param {ReturnType<typeof likelyTokens>["rows"][number]} row @param {number} place @param {number} most @param {Settings} settings */
  function rowOf(row, place, most, settings) {
    const changed = isUsual(settings) ? "" : row.isKept ? `, sampled with ${printedNumber(row.share, 3)}` : ", cut off";
    const label = `${shortened(nameOfToken(row), 40)}: ${printedNumber(row.probability, 3)}${changed}`;
    const option = { role: "option", "aria-selected": "false", tabindex: place ? "-1" : "0", "data-place": place, title: "Append to the text", "aria-label": `${label}. Append to the text` };
    return element(
      "div",
      { class: "regard-output-row", "data-cut": !row.isKept || null, ...(take ? option : { role: "img", "aria-label": label }) },
      wordElement(nameOfToken(row), { class: "regard-output-token" }, 24),
      barsOf(row.probability, row.share, most, settings),
    );
  }

  /** @param {number} rest @param {number} restShare @param {number} tokens @param {number} most @param {Settings} settings */
  function restRow(rest, restShare, tokens, most, settings) {
    if (tokens <= 0) return null;
    const name = element("span", { class: "regard-output-token regard-quiet", text: `${printedCount(tokens)} others` });
    return element("div", { class: "regard-output-row", "data-rest": true, role: take ? "presentation" : null }, name, barsOf(rest, restShare, most, settings));
  }

  return {
    el,
    draw,
    /** @param {Likelihoods} found */
    show(found) {
      now = found;
      draw();
    },
    rows: () => (now ? likelyTokens(now.logits, now.header.tokens, settingsOf(state.get()), MORE).rows : []),
  };
}

/** The bar that sampling uses, and the model's own as an outline where it differs. @param {number} plain @param {number} share @param {number} most @param {Settings} settings */
function barsOf(plain, share, most, settings) {
  const wide = (/** @type {number} */ number) => ({ style: { width: `${Math.min(100, (100 * number) / most).toFixed(2)}%` } });
  const own = isUsual(settings) ? null : element("b", wide(plain));
  const bar = element("span", { class: "regard-output-bar", "aria-hidden": "true" }, element("i", wide(share)), own);
  return [bar, element("span", { class: "regard-output-number", text: printedNumber(share, 3) })];
}

/** @param {Settings} settings @param {number} kept @param {number} vocabulary @param {(Token & {rank: number, probability: number})|null} follows */
function saidOfSampling(settings, kept, vocabulary, follows) {
  const parts = [];
  if (!isUsual(settings)) {
    parts.push("Outlines: the model's own probabilities.");
    if (kept < vocabulary) parts.push(`Sampled from ${printedCount(kept)} of ${printedCount(vocabulary)} tokens.`);
  }
  if (follows)
    parts.push(`In this text, “${shortened(nameOfToken(follows), 24)}” follows: number ${printedCount(follows.rank + 1)} on this list.`);
  return parts.join(" ");
}
