/** The slide's table: word, q, k, v, score, score/√d_k, softmax, softmax × v, sum. */
import { button, element, replaced } from "../../elements/elements.js";
import { strongest } from "../../maths/links.js";
import { digitsFor, largestOf, printedCount, printedNumber, printedWeight } from "../../maths/numbers.js";
import { printable, wordElement } from "../../elements/words.js";
import { vectorArithmetic } from "./origin.js";
import { scoreBars } from "./score.js";
import { makeOpener, vectorCell, vectorNumbers } from "./vector.js";

const WRITTEN_OUT = 6; // terms of a sum

/**
 * labels   what a change says in the heading of each column that it changes
 * logits   how a weight is computed
 * origins  how the vectors are computed, where W is known
 * @typedef {{given: import("./model.js").Given, steps: import("./model.js").Steps, before: import("./model.js").Steps,
 *   places: number[], words: string[], own: number|null, queryWord: string, heading: string, rest: number,
 *   restCount: number, labels: Record<string, string|null>, logits: ((row: number) => string)|null,
 *   origins: ((letter: "q"|"k"|"v", row: number) => import("./origin.js").Origin|null)}} Shown
 *
 * A column. opened: what stands below a row while its cell in this column is open
 * @typedef {{id: string, name: string, title: string, isNumber?: boolean, cell: (row: number) => HTMLElement,
 *   opened?: (row: number) => Element|null}} Column
 */

/** One cell at a time is expanded; it stays so while numbers change. @param {() => void} again */
export function makeTable(again) {
  const table = element("table", { class: "regard-table regard-steps-table" });
  const classes = "regard-scroll regard-steps-scroll";
  const region = { class: classes, tabindex: "0", role: "region", "aria-label": "Steps as a table" };
  const opener = makeOpener(table, again);

  /** @param {Shown} shown */
  function show(shown) {
    const columns = columnsOf(shown, opener);
    const caption = element("caption", { class: "regard-unseen", text: `Query ${printable(shown.queryWord)}` });
    const rows = shown.places.map((_, row) => [rowOf(columns, shown, row), openedRow(columns, opener, row)]);
    replaced(table, caption, headOf(columns, shown), element("tbody", {}, rows, restRow(columns, shown)));
  }
  return { el: element("div", region, table), show };
}

/** @param {Column[]} columns @param {Shown} shown */
function headOf(columns, { labels }) {
  const changed = (/** @type {string|null} */ text) =>
    text && element("span", { class: "regard-steps-changed", text: ` ${text}` });
  const headings = columns.map(({ id, name, title, isNumber }) => {
    const attributes = { scope: "col", title, class: isNumber ? "regard-number" : null, "data-column": id, text: name };
    return element("th", attributes, changed(labels[id]));
  });
  return element("thead", {}, element("tr", {}, headings));
}

/** @param {Column[]} columns @param {Shown} shown @param {number} row */
function rowOf(columns, { own, steps }, row) {
  const cells = columns.map(({ id, cell }) => {
    const el = cell(row);
    el.dataset.column = id;
    return el;
  });
  const marks = [row === own ? "regard-steps-own" : "", steps.visible[row] ? "" : "regard-steps-hidden"];
  return element("tr", { class: marks.filter(Boolean).join(" ") || null }, cells);
}

/** @param {Column[]} columns @param {import("./vector.js").Opener} opener @param {number} row */
function openedRow(columns, opener, row) {
  const opened = columns.find(({ id }) => opener.isOpen(`${id}-${row}`))?.opened?.(row);
  return opened && element("tr", { class: "regard-steps-opened" }, element("td", { colspan: columns.length }, opened));
}

/** The words that have no row. @param {Column[]} columns @param {Shown} shown */
function restRow([, ...columns], { rest, restCount }) {
  if (restCount <= 0) return null;
  const name = element("th", { scope: "row", text: `${printedCount(restCount)} other words` });
  const cells = columns.map(({ id }) => element("td", { text: id === "weight" ? printedNumber(rest, 2) : "" }));
  return element("tr", { class: "regard-steps-rest" }, name, cells);
}

/** @param {Shown} shown @param {import("./vector.js").Opener} opener @returns {Column[]} */
function columnsOf(shown, opener) {
  const { given, steps, words, own, heading } = shown;
  const word = (/** @type {number} */ row) => printable(words[row]);
  const only = (/** @type {ArrayLike<number>|null} */ vector) => words.map((_, row) => (row === (own ?? 0) ? vector : null));
  const made = (/** @type {"q"|"k"|"v"} */ letter) => (/** @type {number} */ row) => {
    const origin = shown.origins(letter, row);
    return origin && ((/** @type {number} */ place) => vectorArithmetic(origin, place));
  };

  /**
   * @param {string} id @param {string} name @param {string} title @param {(ArrayLike<number>|null)[]} list one per row
   * @param {(row: number) => ((place: number) => Element|string)|null} arithmetic @param {number} [least] decimals
   * @returns {Column}
   */
  function vectors(id, name, title, list, arithmetic, least = 0) {
    const numbers = list.flatMap((vector) => (vector ? Array.from(vector) : []));
    const about = { top: largestOf(numbers), digits: Math.max(least, digitsFor(numbers)) };
    const isOfQuery = id === "q" || id === "sum";
    const nameAt = (/** @type {number} */ row) => `${title} of ${isOfQuery ? printable(shown.queryWord) : word(row)}`;
    const ofRow = (/** @type {ArrayLike<number>|null} */ vector, /** @type {number} */ row) =>
      vector && vectorCell(vector, { ...about, name: nameAt(row), opens: { opener, key: `${id}-${row}` } });
    return {
      id,
      name,
      title,
      cell: (row) => element("td", {}, ofRow(list[row], row)),
      opened: (row) => list[row] && vectorNumbers(list[row], nameAt(row), arithmetic(row)),
    };
  }

  /**
   * @param {string} id @param {string} name @param {string} title @param {Float64Array} list one per row
   * @param {(row: number, printed: (number: number) => string) => string} formula @returns {Column}
   */
  function numbers(id, name, title, list, formula) {
    const digits = digitsFor(list);
    const printed = (/** @type {number} */ number) => printedNumber(number, Math.max(digits, 2));
    const said = (/** @type {number} */ row) => `${name} of ${word(row)}`;
    const cell = (/** @type {number} */ row) =>
      element("td", { class: "regard-number" }, numberButton(opener, `${id}-${row}`, said(row), printedNumber(list[row], digits)));
    return { id, name, title, isNumber: true, cell, opened: (row) => formulaElement(formula(row, printed)) };
  }

  const place = (/** @type {number} */ row) =>
    element("span", { class: "regard-quiet", text: ` ${printedCount(shown.places[row])}` });
  const { capped, biased, weighted, output, weight } = steps;
  const columns = [
    {
      id: "word",
      name: "Word",
      title: "Key",
      cell: (/** @type {number} */ row) =>
        element("th", { scope: "row" }, wordElement(words[row]), shown.restCount > 0 ? place(row) : null),
    },
    vectors("q", "q", "query q", only(given.query), made("q")),
    vectors("k", "k", "key k", given.keys, made("k")),
    given.values && vectors("v", "v", "value v", given.values, made("v")),
    { ...numbers("score", "score", "score = q · k", steps.score, () => ""), opened: scoreOpened(shown) },
    numbers("scaled", heading, "score × scale", steps.scaled, (row, printed) => {
      const by = steps.scaled[row] === 0 ? given.scale : steps.scaled[row] / steps.score[row];
      return `${printed(steps.score[row])} ÷ ${printed(1 / by)} = ${printed(steps.scaled[row])}`;
    }),
    capped &&
      numbers("capped", "capped", "after the softcap", capped, (row, printed) => {
        const cap = printed(/** @type {number} */ (given.softcap));
        return `${cap} · tanh(${printed(steps.scaled[row])} ÷ ${cap}) = ${printed(capped[row])}`;
      }),
    biased &&
      numbers("biased", "+ bias", "after adding the bias", biased, (row, printed) => {
        const from = (capped ?? steps.scaled)[row];
        return `${printed(from)} + ${printed(biased[row] - from)} = ${printed(biased[row])}`;
      }),
    weightColumn(shown, word, opener),
    weighted &&
      vectors(
        "weighted",
        "softmax × v",
        "weighted value",
        weighted.map((vector, row) => (steps.visible[row] ? vector : null)),
        (row) => (at) => {
          const value = /** @type {ArrayLike<number>[]} */ (given.values)[row][at];
          return `${printedNumber(weight[row], 3)} × ${printedNumber(value, 3)} = ${printedNumber(weight[row] * value, 3)}`;
        },
        2,
      ),
    output && vectors("sum", "sum", "output", only(output), () => (at) => sumOf(shown, at), 2),
  ];
  return columns.filter((column) => column !== null);
}

/**
 * A number that opens.
 * @param {import("./vector.js").Opener} opener @param {string} key @param {string} name @param {string} text
 */
function numberButton(opener, key, name, text) {
  const expanded = { "aria-expanded": String(opener.isOpen(key)), "aria-label": `${name}: ${text}` };
  return button(text, () => opener.toggle(key), { class: "regard-link", "data-opens": key, ...expanded });
}

/** @param {string} text */
function formulaElement(text) {
  return element("p", { class: "regard-formula", text });
}

/** One number of the output: the terms of the sum, the largest ones written out. @param {Shown} shown @param {number} place */
function sumOf({ given, steps, words, restCount }, place) {
  const values = /** @type {ArrayLike<number>[]} */ (given.values);
  const terms = steps.weight.map((weight, row) => (weight === 0 ? 0 : weight * values[row][place]));
  const order = strongest(terms.map(Math.abs), WRITTEN_OUT).sort((one, other) => one - other);
  const termOf = (/** @type {number} */ row) => `${printedNumber(steps.weight[row], 2)} · ${signed(values[row][place])}`;
  const said = order.map((row) => `${termOf(row)} (${printable(words[row])})`);
  const left = words.length + restCount - order.length;
  const sum = printedNumber(/** @type {ArrayLike<number>} */ (steps.output)[place], 3);
  return `${said.join(" + ")}${left > 0 ? ` + ${printedCount(left)} smaller terms` : ""} = ${sum}`;
}

/** @param {number} number */
function signed(number) {
  return number < 0 ? `(${printedNumber(number, 2)})` : printedNumber(number, 2);
}

/** A score expands into its products. @param {Shown} shown */
function scoreOpened({ given, queryWord, words }) {
  return (/** @type {number} */ row) =>
    scoreBars(given.query, given.keys[row], { query: `q ${printable(queryWord)}`, key: `k ${printable(words[row])}` });
}

/**
 * The weight as a number and a bar, with a mark at its value before a change; a masked key has none.
 * @param {Shown} shown @param {(row: number) => string} word @param {import("./vector.js").Opener} opener
 * @returns {Column}
 */
function weightColumn({ steps: { weight, visible }, before: { weight: before }, logits }, word, opener) {
  const digits = Math.max(2, digitsFor(weight));
  return {
    id: "weight",
    name: "softmax",
    title: "weight = softmax of the scaled scores",
    opened: (row) => logits && formulaElement(logits(row)),
    cell(row) {
      const text = visible[row] ? printedNumber(weight[row], digits) : "masked";
      const number = logits ? numberButton(opener, `weight-${row}`, `softmax of ${word(row)}`, text) : text;
      const moved = Math.abs(weight[row] - before[row]) > 1e-9;
      const mark = moved ? element("i", { style: { "inset-inline-start": `${100 * before[row]}%` } }) : null;
      const filled = element("span", { style: { width: `${100 * weight[row]}%` } });
      return element(
        "td",
        { title: visible[row] ? printedWeight(weight[row]) : "masked" },
        element("span", { class: "regard-steps-weight" }, number),
        moved ? element("span", { class: "regard-unseen", text: ` was ${printedNumber(before[row], digits)}` }) : null,
        element("span", { class: "regard-steps-bar", "aria-hidden": "true", hidden: !visible[row] }, filled, mark),
      );
    },
  };
}
