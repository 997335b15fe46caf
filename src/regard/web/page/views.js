/** The views; page/levels.js says at which level of the zoom each is. */
import { architecture } from "../views/architecture/view.js";
import { inContext } from "../views/context/view.js";
import { dots } from "../views/dots/view.js";
import { edges } from "../views/edges/view.js";
import { grid } from "../views/grid/view.js";
import { lookup } from "../views/lookup/view.js";
import { output } from "../views/output/view.js";
import { learn } from "../views/learn/view.js";
import { lens } from "../views/lens/view.js";
import { matter } from "../views/matter/view.js";
import { matrix } from "../views/matrix/view.js";
import { patching } from "../views/patching/view.js";
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
 * learn     pages on which heads are seen to learn: films of training, or a training to start
 * sharing   what *Share* needs of the host
 * train     trains a small model on a task and gives the film of it
 * loads     the page holds its model, or loads it, and reads the text with it when it is there
 * @typedef {{message?: string, progress?: number, text?: string}} News  of a job
 * @typedef {{source: Source, description: Description, close: () => void}} Other
 * @typedef {{show?: (text: string) => void, write?: (options: Record<string, unknown>, how: {signal: AbortSignal, news: (said: News) => void}) => Promise<void>,
 *   read?: (text: string, how: {model?: string, signal: AbortSignal}) => Promise<Other>,
 *   models?: () => Promise<string[]>, beside?: Other, canEmbed?: boolean, loads?: boolean,
 *   learn?: {href: string, text: string, about?: string}[],
 *   sharing?: import("./share.js").Sharing, train?: (task: string, how: {signal: AbortSignal, news: (said: News) => void}) => Promise<Frame>}} Services
 * @typedef {{el: HTMLElement, source: Source, description: Description,
 *   state: State, colours: Colours, announce: (text: string) => void,
 *   lifetime: Lifetime, services: Services}} Context
 * @typedef {{ready?: Promise<void>, update?: (next: {source: Source, description: Description}) => void, adjust?: (HTMLElement|null|undefined)[],
 *   table?: () => Table|Promise<Table>, origin?: () => import("./provenance.js").Origin, about?: string}} Drawn
 *   What a view started ends with the lifetime of its context. update: takes another text, so that what is drawn can move; origin: where the numbers come from, where that is not the
 *   described text; adjust: controls of the view for the Adjust panel; about: what is to be seen, where the level does not say it
 * @typedef {{name: string, title: string, uses?: string[], front?: boolean, suits: (description: Description, services: Services) => boolean,
 *   draw: (context: Context) => Drawn}} View  front: the first screen, which stands alone
 */

/** @type {View[]} */
export const VIEWS = [vote, sentence, dots, grid, matrix, steps, matter, edges, patching, lens, learn, inContext, wordsInContext, output, architecture, lookup];
