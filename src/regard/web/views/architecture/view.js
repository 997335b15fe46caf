/** Architecture: the model as blocks with shapes and parameters, and where the current layer and head lie in it. */
import { element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { printedCount } from "../../maths/numbers.js";
import { hasLayers, keptHeads, keptLayers, numberOfHead, numberOfLayer } from "../../page/state.js";
import { printable } from "../../elements/words.js";
import { printedParameters, rowsOf, scalingOf, shapesOf, sharesOf, shownBlock, stepsOfBlock } from "./model.js";

export const architecture = {
  name: "architecture",
  title: "Architecture",
  uses: [],
  /** @param {Description} description */
  suits: ({ has = [] }) => has.includes("architecture"),
  draw: drawArchitecture,
};

/** @param {Context} context @returns {Drawn} */
function drawArchitecture({ el, source, description, state, colours, lifetime }) {
  const latest = latestOnly(lifetime);
  let drawnOnce = () => {};
  /** @type {Promise<void>} */
  const ready = new Promise((done) => (drawnOnce = done));
  /** @type {any} */
  let found = null; // an Architecture
  const lead = element("p", { class: "regard-lead" });
  const line = element("div", { class: "regard-arch-line", role: "group", tabindex: "0", "aria-label": "From the text to the output" });
  const block = element("section", { class: "regard-arch-block", "aria-label": "Inside the layer" });
  const head = element("section", { class: "regard-arch-head", "aria-label": "Inside the head" });
  const shares = element("section", { class: "regard-arch-shares", "aria-label": "Where the parameters are" });
  replaced(el, lead, line, element("div", { class: "regard-arch-inside" }, block, head), shares);
  const tokens = description.tokens.length;

  latest(
    (signal) => source.ask("architecture", {}, { signal }),
    ({ header }) => {
      found = /** @type {import("./model.js").Architecture} */ (header);
      lead.textContent = leadOf(found, description);
      replaced(shares, sharesElement(found, colours));
      show();
      drawnOnce();
    },
    (error) => {
      lead.textContent = error.message;
      drawnOnce();
    },
  );

  function show() {
    if (!found) return;
    const { layer } = state.get();
    const here = shownBlock(found, layer);
    replaced(line, lineElements(here));
    if (!here) return;
    const name = found.place ? `${here.stack.title.replace(" blocks", "")} block ${here.at}` : hasLayers(description) ? `layer ${numberOfLayer(description, here.at)}` : "the layer";
    replaced(block, element("h2", { class: "regard-arch-heading", text: `Inside ${name}` }), blockElement(here));
    const stage = (here.block.parts ?? []).find((part) => part.id === here.part);
    replaced(head, stage ? headElements(/** @type {Required<import("./model.js").Stage>} */ (stage)) : []);
    head.hidden = !stage;
  }

  /** The whole model from left to right. @param {import("./model.js").ShownBlock|null} here */
  function lineElements(here) {
    const width = found.width;
    const data = width ? `${printedCount(tokens)} × ${printedCount(width)}` : "";
    /** @type {HTMLElement[]} */
    const parts = [box("Text", [`${printedCount(tokens)} tokens`], null)];
    for (const [at, stage] of found.stages.entries()) {
      parts.push(arrow(at === 1 ? data : ""));
      parts.push(stage.id === "encoder" || stage.id === "decoder" ? stackElement(stage, here) : stageBox(stage));
    }
    if (found.stages.at(-1)?.id !== "head") parts.push(arrow(data), box("Output", [width ? "a vector per token" : "weighted values"], null));
    else parts.push(arrow(""), box("Output", ["probabilities of the next token"], null));
    return parts;
  }

  /** All blocks of a stack as slabs; the current one is marked. @param {Required<import("./model.js").Stage>} stage @param {import("./model.js").ShownBlock|null} here */
  function stackElement(stage, here) {
    const kept = keptLayers(description);
    const chosen = here?.stack === stage ? here.at : -1;
    const slabs = Array.from({ length: stage.count }, (_, at) =>
      found.place
        ? element("span", { class: "regard-arch-slab", "aria-current": at === chosen ? "true" : null, text: String(at) })
        : element("button", {
            type: "button",
            class: "regard-arch-slab",
            "aria-current": at === chosen ? "true" : null,
            "aria-label": `Layer ${numberOfLayer(description, at)}`,
            title: `Layer ${numberOfLayer(description, at)}`,
            disabled: !kept.includes(at),
            text: stage.count > 14 && at % 5 && at !== chosen ? "" : String(numberOfLayer(description, at)),
            onclick: () => {
              state.set({ layer: at });
              /** @type {HTMLElement|null} */ (line.querySelectorAll("button.regard-arch-slab")[at])?.focus();
            },
          }),
    );
    const cross = (stage.parts[0].parts ?? []).some((part) => part.id === "cross");
    const notes = [stage.parameters ? printedParameters(stage.parameters) : "", cross ? "cross-attention to the encoder" : ""];
    return element(
      "div",
      { class: "regard-arch-stack", "data-many": stage.count > 14 || null },
      element("strong", { text: `${printedCount(stage.count)} ${stage.id === "decoder" ? "decoder blocks" : found.stages.some((/** @type {import("./model.js").Stage} */ one) => one.id === "decoder") ? "encoder blocks" : stage.count === 1 ? "layer" : "layers"}` }),
      element("div", { class: "regard-arch-slabs" }, slabs),
      element("span", { class: "regard-quiet", text: notes.filter(Boolean).join(" · ") }),
    );
  }

  /** The steps of one block with the residual stream around them. @param {import("./model.js").ShownBlock} here */
  function blockElement({ block: of, part: shown }) {
    const at = (/** @type {number} */ column, /** @type {HTMLElement} */ item) => {
      item.style.gridColumn = String(column);
      return item;
    };
    const items = [at(1, element("span", { class: "regard-arch-data", text: "x", title: "The vector of a token" }))];
    let [column, from] = [1, 1]; // from: where the residual leaves
    for (const step of stepsOfBlock(of)) {
      column += 1;
      if (step.kind === "part") {
        items.push(at(column, stageBox(/** @type {Required<import("./model.js").Stage>} */ (step.stage), step.stage.id === shown)));
        continue;
      }
      items.push(at(column, element("span", { class: "regard-arch-add", title: "What came in is added: the residual", text: "+" })));
      const arc = element("span", { class: "regard-arch-arc", "aria-hidden": "true" });
      arc.style.gridColumn = `${from} / ${column + 1}`;
      items.push(arc);
      from = column;
    }
    items.push(at(column + 1, element("span", { class: "regard-arch-data", text: "x′" })));
    const note = (of.parts ?? []).length > 1 ? "+ adds what came in: the residual stream. Every part only adds something to a token's vector." : "";
    return [
      element("div", { class: "regard-arch-steps", tabindex: "0", role: "group", "aria-label": "Steps of the layer" }, items),
      element("p", { class: "regard-note", text: note }),
    ];
  }

  /** The heads of the attention, and what one of them does. @param {Required<import("./model.js").Stage>} stage */
  function headElements(stage) {
    const { head: chosen } = state.get();
    const kept = keptHeads(description);
    const dim = stage.head_dim;
    const buttons = Array.from({ length: stage.heads }, (_, at) =>
      element("button", {
        type: "button",
        class: "regard-head",
        "aria-pressed": String(at === chosen),
        "aria-label": `Head ${numberOfHead(description, at)}`,
        disabled: !kept.includes(at),
        text: String(numberOfHead(description, at)),
        onclick: () => {
          state.set({ head: at, heads: null });
          /** @type {HTMLElement|null} */ (head.querySelectorAll("button.regard-head")[at])?.focus();
        },
      }),
    );
    const width = found.width;
    const path = width ? `${printedCount(width)} → ${dim}` : `${dim} numbers`;
    const cells = `${printedCount(description.queries)} × ${printedCount(tokens)}`;
    const flow = [
      ["q = x · W_Q", path],
      ["k = x · W_K", path],
      ["v = x · W_V", path],
      ["score = q · k", cells],
      [scalingOf(description.scale, dim), cells],
      ["weight = softmax(scaled)", cells],
      ["output = Σ weight · v", `${printedCount(description.queries)} × ${dim}`],
    ];
    const shared = stage.key_heads < stage.heads ? ` ${stage.heads / stage.key_heads} heads share one k and v.` : "";
    return [
      element("h2", { class: "regard-arch-heading", text: `${stage.heads === 1 ? "Its one head" : `Its ${stage.heads} heads`}${stage.id === "cross" ? ", from the decoder to the encoder" : ""}` }),
      stage.heads > 1 ? element("div", { class: "regard-heads", role: "group", "aria-label": "Head" }, buttons) : null,
      element(
        "ol",
        { class: "regard-arch-flow" },
        flow.map(([formula, shape]) => element("li", {}, element("span", { text: formula }), element("span", { class: "regard-quiet", text: shape }))),
      ),
      element("p", {
        class: "regard-note",
        text: `The outputs of all heads side by side, ${stage.heads} · ${dim} numbers, go through W_O.${shared}`,
      }),
      element(
        "div",
        { class: "regard-bar-group" },
        element("button", { type: "button", class: "regard-button", text: `Open head ${numberOfHead(description, chosen)} in Steps`, onclick: () => state.set({ view: "steps" }) }),
        element("button", { type: "button", class: "regard-button", text: "In Sentence", "aria-label": `Open head ${numberOfHead(description, chosen)} in Sentence`, onclick: () => state.set({ view: "sentence" }) }),
      ),
    ];
  }

  lifetime.add(
    state.listen((now, before) => {
      if (now.layer !== before.layer || now.head !== before.head) show();
    }),
  );

  return {
    ready,
    cleanUp() {},
    table: () => ({ title: `Architecture of ${printable(description.model)}`, columns: ["part", "count", "shapes", "parameters", "note"], rows: rowsOf(found) }),
  };
}

/** @param {Required<import("./model.js").Stage>} stage @param {boolean} [chosen] */
function stageBox(stage, chosen = false) {
  const shapes = shapesOf(stage);
  const inside = (stage.parts ?? []).map((part) => [part.title, part.note].filter(Boolean).join(", "));
  const facts = [stage.heads > 1 ? `${stage.heads} heads` : "", ...shapes, ...inside, stage.note ?? "", stage.tied ? "" : stage.parameters ? printedParameters(stage.parameters) : ""];
  return box(stage.title, facts.filter(Boolean), stage.id, chosen);
}

/** @param {string} title @param {string[]} facts @param {string|null} kind @param {boolean} [chosen] */
function box(title, facts, kind, chosen = false) {
  return element(
    "div",
    { class: "regard-arch-box", "data-kind": kind, "aria-current": chosen ? "true" : null },
    element("strong", { text: title }),
    facts.map((fact) => element("span", { text: fact })),
  );
}

/** @param {string} shape of what flows */
function arrow(shape) {
  return element("span", { class: "regard-arch-arrow" }, element("span", { class: "regard-quiet", text: shape }), element("span", { "aria-hidden": "true", text: "→" }));
}

/** @param {import("./model.js").Architecture} found @param {Description} description */
function leadOf(found, description) {
  const model = printable(found.model && found.model !== "given" ? found.model : "This attention");
  if (!found.parameters) return `${model}: only its attention is known here, not the weights around it.`;
  const layers = found.stages.filter(({ id }) => id === "encoder" || id === "decoder").map(({ count }) => count);
  const longest = found.longest ? `, reads up to ${printedCount(found.longest)} tokens` : "";
  return `${model} has ${printedParameters(found.parameters)} parameters in ${layers.join(" + ")} layers${longest}. A text of ${printedCount(description.tokens.length)} tokens becomes as many vectors of ${printedCount(found.width ?? 0)} numbers, which every layer changes a little. Choose a layer and a head.`;
}

/** @param {import("./model.js").Architecture} found @param {Colours} colours */
function sharesElement(found, colours) {
  const parts = sharesOf(found);
  if (!parts.length) return [];
  const bar = element("div", { class: "regard-arch-bar", "aria-hidden": "true" });
  const list = element("ul", { class: "regard-arch-legend" });
  parts.forEach(({ name, parameters, share }, place) => {
    const colour = colours.head(place);
    const piece = element("i", { title: `${name}: ${printedParameters(parameters)}` });
    piece.style.flex = `${share} 0 0`;
    piece.style.background = colour;
    bar.append(piece);
    const dot = element("i", { "aria-hidden": "true" });
    dot.style.background = colour;
    list.append(element("li", {}, dot, `${name} ${printedParameters(parameters)}, ${share < 0.001 ? "less than 0.1" : (100 * share).toFixed(share < 0.01 ? 1 : 0)} %`));
  });
  return [element("h2", { class: "regard-arch-heading", text: `Where the ${printedParameters(found.parameters)} parameters are` }), bar, list];
}
