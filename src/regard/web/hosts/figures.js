/** Live figures in a lesson: views of readings that the page stores, and small figures of their own. */
import { makeColours } from "../elements/colours.js";
import { element, replaced } from "../elements/elements.js";
import { makeLifetime } from "../elements/lifetime.js";
import { loadKernel } from "../engine/kernel.js";
import { drawSoftmax } from "../figures/softmax.js";
import { stateAt } from "../page/address.js";
import { makeState } from "../page/state.js";
import { makeLive, themeSwitch } from "../page/toolbar.js";
import { fromBase64 } from "../sources/frames.js";
import { localSource } from "../sources/local.js";
import { steps } from "../views/steps/view.js";
import { vote } from "../views/vote/view.js";

/** @type {Record<string, View>} */
const VIEWS = { steps, vote };

/** @param {HTMLElement} el with data-figure and what it shows */
function start(el) {
  const { figure = "", reading = "", at = "", scores = "" } = el.dataset;
  const root = element("div", { class: "regard" });
  replaced(el, root);
  const lifetime = makeLifetime();
  const live = makeLive();
  const theme = themeSwitch(root, true, lifetime, draw);
  const state = makeState();
  let view = lifetime.part();

  function draw() {
    view.end();
    view = lifetime.part();
    const inner = element("div", { class: `regard-${figure}` });
    replaced(root, figure in VIEWS ? element("h2", { class: "regard-unseen", text: VIEWS[figure].title }) : null, inner, live.el);
    if (figure === "softmax") return drawSoftmax(inner, { scores: scores.split(" ").map(Number) });
    const source = localSource(document, `regard-${reading}`);
    const { description } = source;
    state.set({ ...stateAt(`#${at}`, description), view: figure });
    VIEWS[figure].draw({ el: inner, source, description, state, colours: makeColours(theme.now()), announce: live.announce, lifetime: view, services: {} });
  }
  draw();
}

const wasm = fromBase64(document.getElementById("regard-wasm")?.textContent ?? "");
loadKernel(wasm).then(() => /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".regard-live")).forEach(start));
