/**
 * The stops of the tour. All numbers are computed: MiniLM (layer 3, head 1) for the kids and the lions, the worked
 * example for The cat sat.
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
      `“${KIDS}” To know who left, you look back from “they” to the kids.`,
      "Attention is how a model does this. Each word has a weight for every word, and its weights sum to 1. In one head of a small model, the weights of “they” are:",
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
    title: "A soft dictionary",
    paragraphs: [
      "A dictionary returns the value whose key equals the query. “birth date” equals no key of this form, so nothing is found.",
      "A soft look-up turns the similarity of each key into a probability. Move the temperature: on the left only the best key counts, on the right all count equally.",
    ],
    view: "lookup",
    points: ".regard-lookup-controls .regard-slider",
  },
  {
    title: "Query, key, value",
    paragraphs: [
      "In attention, every word is all three: its query is matched against all keys, and the values are averaged by weight. A score is query · key; softmax turns scores into weights.",
      "The cat sat, computed by hand. For cat:",
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
      "Long vectors give large scores, and large scores put nearly all weight on one word. Dividing by √d_k keeps the weights spread out. Scores 6 and 4, then the same halved:",
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
      "A layer has several heads, as a convolution has several filters: one may attend to the previous word, another to what a pronoun refers to. Every small map here is one head; choose one.",
    ],
    view: "grid",
  },
  {
    title: "Your turn",
    paragraphs: [
      "Point at a word to see its attention, or use the arrow keys. A click selects it in all views.",
      "One warning: [CLS], [SEP] and the first word often take most of the weight and carry little meaning. The switch sets these attention sinks aside and says how much they take.",
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
