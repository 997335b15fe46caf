/** Output: what comes out at the end of the model. The next token where it writes, similar sentences where it does not. */
import { element, replaced } from "../../elements/elements.js";
import { latestOnly, makeReady } from "../../elements/lifetime.js";
import { printable } from "../../elements/words.js";
import { appended, nameOfToken, saidOfSettings, settingsOf } from "./model.js";
import { makeNext, makeSampling } from "./next.js";
import { drawSimilar } from "./similar.js";
import { makeTokens } from "./text.js";
import { makeWriting } from "./writing.js";

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
  const { ready, done } = makeReady();
  return { ready, ...(context.description.has.includes("next") ? drawNextToken(context, done) : drawSimilar(context, done)) };
}

/** @param {Context} context @param {() => void} ready */
function drawNextToken({ el, source, description, state, colours, announce, lifetime, services }, ready) {
  const [latest, latestText] = [latestOnly(lifetime), latestOnly(lifetime)];
  const { tokens } = description;
  const last = tokens.length - 1;
  /** @type {{probability: Float32Array, rank: Float32Array}|null} */
  let likelihood = null;
  const where = () => (Number.isInteger(state.get().output_at) && state.get().output_at <= last ? state.get().output_at : last);
  const textBefore = () => (where() === last ? description.text : description.text.slice(0, description.stops?.[where()]));
  const next = makeNext({ state, take: services.show && description.stops ? (token) => services.show?.(textBefore() + appended(token)) : null });
  const sampling = makeSampling(state);
  const writing = services.write ? makeWriting({ state, services, lifetime, announce }) : null;
  const text = makeTokens({ description, colours, here: where, choose: (place) => state.set({ output_at: place === last ? null : place }) });
  replaced(el, text.el, element("div", { class: "regard-output-body" }, next.el, writing?.el));

  function load() {
    const query = where();
    latest(
      (signal) => source.ask("next", { query }, { signal }),
      ({ header, arrays }) => {
        next.show({ header, logits: arrays.logits.toFloat32(), word: tokens[query] });
        ready();
      },
      (error) => {
        text.fail(error.message);
        ready();
      },
    );
  }

  function showSettings() {
    const settings = settingsOf(state.get());
    sampling.set(settings);
    writing?.show(settings);
  }

  lifetime.add(
    state.listen((now, before) => {
      if (now.output_at !== before.output_at) {
        text.show(likelihood);
        load();
      } else next.draw();
      showSettings();
    }),
  );
  text.show(null);
  showSettings();
  load();
  latestText(
    (signal) => source.ask("likelihood", {}, { signal, inBackground: true }),
    ({ arrays }) => {
      likelihood = { probability: arrays.probability.toFloat32(), rank: arrays.rank.toFloat32() };
      text.show(likelihood);
    },
    () => {}, // the colours alone are missing
  );

  return {
    adjust: [sampling.el, writing?.fields],
    about: "The vector of the last word is compared with every token of the vocabulary: what comes next? Tap a word to see what was expected after it.",
    table: () => ({
      title: `Next token after ${tokens[where()]}`,
      columns: ["token", "probability", "sampled"],
      rows: next.rows().map((row) => [nameOfToken(row), row.probability, row.share]),
    }),
    origin: () => ({ text: printable(textBefore()), edited: saidOfSettings(settingsOf(state.get())) }),
  };
}
