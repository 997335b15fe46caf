/** Vote: a word is guessed, then every head is a dot that falls on the word it looks at most. */
import { replaced } from "../../elements/elements.js";
import { latestOnly, makeReady } from "../../elements/lifetime.js";
import { headOf } from "../../maths/votes.js";
import { makePicture } from "./draw.js";
import { listens } from "./input.js";
import { askerOf, ballotOf, bestVote, sceneOf, spacesOf, withText } from "./model.js";
import { makePanel } from "./panel.js";
import { layersText, sayHead } from "./result.js";
import { askVotes } from "./source.js";

const MOST_WORDS = 60;
const WIDE = 560; // pixels of the stage from which dots are large
const OWN = ["vote_open", "vote_guess", "vote_layers", "vote_apart"]; // of the state: see sceneOf

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

/** @param {Context} context @returns {Drawn} */
function drawVote({ el, state, announce, lifetime, services, ...context }) {
  let { source } = context;
  let ballot = ballotOf(context.description);
  const { ready, done: drawnOnce } = makeReady();
  const latest = latestOnly(lifetime);
  const picture = makePicture(lifetime);
  const panel = makePanel({ state, lifetime, services }, () => ballot.description.text, () => (ballot = { ...ballot, before: null }));
  const { said, own, hint, legend, actions, about } = panel.parts;
  replaced(el, said, own, picture.el, hint, legend, actions, about);
  const asker = () => askerOf(ballot.units, state.get(), ballot.description);

  listens(picture, {
    word: (unit) => (state.get().vote_open ? openWord(unit) : guess(unit)),
    dot: (name) => openHead(headOf(name), asker()),
    point,
    layers: (count) => state.set({ vote_layers: count >= Number(picture.slider.max) ? undefined : count }),
  });

  /** @param {number} unit */
  function guess(unit) {
    if (unit === asker() || ballot.units[unit].special) return;
    state.set({ vote_open: true, vote_guess: ballot.keys[unit] });
  }

  /** The sentence, with the head that looks most at a word. @param {number} unit */
  function openWord(unit) {
    openHead(bestVote(ballot.votes, unit), unit === asker() ? unit : asker());
  }

  /** @param {HeadPlace|null} head @param {number} unit */
  function openHead(head, unit) {
    state.set({ view: "sentence", query: ballot.units[unit].first, key: null, heads: null, ...(head ? { layer: head.layer, head: head.head } : {}) });
  }

  /** @param {string|null} name */
  function point(name) {
    picture.point(name);
    panel.hint(ballot, name, Boolean(state.get().vote_open));
  }

  /** @param {"none"|"fly"|"fall"} move @param {import("./draw.js").Boxes} [from] */
  function show(move, from) {
    const size = parseFloat(getComputedStyle(picture.list).fontSize);
    const scene = sceneOf(ballot, state.get(), { width: Math.max(27, size), height: picture.el.clientWidth >= WIDE ? 132 : 84 });
    const { counted, layers } = scene;
    picture.setSlider(counted, layers.length, layersText(counted, layers.length));
    picture.show(scene, { move, from });
    picture.nameDots((name) => sayHead(ballot, name));
    panel.show(ballot, scene);
    point(null);
  }

  /** Asks for the attention of the word in all heads. @param {"none"|"fly"|"fall"} move */
  function load(move) {
    const { description, units, keys } = ballot;
    const asked = { units, asker: asker() };
    if (!units[asked.asker]) return drawnOnce();
    latest(
      (signal) => askVotes(source, description, asked, signal),
      (votes) => {
        ballot = { ...ballot, votes };
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
    ({ source } = next);
    ballot = withText(ballot, next.description, Boolean(state.get().vote_open));
    load("fly");
  }

  lifetime.add(
    state.listen((now, then) => {
      if (now.view !== then.view) return;
      const opened = now.vote_open && !then.vote_open;
      if (now.query !== then.query) load("fly");
      else if (OWN.some((name) => now[name] !== then[name])) {
        ballot = { ...ballot, compared: false };
        show(opened ? "fall" : "fly");
        if (opened) announce(said.textContent ?? "");
      }
    }),
  );
  lifetime.widths(el, () => ballot.votes.length && show("none"));
  load("none");
  return { ready, update };
}
