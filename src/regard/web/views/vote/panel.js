/** What stands around the picture: the question or the result, the legend, and what can be done. */
import { button, element, replaced } from "../../elements/elements.js";
import { wordElement } from "../../elements/words.js";
import { nextExample, questionOf, swapped } from "../guess/model.js";
import { explanationOf, legendOf, resultOf, sayHead } from "./result.js";

const TYPED = 120; // milliseconds after the last keystroke

/**
 * @param {Pick<Context, "state"|"lifetime"|"services">} context @param {() => string} textNow
 * @param {() => void} another called before another sentence is shown
 */
export function makePanel({ state, lifetime, services }, textNow, another) {
  let stopTyping = () => {};
  const action = (/** @type {string} */ text, /** @type {() => void} */ act, more = {}) => button(text, act, { class: "regard-vote-action", ...more });
  const said = element("p", { class: "regard-vote-said", "aria-live": "polite" });
  const hint = element("p", { class: "regard-vote-hint" });
  const legend = element("div", { class: "regard-vote-legend" });
  const apart = action("", () => state.set({ vote_apart: !state.get().vote_apart }));
  const field = element("input", { type: "text", class: "regard-vote-field", "aria-label": "Your own sentence", placeholder: "Type a sentence", maxlength: "300", dir: "auto", spellcheck: "false" });
  const own = element("div", { class: "regard-vote-own", hidden: true }, field);
  const about = element("div", { class: "regard-vote-about", hidden: true });
  const swap = action("Swap the nouns", () => services.show?.(swapped(textNow()) ?? ""));
  const other = action("Another sentence", () => {
    another();
    state.set({ vote_open: undefined, vote_guess: undefined, vote_layers: undefined });
    services.show?.(nextExample(textNow()).text);
  });
  const yours = action("Your own", () => showField(own.hidden), { "aria-expanded": "false" });
  const what = action("What is this?", () => open(what, about, about.hidden), { "aria-expanded": "false" });
  const actions = element("div", { class: "regard-vote-actions" }, services.show ? [swap, other, yours] : null, what);

  field.addEventListener("input", () => {
    stopTyping();
    if (field.value.trim()) stopTyping = lifetime.after(TYPED, () => services.show?.(field.value));
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    showField(false);
    yours.focus();
  });

  /** @param {HTMLElement} opener @param {HTMLElement} part @param {boolean} isOpen */
  function open(opener, part, isOpen) {
    part.hidden = !isOpen;
    opener.setAttribute("aria-expanded", String(isOpen));
  }

  /** @param {boolean} isOpen */
  function showField(isOpen) {
    open(yours, own, isOpen);
    if (!isOpen) return;
    field.value = textNow();
    field.focus();
    field.select();
  }

  /** @param {import("./model.js").Ballot} ballot @param {import("./model.js").Scene} scene */
  function show(ballot, scene) {
    const { description, units, votes } = ballot;
    legend.hidden = !scene.open;
    const word = units[scene.asker];
    if (!word) return;
    if (!scene.open) {
      const asked = questionOf(description.text);
      replaced(said, asked ? [element("b", { text: asked })] : ["Which word does ", named(word.text), " look at?"], " Tap a word.");
    } else {
      const voting = votes.filter(({ layer }) => scene.layers.indexOf(layer) < scene.counted);
      replaced(said, linesOf(resultOf({ counts: scene.counts, texts: units.map(({ text }) => text), asker: scene.asker, guess: scene.guess, heads: voting.length })));
      replaced(legend, legendOf(ballot, scene).map(legendEntry), apart);
      apart.textContent = scene.apart ? "Show their next choice" : "Set them apart";
      apart.setAttribute("aria-pressed", String(scene.apart));
      apart.hidden = !votes.some(({ abstains, word: choice }) => abstains && choice !== null);
    }
    what.hidden = scene.open && about.hidden; // offered with the question, one tap back
    yours.hidden = scene.open && own.hidden;
    swap.hidden = swapped(description.text) === null;
    replaced(about, explanationOf(ballot).map((text) => element("p", { text })));
  }

  return {
    parts: { said, own, hint, legend, actions, about },
    show,
    /** What the head under the pointer does. @param {import("./model.js").Ballot} ballot @param {string|null} name @param {boolean} isOpen */
    hint(ballot, name, isOpen) {
      hint.textContent = !isOpen ? "" : name ? `${sayHead(ballot, name)}.` : "Each dot is one head. Tap a dot or a word to look closer.";
    },
  };
}

/** @param {string} text */
function named(text) {
  return wordElement(text, { class: "regard-vote-name" }, 24);
}

/** The key of a kind of dots. @param {string} kind */
export function dotKey(kind) {
  return element("i", { class: "regard-vote-key", [`data-${kind}`]: true, "aria-hidden": "true" });
}

/** @param {ReturnType<typeof legendOf>[number]} entry */
function legendEntry({ key, text, word }) {
  return element("p", { class: key === "changed" ? "regard-vote-changed" : null }, key ? dotKey(key) : null, text, word === undefined ? null : named(word));
}

/** @param {import("./result.js").Part[]} parts */
function linesOf(parts) {
  const lines = [element("span")];
  for (const { text, strong, next } of parts) {
    if (next) lines.push(element("span"));
    lines[lines.length - 1].append(strong ? element("b", {}, wordElement(text, {}, 24)) : text);
  }
  return lines.flatMap((line) => [line, " "]);
}
