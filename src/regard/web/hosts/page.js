/** The one-file page: all queries are answered by the page itself. */
import { mount } from "../mount.js";
import { localSource } from "../sources/local.js";

/** @param {Document} page */
export function startPage(page) {
  const el = page.getElementById("regard");
  if (!el) throw new Error('The page has no element with id "regard".');
  el.replaceChildren();
  return mount({ model: localSource(page), el, address: true, remember: true });
}

// The data of the first view precedes this script; the source waits for the rest, which may still be loading.
startPage(document);
