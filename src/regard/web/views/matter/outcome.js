/** What a change does: to the word's vector, to the votes of the later layers, and to the next token, beside a control. */
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { shortened, sinksOf, unitsOf, wordElement } from "../../elements/words.js";
import { nameOf } from "../../maths/votes.js";
import { keptLayers } from "../../page/state.js";
import { likelyOf, movedBars, percent, tokenTable } from "../steps/next.js";
import { makePicture } from "../vote/draw.js";
import { changedHeads, choicesOf, keysOf, placed, spacesOf, tallied, votesOf } from "../vote/model.js";
import { pileShape } from "../vote/piles.js";
import { askVotes } from "../vote/source.js";
import { headsLook, saidOfVotes } from "./model.js";

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
  const layers = keptLayers(description);
  const writes = (description.has ?? []).includes("next");
  const drawsVotes = units.length <= MOST_WORDS;
  /** @type {import("../vote/model.js").HeadVote[]} */
  let votes = []; // without a change
  let votesAsker = -1;
  /** @type {{asker: number, then: (() => void)[]}} */
  let waiting = { asker: -1, then: [] };
  let turn = 0; // of changes: only the latest is shown
  /** @type {import("../steps/next.js").Likely[]|null} */
  let before = null; // the next token without a change
  /** @type {{votes: import("../vote/model.js").HeadVote[], struck: Set<string>}|null} */
  let scene = null; // what is drawn now

  const said = element("p", { class: "regard-matter-said", "aria-live": "polite" });
  const control = element("p", { class: "regard-matter-control" });
  const votesSaid = element("p", { class: "regard-matter-later" });
  const picture = makePicture(lifetime);
  const stage = element("div", { class: "regard-matter-votes", inert: true }, picture.el);
  const [bars, tokens] = [element("div", { class: "regard-next-layers" }), element("div", {})];
  const legend = element("p", { class: "regard-matter-legend" });
  const more = element("div", { hidden: true }, element("h3", { class: "regard-subtitle", text: "How far the vector moves" }), bars);
  const el = element("section", { class: "regard-matter-result", "aria-label": "What changes" }, said, control, votesSaid, drawsVotes ? [stage, legend] : null, tokens, more);

  /** @param {"none"|"fly"} move */
  function drawVotes(move) {
    if (!drawsVotes || !scene || !stage.clientWidth) return;
    const { struck } = scene;
    const dots = placed(scene.votes, { layers, counted: layers.length, apart: false }).map((dot) => (struck.has(nameOf(dot)) ? { ...dot, where: /** @type {const} */ ("tray") } : dot));
    const [counts, was] = [tallied(dots, units.length), tallied(placed(votes, { layers, counted: layers.length, apart: false }), units.length)];
    const changed = changedHeads(scene.votes, choicesOf(votes, keys), keys);
    const shape = pileShape(dots, units.length, { width: 24, height: 84 });
    const isChanged = scene.votes !== votes || struck.size > 0;
    picture.show({ dots, shape, counts, changed, before: isChanged ? new Map(was.map((count, word) => [keys[word], count])) : null, guess: null, open: true, layers }, { move });
    for (const circle of picture.circles.querySelectorAll("circle")) {
      circle.toggleAttribute("data-struck", struck.has(circle.dataset.head ?? ""));
      circle.removeAttribute("tabindex"); // the sentences say what the picture shows
    }
    const key = (/** @type {string} */ name) => element("i", { class: "regard-vote-key", [`data-${name}`]: true, "aria-hidden": "true" });
    const entry = (/** @type {string} */ name, /** @type {string} */ text) => element("span", {}, key(name), text);
    replaced(
      legend,
      entry("first", "a head that looks here most"),
      votes.some(({ abstains }) => abstains) ? entry("abstains", `looks here next, after ${sinksOf(units).listed}`) : null,
      changed.size ? entry("changed", "looks elsewhere now") : null,
      struck.size ? entry("struck", "struck out") : null,
    );
  }

  /** The votes after a change: layers before it stay as they are. @param {Frame} frame @param {number} asker */
  function votesAfter({ header, arrays }, asker) {
    const { data, shape } = { data: arrays.weight.toFloat32(), shape: arrays.weight.shape };
    const size = shape[1] * shape[2];
    const heads = Array.from({ length: shape[1] }, (_, head) => head);
    const later = header.layers.map((/** @type {number} */ layer, /** @type {number} */ place) => {
      const rows = data.subarray(place * size, (place + 1) * size);
      return { layer, heads: heads.filter((head) => !Number.isNaN(rows[head * shape[2]])), rows };
    });
    const changed = new Map(votesOf(later, units, asker).map((vote) => [nameOf(vote), vote]));
    return votes.map((vote) => changed.get(nameOf(vote)) ?? vote);
  }

  /** As soon as the votes without a change are there. @param {number} asker @param {() => void} then */
  function withVotes(asker, then) {
    if (votesAsker === asker) return then();
    if (waiting.asker === asker) return void waiting.then.push(then);
    waiting = { asker, then: [then] };
    latestVotes(
      (signal) => askVotes(source, description, { units, asker }, signal),
      (answer) => {
        [votes, votesAsker] = [answer, asker];
        scene = { votes, struck: new Set() };
        if (drawsVotes) picture.write({ units, keys, asker, spaced: spacesOf(description.text, units) });
        drawVotes("none");
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
      if (mine !== turn) return;
      scene = { votes, struck: new Set() };
      drawVotes("fly");
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
        const after = votesAfter(frame, asker);
        const can = after.filter((vote) => vote.layer >= from && !struck.has(nameOf(vote)));
        const count = (/** @type {import("../vote/model.js").HeadVote[]} */ some) => changedHeads(some.filter((vote) => vote.layer >= from && !struck.has(nameOf(vote))), choicesOf(votes, keys), keys).size;
        const changed = count(after);
        replaced(votesSaid, saidOfVotes({ changed, of: can.length, word: shortened(word.text, 20) }).map(({ text, strong }) => (strong ? element("b", { text }) : text)));
        control.textContent = other && compared ? `${compared.text}: ${percent(/** @type {number} */ (Array.from(other.arrays.moved.toFloat32()).at(-1)))}, and ${headsLook(count(votesAfter(other, asker)))} elsewhere.` : "";
        scene = { votes: after, struck };
        drawVotes("fly");
        replaced(bars, movedBars(moved, first));
        more.hidden = false;
        const likely = frame.arrays.logits ? likelyOf(frame) : null;
        replaced(tokens, likely ? [element("h3", { class: "regard-subtitle", text: `The next word after “${shortened(word.text, 20)}”` }), tokenTable(before, likely)] : []);
        announce(`${said.textContent} ${votesSaid.textContent}`);
      },
      (error) => (said.textContent = error.message),
    );
  }

  let width = 0;
  lifetime.resized(stage, ({ contentRect }) => {
    if (Math.abs(contentRect.width - width) < 1) return;
    width = contentRect.width;
    drawVotes("none");
  });
  return { el, show, rest, withVotes, votes: () => votes };
}
