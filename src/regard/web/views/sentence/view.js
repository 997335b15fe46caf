/** Sentence: queries on the left, keys on the right, and lines between them by weight. */
import { segments, toggle } from "../../elements/controls.js";
import { drawn, element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { strongest } from "../../maths/links.js";
import { maskingOf } from "../../maths/masking.js";
import { printedNumber } from "../../maths/numbers.js";
import { isOverLayers, measureOf, nameOfMeasure, saidOfMeasure, verbOf } from "../../page/measures.js";
import { numberOfHead, numberOfLayer } from "../../page/state.js";
import { queryUnits, shortened, sinksOf, unitOf, unitsOf, wordElement } from "../../elements/words.js";
import { chosenHeads, gather, gatherRow, takenBySinks, windowAround } from "./weights.js";
import { pathOf, strokeOf } from "./lines.js";
import { pictureOf } from "./picture.js";
import { sceneOf, tableOf } from "./scene.js";
import { digitsOf, makeSide } from "./side.js";
import { makeRunning } from "./running.js";
import { makeWhichHeads } from "./which_heads.js";

const ROW = 30; // pixels, as in sentence.css
const WINDOW = 40;
const SMALL = 56; // texts up to this many words are shown whole

export const sentence = {
  name: "sentence",
  title: "Sentence",
  uses: ["layer", "heads", "by", "measure"],
  /** @param {Description} description */
  suits: (description) => description.layers > 0 && description.has?.includes("tile"),
  draw: drawSentence,
};

/** @typedef {Awaited<ReturnType<typeof import("./weights.js").gatherRow>>} Row */

/** @param {Context} context @returns {Drawn} */
function drawSentence({ el, source, description, state, colours, announce, lifetime }) {
  const shift = description.first_query ?? 0;
  let drawnOnce = () => {};
  /** @type {Promise<void>} */
  const ready = new Promise((done) => (drawnOnce = done));
  const latest = latestOnly(lifetime);
  const latestRow = latestOnly(lifetime);
  /** @type {{queries: Unit[], keys: Unit[]}} */
  let units = { queries: [], keys: [] };
  /** @type {import("./weights.js").Gathered|null} */
  let gathered = null;
  /** @type {{unit: number, row: Row}|null} the selected query's weights on the whole text, if not all of it is visible */
  let farther = null;
  /** @type {{side: "query"|"key", unit: number}|null} */
  let hovered = null;
  /** @type {{side: "query"|"key", unit: number}|null} a word to focus once it is visible */
  let goal = null;

  const left = makeSide({
    side: "query",
    label: "Query",
    hint: "attends",
    hover: (unit) => hover("query", unit),
    choose: (unit) => choose("query", unit),
    walk: (unit) => walk("query", unit),
    across: () => right.focus(strongestKey() ?? 0),
    page: (by) => move("sentence_rows", "queries", by),
  });
  const right = makeSide({
    side: "key",
    label: "Key",
    hint: "attended to",
    hover: (unit) => hover("key", unit),
    choose: (unit) => choose("key", unit),
    walk: (unit) => walk("key", unit),
    across: () => left.focus(chosen().query ?? 0),
    page: (by) => move("sentence_columns", "keys", by),
  });
  const lines = drawn("svg", { class: "regard-sentence-lines", "aria-hidden": "true", preserveAspectRatio: "none" });
  const said = element("p", { class: "regard-sentence-said" });
  const meaning = element("p", { class: "regard-note regard-sentence-meaning", hidden: true });
  const sinks = toggle("Set sinks aside", !state.get().sinks, (aside) => state.set({ sinks: !aside }));
  const apartOptions = [
    { value: false, text: "Mean" },
    { value: true, text: "Separate" },
  ];
  const apart = segments("Several heads", apartOptions, Boolean(state.get().sentence_apart), (value) =>
    state.set({ sentence_apart: value }),
  );
  const scaleOptions = [
    { value: null, text: "0 to 1", title: "Bars and lines between 0 and 1" },
    { value: "relative", text: "Relative", title: "Bars and lines relative to the largest weight" },
  ];
  const scale = segments("Scale", scaleOptions, state.get().sentence_scale ?? null, (value) =>
    state.set({ sentence_scale: value }),
  );
  const middle = element("div", { class: "regard-sentence-middle" }, lines);
  const stage = element("div", { class: "regard-sentence-stage" }, left.el, middle, right.el);
  const which =
    description.has.includes("heads_for") && description.layers * description.heads > 1
      ? makeWhichHeads({
          source,
          description,
          lifetime,
          choose: (layer, head) => state.set({ layer, head, heads: null }),
        })
      : null;
  const running =
    unitsOf(description, "word").length > SMALL && !description.query_tokens && shift === 0
      ? makeRunning({ description, choose: (unit) => choose("query", unit), point: (unit) => choose("key", unit), announce })
      : null;
  replaced(
    el,
    element(
      "div",
      { class: "regard-sentence-line" },
      said,
      element("div", { class: "regard-controls" }, apart.el, scale.el, description.sinks?.length ? sinks.el : null),
    ),
    meaning,
    running?.el,
    element("div", { class: "regard-sentence-body" }, stage, which?.el),
  );

  const measure = () => measureOf(state.get(), description);
  const masking = () => maskingOf(description, { layer: state.get().layer, measure: measure() });
  const several = () => chosenHeads(state.get()).length > 1 && !isOverLayers(measure());
  const isApart = () => Boolean(state.get().sentence_apart) && several();
  const isRelative = () => state.get().sentence_scale === "relative" || measure() === "norm";
  const queryUnit = () => unitOf(units.queries, state.get().query);
  const orNull = (/** @type {number} */ place) => (place < 0 ? null : place);
  /** The selection, or the hovered word. */
  function chosen() {
    if (hovered)
      return hovered.side === "query" ? { query: hovered.unit, key: null } : { query: null, key: hovered.unit };
    const query = orNull(queryUnit());
    return { query, key: query === null ? orNull(unitOf(units.keys, state.get().key)) : null };
  }

  /** @param {{side: "query"|"key", unit: number}} word */
  function isVisible({ side, unit }) {
    const [first, end] = (side === "query" ? gathered?.rows : gathered?.columns) ?? [0, 0];
    return unit >= first && unit < end;
  }

  /** @param {"query"|"key"} side @param {number|null} unit */
  function hover(side, unit) {
    hovered = unit === null ? null : { side, unit };
    show();
  }

  /** @param {"query"|"key"} side @param {number|null} unit */
  function choose(side, unit) {
    hovered = null;
    const list = side === "query" ? units.queries : units.keys;
    const token = unit === null ? null : list[unit].first;
    if (side === "query") state.set({ query: token });
    else state.set({ key: token });
    announce(said.textContent ?? "");
  }

  /** @param {"query"|"key"} side @param {number} to */
  function walk(side, to) {
    const list = side === "query" ? units.queries : units.keys;
    const unit = Math.min(Math.max(to, 0), list.length - 1);
    hovered = null;
    state.set({ [side]: list[unit].first });
    if (isVisible({ side, unit })) (side === "query" ? left : right).focus(unit);
    else goal = { side, unit };
    announce(said.textContent ?? "");
  }

  /** @param {string} name @param {"queries"|"keys"} side @param {number} by */
  function move(name, side, by) {
    const [start] = ranges()[side];
    const last = units[side].length - WINDOW;
    state.set({ [name]: Math.min(Math.max(start + by * (WINDOW - 5), 0), last) });
  }

  /** The visible ranges of both sides. */
  function ranges() {
    const { query, key, sentence_rows: rows, sentence_columns: columns } = state.get();
    const [asks, answers] = [unitOf(units.queries, query), unitOf(units.keys, key)];
    const fixed = (/** @type {number|null|undefined} */ start, /** @type {Unit[]} */ list) =>
      typeof start === "number" ? windowAround(list.length, start + WINDOW / 2, WINDOW, SMALL) : null;
    const queries =
      fixed(rows, units.queries) ?? windowAround(units.queries.length, Math.max(asks, answers, 0), WINDOW, SMALL);
    const keys =
      fixed(columns, units.keys) ??
      (units.keys.length === units.queries.length
        ? queries
        : windowAround(units.keys.length, Math.max(answers, 0), WINDOW, SMALL));
    return { queries, keys };
  }

  function strongestKey() {
    const { query } = chosen();
    if (!gathered || query === null) return null;
    const width = gathered.columns[1] - gathered.columns[0];
    const start = (query - gathered.rows[0]) * width;
    return gathered.columns[0] + (strongest(gathered.mean.subarray(start, start + width), 1)[0] ?? 0);
  }

  function load() {
    const { layer, by } = state.get();
    units = { queries: queryUnits(description, by), keys: unitsOf(description, by) };
    if (!units.keys.length || !units.queries.length) return;
    const heads = chosenHeads(state.get());
    const { queries: rows, keys: columns } = ranges();
    stage.setAttribute("aria-busy", "true");
    latest(
      (signal) => gather(source, { layer, heads, ...units, rows, columns, shift, measure: measure(), words: description.words }, signal),
      (found) => {
        gathered = found;
        if (hovered && !isVisible(hovered)) hovered = null; // the list moved below the pointer
        left.fill(units.queries, rows, `${by} ${rows}`);
        right.fill(units.keys, columns, `${by} ${columns}`);
        stage.removeAttribute("aria-busy");
        show();
        loadRow();
        drawnOnce();
        if (goal) (goal.side === "query" ? left : right).focus(goal.unit);
        goal = null;
      },
      (error) => {
        said.textContent = error.message;
        drawnOnce();
      },
    );
  }

  function loadRow() {
    const query = queryUnit();
    farther = null;
    if (!gathered || query < 0 || gathered.columns[1] - gathered.columns[0] === units.keys.length) return;
    if (measure() === "norm") return; // norms of the visible words alone
    const { layer, by } = state.get();
    const asked = {
      layer,
      heads: chosenHeads(state.get()),
      query: units.queries[query].first - shift,
      by,
      keys: units.keys,
      measure: measure(),
    };
    latestRow(
      (signal) => gatherRow(source, asked, signal),
      (row) => {
        farther = { unit: query, row };
        show();
      },
      () => {},
    );
  }

  function show() {
    if (!gathered) return;
    const { query, key } = chosen();
    const scene = sceneOf(gathered, units, masking(), { query, key, aside: !state.get().sinks, apart: isApart(), relative: isRelative() });
    const common = { most: scene.most, largest: scene.largest, heads: gathered.heads, colours };
    left.show({
      ...common,
      weights: scene.gives,
      parts: scene.givesParts,
      masked: scene.maskedQueries,
      chosen: orNull(queryUnit()),
      pointed: hovered?.side === "query" ? hovered.unit : null,
      aside: new Set(),
    });
    const row = farther && farther.unit === query ? farther.row : null;
    right.show({
      ...common,
      weights: scene.gets,
      parts: scene.getsParts,
      masked: scene.maskedKeys,
      chosen: orNull(unitOf(units.keys, state.get().key)),
      pointed: hovered?.side === "key" ? hovered.unit : null,
      aside: scene.aside,
      elsewhere: row && elsewhere(row.mean),
    });
    drawLines(scene);
    const wholeRow = row
      ? row.mean
      : gathered.columns[1] - gathered.columns[0] === units.keys.length
        ? scene.gets
        : null;
    const taken = wholeRow && key === null && measure() !== "norm" ? takenBySinks(wholeRow, units.keys) : null;
    sinks.set(!state.get().sinks, sinkLabel(taken, query === null ? null : units.queries[query].text));
    which?.show(pairOf(row));
    running?.show(units.keys, farther && farther.unit === queryUnit() ? farther.row.mean : null, orNull(queryUnit()));
    saySo(query, key, row ? row.mean : scene.gets, row ? 0 : gathered.columns[0], scene);
    said.title = said.textContent ?? "";
    scale.set(isRelative() ? "relative" : null);
    scale.el.hidden = !scene.alone || measure() === "norm";
    apart.el.toggleAttribute("data-none", !several());
    meaning.textContent = saidOfMeasure(measure(), description);
    meaning.hidden = !meaning.textContent;
    apart.set(Boolean(state.get().sentence_apart));
  }

  /** The selected query and key, or the query and the other word it attends to most. @param {Row|null} row */
  function pairOf(row) {
    const query = queryUnit();
    const { key, layer, by } = state.get();
    if (query < 0 || !gathered) return null;
    const width = gathered.columns[1] - gathered.columns[0];
    const start = (query - gathered.rows[0]) * width;
    const from = row ? 0 : gathered.columns[0];
    if (!row && (query < gathered.rows[0] || query >= gathered.rows[1])) return null;
    const weights = row ? row.mean : gathered.mean.subarray(start, start + width);
    const skip = (/** @type {number} */ place) =>
      units.keys[from + place].sink || units.keys[from + place].first === units.queries[query].first;
    const chosenKey = unitOf(units.keys, key);
    const place = chosenKey >= 0 ? chosenKey : from + (strongest(weights, 1, { skip })[0] ?? -1 - from);
    if (place < 0 || !units.keys[place]) return null;
    return { query: units.queries[query], key: units.keys[place], by, layer, heads: chosenHeads(state.get()), shift };
  }

  /** @param {{links: import("./lines.js").Link[], alone: boolean, height: number}} scene */
  function drawLines({ links, alone, height }) {
    lines.setAttribute("viewBox", `0 0 100 ${height * ROW}`);
    lines.style.height = `${height * ROW}px`;
    const paths = links.map((link) => {
      const { width, opacity } = strokeOf(link, alone);
      return drawn("path", {
        d: pathOf(link, ROW, 0, 100),
        "stroke-width": width,
        "stroke-opacity": opacity,
        stroke: isApart() ? colours.head(/** @type {import("./weights.js").Gathered} */ (gathered).heads[link.place]) : colours.accent,
      });
    });
    replaced(lines, paths);
  }

  /** @param {ArrayLike<number>} row */
  function elsewhere(row) {
    const [start, stop] = /** @type {import("./weights.js").Gathered} */ (gathered).columns;
    const part = (/** @type {number} */ from, /** @type {number} */ to) => {
      let sum = 0;
      let best = from;
      for (let place = from; place < to; place++) {
        sum += row[place];
        if (row[place] > row[best]) best = place;
      }
      return sum >= 0.005 ? ` · ${printedNumber(sum, 2)}, most ${shortened(units.keys[best].text, 12)}` : "";
    };
    return { before: part(0, start), after: part(stop, row.length) };
  }

  /** @param {number|null} taken @param {string|null} word */
  function sinkLabel(taken, word) {
    const { listed, several: many } = sinksOf(units.keys);
    if (taken === null) return `Set ${listed} aside`;
    const share = `${many ? "they take" : "it takes"} ${printedNumber(taken, 2)}`;
    return `Set ${listed} aside: ${share}${word ? ` of “${shortened(word, 16)}”` : " on average"}`;
  }

  /** One sentence about the selection. @param {number|null} query @param {number|null} key @param {ArrayLike<number>|null} row @param {number} start @param {{gives: ArrayLike<number>|null}} scene */
  function saySo(query, key, row, start, scene) {
    const aside = !state.get().sinks;
    const best = (/** @type {ArrayLike<number>} */ weights, /** @type {Unit[]} */ list, /** @type {number} */ from) =>
      strongest(weights, 3, { skip: (place) => aside && list[from + place].sink && key === null }).map((place) => ({
        weight: weights[place],
        unit: list[from + place],
      }));
    const named = (/** @type {{unit: Unit, weight: number}[]} */ found) =>
      found.flatMap(({ unit, weight }, place) => [
        place ? ", " : "",
        wordElement(unit.text, { class: "regard-word" }, 16),
        ` ${printedNumber(weight, digitsOf(found[0].weight))}`,
      ]);
    if (query !== null) {
      const found = best(row ?? [], units.keys, start);
      const word = wordElement(units.queries[query].text, { class: "regard-word" }, 16);
      replaced(said, word, found.length ? [verbOf(measure()), named(found)] : " sees no key");
    } else if (key !== null && scene.gives) {
      const word = wordElement(units.keys[key].text, { class: "regard-word" }, 16);
      replaced(
        said,
        word,
        measure() === "norm" ? " contributes most to " : " receives most attention from ",
        named(best(scene.gives, units.queries, /** @type {import("./weights.js").Gathered} */ (gathered).rows[0])),
      );
    } else {
      replaced(said, "The strongest links of all words. Select a word to see its own.");
    }
  }

  lifetime.add(
    state.listen((now, before) => {
      const changed = (/** @type {string[]} */ names) =>
        names.some((name) => String(now[name]) !== String(before[name]));
      if (changed(["query"]) && gathered && !inSight(now.query, units.queries, gathered.rows))
        state.set({ sentence_rows: null, sentence_columns: null });
      const { queries, keys } = ranges();
      const moved =
        gathered && (String(queries) !== String(gathered.rows) || String(keys) !== String(gathered.columns));
      if (changed(["layer", "head", "heads", "by", "measure"]) || moved) return load();
      if (changed(["query"])) loadRow();
      show();
    }),
  );
  load();

  return {
    ready,
    cleanUp() {},
    svg() {
      const { query, key } = chosen();
      if (!gathered) throw new Error("Nothing is drawn yet.");
      const scene = sceneOf(gathered, units, masking(), { query, key, aside: !state.get().sinks, apart: isApart(), relative: isRelative() });
      const words = (
        /** @type {Unit[]} */ list,
        /** @type {[number, number]} */ range,
        /** @type {ArrayLike<number>|null} */ weights,
        /** @type {Set<number>} */ masked,
        /** @type {number|null} */ at,
      ) =>
        list.slice(...range).map((unit, place) => ({
          text: unit.text,
          chosen: range[0] + place === at,
          weight: weights && !masked.has(place) ? weights[place] : null,
        }));
      return pictureOf({
        left: words(units.queries, gathered.rows, scene.gives, scene.maskedQueries, query),
        right: words(units.keys, gathered.columns, scene.gets, scene.maskedKeys, key),
        links: scene.links,
        heads: gathered.heads,
        apart: isApart(),
        title: titleOf(state.get(), measure(), description),
        alone: scene.alone,
        colours,
      });
    },
    table() {
      if (!gathered) throw new Error("Nothing is drawn yet.");
      const { query } = chosen();
      const heads = gathered.heads.map((head) => numberOfHead(description, head));
      return tableOf(gathered, units, masking(), query, isApart() ? heads : null, titleOf(state.get(), measure(), description));
    },
  };
}

/** @param {Chosen} chosen @param {Measure} measure @param {Description} description */
function titleOf(chosen, measure, description) {
  const heads = chosenHeads(chosen);
  const shown = nameOfMeasure(measure, description);
  if (isOverLayers(measure)) return shown;
  return `${measure === "weight" ? "" : `${shown}: `}Layer ${numberOfLayer(description, chosen.layer)}, head${heads.length > 1 ? "s" : ""} ${heads.map((head) => numberOfHead(description, head)).join(", ")}`;
}

/** @param {number|null} token @param {Unit[]} units @param {[number, number]} range */
function inSight(token, units, range) {
  const place = unitOf(units, token);
  return place < 0 || (place >= range[0] && place < range[1]);
}
