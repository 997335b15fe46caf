/** The one-file page of a training run. */
import { fromBase64, unpack } from "../sources/frames.js";
import { showTraining } from "../training/view.js";

const el = document.getElementById("regard");
const holder = document.getElementById("regard-training");
if (!el || !holder) throw new Error("This page contains no training run.");
el.replaceChildren();
showTraining(el, unpack(fromBase64(holder.textContent ?? "")));
