/** The studio: a text is read while it is typed, with the viewer below. */
import { latestOnly, makeLifetime } from "../elements/lifetime.js";
import { megabytes } from "../maths/numbers.js";
import { makeViewer } from "../page/mount.js";
import { partsOf } from "../page/state.js";
import { described } from "../sources/described.js";
import { shortened } from "../elements/words.js";
import { signIn } from "./studio/access.js";
import { makeBar, SENTENCES } from "./studio/bar.js";
import { addressParts, isNewEntry, listedModel, missingModel, offerOf, OPENING, outdated, waitFor, waysFrom, withStored } from "./studio/model.js";
import { closeReading, finished, pageShell, readBeside, sourceOf, talk, trainFilm } from "./studio/requests.js";

const LATER = 1000; // milliseconds: old readings are closed once the new one is drawn

/**
 * How a reading is requested.
 * text         the text that is read; without it, the text of the answer is put in place
 * kept         see studio/model.js
 * fromAddress  show it with the state of the address
 * news         called with the progress of a job, which the bar shows as well
 * done, fail   called at the end; without `fail`, the page says what went wrong
 * @typedef {{text?: string, kept?: boolean, fromAddress?: boolean, news?: (said: News) => void, done?: () => void,
 *   fail?: (error: Error) => void}} Work
 */

class StudioPage {
  #lifetime = makeLifetime();
  #latest = latestOnly(this.#lifetime);
  #studio = OPENING;
  #stopWaiting = () => {};
  #cancelled = () => {}; // called after what is under way was cancelled by hand
  #isStarted = false; // before, the models are unknown: what is typed waits

  /** @param {HTMLElement} el */
  constructor(el) {
    this.bar = makeBar({
      typed: (text) => this.#typed(text),
      chosen: () => this.#chosen(),
      opened: (file) => this.#work((signal) => talk("POST", `/open?name=${encodeURIComponent(file.name)}&model=${encodeURIComponent(this.bar.model())}`, file, signal), { kept: true }),
      generate: () => this.viewer.state.set({ view: "output" }),
      cancel: () => {
        this.#stop();
        this.#cancelled();
      },
    });
    /** @type {import("../page/share.js").Sharing} */
    this.sharing = { shell: (withModel) => pageShell(withModel ? this.bar.model() : null), withModel: true };
    this.viewer = makeViewer({
      el,
      wasm: "/web/engine/regard.wasm",
      address: { names: ["text", "stored", "reading", "model"], parts: () => addressParts(this.#studio, { text: this.bar.text(), model: this.bar.model() }), restore: (parts) => void this.#restore(parts) },
      remember: true,
      title: false,
      services: {
        show: this.bar.fill,
        write: (options, how) => this.#write(options, how),
        read: (text, { model, signal }) => readBeside(text, listedModel(this.#studio, model, this.bar.model()), signal),
        models: async () => this.#studio.models.filter(({ here }) => here).map(({ name }) => name),
        canEmbed: true,
        sharing: this.sharing,
        train: trainFilm,
      },
    });
    this.viewer.host.append(this.bar.el);
    this.#lifetime.add(this.viewer.cleanUp);
  }

  async start() {
    const { bar } = this;
    try {
      await signIn();
      const [{ models }, opening] = await Promise.all([talk("GET", "/models"), talk("GET", "/start")]);
      this.#set({ models });
      bar.setModels(models, opening.model ?? null);
      if (opening.site) this.sharing.site = opening.site;
      this.#isStarted = true;
      const parts = partsOf(location.hash);
      if (bar.text().trim()) this.#read(bar.text()); // typed in the meantime
      else if (parts.text !== undefined || parts.stored || parts.reading) await this.#restore(parts);
      else if (opening.reading) this.#work(async () => opening, { kept: true, fromAddress: true });
      else {
        bar.setText(opening.text ?? SENTENCES[0]);
        this.#read(bar.text(), { fromAddress: true });
      }
    } catch (error) {
      bar.setProblem(/** @type {Error} */ (error).message);
    }
  }

  /** @param {Partial<import("./studio/model.js").Studio>} patch */
  #set(patch) {
    this.#studio = { ...this.#studio, ...patch };
  }

  /** @param {string} text */
  #typed(text) {
    if (!this.#isStarted) return;
    this.#stopWaiting();
    const now = performance.now();
    this.viewer.addressChanged(isNewEntry(this.#studio, now));
    this.#set({ edited: now });
    if (!text.trim()) return this.#readNothing();
    this.#stopWaiting = this.#lifetime.after(waitFor(text), () => this.#read(text));
  }

  /** Another model was chosen. */
  #chosen() {
    this.viewer.addressChanged(true);
    if (this.bar.text().trim()) this.#read(this.bar.text());
  }

  #readNothing() {
    this.#stop();
    this.#refuse("Type or paste a text, or choose an example.");
  }

  /** @param {string} text @param {{fromAddress?: boolean}} [how] */
  #read(text, how = {}) {
    const model = this.bar.model();
    const missing = missingModel(this.#studio, model);
    if (missing) return this.#offerDownload(missing, () => this.#read(text, how));
    this.#work((signal) => talk("POST", "/read", { text, model }, signal), { text, ...how });
  }

  /** The model continues the text. @param {Record<string, unknown>} options @param {{signal: AbortSignal, news: (said: News) => void}} how @returns {Promise<void>} */
  #write(options, { signal, news }) {
    return new Promise((done, fail) => {
      signal.addEventListener("abort", () => (this.#stop(), fail(signal.reason)), { once: true });
      const body = { ...options, text: this.bar.text(), model: this.bar.model() };
      this.#work((own) => talk("POST", "/generate", body, own), { kept: true, news, done, fail });
    });
  }

  /** Ask before a model is downloaded. @param {ListedModel} model @param {() => void} then */
  #offerDownload(model, then) {
    this.#stop();
    const ways = [{ text: `Download ${megabytes(model.size)}`, act: () => this.#download(model, then) }];
    if (this.#studio.shown) this.#refuse(offerOf(model, false), ways);
    else this.viewer.invite(this.bar.text(), offerOf(model, true), ways);
  }

  /** @param {ListedModel} model @param {() => void} then */
  #download(model, then) {
    const { bar } = this;
    bar.setProblem("");
    bar.setWork({ message: "" });
    this.#cancelled = () => this.#offerDownload(model, then);
    this.#latest(
      async (signal) => {
        const { job } = await talk("POST", `/models/${encodeURIComponent(model.name)}`, undefined, signal);
        await finished(job, bar.setWork, signal);
        return talk("GET", "/models", undefined, signal);
      },
      ({ models }) => {
        this.#set({ models });
        bar.setModels(models, bar.model());
        bar.setWork(null);
        then();
      },
      (error) => {
        bar.setWork(null);
        this.#refuse(error.message, [{ text: "Try again", act: () => this.#download(model, then) }]);
      },
    );
  }

  /** End what is under way. */
  #stop() {
    this.#stopWaiting();
    this.#latest.cancel();
    this.bar.setWork(null);
  }

  /** Say why the text is not shown, and what can be done. @param {string} sentence @param {{text: string, act: () => void}[]} [ways] */
  #refuse(sentence, ways = []) {
    this.viewer.setStale(true);
    const { shown } = this.#studio;
    this.bar.setProblem(sentence, shown ? [...ways, { text: "Back to the text shown", act: () => this.#goBack(shown) }] : ways);
  }

  /** Show again what is still drawn. @param {import("./studio/model.js").Shown} shown */
  #goBack({ text, model }) {
    this.bar.setText(text);
    this.bar.setModel(model);
    this.bar.setProblem("");
    this.viewer.setStale(false);
    this.viewer.addressChanged();
  }

  /** @param {import("./studio/model.js").Way} way */
  #follow({ model, fill = "" }) {
    if (!model) return this.bar.fill(fill);
    this.bar.setModel(model);
    this.#chosen();
  }

  /** Request a reading, wait for its job if there is one, and show it; the previous request is cancelled. @param {(signal: AbortSignal) => Promise<any>} ask @param {Work} how */
  #work(ask, how) {
    const { bar } = this;
    this.#stopWaiting();
    bar.setProblem("");
    this.#cancelled = () => {
      how.fail?.(new Error("Cancelled."));
      const text = bar.text();
      if (text !== this.#studio.shown?.text) this.#refuse("Cancelled.", text.trim() ? [{ text: "Read the text", act: () => this.#read(bar.text()) }] : []);
    };
    const model = bar.model();
    this.#latest(
      (signal) => this.#load(ask, how, signal),
      (answer) => this.#loaded(answer, model, how),
      (error) => {
        bar.setWork(null);
        if (how.fail) return how.fail(error);
        const details = /** @type {import("./studio/requests.js").Refusal} */ (error).details ?? {};
        this.#studio = withStored(this.#studio, how.text, details.stored);
        this.#refuse(error.message, waysFrom(details, how.text ?? bar.text()).map((way) => ({ text: way.text, act: () => this.#follow(way) })));
        this.viewer.addressChanged();
      },
    );
  }

  /** @param {(signal: AbortSignal) => Promise<any>} ask @param {Work} how @param {AbortSignal} signal */
  async #load(ask, { text, fromAddress, news }, signal) {
    const tell = (/** @type {News} */ said) => {
      if (signal.aborted) return;
      this.bar.setWork(said);
      news?.(said);
    };
    let answer = await ask(signal);
    this.#studio = withStored(this.#studio, text, answer.stored);
    if (answer.job) {
      tell({ message: "" });
      answer = await finished(answer.job, tell, signal);
    }
    await this.viewer.show(described(sourceOf(answer.reading), answer.description), { signal, fromAddress });
    return answer;
  }

  /** A reading is drawn. @param {{reading: string, description?: Description}} answer @param {string} model @param {Work} how */
  #loaded({ reading, description }, model, { text, kept = false, fromAddress, done }) {
    const { bar } = this;
    bar.setWork(null);
    if (text === undefined) bar.setText(description?.text ?? "");
    const shown = { reading, kept, text: bar.text(), model };
    const old = outdated(this.#studio, shown);
    this.#set({ shown });
    document.title = shown.text ? `${shortened(shown.text, 60)} · Regard` : "Regard";
    if (kept && !fromAddress) this.viewer.addressChanged(true);
    if (old) this.#lifetime.after(LATER, () => closeReading(old));
    bar.setWrites(Boolean(description?.has?.includes("next")));
    done?.();
  }

  /** Show what an address says. @param {Record<string, string>} parts */
  async #restore({ text, stored, reading, model }) {
    const { bar } = this;
    this.#stop();
    bar.setProblem("");
    if (model) bar.setModel(model);
    if (stored)
      try {
        ({ text } = await talk("GET", `/texts/${encodeURIComponent(stored)}`));
        this.#set({ stored: { text, name: stored } });
      } catch (error) {
        return this.#refuse(/** @type {Error} */ (error).message);
      }
    if (text !== undefined) bar.setText(text);
    if (reading) {
      const again = (/** @type {Error} */ error, /** @type {AbortSignal} */ signal) => {
        if (!text) throw error;
        return talk("POST", "/read", { text, model: bar.model() }, signal); // closed since
      };
      const ask = (/** @type {AbortSignal} */ signal) => talk("GET", `/readings/${encodeURIComponent(reading)}`, undefined, signal).catch((error) => again(error, signal));
      this.#work(ask, { kept: true, fromAddress: true });
    } else if (text?.trim()) this.#read(text, { fromAddress: true });
    else this.#readNothing();
  }
}

const host = document.getElementById("regard");
if (host) {
  host.replaceChildren();
  void new StudioPage(host).start();
}
