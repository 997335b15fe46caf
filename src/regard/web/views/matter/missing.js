/** What a page says where a change cannot be computed: what is missing, and how to get it. */
import { element, replaced } from "../../elements/elements.js";
import { shortened } from "../../elements/words.js";

/**
 * The reason in one sentence, and a command that gets what is missing. Pure.
 * @param {"flow"|"patching"|"lens"} kind @param {Description} description @param {import("../../page/views.js").Services} [services]
 * @returns {{why: string, what?: string, command?: string}|null} null: nothing is missing
 */
export function missingFor(kind, { has, model, text, causal, long, given }, { loads = false, show } = {}) {
  if ((has ?? []).includes(kind)) return null;
  const canCompute = (has ?? []).includes("flow");
  if (kind === "lens" && !causal)
    return {
      why: `${model} does not predict a next word: it turns a text into a vector and has no unembedding, so there is nothing to look up after each layer.`,
      what: "Models that write have this picture, for example smollm2:",
      command: `regard studio --model smollm2`,
    };
  if (long) return { why: "This text is too long to be computed again with a change.", what: "Read a shorter part of it:", command: "regard studio" };
  if (loads && given === null && !canCompute) return { why: "The model of this page has not read the text yet: as soon as it is loaded, this is computed." };
  if (loads || canCompute) return { why: "The model wrote this text: type or choose a text for it to read, and this is computed." };
  if (show)
    return {
      why: "transformers runs this model, and this page changes only models that Regard computes itself.",
      what: "In Python, any model that can be watched takes the same changes; or choose another model:",
      command: "with regard.watch(model, edit=regard.edits.silence((3, 1))) as seen: ...\nregard studio --model smollm2",
    };
  const quoted = `"${shortened(text.replace(/["$`\\]/g, ""), 60)}"`;
  return {
    why: "This page holds what the heads looked at, but not the model: nothing can be computed again.",
    what: "Open the text with its model, or save a page that holds the model:",
    command: `regard studio --model ${model}\nregard see ${quoted} --model ${model} --with-model --out page.html`,
  };
}

/** Says what a view needs that the page has not, if it is so. @param {Parameters<typeof missingFor>[0]} kind @param {Context} context @param {string} about @returns {Drawn|null} */
export function drawMissing(kind, { el, description, services }, about) {
  const missing = missingFor(kind, description, services);
  if (!missing) return null;
  const { why, what, command } = missing;
  const parts = [what ? element("p", { text: what }) : null, command ? element("pre", {}, element("code", { text: command })) : null];
  replaced(el, element("div", { class: "regard-missing" }, element("p", { class: "regard-missing-why", text: why }), parts));
  return { about };
}

/** Whether a level of changes is shown for a text: everywhere where a model read words, so that a page without the model says so. @param {Description} description */
export function isOfModel({ kind, text, model, layers, heads }) {
  return kind === "reading" && Boolean(text) && Boolean(model) && model !== "given" && layers * heads > 1;
}
