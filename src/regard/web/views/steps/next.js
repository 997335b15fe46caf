/** The end of the story: a change followed through the later layers to the probabilities of the next token. */
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedNumber } from "../../maths/numbers.js";
import { probabilities } from "../../maths/sampling.js";
import { shortened } from "../../elements/words.js";
import { nameOfToken } from "../output/model.js";

const QUICK = 200; // milliseconds after the last change
const SHOWN = 6; // tokens
const NAMED = 40; // tokens that are compared with those before a change

/** @param {{source: Source, description: Description, lifetime: Lifetime, announce: (text: string) => void}} given */
export function makeNext({ source, description, lifetime, announce }) {
  const has = (/** @type {string} */ kind) => (description.has ?? []).includes(kind);
  const [latest, latestBefore] = [latestOnly(lifetime), latestOnly(lifetime)];
  const writes = has("next");
  /** @type {Likely[]|null} */
  let before = null; // probabilities without a change
  let beforeOf = -1;
  let askedFor = "";
  let stopWaiting = () => {};
  const title = element("h2", { class: "regard-steps-heading", text: writes ? "The next token" : "Through the later layers" });
  const said = element("p", { class: "regard-quiet", role: "status" });
  const layers = element("div", { class: "regard-next-layers" });
  const tokens = element("div", { class: "regard-next-tokens" });
  const el = element("section", { class: "regard-steps-part regard-steps-next", "aria-label": title.textContent, hidden: !writes && !has("flow") }, title, said, layers, tokens);

  /**
   * @param {{layer: number, head: number, query: number, word: string, silenced: number[], changes: import("./model.js").Changes,
   *   changed: boolean}} what
   */
  function show(what) {
    if (el.hidden) return;
    if (writes && beforeOf !== what.query) {
      beforeOf = what.query;
      before = null;
      latestBefore(
        (signal) => source.ask("next", { query: what.query }, { signal }),
        (frame) => {
          before = likelyOf(frame);
          if (!what.changed) draw(what, null);
        },
        () => {},
      );
    }
    const { layer, head, query, silenced, changes } = what;
    const asked = { layer, head, query, silenced: silenced.map((one) => [layer, one]), divisor: changes.divisor, temperature: changes.temperature, mask: changes.mask };
    const key = what.changed ? JSON.stringify(asked) : "";
    if (key === askedFor && key) return;
    askedFor = key;
    stopWaiting();
    if (!what.changed || !has("flow")) return draw(what, null);
    said.textContent = "Computing the later layers …";
    el.setAttribute("aria-busy", "true");
    stopWaiting = lifetime.after(QUICK, () =>
      latest(
        (signal) => source.ask("flow", asked, { signal }),
        (frame) => askedFor === key && draw(what, frame),
        (error) => {
          said.textContent = error.message;
          el.setAttribute("aria-busy", "false");
        },
      ),
    );
  }

  /** @param {{word: string, changed: boolean, layer: number}} what @param {Frame|null} frame */
  function draw({ word, changed, layer }, frame) {
    el.setAttribute("aria-busy", "false");
    const after = frame?.arrays.logits ? likelyOf(frame) : null;
    const moved = frame ? Array.from(frame.arrays.moved.toFloat32()) : null;
    const last = moved ? ` The vector after the last layer moves by ${percent(/** @type {number} */ (moved.at(-1)))} of its length.` : "";
    said.textContent = !changed
      ? writes
        ? `After “${shortened(word, 20)}” the model expects:`
        : "Silence a head, or change something under “What if”: the change is followed through all later layers."
      : frame
        ? `With this change in layer ${layer}, for all words of the text.${last}`
        : "This page does not hold the whole model: the studio and notebooks follow the change through the later layers to the next token.";
    replaced(layers, moved ? movedBars(moved, layer) : []);
    replaced(tokens, before || after ? tokenTable(before, after) : []);
    if (frame) announce(said.textContent ?? "");
  }

  return { el, show };
}

/**
 * The most likely tokens.
 * @typedef {{id: number, text: string, probability: number|null}} Likely
 * @param {Frame} frame of `next` or `flow` @returns {Likely[]}
 */
export function likelyOf({ header, arrays }) {
  const probability = probabilities(arrays.logits.toFloat32());
  const tokens = /** @type {{text: string, begins: boolean}[]} */ (header.tokens).slice(0, NAMED);
  return tokens.map((token, place) => ({ id: header.ids[place], text: nameOfToken(token), probability: probability[place] }));
}

/** @param {number} share */
export function percent(share) {
  return `${printedNumber(100 * share, share < 0.1 ? 1 : 0)} %`;
}

/** How far the vector moves after each layer. @param {number[]} moved @param {number} changedIn */
export function movedBars(moved, changedIn) {
  const top = Math.max(...moved, 1e-9);
  return moved.slice(changedIn + 1).map((share, place) => {
    const bar = element("span", { class: "regard-next-bar", style: { width: `${(100 * share) / top}%` } });
    return element(
      "div",
      { class: "regard-next-layer" },
      element("span", { class: "regard-quiet", text: `after layer ${changedIn + place}` }),
      element("span", { class: "regard-next-track", "aria-hidden": "true" }, bar),
      element("span", { class: "regard-number", text: percent(share) }),
    );
  });
}

/** @param {Likely[]|null} before @param {Likely[]|null} after */
export function tokenTable(before, after) {
  const rows = (after ?? before ?? []).slice(0, SHOWN);
  for (const one of (after ? (before ?? []) : []).slice(0, 3)) if (!rows.some(({ id }) => id === one.id)) rows.push({ ...one, probability: after?.find(({ id }) => id === one.id)?.probability ?? null });
  const was = (/** @type {number} */ id) => before?.find((one) => one.id === id)?.probability ?? null;
  const printed = (/** @type {number|null} */ value) => (value === null ? "less" : printedNumber(value, 3));
  const cell = (/** @type {number|null} */ value) => element("td", { class: "regard-number", text: printed(value) });
  const lines = rows.map(({ id, text, probability }) => {
    const earlier = was(id);
    const mark = after && earlier !== null ? element("i", { style: { "inset-inline-start": `${100 * earlier}%` } }) : null;
    const filled = element("span", { style: { width: `${100 * (probability ?? 0)}%` } });
    const bar = element("span", { class: "regard-steps-bar", "aria-hidden": "true" }, filled, mark);
    const name = element("th", { scope: "row", text });
    return element("tr", {}, name, cell(probability), after ? cell(earlier) : null, element("td", {}, bar));
  });
  const heading = (/** @type {string} */ text, isNumber = true) =>
    element("th", { scope: "col", text, class: isNumber ? "regard-number" : null });
  const headings = [heading("Token", false), heading("Probability"), after ? heading("before") : null, element("td")];
  const caption = element("caption", { class: "regard-unseen", text: "Probabilities of the next token" });
  const head = element("thead", {}, element("tr", {}, headings));
  return element("table", { class: "regard-table regard-next-table" }, caption, head, element("tbody", {}, lines));
}
