/** A page with a model, in it or at an address beside it: any text is read here, without a server. */
import { latestOnly, makeLifetime } from "../elements/lifetime.js";
import { megabytes } from "../maths/numbers.js";
import { partsOf } from "../page/address.js";
import { makeViewer } from "../page/mount.js";
import { described } from "../sources/described.js";
import { fromBase64 } from "../sources/frames.js";
import { localSource, secondReading } from "../sources/local.js";
import { NotLoaded, PageModel } from "./model/loading.js";
import { makeBar, SENTENCES } from "./studio/bar.js";

/** @typedef {import("../page/views.js").Other} Other */

const QUICK = 4; // milliseconds after the last keystroke; outdated readings are cancelled
const LONGEST_ADDRESS = 2000; // characters of a text that an address holds

/** @param {Document} page */
export function startModelPage(page) {
  const el = page.getElementById("regard");
  if (!el) throw new Error('The page has no element with id "regard".');
  el.replaceChildren();
  const lifetime = makeLifetime();
  const latest = latestOnly(lifetime);
  const wasm = fromBase64(page.getElementById("regard-wasm")?.textContent ?? "");
  const bar = makeBar({ typed, generate: () => viewer.state.set({ view: "output" }), cancel });
  const model = new PageModel(page, wasm, (said) => bar.setWork(said));
  const stored = page.getElementById("regard-describe") ? localSource(page) : null;
  const viewer = makeViewer({
    el,
    wasm,
    address: { names: ["text"], parts, restore: ({ text }) => bar.fill(text ?? firstText()) },
    remember: true,
    title: false,
    read: bar.fill,
    services: { show: bar.fill, write, read: readBeside, models: async () => [(await model.describe()).manifest.name], beside: secondReading(page), canEmbed: true },
  });
  viewer.root.firstElementChild?.after(bar.el); // after the skip link
  for (const act of [viewer.cleanUp, () => model.client.end()]) lifetime.add(act);
  /** @type {Other|null} */
  let shown = null; // by the model; null: the reading that the page stores
  let stopWaiting = () => {};

  function firstText() {
    return stored?.description.text ?? model.block.text ?? SENTENCES[0];
  }

  /** What the address says of the text; nothing of the one that the page opens with. @returns {Record<string, string>} */
  function parts() {
    const text = bar.text();
    return text && text !== firstText() && text.length <= LONGEST_ADDRESS ? { text } : {};
  }

  /** @param {string} text */
  function typed(text) {
    stopWaiting();
    if (!text.trim()) return refused("Type or paste a text, or choose an example.");
    stopWaiting = lifetime.after(QUICK, () => read(text));
  }

  /** @param {string} text */
  function read(text) {
    bar.setProblem("");
    show(async (signal) => (await model.ready()).read(text, { signal }), () => read(text));
  }

  /** Shows what `ask` gives; an older request is cancelled. @param {(signal: AbortSignal) => Promise<Other>} ask @param {() => void} again @param {(error: Error|null) => void} [done] */
  function show(ask, again, done) {
    latest(
      async (signal) => {
        const other = await ask(signal);
        if (signal.aborted) return other.close();
        await viewer.show(described(other.source, withRoles(other.description)), { signal });
        shown?.close();
        shown = other;
        return other;
      },
      (other) => {
        if (other && bar.text() !== other.description.text) bar.setText(other.description.text);
        if (other) bar.setWrites(other.description.has.includes("next"));
        viewer.addressChanged();
        done?.(null);
      },
      (error) => (done ? done(error) : refused(error.message, waysFrom(error, again))),
    );
  }

  /** What the heads of the model do in general comes with the page; where they do it, only for the text that it stores. @param {Description} description @returns {Description} */
  function withRoles(description) {
    const { known = null, text } = stored?.description ?? {};
    if (!known || description.text === text) return { ...description, known };
    return { ...description, known: { ...known, classes: description.words.map(() => []), asks: [] } };
  }

  /** The model continues the text. @param {Record<string, unknown>} options @param {{signal: AbortSignal, news: (said: News) => void}} how @returns {Promise<void>} */
  function write({ top_k: topK, top_p: topP, ...options }, { signal, news }) {
    const sampling = /** @type {import("../models/messages.js").Tasks["write"]["asks"]["options"]} */ ({ ...options, ...(topK === undefined ? {} : { topK }), ...(topP === undefined ? {} : { topP }) });
    return new Promise((done, fail) =>
      show(
        async (own) => {
          signal.addEventListener("abort", () => fail(signal.reason), { once: true });
          return (await model.ready()).write(bar.text(), sampling, { signal: AbortSignal.any([own, signal]), news });
        },
        () => {},
        (error) => (error ? fail(error) : done()),
      ),
    );
  }

  /** Another text, beside the one that is shown. @param {string} text @param {{signal: AbortSignal}} how */
  async function readBeside(text, { signal }) {
    return (await model.ready()).read(text, { signal });
  }

  /** @param {Error & {details?: {fits?: number}}} error @param {() => void} again */
  function waysFrom(error, again) {
    if (error instanceof NotLoaded) {
      const agree = () => {
        model.isAgreed = true;
        again();
      };
      return [{ text: `Load ${megabytes(error.bytes)}`, act: agree }];
    }
    const fits = error.details?.fits;
    if (fits) return [{ text: "Read only the beginning", act: () => bar.fill(bar.text().slice(0, fits)) }];
    return model.isLoaded ? [] : [{ text: "Try again", act: again }];
  }

  /** Says why the text is not shown, and what can be done. @param {string} sentence @param {{text: string, act: () => void}[]} [ways] */
  function refused(sentence, ways = []) {
    viewer.setStale(true);
    bar.setWork(null);
    bar.setProblem(sentence, ways);
  }

  function cancel() {
    model.cancel();
    latest(
      () => Promise.resolve(null),
      () => {},
    );
    refused("Cancelled: what was loaded stays.", [{ text: "Go on", act: () => read(bar.text()) }]);
  }

  async function start() {
    const text = partsOf(location.hash).text ?? firstText();
    bar.setText(text);
    bar.setWrites(Boolean(stored?.description.has.includes("next")));
    if (!stored || text !== stored.description.text) return read(text);
    await viewer.show(stored);
    // The model reads the same text once more, to answer what a page does not store; what it wrote, it cannot.
    if (stored.description.given === null) await model.ready().then(() => bar.text() === text && !shown && read(text));
  }
  start().catch((error) => error.name !== "AbortError" && refused(error.message, waysFrom(error, () => read(bar.text()))));
  return lifetime.end;
}

startModelPage(document);
