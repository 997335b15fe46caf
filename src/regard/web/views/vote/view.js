/** Vote: a word is guessed, then every head is a dot that falls on the word it looks at most. */
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { isMasked, maskingOf } from "../../maths/masking.js";
import { printedNumber } from "../../maths/numbers.js";
import { keptLayers, nameOfHead } from "../../page/state.js";
import { shortened, sinksOf, unitOf, unitsOf, wordElement } from "../../elements/words.js";
import { nextExample, questionOf, swapped } from "../guess/model.js";
import { makePicture } from "./draw.js";
import { listens } from "./input.js";
import { changedHeads, choicesOf, counted, isAlike, keysOf, nameOf, pileShape, placed, resultOf, spacesOf, tallied } from "./model.js";
import { askVotes } from "./source.js";

const MOST_WORDS = 60;
const TYPED = 120; // milliseconds after the last keystroke
const WIDE = 560; // pixels of the stage from which dots are large

export const vote = {
  name: "vote",
  title: "Vote",
  uses: [],
  front: true,
  /** @param {Description} description */
  suits: ({ kind, has, layers, heads, words, start, kept, long }) =>
    kind === "reading" && !long && layers * heads > 1 && has.includes("row") && words.length <= MOST_WORDS &&
    start?.query !== undefined && !kept?.layers && !kept?.heads,
  draw: drawVote,
};

/**
 * vote_open   whether the votes are shown; vote_guess: the word that was guessed, by its key
 * vote_layers how many layers have voted, null for all; vote_apart: heads that abstain lie in the tray
 * @param {Context} context @returns {Drawn}
 */
function drawVote({ el, state, announce, lifetime, services, ...context }) {
  let { source, description } = context;
  const latest = latestOnly(lifetime);
  /** @type {import("./model.js").HeadVote[]} */
  let votes = [];
  /** @type {Map<string, import("./model.js").HeadVote>} */
  let byName = new Map();
  /** @type {{heads: Map<string, string>, counts: Map<string, number>}|null} the votes of the text before, to compare with */
  let before = null;
  let units = unitsOf(description, "word");
  let keys = keysOf(units);
  let isComparing = false;
  let stopTyping = () => {};
  let drawnOnce = () => {};
  /** @type {Promise<void>} */
  const ready = new Promise((done) => (drawnOnce = done));

  const picture = makePicture(lifetime);
  const said = element("p", { class: "regard-vote-said", "aria-live": "polite" });
  const hint = element("p", { class: "regard-vote-hint" });
  const apart = element("button", { type: "button", class: "regard-vote-action", "aria-pressed": "false", onclick: () => state.set({ vote_apart: !state.get().vote_apart }) });
  const legend = element("div", { class: "regard-vote-legend" });
  const field = element("input", { type: "text", class: "regard-vote-field", "aria-label": "Your own sentence", placeholder: "Type a sentence", maxlength: "300", dir: "auto", spellcheck: "false" });
  const own = element("div", { class: "regard-vote-own", hidden: true }, field);
  const about = element("div", { class: "regard-vote-about", hidden: true });
  const action = (/** @type {string} */ text, /** @type {() => void} */ onclick, more = {}) =>
    element("button", { type: "button", class: "regard-vote-action", text, onclick, ...more });
  const swap = action("Swap the nouns", () => services.show?.(swapped(description.text) ?? ""));
  const another = action("Another sentence", () => {
    before = null;
    state.set({ vote_open: undefined, vote_guess: undefined, vote_layers: undefined });
    services.show?.(nextExample(description.text).text);
  });
  const yours = action("Your own", () => showField(own.hidden), { "aria-expanded": "false" });
  const what = action("What is this?", () => showAbout(about.hidden), { "aria-expanded": "false" });
  const actions = element("div", { class: "regard-vote-actions" }, ...(services.show ? [swap, another, yours] : []), what);
  replaced(el, said, own, picture.el, hint, legend, actions, about);

  listens(picture, {
    word: (unit) => (isOpen() ? openWord(unit) : guess(unit)),
    dot: openHead,
    point,
    layers: (count) => state.set({ vote_layers: count >= layers().length ? undefined : count }),
  });
  field.addEventListener("input", () => {
    stopTyping();
    if (field.value.trim()) stopTyping = lifetime.after(TYPED, () => services.show?.(field.value));
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    showField(false);
    yours.focus();
  });

  const isOpen = () => Boolean(state.get().vote_open);
  const layers = () => keptLayers(description);
  const countedLayers = () => Math.min(state.get().vote_layers ?? Infinity, layers().length);
  /** The word whose attention is shown: the chosen one, or the one that says most. */
  function asker() {
    const chosen = unitOf(units, state.get().query);
    return chosen >= 0 && !units[chosen].sink ? chosen : unitOf(units, description.start?.query ?? null);
  }
  function guessed() {
    const label = state.get().vote_guess;
    const place = label === undefined || label === null ? -1 : keys.indexOf(String(label));
    return place < 0 ? null : place;
  }

  /** @param {boolean} open */
  function showField(open) {
    own.hidden = !open;
    yours.setAttribute("aria-expanded", String(open));
    if (!open) return;
    field.value = description.text;
    field.focus();
    field.select();
  }

  /** @param {boolean} open */
  function showAbout(open) {
    about.hidden = !open;
    what.setAttribute("aria-expanded", String(open));
  }

  /** @param {number} unit */
  function guess(unit) {
    if (unit === asker() || units[unit].special) return;
    state.set({ vote_open: true, vote_guess: keys[unit] });
  }

  /** The sentence, with the head that looks most at a word. @param {number} unit */
  function openWord(unit) {
    const mine = votes.filter(({ word }) => word === unit);
    const best = mine.reduce((/** @type {import("./model.js").HeadVote|null} */ top, one) => (top && top.weight >= one.weight ? top : one), null);
    const query = units[unit === asker() ? unit : asker()].first;
    state.set({ view: "sentence", query, key: null, heads: null, ...(best ? { layer: best.layer, head: best.head } : {}) });
  }

  /** @param {string} name */
  function openHead(name) {
    const [layer, head] = name.split(".").map(Number);
    state.set({ view: "sentence", query: units[asker()].first, key: null, layer, head, heads: null });
  }

  /** Words that no head may look at. */
  function hidden() {
    const { first, last } = units[asker()];
    const masks = layers().map((layer) => maskingOf(description, { layer }));
    return units.filter((unit) => !unit.special && masks.every((masking) => isMasked(masking, [first, last], [unit.first, unit.last])));
  }

  /** "[CLS] or [SEP]", or “The”. */
  const sinkNames = () => sinksOf(units).listed.replace(/ and /g, " or ");

  /** What one head does. @param {string} name */
  function sayHead(name) {
    const dot = byName.get(name);
    if (!dot) return "";
    const word = dot.word === null ? "no word more than another" : `${shortened(units[dot.word].text, 30)} (${printedNumber(dot.weight, 2)})`;
    const rest = dot.abstains && dot.word !== null ? `, but more at ${sinkNames()}` : "";
    return `${nameOfHead(dot, description)} looks at ${word}${rest}`;
  }

  /** @param {string|null} name */
  function point(name) {
    picture.point(name);
    if (!isOpen()) return;
    hint.textContent = name ? `${sayHead(name)}.` : "Each dot is one head. Tap a dot or a word to look closer.";
  }

  /** @param {"none"|"fly"|"fall"} move @param {Map<string, DOMRect|undefined>} [from] */
  function show(move, from) {
    const open = isOpen();
    const dots = placed(votes, { layers: layers(), counted: countedLayers(), apart: Boolean(state.get().vote_apart) });
    const counts = tallied(dots, units.length);
    const wide = picture.el.clientWidth >= WIDE;
    const size = parseFloat(getComputedStyle(picture.list).fontSize);
    const shape = pileShape(dots, units.length, { width: Math.max(27, size), height: wide ? 132 : 84 });
    const changed = isComparing && before ? changedHeads(votes, before.heads, keys) : new Set();
    const scene = { dots, shape, counts, changed, before: isComparing ? (before?.counts ?? null) : null, guess: guessed(), open, layers: layers() };
    picture.setSlider(countedLayers(), layers().length, layersText());
    picture.show(scene, { move, from });
    picture.nameDots(sayHead);
    sayResult(counts, changed.size);
    point(null);
  }

  function layersText() {
    const [now, all] = [countedLayers(), layers().length];
    if (now === all) return `All ${all} layers have voted. Drag to replay.`;
    return now === 0 ? `No layer has voted: ${all} to come.` : `${now} of ${all} layers ${now === 1 ? "has" : "have"} voted.`;
  }

  /** @param {number[]} counts @param {number} changed */
  function sayResult(counts, changed) {
    const open = isOpen();
    legend.hidden = !open;
    const word = units[asker()];
    if (!word) return;
    if (!open) {
      const asked = questionOf(description.text);
      const question = asked ? [element("b", { text: asked })] : ["Which word does ", wordElement(word.text, { class: "regard-vote-name" }, 24), " look at?"];
      replaced(said, question, " Tap a word.");
      hint.textContent = "";
    } else {
      const voted = new Set(layers().slice(0, countedLayers()));
      const voting = votes.filter(({ layer }) => voted.has(layer));
      const parts = resultOf({ counts, texts: units.map(({ text }) => text), asker: asker(), guess: guessed(), heads: voting.length });
      replaced(said, linesOf(parts));
      const resting = voting.filter(({ abstains, word: one }) => abstains && one !== null).length;
      const ties = voting.filter(({ word: one }) => one === null).length;
      const isApart = Boolean(state.get().vote_apart);
      const key = (/** @type {string} */ name) => element("i", { class: "regard-vote-key", [`data-${name}`]: true, "aria-hidden": "true" });
      replaced(
        legend,
        element("p", {}, key("first"), "looks here most"),
        resting ? element("p", {}, key("abstains"), `${resting} of ${voting.length} abstain: they look at ${sinkNames()} most${isApart ? "" : ", and here next"}`) : null,
        ties ? element("p", { text: `${ties} ${ties === 1 ? "is" : "are"} undecided` }) : null,
        changed ? element("p", { class: "regard-vote-changed" }, key("changed"), `${changed} changed their word`) : null,
        hidden().length ? element("p", {}, "Grey words are hidden from ", wordElement(word.text, { class: "regard-vote-name" }, 24)) : null,
        apart,
      );
      apart.textContent = isApart ? "Show their next choice" : "Set them apart";
      apart.setAttribute("aria-pressed", String(isApart));
      apart.hidden = !votes.some(({ abstains, word: one }) => abstains && one !== null);
    }
    what.hidden = open && about.hidden; // offered with the question, one tap back
    yours.hidden = open && own.hidden;
    swap.hidden = swapped(description.text) === null;
    replaced(about, explanation());
  }

  /** @param {import("./model.js").Part[]} parts */
  function linesOf(parts) {
    const lines = [element("span")];
    for (const { text, strong, next } of parts) {
      if (next) lines.push(element("span"));
      lines[lines.length - 1].append(strong ? element("b", {}, wordElement(text, {}, 24)) : text);
    }
    return lines.flatMap((line) => [line, " "]);
  }

  function explanation() {
    const model = description.model && description.model !== "given" ? description.model : "this model";
    return [
      element("p", { text: `A language model reads a sentence with many small parts, called heads: ${model} has ${votes.length}. In each head every word looks at the other words and takes something from them. That is attention.` }),
      element("p", { text: "Each dot is one head. It falls on the word that the marked word looks at most. Heads disagree, because each looks for something else: the word before, the noun a pronoun stands for, the verb." }),
      element("p", { text: "A dot says where a head looks, not why the model answers as it does." }),
    ];
  }

  /** Asks for the attention of the word in all heads. @param {"none"|"fly"|"fall"} move */
  function load(move) {
    const word = units[asker()];
    if (!word) return drawnOnce();
    const asked = { units, asker: asker() };
    latest(
      (signal) => askVotes(source, description, asked, signal),
      (answer) => {
        votes = answer;
        byName = new Map(votes.map((one) => [nameOf(one), one]));
        const from = picture.write({ units, keys, asker: asked.asker, spaced: spacesOf(description.text, units) });
        show(move, from);
        drawnOnce();
      },
      (error) => {
        said.textContent = error.message;
        drawnOnce();
      },
    );
  }

  /** Another text: dots fly to their new words. @param {{source: Source, description: Description}} next */
  function update(next) {
    const counts = new Map(tallied(placed(votes, { layers: layers(), counted: layers().length, apart: false }), units.length).map((count, word) => [keys[word], count]));
    before = { heads: choicesOf(votes, keys), counts };
    ({ source, description } = next);
    units = unitsOf(description, "word");
    keys = keysOf(units);
    isComparing = isOpen() && isAlike(counts.keys(), keys);
    load("fly");
  }

  lifetime.add(
    state.listen((now, then) => {
      if (now.view !== then.view) return;
      const opened = now.vote_open && !then.vote_open;
      if (now.query !== then.query) load("fly");
      else if (["vote_open", "vote_guess", "vote_layers", "vote_apart"].some((name) => now[name] !== then[name])) {
        isComparing = false;
        show(opened ? "fall" : "fly");
        if (opened) announce(said.textContent ?? "");
      }
    }),
  );
  let width = 0;
  lifetime.resized(el, ({ contentRect }) => {
    if (width && Math.abs(contentRect.width - width) > 1 && votes.length) show("none");
    width = contentRect.width;
  });
  load("none");
  return { cleanUp: () => {}, ready, update };
}
