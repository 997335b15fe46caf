/** A small matrix as a table, for screen readers and for copying. */
import { element, replaced } from "../../elements/elements.js";
import { printedWeight } from "../../maths/numbers.js";
import { wordElement } from "../../elements/words.js";
import { isHidden } from "./geometry.js";

const MOST = 24; // words

export function smallTable() {
  const table = element("table", { class: "regard-table" });
  const el = element(
    "details",
    { class: "regard-details" },
    element("summary", { text: "These weights as a table" }),
    element(
      "div",
      { class: "regard-scroll", tabindex: "0", role: "region", "aria-label": "Weights as a table" },
      table,
    ),
  );
  el.hidden = true;
  return {
    el,
    /** @param {import("./geometry.js").Picture} what as it is drawn */
    show({ shown, weightAt, tokens, queryTokens, masking }) {
      const [[top, foot], [left, right]] = [shown.rows, shown.columns];
      el.hidden = foot - top > MOST || right - left > MOST;
      if (el.hidden) return;
      const span = (/** @type {number} */ first, /** @type {number} */ last) =>
        Array.from({ length: last - first }, (_, place) => first + place);
      const head = element(
        "tr",
        {},
        element("th", { scope: "col", text: "query ╲ key" }),
        span(left, right).map((key) => element("th", { scope: "col" }, wordElement(tokens[key]))),
      );
      const rows = span(top, foot).map((query) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, wordElement(queryTokens[query])),
          span(left, right).map((key) => {
            const weight = weightAt(query, key);
            const hidden = isHidden(masking, [query, query + 1], [key, key + 1]);
            return element("td", { text: hidden ? "masked" : weight === null ? "…" : printedWeight(weight) });
          }),
        ),
      );
      replaced(table, element("thead", {}, head), element("tbody", {}, rows));
    },
  };
}
