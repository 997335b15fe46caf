/** Which heads? All heads that link two words, strongest first. */
import { button, element, refocused, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedNumber } from "../../maths/numbers.js";
import { hasLayers, nameOfHead, numberOfHead, numberOfLayer } from "../../page/state.js";
import { shortened, wordElement } from "../../elements/words.js";

const FEW = 10; // heads listed at first

/**
 * @typedef {{query: Unit, key: Unit, by: string, layer: number, heads: number[], shift: number}} Pair
 * @param {{source: Source, description: Description, lifetime: Lifetime, choose: (layer: number, head: number) => void}} options
 */
export function makeWhichHeads({ source, description, lifetime, choose }) {
  const latest = latestOnly(lifetime);
  const heading = element("span", { class: "regard-which-heading" });
  const list = element("ol", { class: "regard-which-list" });
  const more = button("", () => {
    all = !all;
    draw();
  }, { class: "regard-link", hidden: true });
  const note = element("p", { class: "regard-note" });
  const el = element("details", { class: "regard-which", hidden: true }, element("summary", {}, heading), list, more, note);
  let all = false;
  let asked = "";
  /** @type {(HeadPlace & {weight: number})[]} */
  let found = [];
  /** @type {Pair|null} */
  let now = null;

  /** @param {Pair|null} pair */
  function show(pair) {
    el.hidden = !pair;
    now = pair;
    if (!pair) return;
    const query = pair.query.first - pair.shift;
    const key = pair.key.first;
    const name = `${query} ${key} ${pair.by}`;
    if (name === asked) return draw();
    asked = name;
    latest(
      (signal) => source.ask("heads_for", { query, key, by: pair.by }, { signal, inBackground: true }),
      ({ arrays }) => {
        const [layers, heads] = [arrays.layer.data, arrays.head.data];
        found = Array.from(arrays.weight.toFloat32(), (weight, at) => ({ layer: layers[at], head: heads[at], weight }));
        draw();
      },
      (error) => {
        asked = "";
        note.textContent = error.message;
      },
    );
  }

  function draw() {
    if (!now) return;
    const word = (/** @type {Unit} */ { text }) => wordElement(text, { class: "regard-word" }, 14);
    replaced(heading, "Which heads? ", word(now.query), " → ", word(now.key));
    refocused(list, "data-at", () => replaced(list, (all ? found : found.slice(0, FEW)).map(lineOf)));
    more.hidden = found.length <= FEW;
    more.textContent = all ? `Only the ${FEW} strongest` : `All ${found.length} heads`;
    const { layers, heads } = description.kept ?? {};
    note.textContent = layers || heads ? "Only heads kept in this page." : "Layer · head, by the weight on this pair.";
  }

  /** @param {HeadPlace & {weight: number}} one */
  function lineOf({ layer, head, weight }) {
    const { query, key, layer: shown, heads } = /** @type {Pair} */ (now);
    const number = printedNumber(weight, 2);
    const short = `${hasLayers(description) ? `${numberOfLayer(description, layer)} · ` : ""}${numberOfHead(description, head)}`;
    const bar = element("i", { style: { transform: `scaleX(${Math.min(weight, 1).toFixed(4)})` } });
    const parts = [
      element("span", { class: "regard-which-name", text: short }),
      element("span", { class: "regard-which-bar", "aria-hidden": "true" }, bar),
      element("span", { class: "regard-which-number", text: number }),
    ];
    const pair = `${shortened(query.text, 20)} to ${shortened(key.text, 20)}`;
    const name = nameOfHead({ layer, head }, description);
    const said = { "aria-label": `${name}, ${pair}: ${number}`, "data-at": `${layer}.${head}` };
    const isShown = { class: null, "aria-current": layer === shown && heads.includes(head) ? "true" : null };
    return element("li", {}, button("", () => choose(layer, head), { ...said, ...isShown }, parts));
  }

  return { el, show };
}
