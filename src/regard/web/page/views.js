/** The views, in the order of their tabs. */
import { architecture } from "../views/architecture/view.js";
import { inContext } from "../views/context/view.js";
import { grid } from "../views/grid/view.js";
import { lookup } from "../views/lookup/view.js";
import { output } from "../views/output/view.js";
import { matrix } from "../views/matrix/view.js";
import { sentence } from "../views/sentence/view.js";
import { vote } from "../views/vote/view.js";
import { steps } from "../views/steps/view.js";
import { wordsInContext } from "../views/words_in_context/view.js";

/**
 * What a host can do besides answering queries; a page from disk can do nothing of it.
 * show      reads another text and shows it
 * write     the model continues the text, and the result is shown
 * read      reads another text beside the one that is shown
 * models    the models that can read
 * beside    another reading that came with the first
 * canEmbed  whether vectors of any sentence can be asked for
 * @typedef {{message?: string, progress?: number, text?: string}} News  of a job
 * @typedef {{source: Source, description: Description, close: () => void}} Other
 * @typedef {{show?: (text: string) => void, write?: (options: Record<string, unknown>, how: {signal: AbortSignal, news: (said: News) => void}) => Promise<void>,
 *   read?: (text: string, how: {model?: string, signal: AbortSignal}) => Promise<Other>,
 *   models?: () => Promise<string[]>, beside?: Other, canEmbed?: boolean}} Services
 * @typedef {{el: HTMLElement, source: Source, description: Description,
 *   state: State, colours: Colours, announce: (text: string) => void,
 *   lifetime: Lifetime, services: Services}} Context
 * @typedef {{cleanUp: () => void, ready?: Promise<void>, update?: (next: {source: Source, description: Description}) => void, svg?: () => string|Promise<string>, table?: () => import("./export.js").Table|Promise<import("./export.js").Table>,
 *   origin?: () => import("./provenance.js").Origin}} Drawn  update: takes another text, so that what is drawn can move;
 *   origin: where the numbers come from, where that is not the described text
 * @typedef {{name: string, title: string, uses?: string[], front?: boolean, suits: (description: Description) => boolean,
 *   draw: (context: Context) => Drawn}} View  front: the first screen, which stands alone
 */

/** @type {View[]} */
export const VIEWS = [vote, sentence, grid, matrix, steps, inContext, wordsInContext, output, architecture, lookup];
