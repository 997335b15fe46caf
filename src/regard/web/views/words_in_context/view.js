/** Words in context: attention given and received by a word, entropy along the text, and the strongest links. */
import { steppedTo, toggle } from "../../elements/controls.js";
import { element, focusedBeside, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { isMasked, maskingOf } from "../../maths/masking.js";
import { printedNumber } from "../../maths/numbers.js";
import { numberOfHead, numberOfLayer } from "../../page/state.js";
import { printable, queryUnits, shortened, unitOf, unitsOf, wordElement } from "../../elements/words.js";
import { chosenHeads, gatherRow, windowAround } from "../sentence/weights.js";
import { makeAlong } from "./along.js";
import { barsOf, makeBars } from "./bars.js";
import { gatherAlong, gatherReceived } from "./weights.js";
import { makeLinks } from "./links.js";

const LINKS = 40;
const TEXT = 240; // words of the text shown at once

export const wordsInContext = {
  name: "words",
  title: "Words",
  uses: ["layer", "heads", "by"],
  /** @param {Description} description */
  suits: (description) => description.layers > 0 && description.has?.includes("along"),
  draw: drawWords,
};

/** @param {Context} context @returns {Drawn} */
function drawWords({ el, source, description, state, colours, announce, lifetime }) {
  const shift = description.first_query ?? 0;
  let drawnOnce = () => {};
  /** @type {Promise<void>} */
  const ready = new Promise((done) => (drawnOnce = done));
  const apartWords = Boolean(description.query_tokens);
  const [askAlong, askWord, askLinks] = [latestOnly(lifetime), latestOnly(lifetime), latestOnly(lifetime)];
  /** @type {Unit[]} */
  let units = [];
  /** @type {Unit[]} */
  let queries = [];
  /** @type {any} */
  let along = null;
  /** @type {any} */
  let word = null;
  /** @type {import("./links.js").Link[]} */
  let links = [];

  const text = element("div", {
    class: "regard-words-text",
    role: "listbox",
    "aria-label": "The text, shaded by attention received",
    "aria-orientation": "horizontal",
  });
  const choose = (/** @type {number} */ place) => {
    const unit = units[place];
    if (!unit) return;
    state.set({ query: unit.first });
    announce(`${printable(unit.text)}: receives ${along ? printedNumber(along.received[place], 2) : ""}`);
  };
  const gives = makeBars(choose);
  const receives = makeBars(choose);
  const received = makeAlong({ label: "Received", kind: "bars", unit: "", choose, lifetime, colours });
  const chooseQuery = (/** @type {number} */ place) => choose(apartWords ? place : unitOf(units, queries[place].first));
  const entropy = makeAlong({
    label: "Entropy of each word's attention",
    kind: "line",
    unit: " nats",
    choose: chooseQuery,
    lifetime,
    colours,
  });
  const table = makeLinks((query, key) => state.set({ query, key }));
  const sampled = element("p", { class: "regard-note", hidden: true });
  const itself = toggle("Include words' attention to themselves", Boolean(state.get().words_itself), (on) =>
    state.set({ words_itself: on }),
  );
  const sinks = toggle("Set sinks aside", !state.get().sinks, (aside) => state.set({ sinks: !aside }));
  const fail = (/** @type {Error} */ error) => {
    sampled.hidden = false;
    sampled.textContent = error.message;
    drawnOnce();
  };
  replaced(
    el,
    description.sinks?.length ? element("div", { class: "regard-controls" }, sinks.el) : null,
    text,
    sampled,
    element("div", { class: "regard-words-columns" }, gives.el, receives.el),
    element(
      "section",
      { class: "regard-words-panel" },
      element("h2", { class: "regard-words-heading", text: "Along the text" }),
      received.el,
      entropy.el,
    ),
    element(
      "section",
      { class: "regard-words-panel" },
      element(
        "div",
        { class: "regard-words-links-head" },
        element("h2", { class: "regard-words-heading", text: "Strongest links" }),
        itself.el,
      ),
      element("div", { class: "regard-wide" }, table.el),
    ),
  );

  /** The selected word, or the one that receives most. */
  function shownUnit() {
    const place = unitOf(units, state.get().query);
    if (place >= 0 || !along) return place;
    let best = -1;
    along.received.forEach((/** @type {number} */ weight, /** @type {number} */ at) => {
      if (!units[at].sink && (best < 0 || weight > along.received[best])) best = at;
    });
    return best;
  }

  function load() {
    const { layer, by } = state.get();
    const heads = chosenHeads(state.get());
    units = unitsOf(description, by);
    queries = queryUnits(description, by);
    askAlong(
      (signal) => gatherAlong(source, { layer, heads, units, queries, shift }, signal),
      (found) => {
        along = found;
        sampled.hidden = !found.sampled;
        sampled.textContent = found.sampled ? `From ${found.sampled}.` : "";
        show();
        loadWord();
      },
      fail,
    );
    loadLinks();
  }

  function loadLinks() {
    const { layer, sinks: counted, words_itself: withItself } = state.get();
    const asked = { layer, heads: chosenHeads(state.get()), count: LINKS, itself: Boolean(withItself), sinks: counted };
    askLinks(
      (signal) => source.ask("links", asked, { signal }),
      ({ arrays }) => {
        links = Array.from(arrays.weight.toFloat32(), (weight, place) => {
          const [query, key] = [arrays.query.data[place] + (apartWords ? 0 : shift), arrays.key.data[place]];
          return { query, key, weight, distance: Math.abs(query - key) };
        });
        table.show(links, units, queries, shift);
      },
      fail,
    );
  }

  function loadWord() {
    const place = shownUnit();
    if (place < 0) return;
    const { layer, by } = state.get();
    const heads = chosenHeads(state.get());
    const key = units[place];
    const asks = queries.find((unit) => unit.first === key.first);
    askWord(
      async (signal) => {
        const [row, column] = await Promise.all([
          asks ? gatherRow(source, { layer, heads, query: asks.first - shift, by, keys: units }, signal) : null,
          gatherReceived(source, { layer, heads, key, queries, shift }, signal),
        ]);
        return { place, row, column };
      },
      (found) => {
        word = found;
        showWord();
        drawnOnce();
      },
      fail,
    );
  }

  function show() {
    const place = shownUnit();
    showText(place);
    received.show(along.received, units, place);
    entropy.show(along.entropy, queries, unitOf(queries, units[place]?.first ?? null));
    sinks.set(
      !state.get().sinks,
      `Set ${[...new Set(units.filter((unit) => unit.sink).map((unit) => shortened(unit.text, 12)))].slice(0, 3).join(" and ")} aside`,
    );
  }

  /** @param {number} chosen */
  function showText(chosen) {
    const [from, to] = windowAround(units.length, Math.max(chosen, 0), TEXT, TEXT + 40);
    const most = Math.max(
      ...Array.from(along.received, (/** @type {number} */ weight, /** @type {number} */ at) =>
        units[at].sink && !state.get().sinks ? 0 : weight,
      ),
      1e-9,
    );
    const focused =
      text.contains(document.activeElement) ||
      focusedBeside(text)?.closest?.(".regard-words-text") === text;
    const words = units.slice(from, to).map((unit, at) => {
      const place = from + at;
      const weight = along.received[place];
      const aside = unit.sink && !state.get().sinks;
      const colour = aside ? colours.ground : colours.shade(weight / most);
      const shown = wordElement(unit.text, {
        class: "regard-words-word",
        role: "option",
        "aria-selected": String(place === chosen),
        tabindex: place === chosen ? "0" : "-1",
        "data-unit": place,
        "data-aside": aside || null,
      });
      shown.setAttribute("aria-label", `${printable(unit.text).slice(0, 60)}, receives ${printedNumber(weight, 2)}`);
      shown.title ||= `receives ${printedNumber(weight, 3)}`;
      shown.style.background = colour;
      shown.style.color = aside ? colours.muted : colours.contrast(colour);
      return shown;
    });
    replaced(
      text,
      from > 0 ? element("span", { text: "…", "aria-hidden": "true" }) : null,
      words,
      to < units.length ? element("span", { text: "…", "aria-hidden": "true" }) : null,
    );
    if (focused) words[chosen - from]?.focus();
  }

  function showWord() {
    const key = units[word.place];
    const { given, taken, most } = barsOf({ units, queries, word, aside: !state.get().sinks });
    const chosenBy = taken.map((bar) => (apartWords ? bar : { ...bar, place: unitOf(units, bar.unit.first) }));
    const name = () => wordElement(key.text, { class: "regard-word" }, 18);
    gives.show([name(), " gives to"], given, most);
    receives.show(
      [
        name(),
        " receives ",
        element("span", {
          class: "regard-words-total",
          text: along ? printedNumber(along.received[word.place], 2) : "",
        }),
        " in all, from",
      ],
      chosenBy,
      most,
    );
  }

  lifetime.listen(text, "click", (event) => {
    const place = event.target.closest?.(".regard-words-word")?.dataset.unit;
    if (place !== undefined) choose(Number(place));
  });
  lifetime.listen(text, "keydown", (/** @type {KeyboardEvent} */ event) => {
    const place = steppedTo(event, shownUnit(), units.length);
    if (place !== null) choose(place);
  });
  lifetime.add(
    state.listen((now, before) => {
      const changed = (/** @type {string[]} */ names) =>
        names.some((name) => String(now[name]) !== String(before[name]));
      if (changed(["layer", "head", "heads", "by"])) return load();
      if (changed(["sinks", "words_itself"])) loadLinks();
      itself.set(Boolean(now.words_itself));
      if (!along) return;
      show();
      if (changed(["query"])) loadWord();
      else if (word) showWord();
    }),
  );
  load();

  return {
    ready,
    cleanUp() {},
    table() {
      if (!along) throw new Error("Nothing is drawn yet.");
      const { layer } = state.get();
      const heads = chosenHeads(state.get()).map((head) => numberOfHead(description, head));
      const masking = maskingOf(description, { layer });
      const title = `Layer ${numberOfLayer(description, layer)}, heads ${heads.join(", ")}`;
      const rows = queries.map((unit, place) => {
        const at = apartWords ? place : unitOf(units, unit.first);
        return [
          printable(unit.text),
          along.received[at] ?? null,
          along.entropy[place],
          along.distance[place],
          word?.row && !apartWords && !isMasked(masking, [units[word.place].first, units[word.place].last], [unit.first, unit.last]) ? word.row.mean[at] : null,
        ];
      });
      const name = word ? printable(units[word.place].text).slice(0, 40) : "";
      return { title, columns: ["word", "received", "entropy", "distance", `given by ${name}`], rows };
    },
  };
}
