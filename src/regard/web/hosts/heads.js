/** The one-file page of what heads do. */
import { fromBase64, unpack } from "../sources/frames.js";
import { showHeads } from "../heads/view.js";

const el = document.getElementById("regard");
const holder = document.getElementById("regard-heads");
if (!el || !holder) throw new Error("This page contains no heads.");
el.replaceChildren();
showHeads(el, unpack(fromBase64(holder.textContent ?? "")));
