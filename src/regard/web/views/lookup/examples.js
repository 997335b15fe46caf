/** Dictionaries to try. @typedef {{name: string, keys: string[]|number[][], values: string[]|number[][], query: string, similarity: string, temperature: number}} Example */

/** @type {Example[]} */
export const EXAMPLES = [
  {
    name: "A form",
    keys: ["Name", "Address", "Date of birth", "Place of birth"],
    values: ["Jane Doe", "37 Coronation street B12 9TK", "May 5th 2000", "Hull"],
    query: "birth date",
    similarity: "cosine",
    temperature: 0.1,
  },
  {
    name: "A car",
    keys: ["brand", "model", "year"],
    values: ["Ford", "Mustang", "1964"],
    query: "modle",
    similarity: "cosine",
    temperature: 0.1,
  },
  {
    name: "A person",
    keys: ["first_name", "last_name", "is_alive", "age", "address", "phone_numbers"],
    values: ["John", "Smith", "true", "27", "21 2nd Street, New York, NY 10021-3100", "212 555-1234, 646 555-4567"],
    query: "name",
    similarity: "cosine",
    temperature: 0.1,
  },
  {
    name: "Vectors",
    keys: [
      [0.4, 1.4, 0],
      [0.2, -1.1, 0],
      [0.3, 1.2, 4],
      [0.3, 1.2, 4],
    ],
    values: [
      [2.3, 1.1, 3.5],
      [3, 1, 0.5],
      [-2.2, 4.1, 2.5],
      [-2.2, 4.1, 2.5],
    ],
    query: "0.3, 1.2, 2.2",
    similarity: "scaled dot",
    temperature: 1,
  },
];
