/** Where exported numbers come from, in one sentence: the same as regard/provenance.py, kept equal by fixtures. */

const GIVEN = "given vectors";
const LONGEST_TEXT = 80; // characters that are quoted

/**
 * The model with layer, heads and text; or "typed by hand", "synthetic", "look-up"; and what was changed.
 * @typedef {{source?: string, layer?: number|null, heads?: number[], text?: string, edited?: string}} Origin
 * @param {Origin} origin
 */
export function provenance({ source, layer = null, heads = [], text = "", edited = "" }) {
  const parts = [source || GIVEN];
  if (layer !== null) parts.push(`layer ${layer}`);
  if (heads.length) parts.push(`head${heads.length > 1 ? "s" : ""} ${heads.join(", ")}`);
  const words = Array.from(text.split(/\s+/).filter(Boolean).join(" "));
  const quoted = words.length <= LONGEST_TEXT ? words.join("") : words.slice(0, LONGEST_TEXT - 1).join("").trimEnd() + "…";
  return parts.join(", ") + (quoted ? `: “${quoted}”` : "") + (edited ? `; edited: ${edited}` : "");
}
