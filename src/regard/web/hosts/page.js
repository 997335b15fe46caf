/** One file, from disk: everything that is asked is answered in the page itself. */
import { mount } from "../mount.js";
import { localSource } from "../sources/local.js";

/** @param {Document} page */
export function startPage(page) {
  const el = page.getElementById("regard");
  if (!el) throw new Error("The page has no element with the id regard.");
  el.replaceChildren();
  return mount({ model: localSource(page), el, address: true, remember: true });
}

// What is seen first stands before this script; the source waits for the rest, which may still be coming in.
startPage(document);
