/** A source that asks the notebook's Python kernel by custom messages. */
import { unpack } from "../frames.js";

/**
 * Queries are {id, kind, parameters}, answers {id, error?} with the frame as their first buffer;
 * {cancel: id} cancels a query.
 * @param {any} model anywidget's
 * @returns {import("./served.js").Source & {close: () => void}}
 */
export function widgetSource(model) {
  /** @type {Map<string, {take: (frame: any) => void, fail: (error: Error) => void}>} */
  const waiting = new Map();
  // Several views of one widget share its messages: each uses its own id prefix.
  const own = Math.random().toString(36).slice(2, 10);
  let count = 0;

  /** @param {any} message @param {any[]} buffers */
  function received(message, buffers) {
    const asked = waiting.get(message?.id);
    if (!asked) return;
    waiting.delete(message.id);
    if (message.error) return asked.fail(new Error(message.error));
    try {
      asked.take(unpack(buffers[0]));
    } catch (error) {
      asked.fail(/** @type {Error} */ (error));
    }
  }
  model.on("msg:custom", received);

  return {
    ask(kind, parameters = {}, { signal } = {}) {
      return new Promise((take, fail) => {
        if (signal?.aborted) return fail(signal.reason);
        const id = `${own}-${(count += 1)}`;
        const abort = () => {
          waiting.delete(id);
          model.send({ cancel: id });
          fail(signal?.reason);
        };
        const settled = (/** @type {(value: any) => void} */ settle) => (/** @type {any} */ value) => {
          signal?.removeEventListener("abort", abort);
          settle(value);
        };
        waiting.set(id, { take: settled(take), fail: settled(fail) });
        signal?.addEventListener("abort", abort, { once: true });
        model.send({ id, kind, parameters });
      });
    },
    close() {
      model.off("msg:custom", received);
      for (const { fail } of waiting.values()) fail(new Error("The widget was closed."));
      waiting.clear();
    },
  };
}
