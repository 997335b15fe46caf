/** The probabilities of the next token, under temperature, top k and top p. */
import { slider } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { printedCount, printedNumber } from "../../maths/numbers.js";
import { shortened, wordElement } from "../../elements/words.js";
import { LAST_K, SHOWN, isUsual, likelyTokens, nameOfToken, saidOfBits, settingsOf, topKAt } from "./model.js";

const MORE = 100; // tokens listed on request

/**
 * @typedef {ReturnType<typeof settingsOf>} Settings
 * @typedef {{text: string, begins: boolean}} Token
 * @typedef {{header: Frame["header"], logits: Float32Array, word: string}} Likelihoods
 */

/**
 * @param {{state: State, take: ((token: Token) => void)|null}} options  take: the token is appended
 *   to the text, where the host can read it
 */
export function makeNext({ state, take }) {
  const heading = element("h2", { class: "regard-output-heading" });
  const list = element("ol", { class: "regard-output-bars" });
  const said = element("p", { class: "regard-note" });
  const bits = element("p", { class: "regard-output-bits" });
  let count = SHOWN;
  /** @type {Likelihoods|null} */
  let now = null;
  const more = element("button", {
    type: "button",
    class: "regard-link",
    onclick: () => {
      count = count === SHOWN ? MORE : SHOWN;
      draw();
    },
  });
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
  const reset = element("button", {
    type: "button",
    class: "regard-button",
    text: "Reset",
    onclick: () => state.set({ output_temperature: null, output_top_k: null, output_top_p: null }),
  });
  const controls = element(
    "section",
    { class: "regard-output-sliders", "aria-label": "Sampling" },
    element("div", { class: "regard-what-if-title" }, element("h2", { class: "regard-subtitle", text: "How it is sampled" }), reset),
    temperature.el,
    topK.el,
    topP.el,
    bits,
  );
  const el = element("section", { class: "regard-output-next", "aria-label": "Next token" }, heading, list, more, said);

  function draw() {
    if (!now) return;
    const settings = settingsOf(state.get());
    const { header, logits, word } = now;
    const { rows, kept, bits: undecided, rest, restShare, vocabulary } = likelyTokens(logits, header.tokens, settings, count);
    temperature.set(settings.temperature);
    topK.set(settings.topK ?? LAST_K);
    topP.set(settings.topP ?? 1);
    reset.disabled = isUsual(settings);
    replaced(heading, "After ", wordElement(word, { class: "regard-word" }, 24), ", the model expects");
    bits.textContent = settings.temperature === 0 ? "Always the most likely token." : `${saidOfBits(undecided)}.`;
    const most = Math.max(...rows.map((row) => Math.max(row.probability, row.share)), 1e-9);
    replaced(list, rows.map((row) => rowOf(row, most, settings)), restRow(rest, restShare, vocabulary - rows.length, most, settings));
    more.textContent = count === SHOWN ? `Show ${Math.min(MORE, vocabulary)} tokens` : `Only the ${SHOWN} most likely`;
    more.hidden = header.tokens.length <= SHOWN;
    said.textContent = saidOfSampling(settings, kept, vocabulary, header.follows);
  }

  /** @param {ReturnType<typeof likelyTokens>["rows"][number]} row @param {number} most @param {Settings} settings */
  function rowOf(row, most, settings) {
    const name = nameOfToken(row);
    const shown = [wordElement(name, { class: "regard-output-token" }, 24), ...barsOf(row.probability, row.share, most, settings)];
    const changed = isUsual(settings) ? "" : row.isKept ? `, sampled with ${printedNumber(row.share, 3)}` : ", cut off";
    const label = `${shortened(name, 40)}: ${printedNumber(row.probability, 3)}${changed}`;
    const attributes = { class: "regard-output-row", "data-cut": !row.isKept || null };
    return element(
      "li",
      {},
      take
        ? element("button", { type: "button", ...attributes, title: "Append to the text", "aria-label": `${label}. Append to the text`, onclick: () => take(row) }, shown)
        : element("div", { ...attributes, role: "img", "aria-label": label }, shown),
    );
  }

  /** @param {number} rest @param {number} restShare @param {number} tokens @param {number} most @param {Settings} settings */
  function restRow(rest, restShare, tokens, most, settings) {
    if (tokens <= 0) return null;
    const name = element("span", { class: "regard-output-token regard-quiet", text: `${printedCount(tokens)} others` });
    return element("li", {}, element("div", { class: "regard-output-row", "data-rest": true }, name, ...barsOf(rest, restShare, most, settings)));
  }

  return {
    el,
    controls,
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
  const bar = element("span", { class: "regard-output-bar", "aria-hidden": "true" }, element("i"));
  (/** @type {HTMLElement} */ (bar.firstElementChild)).style.width = `${Math.min(100, (100 * share) / most).toFixed(2)}%`;
  if (!isUsual(settings)) {
    const own = element("b");
    own.style.width = `${Math.min(100, (100 * plain) / most).toFixed(2)}%`;
    bar.append(own);
  }
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
