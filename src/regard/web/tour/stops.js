/**
 * Where the tour stops. The numbers are computed ones: of MiniLM (layer 3, head 1) for the kids and the lions, and of the
 * worked example for The cat sat.
 *
 * @typedef {{title: string, paragraphs: string[], view?: string, chosen?: Record<string, any>, points?: string, sentence?: string,
 *   picture?: () => Element}} Stop
 */
import { element } from "../elements.js";

const KIDS = "The kids were scared of the lions, so they left right away.";

/** @type {Stop[]} */
export const STOPS = [
  {
    title: "Who left?",
    paragraphs: [
      `“${KIDS}” To know who left, you looked back, and “they” led you to the kids.`,
      "Attention is how a model looks back. Each word gives every word a weight; its weights add up to 1. In one head of a small model, “they” gives:",
    ],
    sentence: KIDS,
    picture: () =>
      bars([
        ["kids", 0.81],
        ["The", 0.08],
        ["lions", 0.04],
        ["all others", 0.07],
      ]),
  },
  {
    title: "A dictionary made soft",
    paragraphs: [
      "A dictionary finds a value where the key equals the query. “birth date” equals no key of this form, so it finds nothing.",
      "Made soft, it asks how similar each key is, and turns that into probabilities. Move the temperature: to the left only the best key counts, to the right all count the same.",
    ],
    view: "lookup",
    points: ".regard-lookup-controls .regard-slider",
  },
  {
    title: "Query, key, value",
    paragraphs: [
      "In attention, every word is all three: it asks with its query, is found by its key, and hands over its value. A score is query times key; softmax turns scores into weights.",
      "The cat sat, worked by hand. For cat:",
    ],
    view: "steps",
    picture: () =>
      table(
        ["", "score", "÷ √4", "weight"],
        [
          ["The", "0", "0", "0.16"],
          ["cat", "2", "1", "0.42"],
          ["sat", "2", "1", "0.42"],
        ],
      ),
  },
  {
    title: "Why divide?",
    paragraphs: [
      "Long vectors make large scores, and large scores leave nearly everything to one word. Dividing by √d_k keeps the weights mild. Scores 6 and 4, then the same halved:",
    ],
    picture: () =>
      bars([
        ["6", 0.88],
        ["4", 0.12],
        ["3", 0.73],
        ["2", 0.27],
      ]),
  },
  {
    title: "Many heads",
    paragraphs: [
      "One layer looks in several ways at once. Each way is a head, as a filter is to a convolution: one looks at the word before, another for what a pronoun means. Every small map here is one head; choose one that looks interesting.",
    ],
    view: "grid",
  },
  {
    title: "Your turn",
    paragraphs: [
      "Point at a word to see what it looks at, or walk with the arrow keys. A click holds it, and the other views follow.",
      "One warning: [CLS], [SEP] and the first word often take much of the weight and say little. The switch sets them aside, and says how much they took.",
    ],
    view: "sentence",
    points: ".regard-sentence-stage",
  },
];

/** @param {[string, number][]} given */
function bars(given) {
  return element(
    "dl",
    { class: "regard-tour-bars" },
    given.map(([name, weight]) => {
      const bar = element("i");
      bar.style.width = `${weight * 100}%`;
      return [
        element("dt", { text: name }),
        element(
          "dd",
          {},
          element("span", { class: "regard-tour-bar", "aria-hidden": "true" }, bar),
          element("span", { text: weight.toFixed(2) }),
        ),
      ];
    }),
  );
}

/** @param {string[]} heads @param {string[][]} rows */
function table(heads, rows) {
  return element(
    "table",
    { class: "regard-table regard-tour-table" },
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        heads.map((text) => (text ? element("th", { scope: "col", text }) : element("td"))),
      ),
    ),
    element(
      "tbody",
      {},
      rows.map(([name, ...cells]) =>
        element(
          "tr",
          {},
          element("th", { scope: "row", text: name }),
          cells.map((text) => element("td", { text })),
        ),
      ),
    ),
  );
}
