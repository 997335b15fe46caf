/** Learn: where heads are seen to find their jobs in training: recorded films, and a training to start. */
import { jobProgress } from "../../elements/controls.js";
import { button, element, replaced } from "../../elements/elements.js";
import { latestOnly } from "../../elements/lifetime.js";
import { showTraining } from "../../training/view.js";

const TASKS = [
  { name: "relations", text: "Words find their partners", about: "who does what, whose, where, what “they” refers to: two layers, a minute or two" },
  { name: "lookup", text: "Look-up", about: "pairs of a key and a value, then keys alone: the model gives the value" },
  { name: "induction", text: "Induction", about: "A B … A: the model gives B" },
];

export const learn = {
  name: "learn",
  title: "Learn",
  uses: [],
  /** @param {Description} _ @param {import("../../page/views.js").Services} services */
  suits: (_, { learn: pages, train }) => Boolean(pages?.length || train),
  draw: drawLearn,
};

/** @param {Context} context @returns {Drawn} */
function drawLearn({ el, services, lifetime, announce }) {
  const latest = latestOnly(lifetime);
  const work = jobProgress(() => stop("Cancelled."), { class: "regard-learn-work", label: "Progress of the training", message: "regard-about" });
  const problem = element("p", { class: "regard-error", role: "alert", hidden: true });
  const film = element("div", { class: "regard-learn-film" });
  let endFilm = () => {};
  lifetime.add(() => endFilm());
  const buttons = TASKS.map(({ name, text, about }) =>
    element("li", {}, button(text, () => start(name), { class: "regard-vote-action", "data-kind": "main" }), element("p", { class: "regard-about", text: about })),
  );

  /** @param {string} said */
  function stop(said) {
    latest.cancel();
    settle(said);
  }

  /** @param {string} said what went wrong; empty where nothing did */
  function settle(said) {
    work.set(null);
    problem.hidden = !said;
    problem.textContent = said;
    for (const button of el.querySelectorAll("[data-kind=main]")) button.toggleAttribute("disabled", false);
  }

  /** @param {string} task */
  function start(task) {
    settle("");
    for (const button of el.querySelectorAll("[data-kind=main]")) button.toggleAttribute("disabled", true);
    work.set({ message: "Starting…" });
    latest(
      (signal) => /** @type {NonNullable<Services["train"]>} */ (services.train)(task, { signal, news: work.set }),
      (frame) => {
        settle("");
        endFilm();
        film.replaceChildren();
        endFilm = showTraining(film, frame, { isPage: false });
        announce("The training has ended: its film is below.");
        film.scrollIntoView({ block: "start" });
      },
      (error) => settle(error.message),
    );
  }

  replaced(
    el,
    element("p", { class: "regard-learn-said", text: "No one told these heads what to look for. They start at random and find their jobs while the model learns to predict." }),
    services.learn?.length
      ? element(
          "ul",
          { class: "regard-learn-pages" },
          services.learn.map(({ href, text, about }) => element("li", {}, element("a", { href, class: "regard-vote-action", "data-kind": "main", text }), about ? element("p", { class: "regard-about", text: about }) : null)),
        )
      : null,
    services.train ? [element("h3", { class: "regard-subtitle", text: "Train one now, on this machine" }), element("ul", { class: "regard-learn-pages" }, buttons), work.el, problem, film] : null,
  );
  return {};
}
