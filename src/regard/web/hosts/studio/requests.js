/** Requests to the studio's server, and waiting for jobs. */
import { unpack } from "../../sources/frames.js";
import { errorOf, servedSource } from "../../sources/served.js";
import { send } from "./access.js";

/** @typedef {Error & {details?: {others?: string[], fits?: number, stored?: string}}} Refusal  of a text: what could read it */

/**
 * JSON in, JSON out; throws an Error with the server's message.
 * @param {string} method @param {string} where @param {unknown} [body] @param {AbortSignal} [signal]
 */
export async function talk(method, where, body, signal) {
  const isFile = body instanceof Blob;
  const reply = await send(where, {
    method,
    headers: body === undefined ? {} : { "Content-Type": isFile ? "application/octet-stream" : "application/json" },
    body: body === undefined ? undefined : isFile ? body : JSON.stringify(body),
    signal,
  });
  if (!reply.ok) throw await errorOf(reply);
  return reply.json();
}

/**
 * Wait for a job; `news` is called with its progress. Aborting cancels the job on the server.
 * @param {string} job @param {(said: News) => void} news @param {AbortSignal} signal
 */
export async function finished(job, news, signal) {
  const where = `/jobs/${encodeURIComponent(job)}`;
  const cancelJob = () => talk("DELETE", where).catch(() => {});
  signal.addEventListener("abort", cancelJob, { once: true });
  try {
    for (let step = -1; ;) {
      const said = await talk("GET", `${where}?after=${step}`, undefined, signal);
      if (said.state === "done") return said;
      if (said.state === "failed") throw Object.assign(new Error(said.error || "The job failed."), { details: said });
      if (said.state === "cancelled") throw new Error("Cancelled.");
      news(said);
      step = said.step;
    }
  } finally {
    signal.removeEventListener("abort", cancelJob);
  }
}

/** @param {string} reading */
export function sourceOf(reading) {
  return servedSource(`/ask/${encodeURIComponent(reading)}`, send);
}

/** @param {string} reading */
export function closeReading(reading) {
  void talk("DELETE", `/readings/${encodeURIComponent(reading)}`).catch(() => {});
}

/** Another text, beside the one that is shown. @param {string} text @param {string} model @param {AbortSignal} signal */
export async function readBeside(text, model, signal) {
  let answer = await talk("POST", "/read", { text, model }, signal);
  if (answer.job) answer = await finished(answer.job, () => {}, signal);
  return { source: sourceOf(answer.reading), description: answer.description, close: () => closeReading(answer.reading) };
}

/** A page with the viewer's code, and a model where it is asked for. @param {string|null} model */
export async function pageShell(model) {
  const reply = await send(`/shell${model === null ? "" : `?model=${encodeURIComponent(model)}`}`);
  if (!reply.ok) throw await errorOf(reply);
  return new DOMParser().parseFromString(await reply.text(), "text/html");
}

/** Trains a small model on a task; the film of its training. @param {string} task @param {{signal: AbortSignal, news: (said: News) => void}} how */
export async function trainFilm(task, { signal, news }) {
  const { job } = await talk("POST", "/train", { task }, signal);
  const { film } = await finished(job, news, signal);
  const reply = await send(`/films/${encodeURIComponent(film)}`, { signal });
  if (!reply.ok) throw await errorOf(reply);
  return unpack(await reply.arrayBuffer());
}
