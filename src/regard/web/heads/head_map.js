/** All heads of a model on one screen: a cell for each, coloured by its pattern or by a metric. */
import { walkable } from "../elements/controls.js";
import { button, element } from "../elements/elements.js";
import { printedNumber } from "../maths/numbers.js";
import { NONE, axisOf, patternOf, nameOf, shareOf, short, showsPattern } from "./model.js";

export const BY_PATTERN = "pattern";

/**
 * @param {import("./model.js").Atlas} atlas @param {import("./model.js").Model} model @param {Colours} colours
 * @param {(pattern: string) => string} colourOf @param {(one: HeadPlace) => void} choose
 */
export function makeHeadMap(atlas, model, colours, colourOf, choose) {
  const cells = model.all.map((one) => ({
    one,
    button: button("", () => choose(one), { class: "regard-heads-cell", tabindex: "-1" }),
  }));
  const label = { role: "group", "aria-label": `All heads of ${model.name}` };
  const box = element("div", { class: "regard-heads-map", ...label, style: { "--regard-across": String(model.heads) } });
  box.append(element("span"), ...Array.from({ length: model.heads }, (_, head) => element("span", { class: "regard-heads-axis", text: String(head) })));
  for (const { one, button } of cells) {
    if (!one.head) box.append(element("span", { class: "regard-heads-axis", text: String(one.layer) }));
    box.append(button);
  }
  walkable(box, () => cells.map(({ button }) => button));

  /** @param {string} by @param {HeadPlace|null} chosen @param {string|null} only a pattern */
  function show(by, chosen, only) {
    const axis = by === BY_PATTERN ? null : axisOf(atlas, by);
    for (const { one, button } of cells) {
      const on = one === chosen;
      const value = axis ? model.of(by, one) : NaN;
      const pattern = patternOf(model, one);
      const known = !axis || Number.isFinite(value);
      const plain = pattern === NONE ? colours.hidden : colourOf(pattern);
      const colour = axis ? colours.weight(known ? Math.max(shareOf(axis, value), 0) : 0) : plain;
      const faint = only !== null && !showsPattern(model, one, only);
      button.textContent = axis ? (known ? cellText(value) : "–") : short(pattern);
      button.style.setProperty("--regard-cell", known ? colour : "transparent");
      button.style.setProperty("--regard-on-cell", known ? colours.contrast(colour) : colours.muted);
      button.classList.toggle("regard-heads-faint", faint && !on);
      button.setAttribute("aria-pressed", String(on));
      button.tabIndex = on || (!chosen && one === model.all[0]) ? 0 : -1;
      const number = axis ? `, ${by} ${known ? printedNumber(value) : "not known"}` : "";
      button.title = `Layer ${one.layer}, head ${one.head}: ${nameOf(model, one)}${number}`;
      button.setAttribute("aria-label", button.title);
    }
    if (!chosen || !model.all.includes(chosen)) cells[0].button.tabIndex = 0;
  }

  return { el: box, show };
}

/** A value in few signs. @param {number} value */
function cellText(value) {
  if (value >= 10) return printedNumber(value, 0);
  const text = printedNumber(value, value >= 1 ? 1 : 2);
  return text.replace(/^0\./, ".");
}
