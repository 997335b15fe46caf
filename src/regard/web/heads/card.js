/** One head in detail: what it is known for, its map on a sentence, its statistics among all heads, and examples. */
import { select } from "../elements/controls.js";
import { button, element, replaced } from "../elements/elements.js";
import { printedCount, printedNumber } from "../maths/numbers.js";
import { shortened } from "../elements/words.js";
import { attendsMost, makeWordMatrix } from "../elements/word_matrix.js";
import { axisOf, nameOf, onSentence, rankOf, shareOf } from "./model.js";

const STRONGEST = 10; // in place of a tenth, as in regard.heads.exemplars

/**
 * @param {import("./model.js").Atlas} atlas @param {Colours} colours @param {(text: string) => void} announce
 * @param {(metric: string) => void} plot shows a metric on the axis across
 */
export function makeCard(atlas, colours, announce, plot) {
  const el = element("section", { class: "regard-card regard-heads-card", "aria-label": "Selected head" });
  const parts = {
    heading: element("h2", { class: "regard-subtitle" }),
    name: element("p", { class: "regard-heads-name" }),
    labels: element("p", { class: "regard-heads-labels" }),
    relations: element("div"),
    map: element("div", { class: "regard-heads-sentence" }),
    statistics: element("div"),
    examples: element("div"),
  };
  replaced(el, Object.values(parts));
  /** @type {import("./model.js").CardState} */
  let shown = { model: atlas.models[0], one: atlas.models[0].all[0], sentence: 0, query: null };

  /** @param {import("./model.js").Model} model @param {HeadPlace} one */
  function show(model, one) {
    shown = { ...shown, model, one };
    const several = atlas.models.length > 1 ? `${model.name}, ` : "";
    parts.heading.textContent = `${several}layer ${one.layer}, head ${one.head}`.replace(/^l/, "L");
    parts.name.textContent = nameOf(model, one);
    const labels = model.labels(one).map(({ pattern, score }) => element("span", { class: "regard-heads-label", text: `${pattern} ${printedNumber(score)}` }));
    replaced(parts.labels, labels.length ? ["Here: ", labels] : null);
    replaced(parts.relations, relationsTable(model, one));
    showMap();
    replaced(parts.statistics, statisticsTable(model, one, atlas, plot));
    replaced(parts.examples, examplesList(model, one));
  }

  function showMap() {
    shown = onSentence(shown);
    const { model, one, sentence, query } = shown;
    if (query === null) return replaced(parts.map, element("p", { class: "regard-note", text: "The page holds no map of this model." }));
    const { tokens, causal } = model.sentences[sentence];
    const weights = model.weights(sentence, one);
    const texts = model.sentences.map(({ text }, at) => ({ value: String(at), text: shortened(text, 60) }));
    const chooser = select("Sentence", texts, String(sentence), (at) => another(Number(at)), { class: "regard-heads-select" });
    const readout = element("p", { class: "regard-heads-readout" }, attendsMost(weights, tokens, query));
    const matrix = makeWordMatrix(colours, causal);
    matrix.show({ weights, tokens, query, name: `Attention matrix of layer ${one.layer}, head ${one.head}. ${readout.textContent}` });
    matrix.selects((row, byKey) => {
      shown = { ...shown, query: row };
      showMap();
      if (!byKey) return;
      parts.map.querySelector("canvas")?.focus();
      announce(parts.map.querySelector(".regard-heads-readout")?.textContent ?? "");
    });
    replaced(
      parts.map,
      element("h3", { text: "Its attention on a sentence" }),
      chooser,
      readout,
      element("div", { class: "regard-scroll" }, matrix.el),
      element("p", { class: "regard-note", text: "Queries run down, keys across; a stronger colour is a larger weight. Select a row for its numbers." }),
    );
  }

  /** @param {number} sentence */
  function another(sentence) {
    shown = { ...shown, sentence, query: null };
    showMap();
    parts.map.querySelector("select")?.focus();
  }

  return { el, show };
}

/** @param {import("./model.js").Model} model @param {HeadPlace} one */
function relationsTable(model, one) {
  if (!model.hasRelations) return null;
  const found = model.relationsOf(one).slice(0, 6);
  if (!found.length)
    return element("p", { class: "regard-note", text: "It finds no relation more often than a fixed offset does." });
  const rows = found.map(({ arrow, accuracy: [share, low, high], offset, untrained }) => [
    element("th", { scope: "row", text: arrow }),
    element("td", {}, bar(share, offset)),
    numberCell(share, [low, high]),
    numberCell(offset),
    untrained === null ? element("td", { class: "regard-number", text: "–" }) : numberCell(untrained),
  ]);
  const said = `Share of words whose largest weight is on the right partner, in ${model.relationsOn}; the mark is the best fixed offset.`;
  return [
    element("h3", { text: "Relations that it finds" }),
    tableOf("regard-heads-relations", ["Relation", "", "right", "offset", "untrained"], rows),
    element("p", { class: "regard-note", text: said }),
  ];
}

/**
 * A table; a heading without text is an empty cell.
 * @param {string} kind a class @param {string[]} headings @param {Element[][]} rows
 */
function tableOf(kind, headings, rows) {
  const head = headings.map((text) => (text ? element("th", { scope: "col", text }) : element("td")));
  const body = rows.map((cells) => element("tr", {}, cells));
  const parts = [element("thead", {}, element("tr", {}, head)), element("tbody", {}, body)];
  return element("table", { class: `regard-table ${kind}` }, parts);
}

/** @param {number} number @param {number[]|null} [interval] of 95% */
function numberCell(number, interval = null) {
  const title = interval && `95%: ${printedNumber(interval[0])} to ${printedNumber(interval[1])}`;
  return element("td", { class: "regard-number", text: printedNumber(number), title });
}

/** @param {number} value @param {number} mark */
function bar(value, mark) {
  const filled = element("span", { style: { width: `${100 * value}%` } });
  return element("span", { class: "regard-heads-bar" }, filled, element("i", { style: { left: `${100 * mark}%` } }));
}

/** @param {import("./model.js").Model} model @param {HeadPlace} one @param {import("./model.js").Atlas} atlas @param {(metric: string) => void} plot */
function statisticsTable(model, one, atlas, plot) {
  const metrics = model.metrics.filter(({ name }) => name !== "layer" && Number.isFinite(model.of(name, one)));
  const rows = metrics.map(({ name, meaning }) => {
    const link = button(name, () => plot(name), { class: "regard-link", title: `${meaning}. Show it across` });
    return [
      element("th", { scope: "row" }, link),
      element("td", {}, strip(model, name, one, axisOf({ ...atlas, models: [model] }, name))),
      numberCell(model.of(name, one), model.interval(name, one)),
      element("td", { class: "regard-number regard-quiet", text: `${rankOf(model, name, one) + 1}.` }),
    ];
  });
  return [
    element("h3", { text: "Its statistics among all heads" }),
    tableOf("regard-heads-statistics", ["Statistic", "", "mean", "rank"], rows),
    element("p", { class: "regard-note", text: "A mark for each head of the model; select a statistic to see it as an axis." }),
  ];
}

/** @param {import("./model.js").Model} model @param {string} name @param {HeadPlace} one @param {ReturnType<typeof import("./model.js").axisOf>} axis */
function strip(model, name, one, axis) {
  const marks = model.all
    .filter((other) => other !== one && Number.isFinite(model.of(name, other)))
    .map((other) => mark(shareOf(axis, model.of(name, other)), "i"));
  return element("span", { class: "regard-heads-strip", "aria-hidden": "true" }, marks, mark(shareOf(axis, model.of(name, one)), "b"));
}

/** @param {import("./model.js").Model} model @param {HeadPlace} one */
function examplesList(model, one) {
  const found = model.examplesOf(one);
  if (!found.length) return null;
  const tenths = model.tenths(one);
  const groups = [...new Set(found.map(({ tenth }) => tenth))].sort((a, b) => b - a);
  return [
    element("h3", { text: "Examples from the texts, by weight" }),
    groups.map((tenth, place) =>
      element(
        "details",
        { class: "regard-heads-examples", open: place < 2 },
        element("summary", { text: tenthOf(tenth, tenths) }),
        found.filter((link) => link.tenth === tenth).map(exampleOf),
      ),
    ),
    element("p", { class: "regard-note", text: "The underlined word attends most to the bold one. Within each tenth of the weight, examples are drawn uniformly." }),
  ];
}

/** Weights of a tenth and how many links have them. @param {number} tenth 10 for the strongest of all @param {number[]|null} counts */
function tenthOf(tenth, counts) {
  if (tenth === STRONGEST) return "Strongest";
  const between = `${printedNumber(tenth / 10, 1)} to ${printedNumber((tenth + 1) / 10, 1)}`;
  if (!counts) return between;
  return `${between}: ${printedCount(counts[tenth])} ${counts[tenth] === 1 ? "link" : "links"}`;
}

/** @param {number} share @param {"i"|"b"|"s"} kind */
function mark(share, kind) {
  return element(kind, { style: { left: `${100 * Math.min(Math.max(share, 0), 1)}%` } });
}

/** An excerpt with its query underlined and its key bold. @param {import("./model.js").Example} link */
function exampleOf({ text, query, key, weight }) {
  const ends = /** @type {{at: number[], name: "u"|"strong"}[]} */ ([{ at: query, name: "u" }, { at: key, name: "strong" }]);
  const spans = ends.sort((one, other) => one.at[0] - other.at[0]);
  const letters = Array.from(text); // positions count characters, not UTF-16 units
  const part = (/** @type {number} */ from, /** @type {number} */ to) => letters.slice(from, to).join("");
  const pieces = [];
  let done = 0;
  for (const { at, name } of spans) {
    pieces.push(part(done, Math.max(at[0], done)), element(name, { text: part(Math.max(at[0], done), at[1]) }));
    done = Math.max(done, at[1]);
  }
  return element("p", { dir: "auto" }, ...pieces, part(done, letters.length), element("span", { class: "regard-quiet", text: ` ${printedNumber(weight)}` }));
}
