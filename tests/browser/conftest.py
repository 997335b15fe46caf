"""A real Chromium, and the viewer in it on all three hosts: served, from a file without a network, from a Blob as in
notebooks."""

from __future__ import annotations

import os
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Frame, Page, expect

from regard.viewer import bundle, page
from regard.viewer.queries import Answers
from regard.viewer.widget import Conversation

from ..modules import module_of

HOSTS = ("served", "file", "blob")
# Every view is drawn on all hosts by test_hosts.py. The tests of one view run on the page that computes by itself;
# `make test-all` runs them on the other two as well.
EACH_HOST = ["file", *(pytest.param(host, marks=pytest.mark.slow) for host in HOSTS if host != "file")]
PATIENCE = int(os.environ.get("PATIENCE", 30_000))  # milliseconds: a machine that is busy is slow, not wrong
expect.set_options(timeout=PATIENCE)
# A phone and a desktop, each in one theme; `make test-all` has both themes of both.
ALL_SCREENS = ((360, 740, "dark"), (1400, 900, "light"), (360, 740, "light"), (1400, 900, "dark"))
SCREENS = [*ALL_SCREENS[:2], *(pytest.param(*screen, marks=pytest.mark.slow) for screen in ALL_SCREENS[2:])]

# What a notebook does: the module comes out of a Blob, and messages travel to Python and back.
NOTEBOOK = """async ({script, style, wasm}) => {
  const sheet = document.createElement("style");
  sheet.textContent = style;
  document.head.append(sheet);
  document.body.className = "regard-page";
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { default: widget } = await import(address);
  URL.revokeObjectURL(address);
  const listeners = new Set();
  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const still = document.createElement("p");
  still.dataset.regardStill = "1f";
  still.textContent = "A still picture";
  document.body.append(still);
  const model = {
    get: (name) => ({ still: "1f", wasm: new DataView(bytesOf(wasm).buffer) })[name],
    on: (kind, react) => kind === "msg:custom" && listeners.add(react),
    off: (kind, react) => listeners.delete(react),
    send: async (message) => {
      for (const { content, frames } of await window.askPython(message)) {
        for (const react of [...listeners]) react(content, frames.map((frame) => new DataView(bytesOf(frame).buffer)));
      }
    },
  };
  const el = document.createElement("div");
  document.body.append(el);
  window.messageListeners = listeners;
  window.cleanUp = widget.render({ model, el });
}"""

# Done once the viewer was not busy for so many pictures in a row; questions may wait a moment before they are asked.
CALM = """() => new Promise((done) => {
  let calm = 0;
  const look = () => {
    calm = document.querySelector('.regard[aria-busy="true"]') ? 0 : calm + 1;
    if (calm > 12) done(); else requestAnimationFrame(look);
  };
  look();
})"""

# Counts what the viewer adds and does not take away again: listeners on things that outlive it, observers and timers.
# Whose they are is read off the stack, because Playwright has some of its own.
COUNTING = """
(() => {
  const ours = () => /\\/web\\/|blob:/.test(new Error().stack);
  const lasting = new Map();
  const kept = (target) => target === window || target === document || target instanceof MediaQueryList;
  const name = (target) => (target === window ? "window" : target === document ? "document" : "media");
  const add = EventTarget.prototype.addEventListener;
  const remove = EventTarget.prototype.removeEventListener;
  const key = (target, type) => `${name(target)} ${type}`;
  EventTarget.prototype.addEventListener = function (type, listener, options) {
    if (kept(this) && ours()) lasting.set(key(this, type), (lasting.get(key(this, type)) ?? 0) + 1);
    return add.call(this, type, listener, options);
  };
  EventTarget.prototype.removeEventListener = function (type, listener, options) {
    if (kept(this) && ours()) lasting.set(key(this, type), (lasting.get(key(this, type)) ?? 0) - 1);
    return remove.call(this, type, listener, options);
  };
  const observers = new Set();
  for (const kind of ["ResizeObserver", "MutationObserver", "IntersectionObserver"]) {
    const Original = window[kind];
    window[kind] = class extends Original {
      observe(...given) { if (ours()) observers.add(this); return super.observe(...given); }
      disconnect() { observers.delete(this); return super.disconnect(); }
    };
  }
  const timers = new Set();
  const { setTimeout: start, clearTimeout: stop, setInterval: every, clearInterval: never } = window;
  window.setTimeout = (act, wait, ...more) => {
    const timer = start(() => { timers.delete(timer); act(...more); }, wait);
    if (ours()) timers.add(timer);
    return timer;
  };
  window.clearTimeout = (timer) => { timers.delete(timer); stop(timer); };
  window.setInterval = (...given) => { const timer = every(...given); if (ours()) timers.add(timer); return timer; };
  window.clearInterval = (timer) => { timers.delete(timer); never(timer); };
  window.held = () => ({
    listeners: Object.fromEntries([...lasting].filter(([, count]) => count)),
    observers: observers.size,
    timers: timers.size,
    nodes: document.querySelectorAll(".regard, .regard *").length,
  });
})();
"""


def _development() -> Any:
    """The server and the subjects of development.py, which is a script beside this file."""
    return module_of(Path(__file__).with_name("development.py"), "viewer_development")


@pytest.fixture(scope="session")
def development() -> Any:
    return _development()


@pytest.fixture(scope="session")
def served(development: Any) -> Iterator[str]:
    """The address of a server with the modules as they are."""
    server = development.serve()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, which finds accessibility problems; from a wheel."""
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def contexts() -> list[BrowserContext]:
    """Those of the test's pages. A server closes them before it stops: a page that still loads logs an error."""
    return []


@pytest.fixture
def new_page(chromium: Browser, contexts: list[BrowserContext]) -> Iterator[Callable[..., Page]]:
    """Pages that may neither log errors nor access the network; both are checked at the end."""
    problems, outside = [], []

    def make(width: int = 1200, height: int = 900, theme: Any = "light", offline: bool = False) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce",
            accept_downloads=True, offline=offline,
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda said: problems.append(said.text) if _complains(said) else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda asked: None if _inside(asked.url) else outside.append(asked.url))
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []
    assert outside == []


@pytest.fixture
def run_studio(contexts: list[BrowserContext]) -> Callable[..., Any]:
    """Runs a studio with some models and a text, and gives its first address."""
    from regard.studio.auth import Access, Guard
    from regard.studio.connections import LimitedConnection
    from regard.studio.server import Studio

    @contextmanager
    def run(library: Any, text: str, before_end: Callable[[], None] = lambda: None) -> Iterator[str]:
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # a browser that comes early waits
        port, access = listening.getsockname()[1], Access()
        guard = Guard(Studio(library, text=text).application(), access)
        settings = uvicorn.Config(guard, http=LimitedConnection, log_level="error", lifespan="on", ws="none")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}/#ticket={access.ticket()}"
        for context in contexts:
            context.close()
        server.should_exit = True
        before_end()
        thread.join(30)
        listening.close()

    return run


@pytest.fixture
def small_studio(run_studio: Any, development: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The first address of a studio with two small models, small-writer and small-encoder."""
    from regard.studio import library

    small = development.small_models()
    models = {model.name: model for model in (small.writer(), small.encoder())}
    known = {name: Known(name, "a small model") for name in models}
    monkeypatch.setattr("regard.studio.library.store.CATALOGUE", known)
    monkeypatch.setattr(library, "models_here", lambda: set(models))
    embeds = {"minilm": models["small-encoder"]}  # for Lookup
    made = library.Library("small-writer", load={**models, **embeds}.__getitem__)
    with run_studio(made, development.SMALL) as address:
        yield address


@dataclass(frozen=True)
class Known:
    """A model of the catalogue."""

    name: str
    what: str
    size: int = 0
    licence: str = "none"
    longest: int = 64


# The views by the names under which a person finds them: levels, pictures of a level, entries of the menu.
LEVELS = {
    "Sentence": "vote", "Heads": "dots", "One head": "sentence", "One number": "steps", "Does it matter?": "matter",
    "Learn": "learn",
}  # fmt: skip
PICTURES = {
    "Dots": ("Heads", "dots"), "Small maps": ("Heads", "grid"), "Threads": ("One head", "sentence"),
    "Map": ("One head", "matrix"), "Without heads": ("Does it matter?", "matter"),
    "Without one link": ("Does it matter?", "edges"), "From another text": ("Does it matter?", "patching"),
    "Layer by layer": ("Does it matter?", "lens"),
}  # fmt: skip
BESIDE = {
    "In context": "context", "Words": "words", "Output": "output", "Architecture": "architecture", "Lookup": "lookup",
}  # fmt: skip
VIEW_NAMES = {**{title: view for title, (_, view) in PICTURES.items()}, **LEVELS, **BESIDE}


def open_view(page: Page, title: str) -> None:
    """Go to a view as a person does: by its level, its picture, or the menu beside the zoom."""
    if title in BESIDE:
        page.locator("summary.regard-more").click()
        page.get_by_role("button", name=title, exact=True).click()
    elif title in PICTURES:
        level, view = PICTURES[title]
        open_level(page, level)
        if page.locator(f".regard[data-view={view}]").count() == 0:
            pictures = page.get_by_role("combobox", name="Picture")
            if pictures.count():
                pictures.select_option(title)
            else:
                page.get_by_role("radio", name=title, exact=True).check()
    else:
        open_level(page, title)
    expect_view(page, title)


def open_level(page: Page, title: str) -> None:
    """Go to a level of the zoom: on the bar where it is near, in the menu where it is far."""
    tab = page.get_by_role("tab", name=title, exact=True)
    if tab.count():
        tab.click()
    else:
        page.locator("summary.regard-more").click()
        page.get_by_role("button", name=title, exact=True).click()


def expect_view(page: Page, title: str) -> None:
    expect(page.locator(".regard[data-view]")).to_have_attribute("data-view", VIEW_NAMES[title])


def open_adjust(page: Page) -> None:
    """Open the panel in which all controls of a view are, where the view has some."""
    for button in page.get_by_role("button", name="Adjust", exact=True).all():
        if button.is_visible() and button.get_attribute("aria-expanded") == "false":
            button.click()


def choose_model(page: Page, name: str) -> None:
    page.get_by_label("More actions").click()
    page.get_by_label("Model").select_option(name)


def save_as(page: Page, kind: str) -> None:
    """Press an entry of Share: SVG, PNG, CSV or LaTeX."""
    if not page.locator(".regard-share details[open]").count():
        page.locator("summary.regard-save").click()
    page.get_by_role("button", name=kind, exact=True).click()


def titles(page: Page) -> list[str]:
    """The views that a page offers, by the names that `open_view` takes."""
    levels = page.get_by_role("tab").all_text_contents()
    menu = page.locator(".regard-menu .regard-menu-item").all_text_contents()
    pictures = ["Threads", "Map"] if "One head" in levels else []
    changes = ["Without one link", "From another text", "Layer by layer"] if "Does it matter?" in levels else []
    return [*levels, *pictures, *changes, *menu]


@pytest.fixture
def settle() -> Callable[[Page], Page]:
    """Waits until a page has nothing left to load or draw."""
    return settled


@pytest.fixture
def exported() -> Callable[[Page, str], str]:
    """What a button of Export saves: SVG, CSV or LaTeX."""

    def save(page: Page, name: str) -> str:
        with page.expect_download() as waiting:
            save_as(page, name)
        text: str = waiting.value.path().read_text(encoding="utf-8")
        return text

    return save


@pytest.fixture
def opening() -> bool:
    """Used by tests of where a page opens; the others start at layer 0, head 0, without a word."""
    return True


@pytest.fixture(autouse=True)
def plain_start(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "opening" not in request.fixturenames:
        monkeypatch.setattr("regard.viewer.describe.start_of", lambda _: None)


@pytest.fixture
def show(
    new_page: Callable[..., Page], served: str, development: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., Page]:
    """Opens a subject on a host and waits until it is drawn; Adjust is open but in tests of where a page opens."""

    def show(
        host: str, subject: str = "kids", address: str = "", counting: bool = False, widgets: int = 1,
        before: str = "", adjust: bool = True, **options: Any,
    ) -> Page:  # fmt: skip
        opened = new_page(offline=host == "file", **options)
        for script in filter(None, (COUNTING if counting else "", before)):
            opened.add_init_script(script)
        if host == "served":
            opened.goto(f"{served}/{subject}{address}")
        elif host == "file":
            path = page.save(development.subject(subject), tmp_path / f"{subject}.html")
            opened.goto(f"{path.as_uri()}{address}")
        else:
            _in_notebook(opened, development.answers(subject), widgets)
        settled(opened)
        if adjust and "opening" not in request.fixturenames:
            open_adjust(opened)
        return opened

    return show


def settled(opened: Page) -> Page:
    """Wait until every query of the viewer is answered and drawn, and no new one is sent for a while."""
    opened.wait_for_selector('.regard[aria-busy="false"]')
    opened.evaluate(CALM)
    return opened


class _AtOnce:
    """Work is done where it is submitted: Playwright may be used on one thread alone."""

    def submit(self, work: Callable[..., None], *given: Any) -> None:
        work(*given)


def _in_notebook(opened: Page, answers: Answers, widgets: int) -> None:
    connect_to_python(opened, answers)
    opened.goto("about:blank")
    for _ in range(widgets):  # each cell imports its own copy of the script
        render_widget(opened)


def connect_to_python(opened: Page, answers: Answers) -> None:
    """Define the function askPython in a page and its frames, which answers as the widget's Python does."""
    replies: list[dict[str, Any]] = []

    def send(content: dict[str, Any], buffers: Any = ()) -> None:
        replies.append({"content": content, "frames": [b64encode(frame).decode() for frame in buffers]})

    talk = Conversation(answers, send)
    talk._worker = _AtOnce()  # type: ignore[assignment]

    def ask(message: dict[str, Any]) -> list[dict[str, Any]]:
        replies.clear()
        talk.receive(None, message)
        return list(replies)

    opened.expose_function("askPython", ask)


def render_widget(opened: Page | Frame) -> None:
    """Render the widget; what it asks goes to the function askPython of the page."""
    script, wasm = bundle.script("hosts/widget.js", default=True), b64encode(bundle.wasm()).decode()
    opened.evaluate(NOTEBOOK, {"script": script, "style": bundle.style(), "wasm": wasm})


@pytest.fixture
def widget_without_kernel(new_page: Callable[..., Page]) -> Page:
    """A widget in an exported notebook: nothing answers."""
    opened = new_page()
    opened.goto("about:blank")
    opened.evaluate("window.askPython = async () => []")
    render_widget(opened)
    return opened


def _complains(said: Any) -> bool:
    """Errors and warnings, except the browser's own request for an icon."""
    return said.type in ("error", "warning") and not said.location.get("url", "").endswith("/favicon.ico")


def _inside(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:", "about:"))
