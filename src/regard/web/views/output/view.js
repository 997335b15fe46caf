/** Output: what comes out at the end of the model. The next token where it writes, similar sentences where it does not. */
import { steppedTo } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedNumber } from "../../maths/numbers.js";
import { printable, shortened, wordElement } from "../../elements/words.js";
import { appended, nameOfToken, saidOfSettings, settingsOf, surprise } from "./model.js";
import { makeNext } from "./next.js";
import { drawSimilar } from "./similar.js";
import { makeWriting } from "./writing.js";

const TEXT = 400; // tokens of the text shown at once

export const output = {
  name: "output",
  title: "Output",
  uses: [],
  /** @param {Description} description */
  suits: ({ has = [] }) => has.includes("next") || has.includes("embed"),
  draw: drawOutput,
};

/** @param {Context} context @returns {Drawn} */
function drawOutput(context) {
  let drawnOnce = () => {};
  /** @type {Promise<void>} */
  const ready = new Promise((done) => (drawnOnce = done));
  const own = context.description.has.includes("next") ? drawNextToken(context, drawnOnce) : drawSimilar(context, drawnOnce);
  return { ready, cleanUp() {}, ...own };
}

/** @param {Context} context @param {() => void} ready */
function drawNextToken({ el, source, description, state, colours, announce, lifetime, services }, ready) {
  const [latest, latestText] = [latestOnly(lifetime), latestOnly(lifetime)];
  const { tokens, given } = description;
  const last = tokens.length - 1;
  /** @type {{probability: Float32Array, rank: Float32Array}|null} */
  let likelihood = null;
  const next = makeNext({ state, take: services.show && description.stops ? (token) => append(token) : null });
  const writing = services.write ? makeWriting({ state, services, lifetime, announce }) : null;
  const text = element("div", { class: "regard-output-tokens", role: "listbox", "aria-label": "The text: choose a position", "aria-orientation": "horizontal" });
  const note = element("p", { class: "regard-note", role: "status" });
  const where = () => (Number.isInteger(state.get().output_at) && state.get().output_at <= last ? state.get().output_at : last);
  replaced(
    el,
    element("p", {
      class: "regard-lead",
      text: "After the last layer, the vector of a token is compared with every token of the vocabulary: what will come next? Choose a word to see what the model expected after it.",
    }),
    text,
    note,
    element("div", { class: "regard-output-body" }, next.el, element("div", { class: "regard-card regard-output-side" }, next.controls, writing?.el)),
  );

  /** @param {{text: string, begins: boolean}} token */
  function append(token) {
    const before = where() === last ? description.text : description.text.slice(0, description.stops?.[where()]);
    services.show?.(before + appended(token));
  }

  function showText() {
    const first = Math.max(0, Math.min(where() - TEXT / 2, tokens.length - TEXT));
    const joined = new Set(description.joined ?? []);
    const shown = tokens.slice(first, first + TEXT).map((/** @type {string} */ token, /** @type {number} */ offset) => {
      const place = first + offset;
      const probability = likelihood ? likelihood.probability[place] : NaN;
      const word = wordElement(token, {
        class: "regard-output-piece",
        role: "option",
        "aria-selected": String(place === where()),
        tabindex: place === where() ? "0" : "-1",
        "data-token": place,
        "data-joined": joined.has(place) || null,
        "data-written": (given !== null && given !== undefined && place >= given) || null,
      });
      const said = Number.isNaN(probability) ? "" : `, probability ${printedNumber(probability, 3)}`;
      const written = word.dataset.written !== undefined ? ", written by the model" : "";
      word.setAttribute("aria-label", `${shortened(token, 40)}${said}${written}`);
      word.title = Number.isNaN(probability) ? "" : `probability ${printedNumber(probability, 3)}, number ${Number(likelihood?.rank[place]) + 1} of what was expected${written}`;
      const colour = colours.shade(surprise(probability));
      word.style.background = colour;
      word.style.color = colours.contrast(colour);
      return word;
    });
    replaced(text, first > 0 ? "… " : null, shown, first + TEXT < tokens.length ? " …" : null);
    const parts = ["The stronger the colour of a word, the less the model expected it."];
    if (given !== null && given !== undefined) parts.push("Underlined: written by the model.");
    note.textContent = parts.join(" ");
  }

  /** @param {number} place @param {boolean} [focus] */
  function choose(place, focus = false) {
    state.set({ output_at: place === last ? null : place });
    if (focus) /** @type {HTMLElement|null} */ (text.querySelector(`[data-token="${where()}"]`))?.focus();
  }
  lifetime.listen(text, "click", (event) => {
    const place = event.target.closest?.(".regard-output-piece")?.dataset.token;
    if (place !== undefined) choose(Number(place));
  });
  lifetime.listen(text, "keydown", (/** @type {KeyboardEvent} */ event) => {
    const place = steppedTo(event, where(), tokens.length);
    if (place !== null) choose(place, true);
  });

  function load() {
    const query = where();
    latest(
      (signal) => source.ask("next", { query }, { signal }),
      ({ header, arrays }) => {
        next.show({ header, logits: arrays.logits.toFloat32(), word: tokens[query] });
        ready();
      },
      (error) => {
        note.textContent = error.message;
        ready();
      },
    );
  }
  lifetime.add(
    state.listen((now, before) => {
      if (now.output_at !== before.output_at) {
        showText();
        load();
      } else next.draw();
      writing?.show(settingsOf(now));
    }),
  );
  showText();
  writing?.show(settingsOf(state.get()));
  load();
  latestText(
    (signal) => source.ask("likelihood", {}, { signal, inBackground: true }),
    ({ arrays }) => {
      likelihood = { probability: arrays.probability.toFloat32(), rank: arrays.rank.toFloat32() };
      showText();
    },
    () => {}, // the colours alone are missing
  );

  const title = () => `Next token after ${tokens[where()]}`;
  return {
    table: () => ({
      title: title(),
      columns: ["token", "probability", "sampled"],
      rows: next.rows().map((row) => [nameOfToken(row), row.probability, row.share]),
    }),
    origin: () => ({
      text: printable(where() === last ? description.text : description.text.slice(0, description.stops?.[where()])),
      edited: saidOfSettings(settingsOf(state.get())),
    }),
  };
}
