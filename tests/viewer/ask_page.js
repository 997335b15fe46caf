// Asks a one-file page: node ask_page.js page.html queries.json > answers.json. The page's own source answers, without
// a browser; parse errors and refusals come back as {error}.
import { readFileSync } from "node:fs";
import "../../src/regard/web/engine/node.js";
import { localSource } from "../../src/regard/web/sources/local.js";

const [html, queries] = process.argv.slice(2).map((path) => readFileSync(path, "utf8"));
const blocks = new Map(
  [...html.matchAll(/<script type="application\/x-regard" id="([a-z0-9-]+)">([A-Za-z0-9+/=]*)<\/script>/g)].map(
    ([, id, textContent]) => [id, { textContent }],
  ),
);
const source = localSource({ readyState: "complete", getElementById: (id) => blocks.get(id) ?? null });
const answers = [];
for (const [kind, parameters] of JSON.parse(queries)) {
  try {
    const { header, arrays } = await source.ask(kind, parameters);
    const numbers = Object.entries(arrays).map(([name, array]) => [
      name,
      { shape: array.shape, data: Array.from(array.dtype === "f2" ? array.toFloat32() : array.data, String) },
    ]);
    answers.push({ header, arrays: Object.fromEntries(numbers) });
  } catch (error) {
    answers.push({ error: error.message });
  }
}
process.stdout.write(JSON.stringify(answers));
