/** What the studio says to its server, and how it waits for long work. */
import { sentenceOf } from "../../sources/served.js";

/**
 * JSON in, JSON out; a refusal is an Error with the server's sentence.
 * @param {string} method @param {string} where @param {any} [body] @param {AbortSignal} [signal]
 */
export async function talk(method, where, body, signal) {
  const isFile = body instanceof Blob;
  const reply = await fetch(where, {
    method,
    headers: body === undefined ? {} : { "Content-Type": isFile ? "application/octet-stream" : "application/json" },
    body: body === undefined ? undefined : isFile ? body : JSON.stringify(body),
    credentials: "same-origin",
    signal,
  });
  if (!reply.ok) throw new Error(await sentenceOf(reply));
  return reply.json();
}

/**
 * Wait for a job; `news` hears how far it is. Giving up tells the server as well.
 * @param {string} job @param {(said: any) => void} news @param {AbortSignal} signal
 */
export async function finished(job, news, signal) {
  const where = `/jobs/${encodeURIComponent(job)}`;
  const giveUp = () => talk("DELETE", where).catch(() => {});
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    for (let step = -1; ;) {
      const said = await talk("GET", `${where}?after=${step}`, undefined, signal);
      if (said.state === "done") return said;
      if (said.state === "failed") throw new Error(said.error || "That did not work.");
      if (said.state === "cancelled") throw new Error("Cancelled.");
      news(said);
      step = said.step;
    }
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/**
 * A source whose description is known already: it came with the reading.
 * @param {import("../../sources/served.js").Source} source @param {any} description
 * @returns {import("../../sources/served.js").Source}
 */
export function described(source, description) {
  if (!description) return source;
  return {
    ask: (kind, parameters, options) =>
      kind === "describe"
        ? Promise.resolve({ header: description, arrays: {} })
        : source.ask(kind, parameters, options),
  };
}
