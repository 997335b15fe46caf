/** The words that look. */
import { unitsOf } from "../../words.js";

/** Queries may be other words than keys, or follow others that are cached. @param {any} description @param {any} by */
export function queryUnits(description, by) {
  if (description.query_tokens) {
    return description.query_tokens.map((/** @type {string} */ text, /** @type {number} */ place) => ({
      text,
      first: place,
      last: place + 1,
      special: false,
      sink: false,
      joined: false,
    }));
  }
  const first = description.first_query ?? 0;
  const last = first + (description.queries ?? description.tokens.length);
  return unitsOf(description, by).filter((unit) => unit.first >= first && unit.last <= last);
}
