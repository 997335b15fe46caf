/** What heads are known to do: heads chosen by a question such as "whose", and a label for each head. */
import { element, replaced } from "./elements.js";
import { printedCount, printedNumber } from "./numbers.js";
import { keptHeads, keptLayers } from "./state.js";

/** A few words on what a head does; empty where that is not known. @param {any} description @param {number} layer @param {number} head */
export function labelOf(description, layer, head) {
  return description.known?.labels?.[layer]?.[head] ?? "";
}

/**
 * Questions, each with the head that a treebank says answers it; null where the model is not known.
 * @param {import("./state.js").State} state
 * @param {any} description
 * @param {string[]} uses the choosers of the view
 * @param {import("./lifetime.js").Lifetime} lifetime
 */
export function roles(state, description, uses, lifetime) {
  const { known } = description;
  if (!known?.asks?.length || !uses.some((name) => name === "head" || name === "heads")) return null;
  const said = element("p", { class: "regard-roles-said", role: "status" });
  const buttons = known.asks.map((/** @type {any} */ ask) =>
    element("button", {
      type: "button",
      class: "regard-head regard-head-many",
      text: ask.name,
      title: ask.roles[0]?.said ?? ask.nothing,
      onclick: () => choose(ask),
    }),
  );

  /** @param {any} ask */
  function choose(ask) {
    const role = ask.roles.find(isKept);
    if (state.get().roles_asked === ask.name && answers(ask)) return state.set({ roles_asked: null });
    state.set({ roles_asked: ask.name, ...(role ? headOf(role) : {}) });
  }

  /** The head of a role, with all its links between content words. @param {any} role */
  function headOf({ layer, head }) {
    return { layer, head, heads: null, query: null, key: null, sinks: false };
  }

  /** @param {any} role */
  function isKept(role) {
    return keptLayers(description).includes(role.layer) && keptHeads(description).includes(role.head);
  }

  /** Whether the selected head answers a question; a question without a head is answered by none. @param {any} ask */
  function answers(ask) {
    const { layer, head, heads } = state.get();
    return !ask.roles.some(isKept) || (!heads && ask.roles.some((/** @type {any} */ one) => one.layer === layer && one.head === head));
  }

  function show() {
    const { layer, head, heads, roles_asked: name } = state.get();
    const asked = known.asks.find((/** @type {any} */ ask) => ask.name === name && answers(ask));
    known.asks.forEach((/** @type {any} */ ask, /** @type {number} */ place) =>
      buttons[place].setAttribute("aria-pressed", String(ask === asked)),
    );
    if (asked && !asked.roles.length) replaced(said, asked.nothing);
    else if (asked && !asked.roles.some(isKept)) replaced(said, `${asked.roles[0].said}: not kept in this page.`);
    else if (asked) replaced(said, asked.roles.filter(isKept).flatMap(saidOf));
    else replaced(said, heads ? "" : (known.said[layer]?.[head] ?? ""));
  }

  /** One answer: the selected one in words, the others as buttons. @param {any} role @param {number} place */
  function saidOf(role, place) {
    const { layer, head } = state.get();
    const name = `${role.arrow} ${role.layer}.${role.head}`;
    const before = place ? " · " : "";
    if (role.layer !== layer || role.head !== head) {
      const go = () => state.set(headOf(role));
      return [before, element("button", { type: "button", class: "regard-link", text: name, title: role.said, onclick: go })];
    }
    const untrained = role.untrained === null ? "" : `, the best head without training for ${printedNumber(role.untrained)}`;
    return [
      before,
      element("strong", { text: `${role.arrow}, layer ${role.layer}, head ${role.head}` }),
      `: right for ${printedNumber(role.accuracy)} of ${printedCount(role.words)} words in ${known.treebank}; ` +
        `the best fixed offset (${signed(role.offset)}) for ${printedNumber(role.offset_accuracy)}${untrained}`,
    ];
  }

  lifetime.add(state.listen(show));
  show();
  return element(
    "div",
    { class: "regard-roles" },
    element("div", { class: "regard-head-chooser", role: "group", "aria-label": "Head known for" },
      element("span", { class: "regard-label", text: "Head known for", "aria-hidden": "true", title: known.source }), buttons),
    said,
  ); // prettier-ignore
}

/** @param {number} offset */
function signed(offset) {
  return offset < 0 ? `−${-offset}` : `+${offset}`;
}
