/** Requests to the studio's server, and waiting for jobs. */
import { errorOf } from "../../sources/served.js";
import { send } from "./access.js";

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
