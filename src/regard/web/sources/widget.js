/** The notebook's Python kernel, asked by custom messages: a source per reading, and what else a host can do. */
import { unpack } from "./frames.js";

/**
 * Queries are {id, kind, parameters, reading?}, answers {id, error?} with the frame as their first buffer, or {id, news}
 * before it; {cancel: id} cancels a query. See viewer/widget.py.
 * @param {any} model anywidget's
 */
export function kernelOf(model) {
  /** @type {Map<string, {take: (frame: Frame) => void, fail: (error: Error) => void, news?: (said: News) => void}>} */
  const waiting = new Map();
  // Several views of one widget share its messages: each uses its own id prefix.
  const own = Math.random().toString(36).slice(2, 10);
  let count = 0;

  /** @param {any} message @param {ArrayBufferView[]} buffers */
  function received(message, buffers) {
    const asked = waiting.get(message?.id);
    if (!asked) return;
    if (message.news) return asked.news?.(message.news);
    waiting.delete(message.id);
    if (message.error) return asked.fail(new Error(message.error));
    try {
      asked.take(unpack(buffers[0]));
    } catch (error) {
      asked.fail(/** @type {Error} */ (error));
    }
  }
  model.on("msg:custom", received);

  /**
   * @param {Record<string, unknown>} message @param {{signal?: AbortSignal, news?: (said: News) => void}} [how]
   * @returns {Promise<Frame>}
   */
  function ask(message, { signal, news } = {}) {
    return new Promise((take, fail) => {
      if (signal?.aborted) return fail(signal.reason);
      const id = `${own}-${(count += 1)}`;
      const abort = () => {
        waiting.delete(id);
        model.send({ cancel: id });
        fail(signal?.reason);
      };
      const settled = (/** @type {Function} */ settle) => (/** @type {unknown} */ value) => {
        signal?.removeEventListener("abort", abort);
        settle(value);
      };
      waiting.set(id, { take: settled(take), fail: settled(fail), news });
      signal?.addEventListener("abort", abort, { once: true });
      model.send({ id, ...message });
    });
  }

  /** The source of a reading; of the first one without a name. @param {string} [reading] @returns {Source} */
  function sourceOf(reading) {
    return {
      ask: (kind, parameters = {}, options = {}) => ask({ kind, parameters, ...(reading ? { reading } : {}) }, options),
    };
  }

  /** @param {Frame} frame of `read` or `generate` @returns {Other} */
  function opened({ header: { reading, description } }) {
    const close = () => void ask({ kind: "close", parameters: { reading } }).catch(() => {});
    return { source: sourceOf(reading), description, close };
  }

  return {
    source: sourceOf(),
    /** @param {string} text @param {{model?: string, signal?: AbortSignal}} [how] */
    read: async (text, { model: name, signal } = {}) =>
      opened(await ask({ kind: "read", parameters: { text, ...(name ? { model: name } : {}) } }, { signal })),
    /** @param {Record<string, unknown>} options @param {{signal?: AbortSignal, news?: (said: News) => void}} how */
    generate: async (options, how) => opened(await ask({ kind: "generate", parameters: options }, how)),
    models: async () => (await ask({ kind: "models", parameters: {} })).header.models,
    close() {
      model.off("msg:custom", received);
      for (const { fail } of waiting.values()) fail(new Error("The widget was closed."));
      waiting.clear();
    },
  };
}
