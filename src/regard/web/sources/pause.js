/** Long work that lets events in. */

const EVERY = 8; // milliseconds

/**
 * Long work in steps: `await pause()` between them lets messages in, every few milliseconds, and throws once the signal is
 * aborted. A timer would wait 4 ms each time.
 * @param {AbortSignal} [signal]
 */
export function pauses(signal) {
  let since = performance.now();
  return async () => {
    signal?.throwIfAborted();
    if (performance.now() - since < EVERY) return;
    await messagesHandled();
    signal?.throwIfAborted();
    since = performance.now();
  };
}

function messagesHandled() {
  return new Promise((go) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      go(undefined);
    };
    port2.postMessage(null);
  });
}
