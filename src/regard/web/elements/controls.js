/** Controls shared by all views. They are native elements, so the keyboard works as usual. */
import { button, element, focusedBeside, replaced } from "./elements.js";

const own = Math.random().toString(36).slice(2, 8); // each cell of a notebook has its own copy of this module
let names = 0;

/** An element id or radio name that is unique in the document. @param {string} word */
export function uniqueId(word) {
  names += 1;
  return `regard-${word}-${own}-${names}`;
}

/**
 * A control beside its label.
 * @param {string} text @param {HTMLElement} control
 * @param {{class?: string, label?: string|null}} [classes] of both, and of the label
 */
export function labelled(text, control, { class: kind = "regard-bar-group", label = "regard-label" } = {}) {
  control.id ||= uniqueId("control");
  return element("div", { class: kind }, element("label", { for: control.id, class: label, text }), control);
}

/**
 * A choice among a few visible options.
 * @template {string|number|boolean|null} Value
 * @param {string} label @param {{value: Value, text: string, title?: string}[]} options @param {Value} value
 * @param {(value: Value) => void} choose
 */
export function segments(label, options, value, choose) {
  const name = uniqueId("segments");
  const inputs = options.map((option) => element("input", { type: "radio", name, checked: option.value === value, onchange: () => choose(option.value) }));
  const labels = options.map(({ title, text }, place) => element("label", { title }, inputs[place], element("span", { text })));
  return {
    el: element("div", { class: "regard-segments", role: "radiogroup", "aria-label": label }, labels),
    /** @param {Value} chosen */
    set: (chosen) => options.forEach((option, place) => (inputs[place].checked = option.value === chosen)),
  };
}

/** A switch. @param {string} label @param {boolean} on @param {(on: boolean) => void} choose */
export function toggle(label, on, choose) {
  const input = element("input", { type: "checkbox", role: "switch", checked: on, onchange: () => choose(input.checked) });
  const text = element("span", { class: "regard-toggle-text", text: label });
  return {
    el: element("label", { class: "regard-toggle" }, input, element("span", { class: "regard-toggle-knob" }), text),
    /** @param {boolean} chosen @param {string} [said] */
    set: (chosen, said = label) => {
      input.checked = chosen;
      if (text.textContent !== said) text.textContent = said;
    },
  };
}

/**
 * A select with buttons for the previous and the next option.
 * @param {string} label @param {string[]} options @param {number} place @param {(place: number) => void} choose
 */
export function stepper(label, options, place, choose) {
  const texts = options.map((text, at) => element("option", { value: String(at), text }));
  const select = element("select", { "aria-label": label, onchange: () => go(Number(select.value)) }, texts);
  const before = button("‹", () => go(now - 1), { class: null, "aria-label": `Previous ${label.toLowerCase()}` });
  const after = button("›", () => go(now + 1), { class: null, "aria-label": `Next ${label.toLowerCase()}` });
  let now = place;
  /** @param {number} to */
  function show(to) {
    now = to;
    select.value = String(to);
    before.disabled = to <= 0;
    after.disabled = to >= options.length - 1;
  }
  /** @param {number} to */
  function go(to) {
    if (to < 0 || to >= options.length || to === now) return;
    show(to);
    choose(to);
  }
  show(place);
  return {
    el: element("div", { class: "regard-stepper", role: "group", "aria-label": label }, before, select, after),
    set: show,
  };
}

/**
 * A list of which one option is chosen.
 * @template {string} Value @param {string|null} label @param {readonly {value: Value, text: string}[]} options
 * @param {Value} value
 * @param {(value: Value) => void} choose @param {import("./elements.js").Attributes} [attributes]
 */
export function select(label, options, value, choose, attributes = {}) {
  const onchange = () => choose(/** @type {Value} */ (el.value));
  const texts = options.map((option) => element("option", option));
  const el = element("select", { class: "regard-select", "aria-label": label, onchange, ...attributes }, texts);
  el.value = value;
  return el;
}

/**
 * A slider with a label and its value.
 * @param {string} label
 * @param {{least: number, most: number, step: number, value: number, said: (value: number) => string}} range
 * @param {(value: number) => void} choose
 */
export function slider(label, { least, most, step, value, said }, choose) {
  const id = uniqueId("slider");
  const input = element("input", { id, type: "range", min: least, max: most, step, value: String(value) });
  const shown = element("output", { for: id, class: "regard-slider-value" });
  /** @param {number} to */
  function show(to) {
    shown.textContent = said(to);
    input.setAttribute("aria-valuetext", said(to));
    input.style.setProperty("--regard-filled", `${(100 * (to - least)) / (most - least)}%`);
  }
  input.addEventListener("input", () => {
    show(Number(input.value));
    choose(Number(input.value));
  });
  show(value);
  return {
    el: element("div", { class: "regard-slider" }, element("label", { for: id, text: label }), input, shown),
    /** @param {number} to */
    set: (to) => {
      input.value = String(to);
      show(to);
    },
  };
}

/** Progress of a job, with a button to cancel it. @param {() => void} cancel @param {{class: string, label: string, message: string}} names  message: its class */
export function jobProgress(cancel, names) {
  const progress = element("progress", { max: "1", "aria-label": names.label });
  const message = element("span", { class: names.message });
  const el = element("div", { class: names.class, role: "status", hidden: true }, progress, message, button("Cancel", cancel));
  return {
    el,
    /** Null when there is no job. @param {News|null} said */
    set(said) {
      el.hidden = !said;
      if (!said) return;
      if (typeof said.progress === "number") progress.value = said.progress;
      else progress.removeAttribute("value");
      message.textContent = said.message || "Working…";
    },
  };
}

/** @typedef {{addEventListener: (type: "keydown", react: (event: KeyboardEvent) => void) => void}} KeyTarget */

/**
 * Roving tabindex: one control of the row is in the tab order, arrow keys, Home and End move between them.
 * @template {HTMLElement|SVGElement} Item
 * @param {KeyTarget} row @param {() => Item[]} items @param {(item: Item) => void} [arrived]
 */
export function walkable(row, items, arrived) {
  row.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const all = items();
    const here = all.indexOf(/** @type {Item} */ (event.target));
    const place = here < 0 ? null : steppedTo(event, here, all.length);
    if (place === null) return;
    const there = all[place];
    for (const item of all) item.tabIndex = item === there ? 0 : -1;
    there.focus();
    arrived?.(there);
  });
}

/** Enter and space press what has the focus as a click does, where the browser does not. @param {HTMLElement} list */
export function pressable(list) {
  list.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if ((event.key !== "Enter" && event.key !== " ") || !target.matches("[role=option], tr, th")) return;
    event.preventDefault();
    target.click();
  });
}

/**
 * The number that an event's element, or one around it, has in an attribute; null without.
 * @param {Event} event @param {string} attribute @param {string} [more] of the selector
 */
export function numberAt(event, attribute, more = "") {
  const holder = /** @type {Element} */ (event.target).closest?.(`[${attribute}]${more}`);
  return holder ? Number(holder.getAttribute(attribute)) : null;
}

/** What a list does with the option that is clicked, by its `data-place`. @param {HTMLElement} list @param {(place: number) => void} choose */
function clickable(list, choose) {
  list.addEventListener("click", (event) => {
    const place = numberAt(event, "data-place", ":not([aria-disabled])");
    if (place !== null) choose(place);
  });
}

/**
 * A list of options with one tab stop: arrow keys move through it, a click, Enter and space choose.
 * @param {HTMLElement} list @param {(place: number) => void} choose
 */
export function choosable(list, choose) {
  pressable(list);
  clickable(list, choose);
  walkable(list, () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[data-place]:not([aria-disabled])")]));
}

/**
 * A choice among a few options in a row, with one tab stop.
 * @param {string} label @param {(Node|string)[]} contents of the options @param {number} place of the chosen one @param {(place: number) => void} choose
 */
export function optionRow(label, contents, place, choose) {
  const options = contents.map((content, at) => element("span", { class: "regard-head", role: "option", "data-place": at }, content));
  const row = element("div", { class: "regard-heads", role: "listbox", "aria-label": label, "aria-orientation": "horizontal" }, options);
  choosable(row, choose);
  /** @param {number} chosen */
  const set = (chosen) =>
    options.forEach((option, at) => {
      option.setAttribute("aria-selected", String(at === chosen));
      option.tabIndex = at === Math.max(chosen, 0) ? 0 : -1;
    });
  set(place);
  return { el: element("div", { class: "regard-head-chooser" }, element("span", { class: "regard-label", text: label, "aria-hidden": "true" }), row), set };
}

/**
 * The words of a text as a list with one tab stop: a click chooses a word, arrow keys the one beside.
 * @param {HTMLElement} list of which all words need not be shown @param {{here: () => number, count: () => number, choose: (place: number) => void}} words
 */
export function choosableText(list, { here, count, choose }) {
  clickable(list, choose);
  list.addEventListener("keydown", (event) => {
    const place = steppedTo(event, here(), count());
    if (place !== null) choose(place);
  });
}

/** Replaces the options of a list; the focus stays on the one in the tab order. @type {typeof replaced} */
export function replacedOptions(list, ...children) {
  const isFocused = list.contains(focusedBeside(list));
  replaced(list, ...children);
  if (isFocused) /** @type {HTMLElement|null} */ (list.querySelector('[tabindex="0"]'))?.focus();
}

/**
 * The position that an arrow key, Home or End moves to; null for other keys.
 * @param {KeyboardEvent} event @param {number} here @param {number} count
 */
export function steppedTo(event, here, count) {
  const moves = /** @type {Record<string, number>} */ ({
    ArrowRight: here + 1,
    ArrowDown: here + 1,
    ArrowLeft: here - 1,
    ArrowUp: here - 1,
    Home: 0,
    End: count - 1,
  });
  if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey) return null;
  event.preventDefault();
  return Math.min(Math.max(moves[event.key], 0), count - 1);
}
