/** The studio: a text is read while it is typed, with the viewer below. */
import { partsOf } from "../page/address.js";
import { latestOnly, makeLifetime } from "../elements/lifetime.js";
import { megabytes } from "../maths/numbers.js";
import { makeViewer } from "../page/mount.js";
import { described } from "../sources/described.js";
import { unpack } from "../sources/frames.js";
import { errorOf, servedSource } from "../sources/served.js";
import { shortened } from "../elements/words.js";
import { send, signIn } from "./studio/access.js";
import { makeBar, SENTENCES } from "./studio/bar.js";
import { finished, talk } from "./studio/requests.js";

const QUICK = 4; // milliseconds after the last keystroke; outdated requests are cancelled
const PATIENT = 400;
const LATER = 1000; // old readings are closed once the new one is drawn
const SHORT = 600; // characters read while typing
const LONG_TEXT = 2000; // characters that an address holds; the server stores longer texts
const PAUSE = 3000; // milliseconds: after a pause, another text is a new entry of the history

/**
 * kept  whether the server is to keep it: a file or generated tokens cannot be read again from the text
 * @typedef {{reading: string, kept: boolean, text: string, model: string}} Shown
 */

/** @param {HTMLElement} el @returns {() => void} */
export function startStudio(el) {
  const lifetime = makeLifetime();
  const latest = latestOnly(lifetime);
  const bar = makeBar({ typed, chosen, opened, generate: () => viewer.state.set({ view: "output" }), cancel });
  /** @type {import("../page/share.js").Sharing} */
  const sharing = { shell, withModel: true };
  const viewer = makeViewer({
    el,
    wasm: "/web/engine/regard.wasm",
    address: { names: ["text", "stored", "reading", "model"], parts, restore },
    remember: true,
    title: false,
    services: { show: bar.fill, write, read: readBeside, models: async () => models.filter(({ here }) => here).map(({ name }) => name), canEmbed: true, sharing, train },
  });
  viewer.host.append(bar.el);
  lifetime.add(viewer.cleanUp);
  /** @type {Shown|null} */
  let shown = null;
  /** @type {ListedModel[]} */
  let models = [];
  let stored = { text: "", name: "" }; // the last long text that the server stored
  let edited = -PAUSE; // when the text changed last
  let started = false; // before, the models are unknown: what is typed waits
  let stopWaiting = () => {};

  /** What the address says of the text, also while it is not read yet. */
  function parts() {
    const text = bar.text();
    /** @type {Record<string, string>} */
    const found = {};
    if (text && text.length <= LONG_TEXT) found.text = text;
    else if (text && stored.text === text) found.stored = stored.name;
    if (bar.model()) found.model = bar.model();
    if (shown?.kept && shown.text === text) found.reading = shown.reading;
    return found;
  }

  /** @param {string} text */
  function typed(text) {
    if (!started) return;
    stopWaiting();
    const now = performance.now();
    viewer.addressChanged(now - edited > PAUSE);
    edited = now;
    if (!text.trim()) return empty();
    stopWaiting = lifetime.after(text.length <= SHORT ? QUICK : PATIENT, () => read(text));
  }

  function chosen() {
    viewer.addressChanged(true);
    if (bar.text().trim()) read(bar.text());
  }

  function empty() {
    stop();
    refused("Type or paste a text, or choose an example.");
  }

  /** @param {string} text @param {{fromAddress?: boolean}} [how] */
  function read(text, how = {}) {
    const model = models.find(({ name }) => name === bar.model());
    if (model?.here === false) return offerDownload(model, () => read(text, how));
    work((signal) => talk("POST", "/read", { text, model: bar.model() }, signal), { text, ...how });
  }

  /** @param {File} file */
  function opened(file) {
    const where = `/open?name=${encodeURIComponent(file.name)}&model=${encodeURIComponent(bar.model())}`;
    work((signal) => talk("POST", where, file, signal), { kept: true });
  }

  /** The model continues the text. @param {Record<string, unknown>} options @param {{signal: AbortSignal, news: (said: News) => void}} how @returns {Promise<void>} */
  function write(options, { signal, news }) {
    return new Promise((done, fail) => {
      signal.addEventListener("abort", () => (stop(), fail(signal.reason)), { once: true });
      const asked = { ...options, text: bar.text(), model: bar.model() };
      work((own) => talk("POST", "/generate", asked, own), { kept: true, news, done, fail });
    });
  }

  /**
   * Another text, beside the one that is shown.
   * @param {string} text @param {{model?: string, signal: AbortSignal}} how @returns {Promise<import("../page/views.js").Other>}
   */
  async function readBeside(text, { model = bar.model(), signal }) {
    const known = models.some(({ name }) => name === model) ? model : bar.model(); // a saved reading may name another
    let answer = await talk("POST", "/read", { text, model: known }, signal);
    if (answer.job) answer = await finished(answer.job, () => {}, signal);
    const where = encodeURIComponent(answer.reading);
    const close = () => void talk("DELETE", `/readings/${where}`).catch(() => {});
    return { source: servedSource(`/ask/${where}`, send), description: answer.description, close };
  }

  /** A page with the viewer's code, and the model that is chosen where it is asked for. @param {boolean} model */
  async function shell(model) {
    const reply = await send(`/shell${model ? `?model=${encodeURIComponent(bar.model())}` : ""}`);
    if (!reply.ok) throw await errorOf(reply);
    return new DOMParser().parseFromString(await reply.text(), "text/html");
  }

  /** Trains a small model on a task; the film of its training. @param {string} task @param {{signal: AbortSignal, news: (said: News) => void}} how */
  async function train(task, { signal, news }) {
    const { job } = await talk("POST", "/train", { task }, signal);
    const { film } = await finished(job, news, signal);
    const reply = await send(`/films/${encodeURIComponent(film)}`, { signal });
    if (!reply.ok) throw await errorOf(reply);
    return unpack(await reply.arrayBuffer());
  }

  /** Ask before a model is downloaded. @param {ListedModel} model @param {() => void} then */
  function offerDownload(model, then) {
    stop();
    const licence = model.licence ? `, licence ${model.licence}` : "";
    const ways = [{ text: `Download ${megabytes(model.size)}`, act: () => download(model, then) }];
    if (!shown)
      return viewer.invite(bar.text(), `A language model reads this sentence on your own machine. ${model.name} is not here yet: ${megabytes(model.size)} to download${licence}.`, ways);
    refused(`${model.name} is not on this machine yet: ${megabytes(model.size)} to download${licence}.`, ways);
  }

  /** @param {ListedModel} model @param {() => void} then */
  function download(model, then) {
    bar.setProblem("");
    bar.setWork({ message: "" });
    cancelled = () => offerDownload(model, then);
    latest(
      async (signal) => {
        const { job } = await talk("POST", `/models/${encodeURIComponent(model.name)}`, undefined, signal);
        await finished(job, bar.setWork, signal);
        return talk("GET", "/models", undefined, signal);
      },
      (answer) => {
        models = answer.models;
        bar.setModels(models, bar.model());
        bar.setWork(null);
        then();
      },
      (error) => {
        bar.setWork(null);
        refused(error.message, [{ text: "Try again", act: () => download(model, then) }]);
      },
    );
  }

  let cancelled = () => {};

  /** End what is under way. */
  function stop() {
    stopWaiting();
    latest(
      () => Promise.resolve(null),
      () => {},
    );
    bar.setWork(null);
  }

  function cancel() {
    stop();
    cancelled();
  }

  /** Say why the text is not shown, and what can be done. @param {string} sentence @param {{text: string, act: () => void}[]} [ways] */
  function refused(sentence, ways = []) {
    viewer.setStale(true);
    const before = shown;
    const back = { text: "Back to the text shown", act: () => before && goBack(before) };
    bar.setProblem(sentence, before ? [...ways, back] : ways);
  }

  /** Show again what is still drawn. @param {Shown} before */
  function goBack(before) {
    bar.setText(before.text);
    bar.setModel(before.model);
    bar.setProblem("");
    viewer.setStale(false);
    viewer.addressChanged();
  }

  /** The ways on from a refusal. @param {Error & {details?: Record<string, any>}} error @param {string} text */
  function waysFrom({ details = {} }, text) {
    const ways = (details.others ?? []).map((/** @type {string} */ name) => ({
      text: `Read with ${name}`,
      act: () => {
        bar.setModel(name);
        chosen();
      },
    }));
    if (details.fits)
      ways.push({ text: "Read only the beginning", act: () => bar.fill(text.slice(0, details.fits)) });
    return ways;
  }

  /**
   * Request a reading, wait for its job if there is one, and show it; the previous request is cancelled.
   * text         the text that is read; without it, the text of the answer is put in place
   * kept         see Shown
   * fromAddress  show it with the state of the address
   * news         called with the progress of a job, which the bar shows as well
   * done, fail   called at the end; without `fail`, the page says what went wrong
   * @param {(signal: AbortSignal) => Promise<any>} ask
   * @param {{text?: string, kept?: boolean, fromAddress?: boolean, news?: (said: News) => void, done?: () => void,
   *   fail?: (error: Error) => void}} how
   */
  function work(ask, { text, kept = false, fromAddress, news, done = () => {}, fail }) {
    stopWaiting();
    bar.setProblem("");
    const tell = (/** @type {News} */ said) => {
      bar.setWork(said);
      news?.(said);
    };
    cancelled = () => {
      fail?.(new Error("Cancelled."));
      const again = [{ text: "Read the text", act: () => read(bar.text()) }];
      if (!shown || bar.text() !== shown.text) refused("Cancelled.", bar.text().trim() ? again : []);
    };
    const model = bar.model();
    latest(
      async (signal) => {
        let answer = await ask(signal);
        if (text && answer.stored) stored = { text, name: answer.stored };
        if (answer.job) {
          tell({ message: "" });
          answer = await finished(answer.job, (said) => signal.aborted || tell(said), signal);
        }
        const source = servedSource(`/ask/${encodeURIComponent(answer.reading)}`, send);
        await viewer.show(described(source, answer.description), { signal, fromAddress });
        return answer;
      },
      (answer) => {
        bar.setWork(null);
        if (text === undefined) bar.setText(answer.description?.text ?? "");
        const old = shown;
        shown = { reading: answer.reading, kept, text: bar.text(), model };
        document.title = bar.text() ? `${shortened(bar.text(), 60)} · Regard` : "Regard";
        if (kept && !fromAddress) viewer.addressChanged(true);
        if (old && !old.kept && old.reading !== answer.reading)
          lifetime.after(LATER, () => talk("DELETE", `/readings/${encodeURIComponent(old.reading)}`).catch(() => {}));
        bar.setWrites(Boolean(answer.description?.has?.includes("next")));
        done();
      },
      (error) => {
        bar.setWork(null);
        if (fail) return fail(error);
        const details = /** @type {any} */ (error).details ?? {};
        if (text && details.stored) stored = { text, name: details.stored };
        refused(error.message, waysFrom(error, text ?? bar.text()));
        viewer.addressChanged();
      },
    );
  }

  /** Show what an address says. @param {Record<string, string>} said */
  async function restore(said) {
    stop();
    bar.setProblem("");
    if (said.model) bar.setModel(said.model);
    let text = said.text;
    if (said.stored)
      try {
        text = (await talk("GET", `/texts/${encodeURIComponent(said.stored)}`)).text;
        stored = { text, name: said.stored };
      } catch (error) {
        return refused(/** @type {Error} */ (error).message);
      }
    if (text !== undefined) bar.setText(text);
    if (said.reading)
      work(
        async (signal) => {
          const where = `/readings/${encodeURIComponent(said.reading)}`;
          try {
            return await talk("GET", where, undefined, signal);
          } catch (error) {
            if (!text) throw error;
            return talk("POST", "/read", { text, model: bar.model() }, signal); // closed since
          }
        },
        { kept: true, fromAddress: true },
      );
    else if (text?.trim()) read(text, { fromAddress: true });
    else empty();
  }

  async function start() {
    try {
      await signIn();
      const [listed, begun] = await Promise.all([talk("GET", "/models"), talk("GET", "/start")]);
      models = listed.models;
      bar.setModels(models, begun.model ?? null);
      if (begun.site) sharing.site = begun.site;
      started = true;
      const said = partsOf(location.hash);
      if (bar.text().trim()) read(bar.text()); // typed in the meantime
      else if (said.text !== undefined || said.stored || said.reading) await restore(said);
      else if (begun.reading) work(() => Promise.resolve(begun), { kept: true, fromAddress: true });
      else {
        bar.setText(begun.text ?? SENTENCES[0]);
        read(bar.text(), { fromAddress: true });
      }
    } catch (error) {
      bar.setProblem(/** @type {Error} */ (error).message);
    }
  }
  start();
  return lifetime.end;
}

const host = document.getElementById("regard");
if (host) {
  host.replaceChildren();
  startStudio(host);
}
