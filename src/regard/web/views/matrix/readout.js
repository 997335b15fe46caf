/** Beside the matrix: the weight under the pointer, the strongest visible weights, the colour scale. */
import { choosable, replacedOptions } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { hasMask } from "../../maths/masking.js";
import { printedCount, printedWeight } from "../../maths/numbers.js";
import { wordElement } from "../../elements/words.js";
import { bottomOf } from "./pixels.js";

/** The query tokens; mostly the same as the key tokens. @param {Description} description @returns {string[]} */
export function queriesOf(description) {
  return description.query_tokens ?? description.tokens;
}

/** @param {Description} description */
export function makeReadout(description) {
  const queryTokens = queriesOf(description);
  const words = element("p", { class: "regard-matrix-words" });
  const weight = element("p", { class: "regard-matrix-weight" });
  const more = element("p", { class: "regard-matrix-more" });
  const el = element("div", { class: "regard-card regard-matrix-readout" }, words, weight, more);
  let before = "";

  return {
    el,
    /**
     * @param {{row: number, column: number}|null} cell
     * @param {{weight: number|null, hidden: boolean, pooled: string|null, failed: string|null}} [about]
     */
    show(cell, about) {
      const now = JSON.stringify([cell, about]);
      if (now === before) return; // most frames change nothing here
      before = now;
      if (!cell || !about) {
        replaced(words, "Point at a cell, or use the arrow keys.");
        words.classList.add("regard-quiet");
        weight.textContent = more.textContent = "";
        return;
      }
      words.classList.remove("regard-quiet");
      replaced(
        words,
        token("query", cell.row, queryTokens),
        element("span", { class: "regard-matrix-arrow", text: " → " }),
        token("key", cell.column, description.tokens),
      );
      weight.textContent = about.hidden
        ? "masked"
        : about.weight === null
          ? (about.failed ?? "…")
          : printedWeight(about.weight);
      weight.title = about.weight === null ? "" : String(about.weight);
      more.textContent = about.hidden ? "This query cannot see this key." : (about.pooled ?? "weight");
    },
  };

  /** @param {string} role @param {number} place @param {string[]} of */
  function token(role, place, of) {
    const where = element("span", { class: "regard-quiet", text: `${role} ${printedCount(place)}` });
    return element("span", { class: "regard-matrix-token" }, wordElement(of[place], { class: "regard-matrix-word" }), where);
  }
}

/** @param {Description} description @param {(rows: number[], columns: number[]) => void} go */
export function makeStrongest(description, go) {
  const title = element("h2", { class: "regard-subtitle", text: "Strongest visible weights" });
  const list = element("ol", { class: "regard-matrix-strongest", role: "listbox", "aria-label": title.textContent });
  /** @type {{rows: number[], columns: number[], weight: number}[]} */
  let shown = [];
  choosable(list, (place) => go(shown[place].rows, shown[place].columns));
  const el = element("div", { class: "regard-matrix-strongest-part" }, title, list);
  return {
    el,
    /** @param {{rows: number[], columns: number[], weight: number}[]} found */
    show(found) {
      shown = found;
      replacedOptions(
        list,
        found.map(({ rows, columns, weight }, place) => {
          const single = rows[1] - rows[0] === 1 && columns[1] - columns[0] === 1;
          const names = [rows, columns].map(([first, last], side) =>
            single
              ? wordElement((side ? description.tokens : queriesOf(description))[first], {}, 12)
              : element("span", { text: `${printedCount(first)}–${printedCount(last - 1)}` }),
          );
          const option = { role: "option", tabindex: place ? "-1" : "0", "aria-selected": "false", "data-place": place };
          return element("li", option, element("span", {}, names[0], " → ", names[1]), element("span", { class: "regard-number", text: printedWeight(weight) }));
        }),
      );
      el.hidden = found.length === 0;
    },
  };
}

/** The colour scale with its numbers. */
export function makeLegend() {
  const bar = element("canvas", { width: 256, height: 1, class: "regard-matrix-bar", "aria-hidden": "true" });
  const [low, mid, high] = ["", "", ""].map(() => element("span", {}));
  const about = element("p", { class: "regard-quiet regard-matrix-about" });
  const swatch = element("span", { class: "regard-matrix-swatch", "aria-hidden": "true" });
  const hidden = element("p", { class: "regard-quiet regard-matrix-hidden" }, swatch, "masked: keys that the query cannot see");
  const ends = element("div", { class: "regard-matrix-ends" }, low, mid, high);
  const el = element("div", { class: "regard-matrix-legend" }, bar, ends, about, hidden);
  return {
    el,
    /** @param {import("./pixels.js").Scale} scale @param {string} said @param {Masking} masking */
    show(scale, said, masking) {
      const drawing = /** @type {CanvasRenderingContext2D} */ (bar.getContext("2d"));
      const image = drawing.createImageData(256, 1);
      for (let step = 0; step < 256; step++)
        image.data.set([...scale.colours.bytes.subarray(step * 3, step * 3 + 3), 255], step * 4);
      drawing.putImageData(image, 0, 0);
      const bottom = bottomOf(scale);
      low.textContent = scale.colour === "log" ? `≤ ${plain(bottom)}` : "0";
      mid.textContent = plain(scale.colour === "log" ? Math.sqrt(bottom * scale.top) : scale.top / 2);
      high.textContent = `${scale.isPooled ? "≥ " : ""}${plain(scale.top)}`;
      about.textContent = said;
      hidden.hidden = !hasMask(masking);
      swatch.style.background = scale.colours.hidden;
    },
  };
}

/** Without trailing zeros. @param {number} number */
function plain(number) {
  return printedWeight(number).replace(/(\.\d*?)0+(?=$|·)/, "$1").replace(/\.(?=$|·)/, "");
}
