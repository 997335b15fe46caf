/** The one-file page: all queries are answered by the page itself. */
import { makeViewer } from "../page/mount.js";
import { fromBase64 } from "../sources/frames.js";
import { localSource } from "../sources/local.js";

/** @param {Document} page */
export function startPage(page) {
  const el = page.getElementById("regard");
  if (!el) throw new Error('The page has no element with id "regard".');
  el.replaceChildren();
  const wasm = fromBase64(page.getElementById("regard-wasm")?.textContent ?? "");
  const viewer = makeViewer({ el, wasm, address: true, remember: true, services: { beside: secondOf(page) } });
  viewer.show(localSource(page));
  return viewer.cleanUp;
}

/** Another reading in the page, to compare with. @param {Document} page @returns {import("../page/views.js").Other|undefined} */
function secondOf(page) {
  if (!page.getElementById("regard-2-describe")) return undefined;
  const source = localSource(page, "regard-2");
  return { source, description: source.description, close: () => {} };
}

// The data of the first view precedes this script; the source waits for the rest, which may still be loading.
startPage(document);
