/** Lookup: a soft dictionary. All computed here, except queries that only the source can embed. */
import { segments, slider, uniqueId } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { svgText } from "../../page/export.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedNumber, printedVector, rowOf } from "../../maths/numbers.js";
import { printable, shortened, wordElement } from "../../elements/words.js";
import { EXAMPLES } from "./examples.js";
import {
  blended,
  saidTemperature,
  saidTie,
  shares,
  similarities,
  SIMILARITIES,
  temperatureAt,
  tiedRows,
  vectorFrom,
} from "./model.js";
import { spelling } from "./trigrams.js";

const LONGEST = 60;

export const lookup = {
  name: "lookup",
  title: "Lookup",
  uses: [],
  suits: () => true,
  draw: drawLookup,
};

/**
 * A dictionary in the view: keys with vectors, values as strings and, if numeric, as numbers.
 * @typedef {{name: string, keys: string[], values: string[], vectors: number[][]|null, numbers: number[][]|null, query: string,
 *   similarity: string, temperature: number, textual: boolean, spelled: ((text: string) => number[])|null, asks: boolean,
 *   meant: boolean, embedded?: Promise<number[][]>}} Dictionary
 * asks   the source computes the answer; meant: it can embed texts by meaning, otherwise they are compared by spelling
 */

/** @param {Description} description @returns {Dictionary[]} */
function dictionaries(description) {
  const found = EXAMPLES.map((example) => {
    const textual = typeof example.keys[0] === "string";
    const texts = /** @type {string[]} */ (example.keys);
    const spelled = textual ? spelling(texts) : null;
    const said = (/** @type {string|number[]} */ part) => (Array.isArray(part) ? `[${part.join(", ")}]` : String(part));
    return {
      ...example,
      keys: example.keys.map(said),
      values: example.values.map(said),
      vectors: spelled ? texts.map(spelled) : /** @type {number[][]} */ (example.keys),
      numbers: Array.isArray(example.values[0]) ? /** @type {number[][]} */ (example.values) : null,
      textual,
      spelled,
      asks: false,
      meant: textual && (description.has ?? []).includes("meaning"),
    };
  });
  const given = description.lookup;
  if (!given) return found;
  const size = given.vectors?.[0]?.length ?? 0;
  const spelled = given.spelling ? spelling(given.keys) : null;
  const textual = given.spelling || !given.keys.every((/** @type {string} */ key) => vectorFrom(key, size));
  const own = {
    name: "This dictionary",
    keys: given.keys,
    values: given.values,
    vectors: spelled ? given.keys.map(spelled) : given.vectors,
    numbers: given.numbers,
    query: given.query ?? given.keys[0] ?? "",
    similarity: given.similarity,
    temperature: given.temperature || 0.1,
    textual,
    spelled,
    asks: !spelled && (!given.vectors || given.similarity === "function" || textual),
    meant: false,
  };
  return [own, ...found];
}

/** The dictionary that is chosen. @param {Dictionary[]} all @param {Chosen} chosen */
function placeIn(all, { lookup_example: place }) {
  return all[Number(place ?? 0)] ? Number(place ?? 0) : 0;
}

/** Query, similarity and temperature: chosen, or those of the dictionary. @param {Dictionary} shown @param {Chosen} chosen */
function settingsOf(shown, { lookup_query: asked, lookup_similarity: how, lookup_temperature: place, lookup_by: by }) {
  const at = typeof place === "number" ? place : 50;
  return {
    query: asked === undefined || asked === null ? shown.query : String(asked),
    how: SIMILARITIES.includes(how) ? how : shown.similarity,
    meaning: shown.meant && by !== "spelling",
    place: at,
    temperature: temperatureAt(at, shown.temperature),
  };
}

/**
 * The similarity and probability of every key; null if the query is not a vector of the right size.
 * @param {Source} source @param {Dictionary} shown @param {Omit<ReturnType<typeof settingsOf>, "place"|"meaning"> & {meaning?: boolean}} settings
 * @param {AbortSignal} signal
 */
async function answerOf(source, shown, { query, how, temperature, meaning }, signal) {
  if (meaning && query.trim()) {
    const embed = async (/** @type {string[]} */ texts, /** @type {import("../../sources/served.js").Options} */ options) => {
      const { arrays } = await source.ask("meaning", { texts }, options);
      const data = arrays.vector.toFloat32();
      return texts.map((_, row) => Array.from(rowOf({ data, shape: arrays.vector.shape }, row)));
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

/** The same where no model is needed. @param {Dictionary} shown @param {Omit<ReturnType<typeof settingsOf>, "place"|"meaning"> & {meaning?: boolean}} settings */
function answerHere(shown, { query, how, temperature }) {
  const vector = shown.spelled ? shown.spelled(query) : vectorFrom(query, shown.vectors?.[0].length ?? 0);
  if (!vector) return null;
  const scores = similarities(vector, shown.vectors ?? [], how);
  return { scores, weights: shares(scores, temperature), note: "" };
}

/**
 * What the view shows, for the tour.
 * @param {Source} source @param {Description} description @param {Chosen} chosen
 * @param {AbortSignal} signal
 */
export async function lookedUp(source, description, chosen, signal) {
  const all = dictionaries(description);
  const shown = all[placeIn(all, chosen)];
  const settings = settingsOf(shown, chosen);
  const answer = await answerOf(source, shown, settings, signal);
  return { shown, query: settings.query, weights: answer?.weights ?? shown.keys.map(() => 0) };
}

/** @param {Context} context @returns {Drawn} */
function drawLookup({ el, source, description, state, colours, announce, lifetime }) {
  const all = dictionaries(description);
  const latest = latestOnly(lifetime);
  let shown = all[placeIn(all, state.get())];
  /** @type {{weights: number[], scores: number[], note: string}|null} */
  let answer = null;

  const chosenPlace = () => placeIn(all, state.get());
  const ids = { query: uniqueId("query"), example: uniqueId("example"), similarity: uniqueId("similarity") };
  const example = element(
    "select",
    { id: ids.example },
    all.map((one, place) => element("option", { value: String(place), text: one.name })),
  );
  const query = element("input", {
    id: ids.query,
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    dir: "auto",
    class: "regard-lookup-query",
  });
  const similarity = element(
    "select",
    { id: ids.similarity },
    SIMILARITIES.map((name) => element("option", { value: name, text: name })),
  );
  const heat = slider(
    "Temperature",
    {
      least: 0,
      most: 100,
      step: 1,
      value: 50,
      said: (place) => saidTemperature(temperatureAt(place, shown.temperature)),
    },
    (place) => state.set({ lookup_temperature: place }),
  );
  const ends = element(
    "div",
    { class: "regard-lookup-ends", "aria-hidden": "true" },
    element("span", { text: "hard" }),
    element("span", { text: "uniform" }),
  );
  const formula = element("p", { class: "regard-lookup-formula" });
  const by = segments(
    "Compare keys by",
    [
      { value: "meaning", text: "Meaning", title: "Embeddings of minilm: texts of similar meaning are close" },
      { value: "spelling", text: "Spelling", title: "Groups of three letters that both texts have" },
    ],
    "meaning",
    (value) => state.set({ lookup_by: value === "spelling" ? "spelling" : null }),
  );
  const comparison = element("span", { class: "regard-note" });
  const said = element("p", { class: "regard-note regard-lookup-said", role: "status" });
  const body = element("tbody");
  const heads = ["Key", "Value", "Similarity", "Probability"].map((text, place) =>
    element("th", { scope: "col", class: place === 2 ? "regard-number" : null, text }),
  );
  const table = element(
    "table",
    { class: "regard-table regard-lookup-table" },
    element("caption", { class: "regard-unseen", text: "Keys, values and their probabilities" }),
    element("thead", {}, element("tr", {}, heads)),
    body,
  );
  const results = element("dl", { class: "regard-lookup-results" });
  const field = (/** @type {string} */ id, /** @type {string} */ label, /** @type {Node} */ control) =>
    element("div", { class: "regard-field" }, element("label", { for: id, text: label }), control);
  heat.el.append(ends);
  replaced(
    el,
    element("p", {
      class: "regard-lookup-lead",
      text: "A dictionary returns the value whose key equals the query. A soft look-up weights every value by the similarity of its key. That is attention.",
    }),
    element(
      "div",
      { class: "regard-lookup-controls" },
      field(ids.example, "Dictionary", example),
      field(ids.query, "Query", query),
      field(ids.similarity, "Similarity", similarity),
      heat.el,
    ),
    element("div", { class: "regard-lookup-by" }, by.el, comparison),
    formula,
    element("div", { class: "regard-wide" }, table),
    said,
    results,
    handOver(description, state, el),
  );

  const settings = () => settingsOf(shown, state.get());

  function compute() {
    shown = all[chosenPlace()];
    if (!shown.asks && !settings().meaning) return take(answerHere(shown, settings()));
    return latest((signal) => answerOf(source, shown, settings(), signal), take, (error) => {
      answer = null;
      show(error.message);
    });
  }

  /** @param {ReturnType<typeof answerHere>} found */
  function take(found) {
    answer = found;
    show(found ? "" : `Enter ${shown.vectors?.[0].length} numbers, such as ${printable(shown.query)}.`);
  }

  /** @param {string} problem */
  function show(problem) {
    const { query: asked, how, place, temperature, meaning } = settings();
    example.value = String(chosenPlace());
    if (query.value !== asked) query.value = asked;
    similarity.value = how;
    similarity.disabled = shown.asks;
    heat.set(place);
    by.el.hidden = !shown.meant;
    by.set(meaning ? "meaning" : "spelling");
    comparison.textContent = !shown.textual || shown.asks ? "" : meaning ? BY_MEANING : BY_SPELLING;
    said.textContent = answer && !problem ? saidTie(shown.keys, answer, temperature) : "";
    replaced(
      formula,
      "SELECT value WHERE key ",
      element("b", { text: temperature === 0 ? "closest to" : "≈" }),
      " ",
      wordElement(asked || "…", { class: "regard-word" }, LONGEST),
      `  ·  probability = softmax(${how} ÷ ${saidTemperature(temperature).split(",")[0]})`,
    );
    const best = answer ? answer.weights.indexOf(Math.max(...answer.weights)) : -1;
    const strongest = (/** @type {number} */ row) =>
      answer && answer.weights[row] === answer.weights[best] && Math.min(...answer.weights) < answer.weights[best];
    replaced(
      body,
      shown.keys.map((key, row) => {
        const weight = answer ? answer.weights[row] : null;
        const bar = element("i");
        bar.style.transform = `scaleX(${(weight ?? 0).toFixed(4)})`;
        return element(
          "tr",
          { "data-best": strongest(row) || null },
          element("th", { scope: "row" }, wordElement(key, {}, LONGEST)),
          element("td", {}, wordElement(shown.values[row], {}, LONGEST)),
          element("td", { class: "regard-number", text: answer ? printedNumber(answer.scores[row], 3) : "" }),
          element(
            "td",
            { class: "regard-lookup-share" },
            element("span", { class: "regard-lookup-bar", "aria-hidden": "true" }, bar),
            element("span", { class: "regard-number", text: weight === null ? "" : printedNumber(weight, 3) }),
          ),
        );
      }),
    );
    replaced(results, problem ? element("dd", { class: "regard-error", text: problem }) : answersOf(asked, best));
  }

  /** @param {string} asked @param {number} best */
  function answersOf(asked, best) {
    if (!answer) return [];
    const line = (/** @type {string} */ name, /** @type {import("../../elements/elements.js").Children} */ value, /** @type {string} */ note) => [
      element("dt", { text: name }),
      element(
        "dd",
        {},
        element("span", { class: "regard-lookup-value" }, value),
        note ? element("span", { class: "regard-note", text: note }) : null,
      ),
    ];
    const equal = hardMatches(shown, asked);
    const hard = hardValue(shown, equal);
    const many =
      equal.length > 1
        ? shown.numbers
          ? "Several keys are equal: their values are summed."
          : "Several keys are equal: the last value is taken."
        : "";
    const soft = shown.numbers
      ? line("Soft", `[${printedVector(blended(answer.weights, shown.numbers), 2)}]`, "Σ probability · value")
      : line("Soft", ...textAnswer(shown.values, answer.weights));
    return [
      line(
        "Hard",
        hard === null ? "nothing" : wordElement(hard, {}, LONGEST),
        hard === null ? "No key equals the query." : many,
      ),
      soft,
    ];
  }

  lifetime.listen(example, "change", () =>
    state.set({
      lookup_example: Number(example.value),
      lookup_query: null,
      lookup_similarity: null,
      lookup_temperature: null,
    }),
  );
  lifetime.listen(query, "input", () => state.set({ lookup_query: query.value }));
  lifetime.listen(similarity, "change", () => state.set({ lookup_similarity: similarity.value }));
  lifetime.add(
    state.listen((now, before) => {
      if (Object.keys(now).some((name) => name.startsWith("lookup_") && now[name] !== before[name])) {
        compute();
        if (answer)
          announce(
            `Most probable: ${printable(shown.keys[answer.weights.indexOf(Math.max(...answer.weights))]).slice(0, LONGEST)} ${printedNumber(Math.max(...answer.weights), 2)}`,
          );
      }
    }),
  );
  compute();

  return {
    cleanUp() {},
    svg: () => pictureOfLookup(shown, answer, settings(), colours),
    table: () => ({
      title: `SELECT value WHERE key ≈ ${settings().query}`,
      columns: ["query", "key", "value", "similarity", "probability"],
      rows: shown.keys.map((key, row) => [
        settings().query,
        key,
        shown.values[row],
        answer?.scores[row] ?? null,
        answer?.weights[row] ?? null,
      ]),
    }),
    origin: () => {
      const { how, temperature, meaning } = settings();
      const by = !shown.textual ? "" : meaning ? " by minilm's embeddings" : shown.asks ? "" : " by spelling";
      return { source: `look-up${by}, softmax(${how} ÷ ${saidTemperature(temperature).split(",")[0]})`, text: shown.name };
    },
  };
}

const BY_MEANING = "By meaning: cosine and other similarities of minilm's embeddings.";
const BY_SPELLING = "By spelling: groups of three letters that query and key share.";

/** The most probable text value and a note; values cannot be averaged, and there may be several. @param {string[]} values @param {number[]} weights @returns {[import("../../elements/elements.js").Children, string]} */
function textAnswer(values, weights) {
  const tied = tiedRows(weights);
  if (tied.length === 1)
    return [wordElement(values[tied[0]], {}, LONGEST), "Text values cannot be averaged: the most probable one is shown."];
  if (tied.length === values.length) return ["undecided", "All values are equally probable."];
  return [
    tied.flatMap((row, place) => [place ? " or " : "", wordElement(values[row], {}, LONGEST)]),
    "Equally probable: text values cannot be averaged.",
  ];
}

/** From the dictionary to the sentence. @param {Description} description @param {State} state @param {HTMLElement} el */
function handOver({ kind, has = [] }, state, el) {
  if (kind === "lookup") return null;
  const panel = el.parentElement;
  const go = () => {
    state.set({ view: has.includes("vectors") ? "steps" : "sentence" });
    panel?.focus();
  };
  return element(
    "p",
    { class: "regard-lookup-next" },
    "In attention, queries, keys and values are computed from the words themselves. ",
    element("button", { type: "button", class: "regard-button", text: "Now the sentence's own queries and keys", onclick: go }),
  );
}

/** The keys equal to the query. @param {Dictionary} shown @param {string} asked */
function hardMatches(shown, asked) {
  const vector = shown.textual || !shown.vectors ? null : vectorFrom(asked, shown.vectors[0].length);
  const equals = (/** @type {number} */ row) =>
    vector ? vector.every((part, place) => part === shown.vectors?.[row][place]) : shown.keys[row] === asked;
  return shown.keys.map((_, row) => row).filter(equals);
}

/** Numbers are summed; of other values the last one is taken. @param {Dictionary} shown @param {number[]} rows */
function hardValue({ values, numbers }, rows) {
  if (!rows.length)
    return numbers
      ? `[${printedVector(
          numbers[0].map(() => 0),
          0,
        )}]`
      : null;
  if (!numbers) return values[rows[rows.length - 1]];
  return `[${printedVector(
    numbers[0].map((_, part) => rows.reduce((sum, row) => sum + numbers[row][part], 0)),
    2,
  )}]`;
}

/** @param {Dictionary} shown @param {ReturnType<typeof answerHere>} answer @param {Omit<ReturnType<typeof settingsOf>, "place"|"meaning"> & {meaning?: boolean}} settings @param {Colours} colours */
function pictureOfLookup(shown, answer, settings, colours) {
  const height = 84 + shown.keys.length * 30;
  const lines = shown.keys.map((key, row) => {
    const y = 80 + row * 30;
    const weight = answer?.weights[row] ?? 0;
    return (
      `<text x="24" y="${y}">${svgText(shortened(key))}</text><text x="230" y="${y}" fill="${colours.muted}">${svgText(shortened(shown.values[row], 30))}</text>` +
      `<rect x="470" y="${y - 14}" width="${220 * weight}" height="18" rx="2" fill="${colours.theme === "dark" ? "#3b78b8" : "#7fb0dc"}"/><text x="760" y="${y}" text-anchor="end">${printedNumber(weight, 3)}</text>`
    );
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="784" height="${height}" viewBox="0 0 784 ${height}" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, Arial, 'Noto Sans', sans-serif" font-size="15" fill="${colours.ink}">
<rect width="784" height="${height}" fill="${colours.ground}"/>
<text x="24" y="36" font-weight="600">SELECT value WHERE key ≈ ${svgText(shortened(settings.query, 40))}</text>
<text x="760" y="36" text-anchor="end" font-size="13" fill="${colours.muted}">${svgText(settings.how)} ÷ ${svgText(saidTemperature(settings.temperature))}</text>
${lines.join("\n")}
</svg>
`;
}
