/** The one-file page: all queries are answered by the page itself. */
import { makeViewer } from "../page/mount.js";
import { fromBase64 } from "../sources/frames.js";
import { localSource, secondReading } from "../sources/local.js";

/** @param {Document} page */
export function startPage(page) {
  const el = page.getElementById("regard");
  if (!el) throw new Error('The page has no element with id "regard".');
  el.replaceChildren();
  const wasm = fromBase64(page.getElementById("regard-wasm")?.textContent ?? "");
  const viewer = makeViewer({ el, wasm, address: true, remember: true, services: { beside: secondReading(page) } });
  viewer.show(localSource(page));
  return viewer.cleanUp;
}

// The data of the first view precedes this script; the source waits for the rest, which may still be loading.
startPage(document);
