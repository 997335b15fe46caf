/** A page with a model, in it or at an address beside it: any text is read here, without a server. */
import { latestOnly, makeLifetime } from "../elements/lifetime.js";
import { megabytes } from "../maths/numbers.js";
import { partsOf } from "../page/state.js";
import { makeViewer } from "../page/mount.js";
import { described } from "../sources/described.js";
import { fromBase64 } from "../sources/frames.js";
import { localSource, secondReading } from "../sources/local.js";
import { NotLoaded, PageModel } from "./model/loading.js";
import { startPage } from "./one_file.js";
import { makeBar, SENTENCES } from "./studio/bar.js";

/**
 * @typedef {import("../models/messages.js").Tasks["write"]["asks"]["options"]} Writing
 * @typedef {{text: string, act: () => void}} Way  on from a refusal, as a button
 */

const QUICK = 4; // milliseconds after the last keystroke; outdated readings are cancelled
const LONGEST_ADDRESS = 2000; // characters of a text that an address holds

class ModelPage {
  #lifetime = makeLifetime();
  #latest = latestOnly(this.#lifetime);
  #stopWaiting = () => {};
  /** @type {Other|null} */
  #shown = null; // by the model; null: the reading that the page stores

  /** @param {Document} page @param {HTMLElement} el */
  constructor(page, el) {
    const wasm = fromBase64(page.getElementById("regard-wasm")?.textContent ?? "");
    const read = (/** @type {string} */ text) => this.bar.fill(text);
    this.bar = makeBar({ typed: (text) => this.#typed(text), generate: () => this.viewer.state.set({ view: "output" }), cancel: () => this.#cancel() });
    this.model = new PageModel(page, wasm, (said) => this.bar.setWork(said));
    /** The reading that comes with the page. */
    this.stored = page.getElementById("regard-describe") ? localSource(page) : null;
    this.viewer = makeViewer({
      el,
      wasm,
      address: { names: ["text"], parts: () => this.#parts(), restore: ({ text }) => read(text ?? this.#firstText()) },
      remember: true,
      title: false,
      services: {
        show: read,
        write: (options, how) => this.#write(options, how),
        read: async (text, { signal }) => (await this.model.ready()).read(text, { signal }),
        models: async () => [(await this.model.describe()).manifest.name],
        beside: secondReading(page),
        sharing: { shell: async () => page, withModel: Boolean(this.model.block.manifest), site: location.protocol.startsWith("http") ? location.href.replace(/#.*$/, "") : undefined },
        canEmbed: true,
        loads: true,
        learn: filmsOf(page),
      },
    });
    this.viewer.host.append(this.bar.el);
    for (const act of [this.viewer.cleanUp, () => this.model.client.end()]) this.#lifetime.add(act);
  }

  /** Ends the viewer and the model. */
  end() {
    this.#lifetime.end();
  }

  async start() {
    const { bar, stored, model } = this;
    const text = partsOf(location.hash).text ?? this.#firstText();
    bar.setText(text);
    bar.setWrites(Boolean(stored?.description.has.includes("next")));
    if (!stored || text !== stored.description.text) return this.#read(text);
    await this.viewer.show(stored);
    // The model reads the same text once more, to answer what a page does not store; what it wrote, it cannot.
    if (stored.description.given !== null) return;
    try {
      await model.ready();
      if (bar.text() === text && !this.#shown) this.#read(text);
    } catch (error) {
      if (error instanceof NotLoaded) return; // asked for with the first other sentence
      if (/** @type {Error} */ (error).name !== "AbortError") this.#offer(/** @type {Error} */ (error), () => this.#read(bar.text()));
    }
  }

  #firstText() {
    return this.stored?.description.text ?? SENTENCES[0];
  }

  /** What the address says of the text; nothing of the one that the page opens with. @returns {Record<string, string>} */
  #parts() {
    const text = this.bar.text();
    return text && text !== this.#firstText() && text.length <= LONGEST_ADDRESS ? { text } : {};
  }

  /** @param {string} text */
  #typed(text) {
    this.#stopWaiting();
    if (!text.trim()) return this.#refuse("Type or paste a text, or choose an example.");
    this.#stopWaiting = this.#lifetime.after(QUICK, () => this.#read(text));
  }

  /** @param {string} text */
  #read(text) {
    this.bar.setProblem("");
    this.#show(
      async (signal) => (await this.model.ready()).read(text, { signal }),
      (error) => error && this.#refuse(error.message, this.#waysFrom(error, () => this.#read(text))),
    );
  }

  /** The model continues the text. @param {Record<string, unknown>} options @param {{signal: AbortSignal, news: (said: News) => void}} how @returns {Promise<void>} */
  #write({ top_k: topK, top_p: topP, ...options }, { signal, news }) {
    const sampling = /** @type {Writing} */ ({ ...options, ...(topK === undefined ? {} : { topK }), ...(topP === undefined ? {} : { topP }) });
    return new Promise((done, fail) => {
      signal.addEventListener("abort", () => fail(signal.reason), { once: true });
      this.#show(
        async (own) => (await this.model.ready()).write(this.bar.text(), sampling, { signal: AbortSignal.any([own, signal]), news }),
        (error) => (error ? fail(error) : done()),
      );
    });
  }

  /** Shows what `ask` gives; an older request is cancelled. @param {(signal: AbortSignal) => Promise<Other>} ask @param {(error: Error|null) => void} ended */
  #show(ask, ended) {
    this.#latest(
      async (signal) => {
        const other = await ask(signal);
        if (signal.aborted) return other.close();
        await this.viewer.show(described(other.source, this.#withRoles(other.description)), { signal });
        this.#shown?.close();
        this.#shown = other;
        if (this.bar.text() !== other.description.text) this.bar.setText(other.description.text);
        this.bar.setWrites(other.description.has.includes("next"));
      },
      () => {
        this.viewer.addressChanged();
        ended(null);
      },
      ended,
    );
  }

  /** What the heads of the model do in general comes with the page; where they do it, only for the text that it stores. @param {Description} description @returns {Description} */
  #withRoles(description) {
    const { known = null, text } = this.stored?.description ?? {};
    if (!known || description.text === text) return { ...description, known };
    return { ...description, known: { ...known, classes: description.words.map(() => []), asks: [] } };
  }

  /** @param {Error & {details?: {fits?: number}}} error @param {() => void} again @returns {Way[]} */
  #waysFrom(error, again) {
    const { bar, model } = this;
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

  /** Says what can be done; what is shown stays as it is. @param {Error} error @param {() => void} again */
  #offer(error, again) {
    this.bar.setWork(null);
    this.bar.setProblem(error.message, this.#waysFrom(error, again));
  }

  /** Says why the text is not shown, and what can be done. @param {string} sentence @param {Way[]} [ways] */
  #refuse(sentence, ways = []) {
    this.viewer.setStale(true);
    this.bar.setWork(null);
    this.bar.setProblem(sentence, ways);
  }

  #cancel() {
    this.model.cancel();
    this.#latest.cancel();
    this.#refuse("Cancelled: what was loaded stays.", [{ text: "Go on", act: () => this.#read(this.bar.text()) }]);
  }
}

/** The films of the site that the page belongs to. @param {Document} page */
function filmsOf(page) {
  const link = page.querySelector('.regard-site a[href$="films.html"]');
  return link ? [{ href: link.getAttribute("href") ?? "", text: "Watch heads learn", about: "Films of small models while they are trained." }] : [];
}

/** @param {Document} page */
function startModelPage(page) {
  const el = page.getElementById("regard");
  if (!el) throw new Error('The page has no element with id "regard".');
  el.replaceChildren();
  const shown = new ModelPage(page, el);
  void shown.start();
  return () => shown.end();
}

if (document.getElementById("regard-model")) startModelPage(document);
else startPage(document); // shared without the model
