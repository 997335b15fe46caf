/** The views, in the order of their tabs. */
import { grid } from "./views/grid/view.js";
import { lookup } from "./views/lookup/view.js";
import { matrix } from "./views/matrix/view.js";
import { sentence } from "./views/sentence/view.js";
import { steps } from "./views/steps/view.js";
import { wordsInContext } from "./views/words_in_context/view.js";

/**
 * @typedef {{el: HTMLElement, source: import("./sources/served.js").Source, description: any,
 *   state: import("./state.js").State, colours: import("./colours.js").Colours, announce: (text: string) => void,
 *   lifetime: import("./lifetime.js").Lifetime}} Context
 * @typedef {{cleanUp: () => void, ready?: Promise<void>, svg?: () => string|Promise<string>, table?: () => any}} Drawn
 * @typedef {{name: string, title: string, uses?: string[], suits: (description: any) => boolean,
 *   draw: (context: Context) => Drawn}} View
 */

/** @type {View[]} */
export const VIEWS = [sentence, grid, matrix, steps, wordsInContext, lookup];
