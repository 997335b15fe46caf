/** Share: the picture and the numbers of a view as files, an address that opens it, a card for messages, a page of its own. */
import { button, element, replaced } from "../elements/elements.js";
import { vote } from "../views/vote/view.js";
import { cardOf, cardSvg, FONT } from "./card.js";
import { fileName, handOver, toCsv, toLatex, toPng, withCaption } from "./export.js";
import { isOverLayers, measureOf, nameOfMeasure } from "./measures.js";
import { pictureOf } from "./picture.js";
import { provenance } from "./provenance.js";
import { MOST_TOKENS, sharedPage } from "./shared_page.js";
import { addressOf, encoded, hasHeads, hasLayers, numberOfHead, numberOfLayer } from "./state.js";
import { popover } from "./toolbar.js";
import { printable } from "../elements/words.js";

/**
 * What a host gives for sharing.
 * shell      a page with the viewer's code; with the model, where the host has one and it is asked for
 * withModel  whether it can give the model
 * site       the address of a site that reads any text
 * @typedef {{shell: (model: boolean) => Promise<Document>, withModel?: boolean, site?: string}} Sharing
 * @typedef {{source: Source, description: Description}} Shown
 */

const LONGEST = 2000; // characters of a text that an address holds

/**
 * The address of a view on a site or in a studio: text, model, word, layer, head, view.
 * @param {string} base @param {Description} description @param {Chosen} chosen
 */
function sharedAddress(base, description, chosen) {
  const parts = [];
  if (description.text && description.text.length <= LONGEST) parts.push(`text=${encoded(description.text)}`);
  if (description.model && description.model !== "given") parts.push(`model=${encoded(description.model)}`);
  const state = addressOf(chosen, description).slice(1);
  return `${base.replace(/#.*$/, "")}#${[...parts, state].filter(Boolean).join("&")}`;
}

/**
 * The menu.
 * @param {{shown: () => any, state: State, sharing?: Sharing, announce: (text: string) => void, colours: Colours}} options
 */
export function shareMenu({ shown, state, sharing, announce, colours }) {
  const lines = element("div", { class: "regard-share-lines" });
  const menu = popover("Share", { class: "regard-save" }, element("p", { class: "regard-note", text: "This picture as a file, whole" }), exportButtons(shown, state, announce, colours), lines);
  menu.addEventListener("toggle", () => menu.open && replaced(lines, waysToShare({ ...shown(), state, sharing, announce, colours })));
  return menu;
}

/** Of a reading: as an address, a card, a page. @param {Shown & {state: State, sharing?: Sharing, announce: (text: string) => void, colours: Colours}} options */
function waysToShare({ source, description, state, sharing, announce, colours }) {
  const said = element("p", { class: "regard-note", role: "status" });
  const act = (/** @type {string} */ done, /** @type {() => Promise<void>} */ work) => async () => {
    try {
      await work();
      said.textContent = done;
    } catch (error) {
      said.textContent = /** @type {Error} */ (error).message;
    }
    announce(said.textContent ?? "");
  };
  const line = (/** @type {string} */ text, /** @type {string} */ about, /** @type {() => void} */ onclick) =>
    element("div", { class: "regard-share-line" }, button(text, onclick), element("span", { class: "regard-note", text: about }));

  const name = fileName(description.text || description.title || "attention");
  const isShort = (description.tokens?.length ?? 0) <= MOST_TOKENS && description.kind === "reading" && Boolean(description.text);
  const lines = [];
  const base = sharing?.site ?? (location.protocol.startsWith("http") ? location.href : (description.site ?? ""));
  if (base && isShort) {
    const field = element("input", { type: "text", readonly: true, class: "regard-share-address", "aria-label": "Address of this view", value: sharedAddress(base, description, state.get()) });
    field.addEventListener("focus", () => field.select());
    const copy = act("Copied.", async () => {
      field.value = sharedAddress(base, description, state.get());
      field.select();
      await navigator.clipboard.writeText(field.value);
    });
    const isLocal = /^https?:\/\/(localhost|127\.|\[::1\])/.test(base);
    lines.push(line("Copy the address", isLocal ? "Opens this view, on this machine." : "Opens this view.", copy), field);
  }
  if (vote.suits(description))
    lines.push(
      line("Save a card", "A picture for messages and slides, 1200 × 630.", act("Card saved.", async () => {
        const svg = cardSvg(await cardOf(source, description, state.get()), colours, widthOf);
        handOver(await toPng(svg, 1), `${name}-card.png`, "image/png");
      })),
    );
  if (sharing && isShort) {
    const page = (/** @type {boolean} */ model) => async () => {
      const { view, layer, head, query } = state.get();
      const start = /** @type {Partial<Chosen>} */ (Object.fromEntries(Object.entries({ view, layer, head, query }).filter(([, value]) => value !== null)));
      const html = await sharedPage(await sharing.shell(model), { source, description, start, site: sharing.site ?? (base.startsWith("https") ? base.replace(/#.*$/, "") : undefined), model });
      handOver(html, `${name}.html`, "text/html");
    };
    lines.push(line("Save a page", "One file with every weight; it opens anywhere, without a network.", act("Page saved.", page(false))));
    if (sharing.withModel) lines.push(line("Save a page with the model", "Larger: it reads other sentences too.", act("Page saved.", page(true))));
  }
  return [lines, said];
}

/**
 * Where an export's numbers come from: model, layer, heads and text, or what the view says instead.
 * @param {Description} description @param {Chosen} chosen
 * @param {{uses?: string[], origin?: import("./provenance.js").Origin}} [view] the choosers of the view, and what differs from the description
 */
export function captionOf(description, { layer, head, heads: several, measure: wanted }, { uses = ["layer", "head"], origin = {} } = {}) {
  const measure = uses.includes("measure") ? measureOf({ measure: wanted }, description) : "weight";
  const named = printable(description.source ?? (description.model === "given" ? "" : (description.model ?? "")));
  const isOfHead = !isOverLayers(measure) && uses.some((name) => name.startsWith("head"));
  const ofHeads = several && several.length > 1 ? several : [several?.[0] ?? head];
  return provenance({
    source: [named, measure === "weight" ? "" : nameOfMeasure(measure, description)].filter(Boolean).join(", "),
    layer: isOfHead && hasLayers(description) ? numberOfLayer(description, layer) : null,
    heads: isOfHead && hasHeads(description) ? ofHeads.map((/** @type {number} */ one) => numberOfHead(description, one)) : [],
    text: printable(description.text ?? ""),
    ...origin,
  });
}

/**
 * What is on the screen as a file: its picture, its numbers.
 * @param {() => any} shown @param {State} state @param {(text: string) => void} announce @param {Colours} colours
 */
function exportButtons(shown, state, announce, colours) {
  const drawn = shown()?.drawn;
  const caption = () => captionOf(shown().description, state.get(), { uses: shown().view.uses, origin: shown().drawn.origin?.() });
  const svg = async () => withCaption(pictureOf(shown().el, { ...colours, title: shown().view.title }), caption(), colours);
  const table = async () => {
    const made = await shown().drawn.table();
    return { ...made, source: caption(), notes: [...(made.notes ?? []), caption()] };
  };
  /** @type {{name: string, able: unknown, make: () => Promise<[string, string, string|Blob]>}[]} */
  const kinds = [
    { name: "SVG", able: true, make: async () => ["svg", "image/svg+xml", await svg()] },
    { name: "PNG", able: true, make: async () => ["png", "image/png", await toPng(await svg())] },
    { name: "CSV", able: drawn?.table, make: async () => ["csv", "text/csv;charset=utf-8", toCsv(await table())] },
    { name: "LaTeX", able: drawn?.table, make: async () => ["tex", "application/x-tex", toLatex(await table())] },
  ];
  const buttons = kinds.map(({ name, able, make }) =>
    button(name, async () => {
      try {
        const [ending, type, content] = await make();
        const { description, view } = shown();
        const name = fileName(`${view.title} ${caption()} ${description.text ? "" : description.title || ""}`);
        handOver(content, `${name}.${ending}`, type);
        announce(`${name} saved`);
      } catch (error) {
        announce(/** @type {Error} */ (error).message);
      }
    }, { disabled: !able, title: able ? null : "Not available in this view" }),
  );
  return element("div", { class: "regard-export", role: "group", "aria-label": "Export" }, buttons);
}

/** @param {string} text @param {number} size @param {boolean} [isBold] */
function widthOf(text, size, isBold = false) {
  const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  pen.font = `${isBold ? "700 " : ""}${size}px ${FONT}`;
  return pen.measureText(text).width;
}
