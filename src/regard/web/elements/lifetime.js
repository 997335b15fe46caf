/**
 * Resources of a part of the page that are released together: listeners, observers, timers, nodes.
 *
 * @typedef {ReturnType<typeof makeLifetime>} Lifetime
 */

/** Everything started through a lifetime stops when it ends. */
export function makeLifetime() {
  /** @type {Set<() => void>} */
  const endings = new Set();
  let ended = false;

  /** Call `end` when this lifetime ends; the returned function does it earlier. @param {() => void} end */
  function add(end) {
    if (ended) {
      end();
      return () => {};
    }
    endings.add(end);
    return () => {
      if (endings.delete(end)) end();
    };
  }

  return {
    add,
    get ended() {
      return ended;
    },

    /** @param {EventTarget} target @param {string} type @param {(event: any) => void} react @param {AddEventListenerOptions} [options] */
    listen(target, type, react, options) {
      target.addEventListener(type, react, options);
      return add(() => target.removeEventListener(type, react, options));
    },

    /** Once, after a delay in milliseconds. @param {number} wait @param {() => void} act */
    after(wait, act) {
      if (ended) return () => {};
      const timer = setTimeout(() => {
        stop();
        act();
      }, wait);
      const stop = add(() => clearTimeout(timer));
      return stop;
    },

    /** In the next animation frame. @param {() => void} act */
    nextFrame(act) {
      if (ended) return () => {};
      const request = requestAnimationFrame(() => {
        stop();
        act();
      });
      const stop = add(() => cancelAnimationFrame(request));
      return stop;
    },

    /**
     * Whenever the width of an element changes, in pixels; first when it has one.
     * @param {Element} element @param {(width: number) => void} react
     */
    widths(element, react) {
      let last = 0;
      const observer = new ResizeObserver((entries) => {
        const { width } = entries[entries.length - 1].contentRect;
        if (Math.abs(width - last) >= 1) react((last = width));
      });
      observer.observe(element);
      return add(() => observer.disconnect());
    },

    /** A nested lifetime that may end earlier. */
    part() {
      const inner = makeLifetime();
      add(inner.end);
      return inner;
    },

    end() {
      if (ended) return;
      ended = true;
      for (const act of [...endings].reverse()) act();
      endings.clear();
    },
  };
}

/** A promise of a first drawing, and what fulfils it. */
export function makeReady() {
  let done = () => {};
  /** @type {Promise<void>} */
  const ready = new Promise((fulfil) => (done = fulfil));
  return { ready, done };
}

/**
 * Requests of which only the latest counts: a new one cancels the previous one, as `latest.cancel()` does.
 * @param {Lifetime} lifetime
 */
export function latestOnly(lifetime) {
  /** @type {AbortController|null} */
  let current = null;
  const cancel = () => current?.abort();
  lifetime.add(cancel);
  /**
   * @template T
   * @param {(signal: AbortSignal) => Promise<T>} ask @param {(answer: T) => void} take
   * @param {(error: Error) => void} [fail]
   */
  async function latest(ask, take, fail) {
    cancel();
    const mine = new AbortController();
    current = mine;
    try {
      const answer = await ask(mine.signal);
      if (!mine.signal.aborted && !lifetime.ended) take(answer);
    } catch (error) {
      if (mine.signal.aborted || lifetime.ended) return;
      if (!fail) throw error;
      fail(/** @type {Error} */ (error));
    }
  }
  return Object.assign(latest, { cancel });
}
