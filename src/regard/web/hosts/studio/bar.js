/** The input bar: text and model. */
import { jobProgress, labelled, uniqueId } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { megabytes } from "../../maths/numbers.js";
import { closesOutside } from "../../page/toolbar.js";

export const SENTENCES = [
  "The kids were scared of the lions, so they left right away.",
  "Keys on the table belong to Sarah",
  "Love Apple phones",
  "jane visits africa",
];

const MOST_HEIGHT = 120; // pixels of the box

/**
 * chosen, opened  where there are several models, and where files can be opened
 * @typedef {{typed: (text: string) => void, chosen?: (model: string) => void, opened?: (file: File) => void, generate: () => void,
 *   cancel: () => void}} BarActs
 * @param {BarActs} act
 */
export function makeBar(act) {
  const id = uniqueId("text");
  const box = element("textarea", { id, rows: "1", dir: "auto", spellcheck: "false", placeholder: "Type or paste a text" });
  const label = element("label", { for: id, class: "regard-unseen", text: "Text" });
  const examples = element(
    "div",
    { class: "regard-studio-examples", role: "group", "aria-label": "Examples" },
    element("span", { class: "regard-label", text: "Try", "aria-hidden": "true" }),
    SENTENCES.map((sentence) => button(sentence, () => fill(sentence), { class: "regard-studio-example" })),
  );
  const [menu, work, problem] = [makeMenu(act), jobProgress(act.cancel, { class: "regard-studio-work", label: "Progress", message: "regard-studio-message" }), makeProblem()];
  const top = element("div", { class: "regard-studio-top" }, element("div", { class: "regard-field regard-studio-text" }, label, box), menu.el);
  const el = element("div", { class: "regard-studio" }, top, examples, work.el, problem.el);
  box.addEventListener("input", () => {
    fit();
    act.typed(box.value);
  });
  el.addEventListener("dragover", (event) => event.preventDefault());
  el.addEventListener("drop", (event) => {
    if (!act.opened || !event.dataTransfer?.files.length) return;
    event.preventDefault();
    act.opened(event.dataTransfer.files[0]);
  });

  /** Fits the box to the text; examples are offered while it is empty. */
  function fit() {
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, MOST_HEIGHT)}px`;
    examples.hidden = Boolean(box.value.trim());
  }

  /** Sets the text without reading it. @param {string} text */
  function setText(text) {
    box.value = text;
    fit();
  }

  /** Reads a text. @param {string} text */
  function fill(text) {
    setText(text);
    act.typed(text);
  }

  const { model, setModel, setModels, setWrites } = menu;
  return { el, fill, text: () => box.value, setText, model, setModel, setModels, setWrites, setWork: work.set, setProblem: problem.set };
}

/** The menu beside the text, called by the model that reads. @param {BarActs} act */
function makeMenu({ chosen, opened, generate }) {
  /** @type {ListedModel[]} */
  let listed = [];
  const model = element("select", {
    onchange: () => {
      el.open = false;
      nameModel();
      chosen?.(model.value);
    },
  });
  const file = element("input", {
    type: "file",
    class: "regard-unseen",
    tabindex: "-1",
    "aria-hidden": "true",
    onchange: () => {
      if (file.files?.[0]) opened?.(file.files[0]);
      file.value = "";
    },
  });
  const closing = (/** @type {() => void} */ act) => () => {
    el.open = false;
    act();
  };
  const open = button("Open a file…", closing(() => file.click()), { hidden: !opened });
  const writes = button("Continue the text", closing(generate), { hidden: true });
  const choice = chosen && labelled("Model", model, { class: "regard-studio-model" });
  const summary = element("summary", { title: "More actions" });
  const el = element("details", { class: "regard-popover regard-studio-menu", hidden: !opened }, summary, element("div", { class: "regard-studio-actions" }, choice, open, writes, file));
  closesOutside(el);
  nameModel();

  function nameModel() {
    summary.textContent = model.value || "⋯";
    summary.setAttribute("aria-label", ["More actions", model.value].filter(Boolean).join(": "));
  }

  /** @param {string|undefined} name */
  function setModel(name) {
    if (listed.some((one) => one.name === name)) model.value = /** @type {string} */ (name);
    nameModel();
  }

  return {
    el,
    model: () => model.value,
    setModel,
    /** @param {ListedModel[]} models @param {string|null} usual */
    setModels(models, usual) {
      listed = models;
      const textOf = (/** @type {ListedModel} */ { name, about, here, size }) => [name, about, here === false ? `${megabytes(size)} to download` : ""].filter(Boolean).join(" · ");
      replaced(model, models.map((one) => element("option", { value: one.name, text: textOf(one) })));
      const chosen = usual ?? models.find((one) => one.default)?.name;
      if (chosen) model.value = chosen;
      nameModel();
    },
    /** Whether the model can continue the text. @param {boolean} can */
    setWrites(can) {
      writes.hidden = !can;
      el.hidden = !can && !opened;
    },
  };
}

function makeProblem() {
  const [sentence, actions] = [element("p"), element("div", { class: "regard-studio-ways" })];
  const el = element("div", { class: "regard-error regard-studio-problem", role: "alert", hidden: true }, sentence, actions);
  return {
    el,
    /** What went wrong, and ways on as buttons. @param {string} said @param {{text: string, act: () => void}[]} [ways] */
    set(said, ways = []) {
      el.hidden = !said;
      sentence.textContent = said;
      replaced(actions, ways.map(({ text, act }) => button(text, act)));
    },
  };
}
