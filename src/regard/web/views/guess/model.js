/** The question before the votes: which word does a pronoun look at? Pure functions. */

/** Sentences to begin with, each with the question that a person would ask. */
export const EXAMPLES = [
  { text: "The kids were scared of the lions, so they left right away.", question: "Who left?" },
  { text: "The trophy didn't fit in the suitcase because it was too big.", question: "What was too big?" },
  { text: "The animal didn't cross the street because it was too tired.", question: "What was too tired?" },
  { text: "Anna called Sarah because she was late.", question: "Who was late?" },
];

// What can follow a noun directly; after an adjective these words are rare. "the red car" is not taken for "the red".
const AFTER_NOUN = new Set(
  (
    "is are was were am be been has have had do does did don doesn didn isn aren wasn weren hasn haven hadn can could will would " +
    "shall should may might must of in on at by for from with without into onto over under to and or but so because although though " +
    "while when before after since until unless than as that who which if not , . ; : ! ? ) ' ’"
  ).split(" "),
);

/** The example after this text; the first one for a text of one's own. @param {string} text */
export function nextExample(text) {
  const place = EXAMPLES.findIndex((example) => isSame(example.text, text));
  return EXAMPLES[(place + 1) % EXAMPLES.length];
}

/**
 * What is asked of a text: by an example's own question, also with its nouns swapped, else with the word's name.
 * @param {string} text @returns {string|null} null: ask which word it looks at
 */
export function questionOf(text) {
  return EXAMPLES.find((example) => isSame(example.text, text) || isSame(swapped(example.text) ?? "", text))?.question ?? null;
}

/**
 * The text with its two nouns in each other's place; null unless exactly two words can be swapped. Both follow *the*, come
 * before what can follow a noun, are of one number (by their last letter) and occur once: so the result is a sentence again.
 * @param {string} text
 */
export function swapped(text) {
  const words = text.match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) ?? [];
  const nouns = words.filter(
    (word, place) =>
      words[place - 1]?.toLowerCase() === "the" &&
      /^\p{Ll}{2,}$/u.test(word) &&
      AFTER_NOUN.has(words[place + 1] ?? ".") &&
      words.filter((other) => other === word).length === 1,
  );
  if (nouns.length !== 2 || nouns[0].endsWith("s") !== nouns[1].endsWith("s")) return null;
  const [one, other] = nouns;
  return text.replace(new RegExp(`(?<!\\p{L})(${one}|${other})(?!\\p{L})`, "gu"), (word) => (word === one ? other : one));
}

/** @param {string} one @param {string} other */
function isSame(one, other) {
  const plain = (/** @type {string} */ text) => text.trim().replace(/\s+/g, " ").replace(/[.!?]$/, "").toLowerCase();
  return plain(one) === plain(other);
}
