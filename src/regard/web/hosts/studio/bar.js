/** The input bar: text and model. */
import { uniqueId } from "../../elements/controls.js";
import { element, replaced } from "../../elements/elements.js";
import { megabytes } from "../../maths/numbers.js";
import { closesOutside } from "../../page/toolbar.js";

export const SENTENCES = [
  "The kids were scared of the lions, so they left right away.",
  "Keys on the table belong to Sarah",
  "Love Apple phones",
  "jane visits africa",
];

/**
 * chosen, opened  where there are several models, and where files can be opened
 * @param {{typed: (text: string) => void, chosen?: (model: string) => void, opened?: (file: File) => void, generate: () => void,
 *   cancel: () => void}} act
 */
export function makeBar(act) {
  const ids = { text: uniqueId("text"), model: uniqueId("model") };
  const text = element("textarea", {
    id: ids.text,
    rows: "1",
    dir: "auto",
    spellcheck: "false",
    placeholder: "Type or paste a text",
  });
  /** @type {ListedModel[]} */
  let models = [];
  const model = element("select", {
    id: ids.model,
    onchange: () => {
      menu.open = false;
      nameModel();
      act.chosen?.(model.value);
    },
  });
  const file = element("input", { type: "file", class: "regard-unseen", tabindex: "-1", "aria-hidden": "true" });
  file.addEventListener("change", () => {
    if (file.files?.[0]) act.opened?.(file.files[0]);
    file.value = "";
  });
  const open = element("button", {
    type: "button",
    class: "regard-button",
    text: "Open a file…",
    hidden: !act.opened,
    onclick: () => file.click(),
  });
  const generate = element("button", {
    type: "button",
    class: "regard-button",
    text: "Continue the text",
    hidden: true,
    onclick: act.generate,
  });
  const progress = element("progress", { max: "1", "aria-label": "Progress" });
  const message = element("span", { class: "regard-studio-message" });
  const cancel = element("button", { type: "button", class: "regard-button", text: "Cancel", onclick: act.cancel });
  const work = element("div", { class: "regard-studio-work", role: "status", hidden: true }, progress, message, cancel);
  const sentence = element("p", {});
  const actions = element("div", { class: "regard-studio-ways" });
  const problem = element("div", { class: "regard-error regard-studio-problem", role: "alert", hidden: true }, sentence, actions);
  const examples = element(
    "div",
    { class: "regard-studio-examples", role: "group", "aria-label": "Examples" },
    element("span", { class: "regard-label", text: "Try", "aria-hidden": "true" }),
    SENTENCES.map((sentence) =>
      element("button", {
        type: "button",
        class: "regard-studio-example",
        text: sentence,
        onclick: () => fill(sentence),
      }),
    ),
  );
  const summary = element("summary", {});
  const menu = element(
    "details",
    { class: "regard-popover regard-studio-menu" },
    summary,
    element(
      "div",
      { class: "regard-studio-actions" },
      act.chosen && element("div", { class: "regard-studio-model" }, element("label", { for: ids.model, class: "regard-label", text: "Model" }), model),
      open,
      generate,
      file,
    ),
  );
  menu.hidden = !act.opened;
  closesOutside(menu);
  menu.addEventListener("click", (/** @type {Event} */ event) => {
    if (event.target === open || event.target === generate) menu.open = false;
  });
  text.addEventListener("input", () => {
    grow();
    act.typed(text.value);
  });

  /** The menu is called by the model that reads. */
  function nameModel() {
    summary.textContent = model.value || "⋯";
    summary.title = "More actions";
    summary.setAttribute("aria-label", ["More actions", model.value].filter(Boolean).join(": "));
  }
  nameModel();

  /** Reads a text, with another model if it is there. @param {string} sentence @param {string} [wanted] */
  function fill(sentence, wanted) {
    if (wanted && models.some(({ name, here }) => name === wanted && here !== false)) model.value = wanted;
    nameModel();
    text.value = sentence;
    grow();
    act.typed(sentence);
  }

  /** Fits the box to the text; examples are offered while it is empty. */
  function grow() {
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight + 2, 120)}px`;
    examples.hidden = Boolean(text.value.trim());
  }

  const el = element(
    "div",
    { class: "regard-studio" },
    element(
      "div",
      { class: "regard-studio-top" },
      element(
        "div",
        { class: "regard-field regard-studio-text" },
        element("label", { for: ids.text, class: "regard-unseen", text: "Text" }),
        text,
      ),
      menu,
    ),
    examples,
    work,
    problem,
  );
  el.addEventListener("dragover", (event) => event.preventDefault());
  el.addEventListener("drop", (event) => {
    if (!act.opened || !event.dataTransfer?.files.length) return;
    event.preventDefault();
    act.opened(event.dataTransfer.files[0]);
  });

  return {
    el,
    fill,
    text: () => text.value,
    /** Sets the text without reading it again. @param {string} content */
    setText(content) {
      text.value = content;
      grow();
    },
    model: () => model.value,
    /** Whether the model can continue the text. @param {boolean} can */
    setWrites(can) {
      generate.hidden = !can;
      menu.hidden = !can && !act.opened;
    },
    /** @param {string} name */
    setModel(name) {
      if ([...model.options].some((option) => option.value === name)) model.value = name;
      nameModel();
    },
    /** @param {ListedModel[]} listed @param {string|null} usual */
    setModels(listed, usual) {
      models = listed;
      replaced(
        model,
        models.map(({ name, about, here, size }) =>
          element("option", {
            value: name,
            text: [name, about, here === false ? `${megabytes(size)} to download` : ""].filter(Boolean).join(" · "),
          }),
        ),
      );
      const chosen = usual ?? models.find((one) => one.default)?.name;
      if (chosen) model.value = chosen;
      nameModel();
    },
    /** Progress of a job; null when there is none. @param {News|null} said */
    setWork(said) {
      work.hidden = !said;
      if (!said) return;
      if (typeof said.progress === "number") progress.value = said.progress;
      else progress.removeAttribute("value");
      message.textContent = said.message || "Working…";
    },
    /** What went wrong, and ways on as buttons. @param {string} said @param {{text: string, act: () => void}[]} [ways] */
    setProblem(said, ways = []) {
      problem.hidden = !said;
      sentence.textContent = said;
      replaced(
        actions,
        ways.map(({ text: name, act: go }) =>
          element("button", { type: "button", class: "regard-button", text: name, onclick: go }),
        ),
      );
    },
  };
}
