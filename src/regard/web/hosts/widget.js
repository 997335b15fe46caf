/** The notebook widget (anywidget): queries go to the Python kernel. Until it answers, a still picture is shown. */
import { element } from "../elements/elements.js";
import { makeViewer } from "../page/mount.js";
import { described } from "../sources/described.js";
import { kernelOf } from "../sources/widget.js";

/** @param {{model: any, el: HTMLElement}} given */
export function render({ model, el }) {
  const kernel = kernelOf(model);
  /** @type {Other|null} */
  let shown = null; // in place of the widget's own reading
  let text = "";

  /** @param {Other} other @param {AbortSignal} [signal] */
  async function take(other, signal) {
    await viewer.show(described(other.source, other.description), { signal });
    shown?.close();
    shown = other;
    text = other.description.text;
  }

  const viewer = makeViewer({
    el,
    wasm: model.get("wasm"),
    services: {
      show: async (wanted) => {
        try {
          await take(await kernel.read(wanted));
        } catch (error) {
          viewer.announce(/** @type {Error} */ (error).message);
        }
      },
      write: async (options, { signal, news }) => take(await kernel.generate({ ...options, text }, { signal, news }), signal),
      read: kernel.read,
      models: kernel.models,
      canEmbed: true,
    },
  });
  const first = kernel.source;
  el.hidden = true;
  const live = () => {
    if (!el.hidden) return;
    el.hidden = false;
    const still = `[data-regard-still="${model.get?.("still")}"]`; // see viewer/widget.py
    el.append(element("style", { text: `${still}, .jp-OutputArea-child:has(${still}) { display: none; }` }));
  };
  viewer.show({
    ask: async (kind, parameters, options) => {
      const answer = await first.ask(kind, parameters, options);
      if (kind === "describe") {
        text = answer.header.text;
        live();
      }
      return answer;
    },
  });
  return () => {
    viewer.cleanUp();
    kernel.close();
  };
}

export default { render };
