/** A training run over its steps: loss and accuracy, every head's map, the selected head. */
import { makeColours } from "../elements/colours.js";
import { segments, slider, walkable } from "../elements/controls.js";
import { button, element, replaced } from "../elements/elements.js";
import { makeLifetime } from "../elements/lifetime.js";
import { printedCount, printedNumber } from "../maths/numbers.js";
import { makeHeader, themeSwitch } from "../page/toolbar.js";
import { makeChart } from "./chart.js";
import { mapOf } from "../elements/word_matrix.js";
import { makeHead } from "./head.js";
import { bestHead, filmOf, firstHead, notLearned, roleOf, specialisation, steepest } from "./model.js";

const FILM = 9000; // milliseconds from the first snapshot to the last
const FASTEST = 50; // milliseconds between two snapshots

/**
 * Show a recorded run; the returned function removes it.
 * @param {HTMLElement} el @param {Frame} frame @param {{isPage?: boolean}} [how] isPage: with the header of a page
 */
export function showTraining(el, frame, { isPage = true } = {}) {
  const film = filmOf(frame);
  const lifetime = makeLifetime();
  const live = element("p", { class: "regard-unseen", "aria-live": "polite", role: "status" });
  const root = element("div", { class: "regard regard-training" });
  el.append(root);
  lifetime.add(() => root.remove());
  const theme = themeSwitch(root, true, lifetime, () => draw());
  const last = film.snapshots - 1;
  const chosen = { at: last, probe: 0, one: firstHead(film), query: firstQuery(0) };
  const parts = {
    header: element("header", { class: "regard-header" }),
    body: element("div"),
  };
  replaced(root, isPage ? makeHeader({ tools: [theme.el] }) : null, parts.header, parts.body, live);
  replaced(parts.header, headerOf(film));
  let stopPlaying = () => {};
  lifetime.add(() => stopPlaying());
  /** @type {{show: () => void}} */
  let current = { show: () => {} };

  /** The query worth seeing first: one with a right key. @param {number} probe */
  function firstQuery(probe) {
    const { keys, tokens } = film.probes[probe];
    const found = keys.findLastIndex((key, query) => key >= 0 && key !== query);
    return found < 0 ? tokens.length - 1 : found;
  }

  /** Once per theme. */
  function draw() {
    const colours = makeColours(theme.now());
    const lines = linesOf(film, colours);
    const chart = makeChart(film, colours, lines, (at) => go(at));
    const head = makeHead(film, colours, (text) => (live.textContent = text));
    const said = (/** @type {number} */ at) =>
      `step ${printedCount(film.steps[at])} of ${printedCount(film.steps[last])}`;
    const time = slider("Step", { least: 0, most: last, step: 1, value: chosen.at, said }, (at) => go(at));
    const play = button("▶ Play", toggle, { "data-kind": "main" });
    const jump = button("Where it is learned", () => go(steepest(film)), { title: "The snapshot at which right answers rise fastest" });
    const numbers = element("p", { class: "regard-training-numbers" });
    const roles = element("div", { class: "regard-training-roles" });
    const probes = segments(
      "Text",
      film.probes.map((_, probe) => ({ value: probe, text: String(probe + 1) })),
      chosen.probe,
      (probe) => {
        Object.assign(chosen, { probe, query: firstQuery(probe) });
        show();
      },
    );
    const sentence = element("p", { class: "regard-training-text", dir: "auto" });
    const cells = film.all.map((one) => {
      const canvas = element("canvas", { class: "regard-grid-map" });
      const caption = element("span", { class: "regard-grid-caption" });
      return { one, canvas, caption, el: button("", () => select(one), { class: "regard-grid-cell" }, canvas, caption) };
    });
    const box = element("div", { class: "regard-grid-box regard-grid-model", role: "group", "aria-label": "Heads" });
    box.style.setProperty("--regard-across", String(film.heads));
    for (const { one, el } of cells) {
      if (!one.head) box.append(element("span", { class: "regard-grid-layer", text: `Layer ${one.layer}` }));
      box.append(el);
    }
    walkable(box, () => cells.map((cell) => cell.el));
    head.selects((query) => {
      chosen.query = query;
      show();
    });
    replaced(
      parts.body,
      chart.el,
      notLearned(film) ? element("p", { class: "regard-training-learned", text: notLearned(film) }) : null,
      element("div", { class: "regard-training-time" }, play, time.el, jump),
      numbers,
      roles,
      element(
        "div",
        { class: "regard-training-body" },
        element(
          "section",
          { "aria-label": "All heads" },
          element(
            "div",
            { class: "regard-bar" },
            film.probes.length > 1 ? element("span", { class: "regard-label", text: "Text" }) : null,
            film.probes.length > 1 ? probes.el : null,
            sentence,
          ),
          box,
          element("p", {
            class: "regard-note",
            text: "Queries run down, keys across; a stronger colour is a larger weight. Select a head to enlarge it.",
          }),
        ),
        head.el,
      ),
    );

    /** @param {HeadPlace} one */
    function select(one) {
      chosen.one = one;
      show();
    }

    function show() {
      const { at, probe, one } = chosen;
      chart.show(at);
      time.set(at);
      sentence.textContent = film.probes[probe].text;
      replaced(numbers, numbersOf(film, at));
      replaced(roles, rolesOf(film, at, lines, select));
      const count = film.probes[probe].tokens.length;
      for (const cell of cells) {
        const picture = mapOf(film.weights(at, probe, cell.one), count, colours, film.causal);
        Object.assign(cell.canvas, { width: count, height: count });
        cell.canvas.getContext("2d")?.drawImage(picture, 0, 0);
        const role = roleOf(film, at, cell.one);
        replaced(
          cell.caption,
          element("span", { class: "regard-grid-name", text: String(cell.one.head) }),
          role ? element("span", { class: "regard-grid-label", text: role.relation, title: role.relation }) : null,
          role ? element("span", { class: "regard-grid-number", text: printedNumber(role.accuracy) }) : null,
        );
        const on = cell.one === one;
        cell.el.setAttribute("aria-pressed", String(on));
        cell.el.tabIndex = on ? 0 : -1;
        const name = `Layer ${cell.one.layer}, head ${cell.one.head}`;
        cell.el.setAttribute("aria-label", role ? `${name}: ${role.relation} ${printedNumber(role.accuracy)}` : name);
      }
      head.show(at, probe, one, chosen.query);
    }

    /** @param {number} at @param {boolean} [playing] */
    function go(at, playing = false) {
      if (!playing) stopPlaying();
      chosen.at = at;
      show();
    }

    function toggle() {
      if (play.getAttribute("aria-pressed") === "true") return stopPlaying();
      play.textContent = "❚❚ Pause";
      play.setAttribute("aria-pressed", "true");
      let stop = () => {};
      stopPlaying = () => {
        stop();
        play.textContent = "▶ Play";
        play.setAttribute("aria-pressed", "false");
        stopPlaying = () => {};
      };
      const wait = Math.max(FASTEST, FILM / Math.max(last, 1));
      const next = () => {
        if (chosen.at >= last) return stopPlaying();
        go(chosen.at + 1, true);
        stop = lifetime.after(wait, next);
      };
      if (chosen.at >= last) go(0, true);
      stop = lifetime.after(wait, next);
    }

    stopPlaying();
    current = { show };
    current.show();
  }

  draw();
  return lifetime.end;
}

/** @param {import("./model.js").Film} film */
function headerOf(film) {
  const facts = [
    `${film.layers} ${film.layers === 1 ? "layer" : "layers"}`,
    `${film.heads} ${film.heads === 1 ? "head" : "heads"} each`,
  ];
  return [
    element(
      "div",
      { class: "regard-heading" },
      element("h2", { class: "regard-title", text: film.title }),
      element("p", { class: "regard-about", text: facts.join(" · ") }),
      element("p", {
        class: "regard-training-about",
        text:
          `${film.about} W_Q, W_K, W_V and W_O start random and change a little at every step, by backpropagation. ` +
          "Press Play, or drag the step: the maps show where each head attends at that moment. " +
          (film.relations.length
            ? "A head is named once its largest weight is on the right word in at least half of the test cases."
            : ""),
      }),
    ),
  ];
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
    const bar = element("span", { class: "regard-training-bar" }, share);
    return button("", () => select(film.all[best.layer * film.heads + best.head]), { class: "regard-training-role", title: "Select this head" }, element("span", { class: "regard-training-relation", text: name }), bar, element("span", { class: "regard-number", text: printedNumber(best.accuracy) }), element("span", { class: "regard-quiet", text: `head ${best.layer}.${best.head}` }));
  });
}
