/** Which heads? All heads that link two words, strongest first. */
import { button, element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedNumber } from "../../maths/numbers.js";
import { hasLayers, nameOfHead, numberOfHead, numberOfLayer } from "../../page/state.js";
import { shortened, wordElement } from "../../elements/words.js";

const FEW = 10; // heads listed at first

/**
 * @param {{source: Source, description: Description, lifetime: Lifetime,
 *   choose: (layer: number, head: number) => void}} options
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
  /** @type {{layer: number, head: number, weight: number}[]} */
  let found = [];
  /** @type {any} */
  let now = null;

  /**
   * @param {{query: Unit, key: Unit, by: string, layer: number, heads: number[], shift: number}|null} pair  units
   */
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
        found = Array.from(arrays.weight.toFloat32(), (weight, place) => ({
          layer: arrays.layer.data[place],
          head: arrays.head.data[place],
          weight,
        }));
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
    const focused = list.contains(document.activeElement)
      ? /** @type {HTMLElement} */ (document.activeElement).dataset.at
      : undefined;
    replaced(
      heading,
      "Which heads? ",
      wordElement(now.query.text, { class: "regard-word" }, 14),
      " → ",
      wordElement(now.key.text, { class: "regard-word" }, 14),
    );
    const pair = `${shortened(now.query.text, 20)} to ${shortened(now.key.text, 20)}`;
    replaced(
      list,
      (all ? found : found.slice(0, FEW)).map(({ layer, head, weight }) => {
        const bar = element("i");
        bar.style.transform = `scaleX(${Math.min(weight, 1).toFixed(4)})`;
        const name = nameOfHead({ layer, head }, description);
        const short = hasLayers(description) ? `${numberOfLayer(description, layer)} · ${numberOfHead(description, head)}` : `${numberOfHead(description, head)}`;
        const parts = [
          element("span", { class: "regard-which-name", text: short }),
          element("span", { class: "regard-which-bar", "aria-hidden": "true" }, bar),
          element("span", { class: "regard-which-number", text: printedNumber(weight, 2) }),
        ];
        const isShown = layer === now.layer && now.heads.includes(head);
        const said = { "aria-label": `${name}, ${pair}: ${printedNumber(weight, 2)}`, "aria-current": isShown ? "true" : null };
        return element("li", {}, button("", () => choose(layer, head), { class: null, "data-at": `${layer}.${head}`, ...said }, parts));
      }),
    );
    more.hidden = found.length <= FEW;
    more.textContent = all ? `Only the ${FEW} strongest` : `All ${found.length} heads`;
    const { layers, heads } = description.kept ?? {};
    note.textContent = layers || heads ? "Only heads kept in this page." : "Layer · head, by the weight on this pair.";
    if (focused) /** @type {HTMLElement|null} */ (list.querySelector(`[data-at="${focused}"]`))?.focus();
  }

  return { el, show };
}
