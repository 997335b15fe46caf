/** The studio: a text is read while it is typed, with the viewer below. */
import { latestOnly, makeLifetime } from "../lifetime.js";
import { makeViewer } from "../mount.js";
import { servedSource } from "../sources/served.js";
import { send, signIn } from "./studio/access.js";
import { makeBar, SENTENCES } from "./studio/bar.js";
import { described, finished, talk } from "./studio/requests.js";

const QUICK = 12; // milliseconds after the last keystroke; outdated requests are cancelled
const PATIENT = 400;
const LATER = 1000; // old readings are closed once the new one is drawn
const SHORT = 600; // characters read while typing

/** @param {HTMLElement} el @returns {() => void} */
export function startStudio(el) {
  const lifetime = makeLifetime();
  const latest = latestOnly(lifetime);
  const bar = makeBar({ typed, chosen: () => typed(bar.text()), opened, generate, cancel });
  const viewer = makeViewer({ el, address: true, remember: true, title: false, read: bar.fill });
  viewer.root.prepend(bar.el);
  lifetime.add(viewer.cleanUp);
  /** @type {string|null} */
  let reading = null;
  let stopWaiting = () => {};

  /** @param {string} text */
  function typed(text) {
    stopWaiting();
    stopWaiting = lifetime.after(text.length <= SHORT ? QUICK : PATIENT, () => text.trim() && read(text));
  }

  /** @param {string} text */
  function read(text) {
    work((signal) => talk("POST", "/read", { text, model: bar.model() }, signal));
  }

  /** @param {File} file */
  function opened(file) {
    const where = `/open?name=${encodeURIComponent(file.name)}&model=${encodeURIComponent(bar.model())}`;
    work((signal) => talk("POST", where, file, signal), true);
  }

  function generate() {
    const before = bar.text();
    work(
      (signal) => talk("POST", "/generate", { text: before, model: bar.model() }, signal),
      true,
      (said) => {
        if (said.text) bar.setText(before + said.text);
      },
    );
  }

  function cancel() {
    latest(
      () => Promise.resolve(null),
      () => {},
    );
    bar.setWork(null);
  }

  /**
   * Request a reading, wait for its job if there is one, and show it; the previous request is cancelled.
   * @param {(signal: AbortSignal) => Promise<any>} ask @param {boolean} [fills] whether the text is to be put in place
   * @param {(said: any) => void} [news]
   */
  function work(ask, fills = false, news = () => {}) {
    stopWaiting();
    bar.setProblem("");
    latest(
      async (signal) => {
        let answer = await ask(signal);
        if (answer.job) {
          bar.setWork({ message: "" });
          const heard = (/** @type {any} */ said) => {
            if (signal.aborted) return;
            bar.setWork(said);
            news(said);
          };
          answer = await finished(answer.job, heard, signal);
        }
        await viewer.show(described(servedSource(`/ask/${encodeURIComponent(answer.reading)}`, send), answer.description), {
          signal,
        });
        return answer;
      },
      (answer) => {
        bar.setWork(null);
        if (fills && answer.description?.text) bar.setText(answer.description.text);
        const old = reading;
        reading = answer.reading;
        if (old && old !== reading)
          lifetime.after(LATER, () => talk("DELETE", `/readings/${encodeURIComponent(old)}`).catch(() => {}));
      },
      (error) => {
        bar.setWork(null);
        bar.setProblem(error.message);
      },
    );
  }

  async function start() {
    try {
      await signIn();
      const [{ models }, begun] = await Promise.all([talk("GET", "/models"), talk("GET", "/start")]);
      bar.setModels(models, begun.model ?? null);
      if (begun.reading) {
        bar.setText(begun.text ?? begun.description?.text ?? "");
        work(() => Promise.resolve(begun));
      } else {
        bar.setText(begun.text ?? SENTENCES[0]);
        read(bar.text());
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
