/** Lookup: a soft dictionary. All computed here, except queries that only the source can embed. */
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedNumber } from "../../maths/numbers.js";
import { rowsOf } from "../../maths/rows.js";
import { printable } from "../../elements/words.js";
import { answerHere, comparisonOf, dictionaries, originOf, placeIn, settingsOf } from "./dictionary.js";
import { LONGEST, formulaOf, makeControls, makeTable, remarksOf, resultLines } from "./draw.js";
import { shares, similarities } from "./model.js";

const ABOUT = "A dictionary returns the value whose key equals the query. A soft look-up weights every value by the similarity of its key. That is attention.";
const NEXT = "In attention, queries, keys and values are computed from the words themselves: One number shows how.";

export const lookup = {
  name: "lookup",
  title: "Lookup",
  uses: [],
  suits: () => true,
  draw: drawLookup,
};

/** @typedef {import("./dictionary.js").Dictionary} Dictionary */

/**
 * The similarity and probability of every key; null if the query is not a vector of the right size.
 * @param {Source} source @param {Dictionary} shown @param {Omit<ReturnType<typeof settingsOf>, "place"|"meaning"> & {meaning?: boolean}} settings
 * @param {AbortSignal} signal
 */
async function answerOf(source, shown, { query, how, temperature, meaning }, signal) {
  if (meaning && query.trim()) {
    const embed = async (/** @type {string[]} */ texts, /** @type {import("../../sources/served.js").Options} */ options) => {
      const { arrays } = await source.ask("meaning", { texts }, options);
      return rowsOf(arrays.vector).map((row) => Array.from(row));
    };
    shown.embedded ??= embed(shown.keys, {});
    shown.embedded.catch(() => (shown.embedded = undefined));
    const [[vector], keys] = await Promise.all([embed([query], { signal }), shown.embedded]);
    const scores = similarities(vector, keys, how);
    return { scores, weights: shares(scores, temperature), note: "" };
  }
  if (shown.asks) {
    const given = { query, temperature: Math.min(temperature, 1e6) };
    const { header, arrays } = await source.ask("lookup", given, { signal });
    return {
      scores: Array.from(arrays.similarity.toFloat32()),
      weights: Array.from(arrays.weight.toFloat32()),
      note: (header.notes ?? []).join(" "),
    };
  }
  return answerHere(shown, { query, how, temperature });
}

/** @param {Context} context @returns {Drawn} */
function drawLookup({ el, source, description, state, announce, lifetime }) {
  const all = dictionaries(description);
  const latest = latestOnly(lifetime);
  const place = () => placeIn(all, state.get());
  const shown = () => all[place()];
  const settings = () => settingsOf(shown(), state.get());
  /** @type {import("./dictionary.js").Answer|null} */
  let answer = null;
  const controls = makeControls(all, state, shown);
  const comparison = element("p", { class: "regard-note regard-lookup-by" });
  const formula = element("p", { class: "regard-lookup-formula" });
  const said = element("p", { class: "regard-note regard-lookup-said", role: "status" });
  const table = makeTable();
  const results = element("dl", { class: "regard-lookup-results" });
  const wide = element("div", { class: "regard-wide" }, table.el);
  const next = description.kind === "lookup" ? null : element("p", { class: "regard-note", text: NEXT });
  replaced(el, controls.el, comparison, formula, wide, said, results, next);

  function compute() {
    if (!shown().asks && !settings().meaning) return take(answerHere(shown(), settings()));
    return latest((signal) => answerOf(source, shown(), settings(), signal), take, (error) => {
      answer = null;
      show(error.message);
    });
  }

  /** @param {ReturnType<typeof answerHere>} found */
  function take(found) {
    answer = found;
    show(found ? "" : `Enter ${shown().vectors?.[0].length} numbers, such as ${printable(shown().query)}.`);
  }

  /** @param {string} problem */
  function show(problem) {
    controls.show(place(), settings());
    comparison.textContent = comparisonOf(shown(), settings().meaning);
    replaced(formula, formulaOf(settings()));
    replaced(said, answer && !problem ? remarksOf(shown(), answer, settings(), (key) => state.set({ lookup_query: key })) : []);
    table.show(shown(), answer);
    replaced(results, problem ? element("dd", { class: "regard-error", text: problem }) : answer ? resultLines(shown(), answer, settings().query) : []);
  }

  function sayBest() {
    if (!answer) return;
    const most = Math.max(...answer.weights);
    announce(`Most probable: ${printable(shown().keys[answer.weights.indexOf(most)]).slice(0, LONGEST)} ${printedNumber(most, 2)}`);
  }

  const change = () => {
    compute();
    sayBest();
  };
  lifetime.add(state.listen(change, ["example", "query", "similarity", "temperature", "by"].map((name) => `lookup_${name}`)));
  compute();

  return {
    adjust: controls.adjust,
    about: ABOUT,
    table: () => ({
      title: `SELECT value WHERE key ≈ ${settings().query}`,
      columns: ["query", "key", "value", "similarity", "probability"],
      rows: shown().keys.map((key, row) => [settings().query, key, shown().values[row], answer?.scores[row] ?? null, answer?.weights[row] ?? null]),
    }),
    origin: () => originOf(shown(), settings()),
  };
}
