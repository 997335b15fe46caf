/**
 * A source: what answers questions about a reading. This one asks the server.
 *
 * signal        gives the question up
 * inBackground  something is shown already: the viewer is not busy while it waits for this
 * @typedef {{signal?: AbortSignal, inBackground?: boolean}} Options
 * @typedef {{ask: (kind: string, parameters?: Record<string, any>, options?: Options) =>
 *   Promise<import("../frames.js").Frame>}} Source
 */
import { unpack } from "../frames.js";

/**
 * `POST {where}/{kind}` with the parameters as JSON gives a frame.
 * @param {string} where for example "/ask/3"
 * @returns {Source}
 */
export function servedSource(where) {
  return {
    async ask(kind, parameters = {}, { signal } = {}) {
      const reply = await fetch(`${where}/${kind}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(parameters),
        credentials: "same-origin",
        signal,
      });
      if (!reply.ok) throw new Error(await sentenceOf(reply));
      return unpack(await reply.arrayBuffer());
    },
  };
}

/** What a refusal says. @param {Response} reply */
export async function sentenceOf(reply) {
  try {
    const said = await reply.json();
    if (typeof said.error === "string") return said.error;
  } catch {
    // not JSON: only its number is known
  }
  return `The server answered ${reply.status}.`;
}
