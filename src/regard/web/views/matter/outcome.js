/** What a change does: to the word's vector, to the votes of the later layers, and to the next token, beside a control. */
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { shortened, sinksOf, unitsOf, wordElement } from "../../elements/words.js";
import { nameOf } from "../../maths/votes.js";
import { keptLayers } from "../../page/state.js";
import { likelyOf, movedBars, percent, tokenTable } from "../steps/next.js";
import { makePicture } from "../vote/draw.js";
import { changedHeads, choicesOf, keysOf, spacesOf } from "../vote/model.js";
import { dotKey } from "../vote/panel.js";
import { askVotes } from "../vote/source.js";
import { headsLook, saidOfVotes, sceneAfter, votesAfter } from "./model.js";

const MOST_WORDS = 60; // of a text whose votes are drawn

/**
 * asks      parameters of `flow` for the change
 * name      "Without layer 3, head 1"
 * first     the first layer that is changed; from: the first whose heads may look elsewhere
 * struck    heads that write nothing, by name
 * control   the same for another change that it is compared with, and what is said of it
 * @typedef {{asker: number, name: string, asks: Record<string, unknown>, first: number, from: number, struck: Set<string>,
 *   control: {asks: Record<string, unknown>, text: string}|null}} Change
 */

/** @param {Pick<Context, "source"|"description"|"lifetime"|"announce">} context */
export function makeOutcome({ source, description, lifetime, announce }) {
  const [latest, latestVotes, latestBefore] = [latestOnly(lifetime), latestOnly(lifetime), latestOnly(lifetime)];
  const units = unitsOf(description, "word");
  const keys = keysOf(units);
  const writes = (description.has ?? []).includes("next");
  /** @type {HeadVote[]} */
  let votes = []; // without a change
  let votesAsker = -1;
  /** @type {{asker: number, then: (() => void)[]}} */
  let waiting = { asker: -1, then: [] };
  let turn = 0; // of changes: only the latest is shown
  /** @type {import("../steps/next.js").Likely[]|null} */
  let before = null; // the next token without a change

  const said = element("p", { class: "regard-matter-said", "aria-live": "polite" });
  const control = element("p", { class: "regard-matter-control" });
  const votesSaid = element("p", { class: "regard-matter-later" });
  const picture = units.length <= MOST_WORDS ? makeVotes(description, units, lifetime) : null;
  const [bars, tokens] = [element("div", { class: "regard-next-layers" }), element("div", {})];
  const more = element("div", { hidden: true }, element("h3", { class: "regard-subtitle", text: "How far the vector moves" }), bars);
  const el = element("section", { class: "regard-matter-result", "aria-label": "What changes" }, said, control, votesSaid, picture?.parts, tokens, more);

  /** As soon as the votes without a change are there. @param {number} asker @param {() => void} then */
  function withVotes(asker, then) {
    if (votesAsker === asker) return then();
    if (waiting.asker === asker) return void waiting.then.push(then);
    waiting = { asker, then: [then] };
    latestVotes(
      (signal) => askVotes(source, description, { units, asker }, signal),
      (answer) => {
        [votes, votesAsker] = [answer, asker];
        picture?.write(asker);
        picture?.show(votes, { votes, struck: new Set() }, "none");
        const { then: all } = waiting;
        waiting = { asker: -1, then: [] };
        for (const one of all) one();
      },
      (error) => (said.textContent = error.message),
    );
    before = null;
    if (!writes) return;
    latestBefore(
      (signal) => source.ask("next", { query: units[asker].first }, { signal }),
      (frame) => {
        before = likelyOf(frame);
        if (!tokens.childElementCount) replaced(tokens, tokenTable(before, null));
      },
      () => {},
    );
  }

  /** Nothing is changed. @param {number} asker @param {(Node|string)[]} invitation */
  function rest(asker, invitation) {
    latest.cancel();
    replaced(said, invitation);
    for (const part of [control, votesSaid, bars]) replaced(part);
    more.hidden = true;
    replaced(tokens, before && votesAsker === asker ? tokenTable(before, null) : []);
    const mine = ++turn;
    withVotes(asker, () => {
      if (mine === turn) picture?.show(votes, { votes, struck: new Set() }, "fly");
    });
  }

  /** @param {Change} change */
  function show(change) {
    replaced(said, `${change.name}: computing …`);
    const mine = ++turn;
    withVotes(change.asker, () => mine === turn && load(change));
  }

  /** @param {Change} change */
  function load({ asker, name, asks, first, from, struck, control: compared }) {
    const word = units[asker];
    const ask = (/** @type {Record<string, unknown>} */ what, /** @type {AbortSignal} */ signal) => source.ask("flow", { ...what, query: word.first, weights: true }, { signal });
    latest(
      (signal) => Promise.all([ask(asks, signal), compared ? ask(compared.asks, signal) : null]),
      ([frame, other]) => {
        const moved = Array.from(frame.arrays.moved.toFloat32());
        replaced(said, `${name}, the vector of `, wordElement(word.text, { class: "regard-word" }, 20), " after the last layer moves by ", element("b", { text: percent(moved[moved.length - 1]) }), " of its length.");
        const after = votesAfter(votes, frame, units, asker);
        const later = (/** @type {HeadVote[]} */ some) => some.filter((vote) => vote.layer >= from && !struck.has(nameOf(vote)));
        const count = (/** @type {HeadVote[]} */ some) => changedHeads(later(some), choicesOf(votes, keys), keys).size;
        replaced(votesSaid, saidOfVotes({ changed: count(after), of: later(after).length, word: shortened(word.text, 20) }).map(({ text, strong }) => (strong ? element("b", { text }) : text)));
        control.textContent = other && compared ? `${compared.text}: ${percent(/** @type {number} */ (Array.from(other.arrays.moved.toFloat32()).at(-1)))}, and ${headsLook(count(votesAfter(votes, other, units, asker)))} elsewhere.` : "";
        picture?.show(votes, { votes: after, struck }, "fly");
        replaced(bars, movedBars(moved, first));
        more.hidden = false;
        const likely = frame.arrays.logits ? likelyOf(frame) : null;
        replaced(tokens, likely ? [element("h3", { class: "regard-subtitle", text: `The next word after “${shortened(word.text, 20)}”` }), tokenTable(before, likely)] : []);
        announce(`${said.textContent} ${votesSaid.textContent}`);
      },
      (error) => (said.textContent = error.message),
    );
  }

  return { el, show, rest, withVotes, votes: () => votes };
}

/** The votes of all heads before and after a change. @param {Description} description @param {Unit[]} units @param {Lifetime} lifetime */
function makeVotes(description, units, lifetime) {
  const [keys, layers] = [keysOf(units), keptLayers(description)];
  const picture = makePicture(lifetime);
  const stage = element("div", { class: "regard-matter-votes", inert: true }, picture.el);
  const legend = element("p", { class: "regard-matter-legend" });
  /** @type {[HeadVote[], {votes: HeadVote[], struck: Set<string>}]|null} */
  let now = null; // the votes without a change, and what is shown

  /** @param {"none"|"fly"} move */
  function draw(move) {
    if (!now || !stage.clientWidth) return;
    const [votes, after] = now;
    const scene = sceneAfter(votes, after, { keys, layers });
    picture.show(scene, { move });
    for (const circle of picture.circles.querySelectorAll("circle")) {
      circle.toggleAttribute("data-struck", after.struck.has(circle.dataset.head ?? ""));
      circle.removeAttribute("tabindex"); // the sentences say what the picture shows
    }
    const entry = (/** @type {string} */ name, /** @type {string} */ text) => element("span", {}, dotKey(name), text);
    replaced(
      legend,
      entry("first", "a head that looks here most"),
      votes.some(({ abstains }) => abstains) ? entry("abstains", `looks here next, after ${sinksOf(units).listed}`) : null,
      scene.changed.size ? entry("changed", "looks elsewhere now") : null,
      after.struck.size ? entry("struck", "struck out") : null,
    );
  }

  lifetime.widths(stage, () => draw("none"));
  return {
    parts: [stage, legend],
    /** @param {number} asker */
    write: (asker) => picture.write({ units, keys, asker, spaced: spacesOf(description.text, units) }),
    /** @param {HeadVote[]} votes without a change @param {{votes: HeadVote[], struck: Set<string>}} after @param {"none"|"fly"} move */
    show(votes, after, move) {
      now = [votes, after];
      draw(move);
    },
  };
}
