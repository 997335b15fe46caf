/** The slide's table: word, q, k, v, score, score/√d_k, softmax, softmax × v, sum. */
import { button, element, replaced } from "../../elements/elements.js";
import { strongest } from "../../maths/links.js";
import { digitsFor, largestOf, printedCount, printedNumber, printedWeight } from "../../maths/numbers.js";
import { printable, wordElement } from "../../elements/words.js";
import { vectorArithmetic } from "./origin.js";
import { scoreBars } from "./score.js";
import { vectorCell, vectorNumbers } from "./vector.js";

const WRITTEN_OUT = 6; // terms of a sum

/**
 * @typedef {{given: import("./model.js").Given, steps: import("./model.js").Steps,
 *   before: import("./model.js").Steps,
 *   places: number[], words: string[], own: number|null, queryWord: string, heading: string, rest: number,
 *   restCount: number, labels: Record<string, string|null>, logits: ((row: number) => string)|null,
 *   origins: ((letter: "q"|"k"|"v", row: number) => import("./origin.js").Origin|null)}} Shown
 *   labels   what a change says in the heading of each column that it changes
 *   logits   how a weight is computed
 *   origins  how the vectors are computed, where W is known
 */

/** The expanded cell: one at a time, kept while numbers change. @param {() => void} again */
export function makeTable(again) {
  const table = element("table", { class: "regard-table regard-steps-table" });
  const el = element(
    "div",
    { class: "regard-scroll regard-steps-scroll", tabindex: "0", role: "region", "aria-label": "Steps as a table" },
    table,
  );
  /** @type {string|null} */
  let open = null;

  /** @param {string} key */
  function act(key) {
    open = open === key ? null : key;
    again();
    /** @type {HTMLElement|null} */ (table.querySelector(`[data-opens="${key}"]`))?.focus();
  }

  /** @param {Shown} shown */
  function show(shown) {
    const columns = columnsOf(shown);
    const head = element(
      "thead",
      {},
      element(
        "tr",
        {},
        columns.map(({ id, name, title, number }) =>
          element(
            "th",
            { scope: "col", title, class: number ? "regard-number" : null, "data-column": id, text: name },
            shown.labels[id] ? element("span", { class: "regard-steps-changed", text: ` ${shown.labels[id]}` }) : null,
          ),
        ),
      ),
    );
    const rows = shown.places.flatMap((_, row) => {
      const cells = columns.map((column) => {
        const cell = column.cell(row, { open, act });
        cell.dataset.column = column.id;
        return cell;
      });
      const masked = !shown.steps.visible[row];
      const line = element(
        "tr",
        {
          class:
            [row === shown.own ? "regard-steps-own" : "", masked ? "regard-steps-hidden" : ""].join(" ").trim() || null,
        },
        cells,
      );
      const opened = columns.map((column) => column.opened?.(row, open)).find(Boolean);
      return opened
        ? [line, element("tr", { class: "regard-steps-opened" }, element("td", { colspan: columns.length }, opened))]
        : [line];
    });
    if (shown.restCount > 0) {
      rows.push(
        element(
          "tr",
          { class: "regard-steps-rest" },
          element("th", { scope: "row", text: `${printedCount(shown.restCount)} other words` }),
          columns
            .slice(1)
            .map(({ id }) => element("td", { text: id === "weight" ? printedNumber(shown.rest, 2) : "" })),
        ),
      );
    }
    replaced(
      table,
      element("caption", { class: "regard-unseen", text: `Query ${printable(shown.queryWord)}` }),
      head,
      element("tbody", {}, rows),
    );
  }
  return { el, show };
}

/** @param {Shown} shown */
function columnsOf(shown) {
  const { given, steps, before, words, own, queryWord, heading } = shown;
  const word = (/** @type {number} */ row) => printable(words[row]);
  const vectors = (
    /** @type {string} */ id,
    /** @type {string} */ name,
    /** @type {(ArrayLike<number>|null)[]} */ list,
    /** @type {string} */ of,
    least = 0,
    /** @type {((row: number) => ((place: number) => Element|string)|null)|null} */ arithmetic = null,
  ) => {
    const numbers = list.flatMap((vector) => (vector ? Array.from(vector) : []));
    const about = { top: largestOf(numbers), digits: Math.max(least, digitsFor(numbers)) };
    const title = (/** @type {number} */ row) =>
      `${of} of ${id === "q" || id === "sum" ? printable(queryWord) : word(row)}`;
    return {
      id,
      name,
      title: of,
      number: false,
      cell: (/** @type {number} */ row, /** @type {{open: string|null, act: (key: string) => void}} */ { open, act }) => {
        const vector = list[row];
        const key = `${id}-${row}`;
        return element(
          "td",
          {},
          vector
            ? vectorCell(vector, { ...about, name: title(row), open: open === key, act: () => act(key), key })
            : null,
        );
      },
      opened: (/** @type {number} */ row, /** @type {string|null} */ open) =>
        open === `${id}-${row}` && list[row] ? vectorNumbers(list[row], title(row), arithmetic?.(row)) : null,
    };
  };
  const numbers = (
    /** @type {string} */ id,
    /** @type {string} */ name,
    /** @type {string} */ title,
    /** @type {Float64Array} */ list,
    /** @type {(row: number, printed: (number: number) => string) => string} */ formula,
  ) => {
    const digits = digitsFor(list);
    return {
      ...openedNumber(id, (row) => `${name} of ${word(row)}`, (row) => printedNumber(list[row], digits)),
      name,
      title,
      opened: (/** @type {number} */ row, /** @type {string|null} */ open) =>
        open === `${id}-${row}` ? element("p", { class: "regard-formula", text: formula(row, (number) => printedNumber(number, Math.max(digits, 2))) }) : null,
    };
  };
  const only = (/** @type {ArrayLike<number>|null} */ vector) =>
    words.map((_, row) => (row === (own ?? 0) ? vector : null));
  const made = (/** @type {"q"|"k"|"v"} */ letter, /** @type {number} */ row) => {
    const origin = shown.origins(letter, row);
    return origin && ((/** @type {number} */ place) => vectorArithmetic(origin, place));
  };
  const found = [
    {
      id: "word",
      name: "Word",
      title: "Key",
      number: false,
      opened: undefined,
      cell: (/** @type {number} */ row) =>
        element(
          "th",
          { scope: "row" },
          wordElement(words[row]),
          shown.restCount > 0
            ? element("span", { class: "regard-quiet", text: ` ${printedCount(shown.places[row])}` })
            : null,
        ),
    },
    vectors("q", "q", only(given.query), "query q", 0, (row) => made("q", row)),
    vectors("k", "k", given.keys, "key k", 0, (row) => made("k", row)),
    ...(given.values ? [vectors("v", "v", given.values, "value v", 0, (row) => made("v", row))] : []),
    scoreColumn(shown, word),
    numbers("scaled", heading, "score × scale", steps.scaled, (row, printed) => {
      const by = steps.scaled[row] === 0 ? given.scale : steps.scaled[row] / steps.score[row];
      return `${printed(steps.score[row])} ÷ ${printed(1 / by)} = ${printed(steps.scaled[row])}`;
    }),
    ...(steps.capped
      ? [
          numbers("capped", "capped", "after the softcap", steps.capped, (row, printed) => {
            const cap = printed(/** @type {number} */ (given.softcap));
            return `${cap} · tanh(${printed(steps.scaled[row])} ÷ ${cap}) = ${printed(/** @type {ArrayLike<number>} */ (steps.capped)[row])}`;
          }),
        ]
      : []),
    ...(steps.biased
      ? [
          numbers("biased", "+ bias", "after adding the bias", steps.biased, (row, printed) => {
            const [from, to] = [(steps.capped ?? steps.scaled)[row], /** @type {ArrayLike<number>} */ (steps.biased)[row]];
            return `${printed(from)} + ${printed(to - from)} = ${printed(to)}`;
          }),
        ]
      : []),
    weightColumn(steps, before, word, shown.logits),
    ...(steps.weighted
      ? [
          vectors("weighted", "softmax × v", steps.weighted.map((vector, row) => (steps.visible[row] ? vector : null)), "weighted value", 2, (row) => (place) => {
            const value = /** @type {ArrayLike<number>[]} */ (given.values)[row][place];
            return `${printedNumber(steps.weight[row], 3)} × ${printedNumber(value, 3)} = ${printedNumber(steps.weight[row] * value, 3)}`;
          }),
        ]
      : []),
    ...(steps.output ? [vectors("sum", "sum", only(steps.output), "output", 2, () => (place) => sumOf(shown, place))] : []),
  ];
  return found;
}

/**
 * A column of numbers, each of which is a button.
 * @param {string} id @param {(row: number) => string} named @param {(row: number) => string} printed
 */
function openedNumber(id, named, printed) {
  return {
    id,
    number: true,
    cell: (/** @type {number} */ row, /** @type {{open: string|null, act: (key: string) => void}} */ { open, act }) => {
      const key = `${id}-${row}`;
      const expanded = { "aria-expanded": String(open === key), "aria-label": `${named(row)}: ${printed(row)}` };
      return element("td", { class: "regard-number" }, button(printed(row), () => act(key), { class: "regard-link", "data-opens": key, ...expanded }));
    },
  };
}

/** One number of the output: the terms of the sum, the largest ones written out. @param {Shown} shown @param {number} place */
function sumOf({ given, steps, words, restCount }, place) {
  const terms = steps.weight.map((weight, row) => (weight === 0 ? 0 : weight * /** @type {ArrayLike<number>[]} */ (given.values)[row][place]));
  const order = strongest(terms.map(Math.abs), WRITTEN_OUT).sort((one, other) => one - other);
  const said = order.map((row) => `${printedNumber(steps.weight[row], 2)} · ${signed(/** @type {ArrayLike<number>[]} */ (given.values)[row][place])} (${printable(words[row])})`);
  const left = words.length + restCount - order.length;
  return `${said.join(" + ")}${left > 0 ? ` + ${printedCount(left)} smaller terms` : ""} = ${printedNumber(/** @type {ArrayLike<number>} */ (steps.output)[place], 3)}`;
}

/** @param {number} number */
function signed(number) {
  return number < 0 ? `(${printedNumber(number, 2)})` : printedNumber(number, 2);
}

/** A score expands into its products. @param {Shown} shown @param {(row: number) => string} word */
function scoreColumn({ given, steps, queryWord }, word) {
  const digits = digitsFor(steps.score);
  return {
    ...openedNumber("score", (row) => `score of ${word(row)}`, (row) => printedNumber(steps.score[row], digits)),
    name: "score",
    title: "score = q · k",
    opened: (/** @type {number} */ row, /** @type {string|null} */ open) =>
      open === `score-${row}`
        ? scoreBars(given.query, given.keys[row], { query: `q ${printable(queryWord)}`, key: `k ${word(row)}` })
        : null,
  };
}

/**
 * The weight as a number and a bar, with a mark at its value before a change; a masked key has none.
 * @param {import("./model.js").Steps} steps
 * @param {import("./model.js").Steps} earlier
 * @param {(row: number) => string} word
 * @param {((row: number) => string)|null} formula
 */
function weightColumn({ weight, visible }, { weight: before }, word, formula) {
  const digits = Math.max(2, digitsFor(weight));
  const printed = (/** @type {number} */ row) => (visible[row] ? printedNumber(weight[row], digits) : "masked");
  const column = openedNumber("weight", (row) => `softmax of ${word(row)}`, printed);
  return {
    ...column,
    name: "softmax",
    title: "weight = softmax of the scaled scores",
    number: false,
    opened: (/** @type {number} */ row, /** @type {string|null} */ open) =>
      open === `weight-${row}` && formula ? element("p", { class: "regard-formula", text: formula(row) }) : null,
    cell: (/** @type {number} */ row, /** @type {any} */ how) => {
      const bar = element("span", { class: "regard-steps-bar", "aria-hidden": "true" }, element("span", {}));
      (/** @type {HTMLElement} */ (bar.firstElementChild)).style.setProperty("width", `${100 * weight[row]}%`);
      bar.hidden = !visible[row];
      const moved = Math.abs(weight[row] - before[row]) > 1e-9;
      if (moved) {
        const was = element("i", {});
        was.style.setProperty("inset-inline-start", `${100 * before[row]}%`);
        bar.append(was);
      }
      const said = moved
        ? element("span", { class: "regard-unseen", text: ` was ${printedNumber(before[row], digits)}` })
        : null;
      const number = formula ? column.cell(row, how).firstElementChild : printed(row);
      return element("td", { title: visible[row] ? printedWeight(weight[row]) : "masked" }, element("span", { class: "regard-steps-weight" }, number), said, bar);
    },
  };
}
