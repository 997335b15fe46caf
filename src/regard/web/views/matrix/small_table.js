/** A small matrix as a table, for screen readers and for copying. */
import { element, replaced } from "../../elements/elements.js";
import { printedWeight } from "../../maths/numbers.js";
import { wordElement } from "../../elements/words.js";
import { span } from "./figure.js";
import { isHidden } from "./geometry.js";

const MOST = 24; // words

export function smallTable() {
  const table = element("table", { class: "regard-table" });
  const region = { class: "regard-scroll", tabindex: "0", role: "region", "aria-label": "Weights as a table" };
  const summary = element("summary", { text: "These weights as a table" });
  const el = element("details", { class: "regard-details", hidden: true }, summary, element("div", region, table));
  return {
    el,
    /** @param {import("./geometry.js").Picture} what as it is drawn */
    show({ shown, weightAt, tokens, queryTokens, masking }) {
      const [queries, keys] = [shown.rows, shown.columns].map(span);
      el.hidden = queries.length > MOST || keys.length > MOST;
      if (el.hidden) return;
      const cell = (/** @type {number} */ query, /** @type {number} */ key) => {
        const weight = weightAt(query, key);
        const hidden = isHidden(masking, [query, query + 1], [key, key + 1]);
        return element("td", { text: hidden ? "masked" : weight === null ? "…" : printedWeight(weight) });
      };
      const headings = keys.map((key) => element("th", { scope: "col" }, wordElement(tokens[key])));
      const rows = queries.map((query) => {
        const name = element("th", { scope: "row" }, wordElement(queryTokens[query]));
        return element("tr", {}, name, keys.map((key) => cell(query, key)));
      });
      const head = element("tr", {}, element("th", { scope: "col", text: "query ╲ key" }), headings);
      replaced(table, element("thead", {}, head), element("tbody", {}, rows));
    },
  };
}
