/** Where exported numbers come from, in one sentence: the same as regard/provenance.py, kept equal by fixtures. */

const GIVEN = "given vectors";
const LONGEST_TEXT = 80; // characters that are quoted

/**
 * The model with layer, heads and text; or "typed by hand", "synthetic", "look-up"; and what was compared or changed.
 * @typedef {{source?: string, layer?: number|null, heads?: number[], text?: string, compared?: string, edited?: string}} Origin
 * @param {Origin} origin
 */
export function provenance({ source, layer = null, heads = [], text = "", compared = "", edited = "" }) {
  const parts = [source || GIVEN];
  if (layer !== null) parts.push(`layer ${layer}`);
  if (heads.length) parts.push(`head${heads.length > 1 ? "s" : ""} ${heads.join(", ")}`);
  const words = quoted(text);
  return parts.join(", ") + (words ? `: ${words}` : "") + (compared ? `; compared: ${compared}` : "") + (edited ? `; edited: ${edited}` : "");
}

/** The beginning of a text in quotation marks. @param {string} text */
export function quoted(text) {
  const letters = Array.from(text.split(/\s+/).filter(Boolean).join(" "));
  const shown = letters.length <= LONGEST_TEXT ? letters.join("") : letters.slice(0, LONGEST_TEXT - 1).join("").trimEnd() + "…";
  return shown ? `“${shown}”` : "";
}
