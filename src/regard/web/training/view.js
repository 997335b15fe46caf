/** A training run over its steps: loss and accuracy, every head's map, the selected head. */
import { makeColours } from "../elements/colours.js";
import { segments, slider, walkable } from "../elements/controls.js";
import { button, element, replaced } from "../elements/elements.js";
import { printedCount, printedNumber } from "../maths/numbers.js";
import { headingOf, makeHeader, makePage } from "../page/toolbar.js";
import { makeChart } from "./chart.js";
import { paintMap } from "../elements/word_matrix.js";
import { makeHead } from "./head.js";
import { bestHead, filmOf, firstQuery, nextOf, notLearned, openingOf, roleOf, specialisation, steepest, toggledPlay } from "./model.js";

const FILM = 9000; // milliseconds from the first snapshot to the last
const HOW_TO_READ = "Queries run down, keys across; a stronger colour is a larger weight. Select a head to enlarge it.";
const FASTEST = 50; // milliseconds between two snapshots

/**
 * Show a recorded run; the returned function removes it.
 * @param {HTMLElement} el @param {Frame} frame @param {{isPage?: boolean}} [how] isPage: with the header of a page
 */
export function showTraining(el, frame, { isPage = true } = {}) {
  const film = filmOf(frame);
  const { lifetime, root, live, theme } = makePage(el, "regard-training", () => {
    show = draw();
    set({ playing: false });
  });
  const body = element("div");
  let shown = openingOf(film);
  const wait = Math.max(FASTEST, FILM / Math.max(film.snapshots - 1, 1));
  let stopTimer = () => {};
  const draw = () => drawFilm(body, { film, colours: makeColours(theme.now()), announce: live.announce, set, get: () => shown });
  replaced(root, isPage ? makeHeader({ tools: [theme.el] }) : null, headerOf(film), body, live.el);
  let show = draw();
  show();

  /** @param {Partial<import("./model.js").Shown>} patch */
  function set(patch) {
    const wasPlaying = shown.playing;
    shown = { ...shown, ...patch };
    if (shown.playing !== wasPlaying) stopTimer();
    if (shown.playing && !wasPlaying) stopTimer = lifetime.after(wait, next);
    show();
  }

  function next() {
    stopTimer = lifetime.after(wait, next);
    set(nextOf(film, shown));
  }

  return lifetime.end;
}

/**
 * Everything below the header, once per theme; the result shows it as it is now.
 * @typedef {{film: import("./model.js").Film, colours: Colours, announce: (text: string) => void,
 *   set: (patch: Partial<import("./model.js").Shown>) => void, get: () => import("./model.js").Shown}} Stage
 * @param {HTMLElement} body @param {Stage} stage
 */
function drawFilm(body, { film, colours, announce, set, get }) {
  const lines = linesOf(film, colours);
  const go = (/** @type {number} */ at) => set({ at, playing: false });
  const select = (/** @type {HeadPlace} */ one) => set({ one });
  const chart = makeChart(film, colours, lines, go);
  const head = makeHead(film, colours, announce);
  const last = film.snapshots - 1;
  const said = (/** @type {number} */ at) => `step ${printedCount(film.steps[at])} of ${printedCount(film.steps[last])}`;
  const time = slider("Step", { least: 0, most: last, step: 1, value: get().at, said }, go);
  const play = button("", () => set(toggledPlay(film, get())), { "data-kind": "main" });
  const jump = button("Where it is learned", () => go(steepest(film)), { title: "The snapshot at which right answers rise fastest" });
  const numbers = element("p", { class: "regard-training-numbers" });
  const roles = element("div", { class: "regard-training-roles" });
  const options = film.probes.map((_, probe) => ({ value: probe, text: String(probe + 1) }));
  const probes = segments("Text", options, get().probe, (probe) => set({ probe, query: firstQuery(film, probe) }));
  const sentence = element("p", { class: "regard-training-text", dir: "auto" });
  const maps = makeMaps(film, colours, select);
  head.selects((query) => set({ query }));
  const problem = notLearned(film);
  const texts = options.length > 1 ? [element("span", { class: "regard-label", text: "Text" }), probes.el] : null;
  const bar = element("div", { class: "regard-bar" }, texts, sentence);
  const note = element("p", { class: "regard-note", text: HOW_TO_READ });
  const all = element("section", { "aria-label": "All heads" }, bar, maps.el, note);
  replaced(
    body,
    chart.el,
    problem ? element("p", { class: "regard-training-learned", text: problem }) : null,
    element("div", { class: "regard-training-time" }, play, time.el, jump),
    numbers,
    roles,
    element("div", { class: "regard-training-body" }, all, head.el),
  );
  return () => {
    const { at, probe, one, query, playing } = get();
    chart.show(at);
    time.set(at);
    play.textContent = playing ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-pressed", String(playing));
    sentence.textContent = film.probes[probe].text;
    replaced(numbers, numbersOf(film, at));
    replaced(roles, rolesOf(film, at, lines, select));
    maps.show(at, probe, one);
    head.show(at, probe, one, query);
  };
}

/** The maps of all heads. @param {import("./model.js").Film} film @param {Colours} colours @param {(one: HeadPlace) => void} select */
function makeMaps(film, colours, select) {
  const cells = film.all.map((one) => {
    const canvas = element("canvas", { class: "regard-grid-map" });
    const caption = element("span", { class: "regard-grid-caption" });
    return { one, canvas, caption, el: button("", () => select(one), { class: "regard-grid-cell" }, canvas, caption) };
  });
  const el = element(
    "div",
    { class: "regard-grid-box regard-grid-model", role: "group", "aria-label": "Heads", style: { "--regard-across": String(film.heads) } },
    cells.map((cell) => [cell.one.head ? null : element("span", { class: "regard-grid-layer", text: `Layer ${cell.one.layer}` }), cell.el]),
  );
  walkable(el, () => cells.map((cell) => cell.el));

  /** @param {number} at @param {number} probe @param {HeadPlace} chosen */
  function show(at, probe, chosen) {
    const count = film.probes[probe].tokens.length;
    for (const { one, canvas, caption, el: cell } of cells) {
      paintMap(canvas, film.weights(at, probe, one), count, colours, film.causal);
      const role = roleOf(film, at, one);
      replaced(
        caption,
        element("span", { class: "regard-grid-name", text: String(one.head) }),
        role ? element("span", { class: "regard-grid-label", text: role.relation, title: role.relation }) : null,
        role ? element("span", { class: "regard-grid-number", text: printedNumber(role.accuracy) }) : null,
      );
      cell.setAttribute("aria-pressed", String(one === chosen));
      cell.tabIndex = one === chosen ? 0 : -1;
      const name = `Layer ${one.layer}, head ${one.head}`;
      cell.setAttribute("aria-label", role ? `${name}: ${role.relation} ${printedNumber(role.accuracy)}` : name);
    }
  }

  return { el, show };
}

/** @param {import("./model.js").Film} film */
function headerOf(film) {
  const facts = [
    `${film.layers} ${film.layers === 1 ? "layer" : "layers"}`,
    `${film.heads} ${film.heads === 1 ? "head" : "heads"} each`,
  ];
  const about =
    `${film.about} W_Q, W_K, W_V and W_O start random and change a little at every step, by backpropagation. ` +
    "Press Play, or drag the step: the maps show where each head attends at that moment. " +
    (film.relations.length ? "A head is named once its largest weight is on the right word in at least half of the test cases." : "");
  return headingOf(film.title, facts, about);
}

/** @param {import("./model.js").Film} film @param {Colours} colours */
function linesOf(film, colours) {
  const of = (/** @type {string} */ name, /** @type {number[]|undefined} */ values, /** @type {{colour: string, dashed?: boolean, strong?: boolean}} */ how) =>
    values?.some(Number.isFinite) ? [{ name, values: values.map(asNumber), ...how }] : [];
  return {
    loss: [
      ...of("training", film.loss?.map(asNumber), { colour: colours.muted, dashed: true }),
      ...of("test", film.test_loss?.map(asNumber), { colour: colours.accent, strong: true }),
    ],
    share: [
      ...of("answers", film.answers?.map(asNumber), { colour: colours.ink, strong: true }),
      ...specialisation(film).flatMap(({ name, values }, place) => of(name, values, { colour: colours.head(place) })),
    ],
  };
}

/** JSON has no NaN: null is one. @param {number|null} value */
function asNumber(value) {
  return value === null ? NaN : value;
}

/** @param {import("./model.js").Film} film @param {number} at */
function numbersOf(film, at) {
  const one = (/** @type {string} */ name, /** @type {number|null|undefined} */ value) =>
    value === null || value === undefined || Number.isNaN(value)
      ? null
      : element("span", {}, `${name} `, element("strong", { text: printedNumber(value, 3) }));
  return [
    element("span", {}, "step ", element("strong", { text: printedCount(film.steps[at]) })),
    one("training loss", film.loss?.[at]),
    one("test loss", film.test_loss?.[at]),
    one("right answers", film.answers?.[at]),
  ];
}

/**
 * For each relation the head that answers it best.
 * @param {import("./model.js").Film} film @param {number} at @param {ReturnType<typeof linesOf>} lines @param {(one: HeadPlace) => void} select
 */
function rolesOf(film, at, lines, select) {
  return film.relations.map((name, relation) => {
    const best = bestHead(film, at, relation);
    if (!best) return null;
    const colour = lines.share.find((line) => line.name === name)?.colour;
    const share = element("span", { style: { width: `${100 * best.accuracy}%`, background: colour } });
    const parts = [
      element("span", { class: "regard-training-relation", text: name }),
      element("span", { class: "regard-training-bar" }, share),
      element("span", { class: "regard-number", text: printedNumber(best.accuracy) }),
      element("span", { class: "regard-quiet", text: `head ${best.layer}.${best.head}` }),
    ];
    return button("", () => select(film.all[best.layer * film.heads + best.head]), { class: "regard-training-role", title: "Select this head" }, parts);
  });
}
