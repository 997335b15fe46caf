/** The notebook widget (anywidget): queries go to the Python kernel. */
import { mount } from "../mount.js";
import { widgetSource } from "../sources/widget.js";

/** @param {{model: any, el: HTMLElement}} given */
export function render({ model, el }) {
  const source = widgetSource(model);
  const cleanUp = mount({ model: source, el });
  return () => {
    cleanUp();
    source.close();
  };
}

export default { render };
