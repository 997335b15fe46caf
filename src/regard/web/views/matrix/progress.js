/** How far the exact pass over a long text is. */
import { element } from "../../elements/elements.js";

const EVERY = 300; // milliseconds

/** @param {{source: Source, description: Description, lifetime: Lifetime}} given */
export function makeProgress({ source, description, lifetime }) {
  const isKnown = (description.has ?? []).includes("progress");
  const bar = element("progress", { max: "1", value: "0", "aria-label": "Computing the exact map" });
  const said = element("span", { class: "regard-quiet" });
  const el = element("div", { class: "regard-matrix-progress", hidden: true }, bar, said);
  /** @type {any} */
  let watched = null;
  let stopWaiting = () => {};

  async function look() {
    const { layer, head, pool } = watched;
    try {
      const { header } = await source.ask("progress", { layer, head, pool }, { inBackground: true });
      if (lifetime.ended || !watched) return;
      bar.value = header.share;
      said.textContent = `${Math.floor(100 * header.share)} %`;
    } catch {
      return; // the map itself says what is wrong
    }
    stopWaiting = lifetime.after(EVERY, look);
  }

  return {
    el,
    /** @param {{layer: number, head: number, pool: string}} whose @param {boolean} isComputing */
    watch(whose, isComputing) {
      const next = isKnown && isComputing ? whose : null;
      if (JSON.stringify(next) === JSON.stringify(watched)) return;
      stopWaiting();
      watched = next;
      el.hidden = !next;
      bar.value = 0;
      said.textContent = "";
      if (next) look();
    },
  };
}
