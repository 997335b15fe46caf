/** Which keys a mask hides from which queries. Pure functions. */
import { isOverLayers } from "../page/measures.js";

/**
 * What is masked in a layer; over all layers what no layer shows, and of a rollout, which goes through several, only what
 * comes later.
 * @param {Description} description @param {{layer: number, measure?: Measure}} shown @returns {Masking}
 */
export function maskingOf({ masks, mask_of_layer: ofLayer, causal, window, first_query }, { layer, measure = "weight" }) {
  if (!masks) return { causal, window, first_query };
  if (!isOverLayers(measure) || (measure === "mean" && masks.length === 1)) return { ...masks[ofLayer[layer]], first_query };
  return { causal: masks.every((mask) => mask.causal), first_query };
}

/** Whether anything is masked. @param {Masking} masking */
export function hasMask({ causal, visible }) {
  return Boolean(causal || visible);
}

/**
 * Whether all these keys are masked for all these queries, each [first, last) by position in the text.
 * @param {Masking} masking @param {number[]} queries @param {number[]} keys
 */
export function isMasked({ causal, window, visible, first_query }, [firstQuery, lastQuery], [firstKey, lastKey]) {
  if (visible) {
    const shift = first_query ?? 0;
    for (let query = firstQuery - shift; query < lastQuery - shift; query++) {
      const ends = visible[query] ?? [];
      for (let at = 0; at < ends.length; at += 2) if (Math.max(ends[at], firstKey) < Math.min(ends[at + 1], lastKey)) return false;
    }
    return true;
  }
  if (!causal) return false;
  return firstKey > lastQuery - 1 || (!!window && lastKey - 1 <= firstQuery - window);
}
