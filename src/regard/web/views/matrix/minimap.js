/** The whole map in small, with a frame around what is shown; a press or a drag moves there. */
import { element } from "../../elements/elements.js";
import { paintOn } from "./pixels.js";

const SIDE = 132; // pixels of the longer side

/**
 * @param {import("./geometry.js").Size} whole @param {(row: number, column: number) => void} move to a cell, which comes into the middle
 */
export function makeMinimap(whole, move) {
  const canvas = element("canvas", { width: 1, height: 1, "aria-hidden": "true" });
  const frame = element("div", { class: "regard-minimap-frame" });
  const longer = Math.max(whole.rows, whole.columns);
  const [width, height] = [whole.columns, whole.rows].map((count) => `${Math.max(24, Math.round((SIDE * count) / longer))}px`);
  const shown = { class: "regard-minimap", hidden: true, title: "The whole map: press to move", style: { width, height } };
  const el = element("div", shown, canvas, frame);
  /** @type {unknown} */
  let painted = null;

  /** @param {PointerEvent} event */
  function go(event) {
    const box = el.getBoundingClientRect();
    move(((event.clientY - box.top) / box.height) * whole.rows, ((event.clientX - box.left) / box.width) * whole.columns);
  }
  el.addEventListener("pointerdown", (event) => {
    el.setPointerCapture?.(event.pointerId);
    go(event);
  });
  el.addEventListener("pointermove", (event) => event.buttons && go(event));

  return {
    el,
    /**
     * @param {import("./tiles.js").Loaded|undefined} tile of the whole map @param {import("./pixels.js").Scale} scale @param {Masking} masking
     * @param {{rows: number[], columns: number[]}} shown @param {boolean} isWhole
     */
    show(tile, scale, masking, shown, isWhole) {
      el.hidden = isWhole || !tile;
      if (isWhole || !tile) return;
      if (painted !== tile.weight || canvas.dataset.scale !== `${scale.top} ${scale.colour}`) {
        paintOn(canvas, tile, scale, masking);
        painted = tile.weight;
        canvas.dataset.scale = `${scale.top} ${scale.colour}`;
      }
      const share = (/** @type {number} */ part, /** @type {number} */ count) => `${(100 * part) / count}%`;
      const { rows, columns } = shown;
      const edges = { top: share(rows[0], whole.rows), height: share(rows[1] - rows[0], whole.rows), left: share(columns[0], whole.columns), width: share(columns[1] - columns[0], whole.columns) };
      for (const [name, value] of Object.entries(edges)) frame.style.setProperty(name, value);
    },
  };
}
