/** A page that answers all queries itself, from the arrays that it stores. */
import { makeViewer } from "../page/mount.js";
import { fromBase64 } from "../sources/frames.js";
import { localSource, secondReading } from "../sources/local.js";

/** @param {Document} page */
export function startPage(page) {
  const el = page.getElementById("regard");
  if (!el) throw new Error('The page has no element with id "regard".');
  el.replaceChildren();
  const wasm = fromBase64(page.getElementById("regard-wasm")?.textContent ?? "");
  const source = localSource(page);
  const sharing = { shell: async () => page, site: source.description.site };
  const viewer = makeViewer({ el, wasm, address: true, remember: true, services: { beside: secondReading(page), sharing } });
  viewer.show(source);
  return viewer.cleanUp;
}
