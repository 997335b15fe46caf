/** Softmax to touch: sliders for scores and for what they are divided by; the weights follow. */
import { slider } from "../elements/controls.js";
import { element, replaced } from "../elements/elements.js";
import { softmax } from "../maths/attention.js";
import { printedNumber } from "../maths/numbers.js";

const LARGEST = 12;
const DIVISORS = [1, 2, 4, 8];

/** @param {HTMLElement} el @param {{scores: number[]}} options */
export function drawSoftmax(el, { scores: first }) {
  const scores = [...first];
  let divisor = 1;
  const said = element("p", { class: "regard-figure-said", role: "status" });
  const rows = scores.map((score, place) => {
    const bar = element("i");
    const number = element("span", { class: "regard-number" });
    const control = slider(`score ${place + 1}`, { least: -LARGEST, most: LARGEST, step: 0.5, value: score, said: (value) => printedNumber(value, 1) }, (value) => {
      scores[place] = value;
      show();
    });
    return { bar, number, el: element("div", { class: "regard-figure-row" }, control.el, element("span", { class: "regard-lookup-bar", "aria-hidden": "true" }, bar), number) };
  });
  const divide = slider("divide by", { least: 0, most: DIVISORS.length - 1, step: 1, value: 0, said: (place) => String(DIVISORS[place]) }, (place) => {
    divisor = DIVISORS[place];
    show();
  });

  function show() {
    const weights = softmax(scores, { factor: 1 / divisor });
    rows.forEach(({ bar, number }, place) => {
      bar.style.transform = `scaleX(${weights[place].toFixed(4)})`;
      number.textContent = printedNumber(weights[place], 2);
    });
    const list = (/** @type {ArrayLike<number>} */ numbers, /** @type {number} */ digits) => Array.from(numbers, (one) => printedNumber(one, digits)).join(", ");
    said.textContent = `softmax(${list(scores.map((score) => score / divisor), 2)}) = ${list(weights, 2)}`;
  }

  replaced(el, rows.map((row) => row.el), divide.el, said);
  show();
}
