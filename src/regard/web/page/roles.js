/** What heads do: in general, as a treebank says, and in this text; heads chosen by a question such as "whose". */
import { button, element, replaced } from "../elements/elements.js";
import { latestOnly } from "../elements/lifetime.js";
import { strongest } from "../maths/links.js";
import { printedCount, printedNumber } from "../maths/numbers.js";
import { isOverLayers, measureOf } from "./measures.js";
import { isKept } from "./state.js";
import { shortened, unitOf, unitsOf } from "../elements/words.js";

const NO_PATTERN = "no clear pattern"; // of the atlas
const PICTURE = ["layer", "head", "heads", "query", "key", "measure"]; // what a question is lit for

/** What a head is known for in general, in a few words; empty where that is not known. @param {Description} description @param {number} layer @param {number} head */
export function labelOf(description, layer, head) {
  return description.known?.labels?.[layer]?.[head] ?? "";
}

/** The same for a picture: empty also where there is no pattern. @param {Description} description @param {HeadPlace} head */
export function shortLabelOf(description, { layer, head }) {
  const label = labelOf(description, layer, head);
  return label === NO_PATTERN ? "" : label;
}

/**
 * Whether a link between two words can be a relation, by what each word can be: heads/sentence_relations.py.
 * @param {HeadRoles} known @param {string} relation @param {string} direction @param {number} query @param {number} key positions of words
 */
export function isLink({ possible, classes }, relation, direction, query, key) {
  const [dependent, head] = direction === "to head" ? [query, key] : [key, query];
  const [ofDependent, ofHead, side] = possible[relation] ?? ["noun verb modifier", "noun verb modifier", 0];
  const inOrder = side > 0 ? head > dependent : side < 0 ? head < dependent : head !== dependent;
  const can = (/** @type {number} */ word, /** @type {string} */ names) => names.split(" ").some((name) => classes[word].includes(name));
  return inOrder && can(dependent, ofDependent) && can(head, ofHead);
}

/** The head of an answer, and its link. @param {RoleAnswer} answer @returns {Partial<Chosen>} */
function pictureOf({ layer, head, query }) {
  return { layer, head, heads: null, query, key: null, sinks: false, measure: "weight" };
}

/** Whether the picture is that of an answer. @param {RoleAnswer} answer @param {Chosen} chosen */
function isShown({ layer, head, query }, chosen) {
  return chosen.layer === layer && chosen.head === head && !(chosen.heads && chosen.heads.length > 1) && chosen.query === query && chosen.measure === "weight";
}

/** Whether the picture is the one that a question chose. @param {RoleQuestion} ask @param {Chosen} chosen */
function isLit({ name, answers }, chosen) {
  return chosen.roles_asked === name && answers.some((answer) => isShown(answer, chosen));
}

/** @param {string} query @param {string} key @param {number} weight */
function linkText(query, key, weight) {
  return `${shortened(query, 16)} → ${shortened(key, 16)} ${printedNumber(weight)} here`;
}

/**
 * Questions, each with the link of this text that can be its answer; null where the model is not known.
 * @param {State} state @param {Description} description
 * @param {string[]} uses the choosers of the view
 * @param {Lifetime} lifetime @param {Source} source
 * @param {((text: string) => void)|undefined} [read] reads another text
 */
export function roles(state, description, uses, lifetime, source, read) {
  if (!description.known?.asks?.length || !uses.some((name) => name === "head" || name === "heads")) return null;
  const { known } = description;
  const words = unitsOf(description, "word");
  const latest = latestOnly(lifetime);
  const isShowable = (/** @type {RoleAnswer} */ answer) => isKept(answer, description);
  const wordAt = (/** @type {number} */ token) => words[unitOf(words, token)]?.text ?? "";
  const saidHere = (/** @type {RoleAnswer} */ { query, key, weight }) => linkText(wordAt(query), wordAt(key), weight);
  const said = element("p", { class: "regard-roles-said", role: "status" });
  const buttons = known.asks.map((ask) =>
    button(ask.name, () => choose(ask), { class: "regard-head regard-head-many", title: ask.answers[0] ? saidHere(ask.answers[0]) : ask.nothing }),
  );

  /** @param {RoleQuestion} ask */
  function choose(ask) {
    if (isLit(ask, state.get())) return state.set({ roles_asked: null });
    const answer = ask.answers.find(isShowable);
    state.set({ roles_asked: ask.name, ...(answer ? pictureOf(answer) : {}) });
  }

  function show() {
    const ask = known.asks.find((one) => one.name === state.get().roles_asked);
    known.asks.forEach((one, place) => buttons[place].setAttribute("aria-pressed", String(isLit(one, state.get()))));
    if (ask && !ask.answers.length) return replaced(said, ask.nothing, tryButton(ask));
    if (ask && !ask.answers.some(isShowable)) return replaced(said, `${saidHere(ask.answers[0])}, head ${ask.answers[0].layer}.${ask.answers[0].head}: not kept in this page.`);
    if (ask && isLit(ask, state.get())) return replaced(said, ask.answers.filter(isShowable).flatMap(saidOf));
    showCaption();
  }

  /** Reads the example, where the host can. @param {RoleQuestion} ask */
  function tryButton({ example, nothing }) {
    if (!read || !nothing.includes(example)) return null;
    return button("Read it", () => read(example), { class: "regard-link" });
  }

  /** What the shown head links here, and what it is known for in general. */
  function showCaption() {
    const { layer, head, heads, query } = state.get();
    if ((heads && heads.length > 1) || isOverLayers(measureOf(state.get(), description))) return replaced(said, ""); // not one head
    const general = (known.said[layer]?.[head] ?? "").replace(/^Head [\d.]+: /, "");
    const name = `Head ${layer}.${head}`;
    const inGeneral = `in general (${known.treebank}): ${general}`;
    replaced(said, general ? `${name} ${inGeneral}` : "");
    const place = unitOf(words, query ?? null);
    if (place < 0 || description.query_tokens || description.first_query !== 0 || !general) return;
    const asked = { layer, heads: [head], query: words[place].first, by: "word" };
    latest(
      (signal) => source.ask("row", asked, { signal, inBackground: true }),
      ({ arrays }) => {
        const row = arrays.weight.toFloat32();
        const [key] = strongest(row, 1, { skip: (at) => words[at].sink || at === place });
        if (key === undefined) return;
        const relation = known.relations[layer]?.[head]?.find((/** @type {string[]} */ [of, direction]) => isLink(known, of, direction, place, key));
        const link = linkText(words[place].text, words[key].text, row[key]);
        const rest = relation ? `, which can be ${relation[2]}. I${inGeneral.slice(1)}` : `. It is known for another link, i${inGeneral.slice(1)}`;
        replaced(said, element("strong", { text: `${name}: ${link}` }), rest);
      },
      () => {},
    );
  }

  /** One answer: the shown one in words, the others as buttons. @param {RoleAnswer} answer @param {number} place */
  function saidOf(answer, place) {
    const { layer, head, arrow, scored, same, unscored } = answer;
    const before = place ? " · " : "";
    if (!isShown(answer, state.get())) {
      const go = () => state.set({ ...pictureOf(answer), roles_asked: state.get().roles_asked });
      return [before, button(`${arrow} ${layer}.${head}`, go, { class: "regard-link", title: saidHere(answer) })];
    }
    if (!scored)
      return [before, element("strong", { text: `layer ${layer}, head ${head} links ${saidHere(answer)}` }), `. ${unscored}`];
    const untrained = scored.untrained === null ? "" : `, the best head without training for ${printedNumber(scored.untrained)}`;
    return [
      before,
      element("strong", { text: `${arrow}, layer ${layer}, head ${head}: ${saidHere(answer)}` }),
      `. In general right for ${printedNumber(scored.accuracy)} of ${printedCount(scored.words)} words in ${known.treebank}; ` +
        `the best fixed offset (${signed(scored.offset)}) for ${printedNumber(scored.offset_accuracy)}${untrained}.${same ? ` ${same}` : ""}`,
    ];
  }

  lifetime.add(
    state.listen((now, before) => {
      const moved = PICTURE.some((name) => String(now[name] ?? "") !== String(before[name] ?? ""));
      const asked = known.asks.find((ask) => ask.name === now.roles_asked);
      if (asked && moved && !isLit(asked, now)) return state.set({ roles_asked: null });
      if (moved || now.roles_asked !== before.roles_asked) show();
    }),
  );
  show();
  const questions = element(
    "div",
    { class: "regard-head-chooser", role: "group", "aria-label": "Head known for" },
    element("span", { class: "regard-label", text: "Head known for", "aria-hidden": "true", title: known.source }),
    buttons,
  );
  return { questions, said };
}

/** @param {number} offset */
function signed(offset) {
  return offset < 0 ? `−${-offset}` : `+${offset}`;
}
