/** The model continues the text: progress, cancel; the number of tokens and the seed are for the Adjust panel. */
import { labelled } from "../../elements/controls.js";
import { button, element } from "../../elements/elements.js";
import { settingsOf } from "./model.js";

/**
 * @param {{state: State, services: Services, lifetime: Lifetime,
 *   announce: (text: string) => void}} options
 */
export function makeWriting({ state, services, lifetime, announce }) {
  const fields = element(
    "div",
    { class: "regard-bar-group" },
    labelled("Tokens", numberField(state, "output_count", 20, [1, 512])),
    labelled("Seed", numberField(state, "output_seed", 0, [0, 999999])),
  );
  const write = button("Write", start, { "data-kind": "main" });
  const cancel = button("Cancel", () => request?.abort(), { hidden: true });
  const written = element("p", { class: "regard-output-written", role: "status", hidden: true });
  const progress = element("progress", { max: "1", value: "0", "aria-label": "Tokens written", hidden: true });
  const note = element("p", { class: "regard-note" });
  /** @type {AbortController|null} */
  let request = null;
  const el = element(
    "section",
    { class: "regard-card regard-output-writing", "aria-label": "Let the model write" },
    element("h2", { class: "regard-subtitle", text: "Let the model write" }),
    element("div", { class: "regard-bar-group" }, write, cancel, progress),
    written,
    note,
  );

  /** @param {boolean} on */
  function working(on) {
    write.disabled = on;
    cancel.hidden = progress.hidden = written.hidden = !on;
    if (on) written.textContent = "…";
  }

  async function start() {
    const { temperature, topK, topP } = settingsOf(state.get());
    request = new AbortController();
    const { signal } = request;
    note.classList.remove("regard-error");
    note.textContent = "";
    working(true);
    const news = (/** @type {{progress?: number, text?: string}} */ said) => {
      if (typeof said.progress === "number") progress.value = said.progress;
      if (said.text) written.textContent = said.text;
    };
    const options = {
      tokens: state.get().output_count ?? 20,
      seed: state.get().output_seed ?? 0,
      temperature,
      ...(topK === null ? {} : { top_k: topK }),
      ...(topP === null ? {} : { top_p: topP }),
    };
    try {
      await services.write?.(options, { signal, news }); // goes on while another view is open
      announce("Written");
    } catch (error) {
      if (lifetime.ended) return;
      note.textContent = signal.aborted ? "Cancelled: the text is as before." : /** @type {Error} */ (error).message;
      note.classList.toggle("regard-error", !signal.aborted);
    }
    if (!lifetime.ended) working(false);
  }

  return {
    el,
    fields,
    /** @param {ReturnType<typeof settingsOf>} settings */
    show(settings) {
      if (!request && !note.textContent)
        note.textContent =
          settings.temperature === 0
            ? "At temperature 0 the most likely token is always taken, and the seed plays no part."
            : "Tokens are drawn with the probabilities shown; the same seed draws the same tokens.";
    },
  };
}

/**
 * A whole number of the state.
 * @param {State} state @param {string} name @param {number} usual @param {[number, number]} range
 */
function numberField(state, name, usual, [min, max]) {
  const now = () => state.get()[name] ?? usual;
  const attributes = { type: "number", min, max, step: 1, class: "regard-entry regard-entry-number", value: String(now()) };
  const input = element("input", { ...attributes, onchange: take });
  function take() {
    const value = Math.round(Number(input.value));
    const fits = Number.isFinite(value) && value >= min && value <= max;
    input.value = String(fits ? value : now());
    if (fits) state.set({ [name]: value === usual ? null : value });
  }
  return input;
}
