/**
 * What the studio knows of texts and models, as one value; pure functions from one to the next.
 *
 * models  none before the server has told them
 * shown   the reading on the screen; `kept`: the server keeps it, because a file or generated tokens cannot be read again from the text
 * stored  the last text that was too long for an address, and its name on the server
 * edited  when the text changed last, in milliseconds
 * @typedef {{reading: string, kept: boolean, text: string, model: string}} Shown
 * @typedef {{models: ListedModel[], shown: Shown|null, stored: {text: string, name: string}, edited: number}} Studio
 * @typedef {{text: string, model?: string, fill?: string}} Way  on from a refusal: a model to read with, or a text to read
 */
import { megabytes } from "../../maths/numbers.js";

const SHORT = 600; // characters read while typing
const LONG_TEXT = 2000; // characters that an address holds; the server stores longer texts
const QUICK = 4; // milliseconds after the last keystroke; outdated requests are cancelled
const PATIENT = 400;
const PAUSE = 3000; // milliseconds: after a pause, another text is a new entry of the history

/** @type {Studio} */
export const OPENING = { models: [], shown: null, stored: { text: "", name: "" }, edited: -PAUSE };

/** What the address says of the text, also while it is not read yet. @param {Studio} studio @param {{text: string, model: string}} bar @returns {Record<string, string>} */
export function addressParts({ shown, stored }, { text, model }) {
  return {
    ...(text && text.length <= LONG_TEXT ? { text } : text && stored.text === text ? { stored: stored.name } : {}),
    ...(model ? { model } : {}),
    ...(shown?.kept && shown.text === text ? { reading: shown.reading } : {}),
  };
}

/** Whether a text typed now is a new entry of the history. @param {Studio} studio @param {number} now */
export function isNewEntry({ edited }, now) {
  return now - edited > PAUSE;
}

/** How long to wait for the next keystroke, in milliseconds. @param {string} text */
export function waitFor(text) {
  return text.length <= SHORT ? QUICK : PATIENT;
}

/** The model has to be downloaded first. @param {Studio} studio @param {string} model */
export function missingModel({ models }, model) {
  return models.find(({ name, here }) => name === model && here === false) ?? null;
}

/** What a model that is not here costs; the first sentence of a new studio says more. @param {ListedModel} model @param {boolean} isFirst */
export function offerOf({ name, size, licence }, isFirst) {
  const cost = `${megabytes(size)} to download${licence ? `, licence ${licence}` : ""}.`;
  return isFirst ? `A language model reads this sentence on your own machine. ${name} is not here yet: ${cost}` : `${name} is not on this machine yet: ${cost}`;
}

/** A saved reading may name a model that is not listed. @param {Studio} studio @param {string|undefined} model @param {string} chosen */
export function listedModel({ models }, model, chosen) {
  return models.find(({ name }) => name === model)?.name ?? chosen;
}

/** The server has stored a text, if it gave a name. @param {Studio} studio @param {string|undefined} text @param {string|undefined} name @returns {Studio} */
export function withStored(studio, text, name) {
  return text && name ? { ...studio, stored: { text, name } } : studio;
}

/** The reading that may be closed once another is shown. @param {Studio} studio @param {Shown} next */
export function outdated({ shown }, next) {
  return shown && !shown.kept && shown.reading !== next.reading ? shown.reading : null;
}

/** The ways on that the server names in a refusal. @param {{others?: string[], fits?: number}} details @param {string} text @returns {Way[]} */
export function waysFrom({ others = [], fits }, text) {
  const models = others.map((model) => ({ text: `Read with ${model}`, model }));
  return fits ? [...models, { text: "Read only the beginning", fill: text.slice(0, fits) }] : models;
}
