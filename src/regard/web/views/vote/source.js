/** The votes of all heads for one word, asked of a source. */
import { keptLayers } from "../../page/state.js";
import { votesOf } from "./model.js";

/**
 * @param {Source} source @param {Description} description @param {{units: Unit[], asker: number}} of words, and the word that looks
 * @param {AbortSignal} [signal]
 */
export async function askVotes(source, description, { units, asker }, signal) {
  const layers = keptLayers(description);
  const query = units[asker].first - (description.first_query ?? 0);
  const answers = await Promise.all(layers.map((layer) => source.ask("row", { layer, query, by: "word" }, { signal })));
  const rows = answers.map(({ header, arrays }, at) => ({
    layer: layers[at],
    heads: header.heads ?? Array.from({ length: arrays.weight.shape[0] }, (_, head) => head),
    rows: arrays.weight.toFloat32(),
  }));
  return votesOf(rows, units, asker);
}
