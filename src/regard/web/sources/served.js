/**
 * A source answers queries about a reading. This one asks the server.
 *
 * signal        cancels the query
 * inBackground  the viewer is not marked busy meanwhile
 * @typedef {{signal?: AbortSignal, inBackground?: boolean}} Options
 * @typedef {{ask: (kind: string, parameters?: Record<string, any>, options?: Options) =>
 *   Promise<Frame>}} Source
 */
import { unpack } from "./frames.js";

/**
 * `POST {where}/{kind}` with the parameters as JSON returns a frame.
 * @param {string} where for example "/ask/3"
 * @param {(where: string, options?: RequestInit) => Promise<Response>} [send] adds what the server asks for
 * @returns {Source}
 */
export function servedSource(where, send = fetch) {
  return {
    async ask(kind, parameters = {}, { signal } = {}) {
      const reply = await send(`${where}/${kind}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(parameters),
        signal,
      });
      if (!reply.ok) throw await errorOf(reply);
      return unpack(await reply.arrayBuffer());
    },
  };
}

/** The error of a response: the server's message, its status and what else it says. @param {Response} reply */
export async function errorOf(reply) {
  /** @type {any} */
  let said = {};
  try {
    said = await reply.json();
  } catch {
    // not JSON: only the status is known
  }
  const message = typeof said.error === "string" ? said.error : `The server answered ${reply.status}.`;
  return Object.assign(new Error(message), { status: reply.status, details: said });
}
