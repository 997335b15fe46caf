/** A page that holds the attention weights of a reading and nothing else of the model: small enough to send. */
import { isMasked, maskingOf } from "../maths/masking.js";
import { pack, toBase64, toHalf } from "../sources/frames.js";
import { keptHeads, keptLayers } from "./state.js";

const ANSWERED = ["tile", "row", "statistics", "thumbnails", "along", "links", "heads_for"];
const CODE = /^regard-(style|script|wasm)$/; // the blocks of a page that do not depend on what it shows
const FILES = /^regard-(weights|tokenizer)-\d+$/; // of a model
export const MOST_TOKENS = 400; // of a text that is shared so: 12 MB of 72 heads in 16 bits

/**
 * The page as HTML.
 * @param {Document} shell a page with the same code
 * @param {{source: Source, description: Description, start: Partial<Chosen>, site?: string, model?: boolean}} shown start: where it opens;
 *   site: the address of a site that reads other texts; model: keep that of the shell
 */
export async function sharedPage(shell, { source, description, start, site, model = false }) {
  const blocks = [["describe", pack(describedAlone(description, start, site))]];
  const statistics = await source.ask("statistics", {});
  blocks.push(["statistics", pack(withoutArrays(statistics.header), statistics.arrays)]);
  for (const layer of keptLayers(description)) blocks.push([`layer-${layer}`, await weightsOfLayer(source, description, layer)]);
  return documentWith(shell, /** @type {[string, ArrayBuffer][]} */ (blocks), description.title || description.text || "Attention", model);
}

/** What the page says of itself: weights alone, from where. @param {Description} description @param {Partial<Chosen>} start @param {string} [site] */
function describedAlone(description, start, site) {
  const { arrays, ...rest } = /** @type {any} */ (description);
  return {
    ...rest,
    has: description.has.filter((/** @type {string} */ kind) => ANSWERED.includes(kind)),
    measures: ["weight"],
    compared: undefined,
    given: null,
    start: { ...description.start, ...start },
    ...(site ? { site } : {}),
  };
}

/** @param {Record<string, unknown>} header */
function withoutArrays({ arrays, ...header }) {
  return header;
}

/** @param {Source} source @param {Description} description @param {number} layer */
async function weightsOfLayer(source, description, layer) {
  const [rows, count] = [description.queries, description.tokens.length];
  const heads = keptHeads(description);
  const tiles = await Promise.all(heads.map((head) => source.ask("tile", { layer, head, shape: [rows, count] })));
  const weight = new Float32Array(heads.length * rows * count);
  tiles.forEach(({ arrays }, slot) => weight.set(arrays.weight.toFloat32(), slot * rows * count));
  const masking = maskingOf(description, { layer });
  const shift = description.first_query ?? 0;
  const visible = Uint8Array.from({ length: rows * count }, (_, cell) => {
    const [query, key] = [Math.floor(cell / count) + shift, cell % count];
    return heads.some((_, slot) => weight[slot * rows * count + cell] > 0) || !isMasked(masking, [query, query + 1], [key, key + 1]) ? 1 : 0;
  });
  const header = { heads, key_heads: heads.map(() => 0), scale: 1, softcap: null, offset: shift, mask: "dense" };
  return pack(header, { weight: { data: toHalf(weight), shape: [heads.length, rows, count], dtype: "f2" }, visible: { data: visible, shape: [1, rows, count] } });
}

/** @param {Document} shell @param {[string, ArrayBuffer][]} blocks @param {string} title @param {boolean} model */
function documentWith(shell, blocks, title, model) {
  const page = document.implementation.createHTMLDocument(title);
  page.documentElement.lang = "en";
  page.head.prepend(...[...shell.head.querySelectorAll("meta")].map((meta) => page.importNode(meta)));
  page.body.className = "regard-page";
  const add = (/** @type {string} */ id, /** @type {string} */ text) => {
    const holder = page.createElement("script");
    if (id) Object.assign(holder, { type: "application/x-regard", id });
    holder.textContent = text;
    page.body.append(holder, "\n");
  };
  const main = page.createElement("main");
  main.id = "regard";
  main.append(Object.assign(page.createElement("noscript"), { textContent: "This page needs JavaScript, which is disabled." }));
  page.body.append(main, "\n");
  const stored = [...shell.querySelectorAll('script[type="application/x-regard"]')].map(({ id, textContent }) => ({ id, text: textContent ?? "" }));
  for (const { id, text } of stored) if (CODE.test(id) || (model && /^regard-(model|worker)$/.test(id))) add(id, text);
  for (const [name, frame] of blocks) add(`regard-${name}`, toBase64(frame));
  add("", shell.querySelector("body > script:not([type])")?.textContent ?? "");
  for (const { id, text } of stored) if (model && FILES.test(id)) add(id, text);
  return `<!DOCTYPE html>\n${page.documentElement.outerHTML}\n`;
}
