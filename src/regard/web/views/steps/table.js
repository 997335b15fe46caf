/** The slide's table: word, q, k, v, score, score/√d_k, softmax, softmax × v, sum. */
import { element, replaced } from "../../elements.js";
import { digitsFor, largestOf, printedCount, printedNumber, printedWeight } from "../../numbers.js";
import { printable, wordElement } from "../../words.js";
import { scoreBars } from "./score.js";
import { vectorCell, vectorNumbers } from "./vector.js";

/**
 * @typedef {{given: import("./model.js").Given, steps: import("./model.js").Steps,
 *   before: import("./model.js").Steps,
 *   places: number[], words: string[], own: number|null, queryWord: string, heading: string, rest: number,
 *   restCount: number}} Shown
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
          element("th", { scope: "col", title, class: number ? "regard-number" : null, "data-column": id, text: name }),
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
      cell: (/** @type {number} */ row, /** @type {any} */ { open, act }) => {
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
        open === `${id}-${row}` && list[row] ? vectorNumbers(/** @type {any} */ (list[row]), title(row)) : null,
    };
  };
  const numbers = (
    /** @type {string} */ id,
    /** @type {string} */ name,
    /** @type {string} */ title,
    /** @type {Float64Array} */ list,
  ) => {
    const digits = digitsFor(list);
    return {
      id,
      name,
      title,
      number: true,
      opened: undefined,
      cell: (/** @type {number} */ row) =>
        element("td", { class: "regard-number", title: String(list[row]), text: printedNumber(list[row], digits) }),
    };
  };
  const only = (/** @type {ArrayLike<number>|null} */ vector) =>
    words.map((_, row) => (row === (own ?? 0) ? vector : null));
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
          steps.visible[row] ? null : element("span", { class: "regard-quiet", text: " masked" }),
        ),
    },
    vectors("q", "q", only(given.query), "query q"),
    vectors("k", "k", given.keys, "key k"),
    ...(given.values ? [vectors("v", "v", given.values, "value v")] : []),
    scoreColumn(shown, word),
    numbers("scaled", heading, "score × scale", steps.scaled),
    ...(steps.capped ? [numbers("capped", "capped", "after the softcap", steps.capped)] : []),
    ...(steps.biased ? [numbers("biased", "+ bias", "after adding the bias", steps.biased)] : []),
    weightColumn(steps.weight, before.weight),
    ...(steps.weighted ? [vectors("weighted", "softmax × v", steps.weighted, "weighted value", 2)] : []),
    ...(steps.output ? [vectors("sum", "sum", only(steps.output), "output", 2)] : []),
  ];
  return found;
}

/** A score expands into its products. @param {Shown} shown @param {(row: number) => string} word */
function scoreColumn({ given, steps, queryWord }, word) {
  const digits = digitsFor(steps.score);
  return {
    id: "score",
    name: "score",
    title: "score = q · k",
    number: true,
    cell: (/** @type {number} */ row, /** @type {any} */ { open, act }) => {
      const key = `score-${row}`;
      const number = printedNumber(steps.score[row], digits);
      return element(
        "td",
        { class: "regard-number" },
        element("button", {
          type: "button",
          class: "regard-link",
          text: number,
          "data-opens": key,
          "aria-expanded": String(open === key),
          "aria-label": `score of ${word(row)}: ${number}`,
          title: String(steps.score[row]),
          onclick: () => act(key),
        }),
      );
    },
    opened: (/** @type {number} */ row, /** @type {string|null} */ open) =>
      open === `score-${row}`
        ? scoreBars(given.query, given.keys[row], { query: `q ${printable(queryWord)}`, key: `k ${word(row)}` })
        : null,
  };
}

/**
 * The weight as a number and a bar, with a mark at its value before a change.
 * @param {Float64Array} weight
 * @param {Float64Array} before
 */
function weightColumn(weight, before) {
  const digits = Math.max(2, digitsFor(weight));
  return {
    id: "weight",
    name: "softmax",
    title: "weight = softmax of the scaled scores",
    number: false,
    opened: undefined,
    cell: (/** @type {number} */ row) => {
      const bar = element("span", { class: "regard-steps-bar", "aria-hidden": "true" }, element("span", {}));
      bar.firstElementChild.style.setProperty("width", `${100 * weight[row]}%`);
      const moved = Math.abs(weight[row] - before[row]) > 1e-9;
      if (moved) {
        const was = element("i", {});
        was.style.setProperty("inset-inline-start", `${100 * before[row]}%`);
        bar.append(was);
      }
      const said = moved
        ? element("span", { class: "regard-unseen", text: ` was ${printedNumber(before[row], digits)}` })
        : null;
      return element(
        "td",
        { title: printedWeight(weight[row]) },
        element("span", { class: "regard-steps-weight", text: printedNumber(weight[row], digits) }),
        said,
        bar,
      );
    },
  };
}
