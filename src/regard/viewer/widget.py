"""The notebook widget: the page sends its queries to the Python kernel, wherever anywidget runs.

Messages are {id, kind, parameters, reading}, answered by {id} with a frame or by {id, error}; {cancel: id} cancels a
query. Besides the queries of a reading there are four: `models` lists those on this machine; `read` reads another text
and `generate` continues one, and their frame names the new reading, which `close` closes. News of a text that is being
written are {id, news}.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from secrets import token_hex
from typing import Any

from regard import errors
from regard.errors import RegardError
from regard.reading.reader import Reader
from regard.viewer import bundle, frames, params
from regard.viewer.long_texts import Stop
from regard.viewer.queries import Answers, LookupAnswers, answers_for
from regard.viewer.similar import models_here, open_here

ENTRY = "hosts/widget.js"
WAITING = 64  # queries waiting at once
STILL = 512  # tokens up to which a still picture ranks the links of a reading; of longer ones it is one head's map
WIDGET = "application/vnd.jupyter.widget-view+json"


def widget(subject: Any) -> Any:
    """A reading, a trace, an attention or a look-up as an anywidget."""
    if find_spec("anywidget") is None:
        raise errors.missing_package("A widget", "anywidget")
    return _widget_class()(answers_for(subject))


def mimebundle(subject: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The MIME bundle of the widget, after a still picture; None without a notebook or without anywidget."""
    if not _in_notebook() or find_spec("anywidget") is None:
        return None
    made = widget(subject)
    mimebundle = made._repr_mimebundle_()
    bundle, about = mimebundle if isinstance(mimebundle, tuple) else (mimebundle, {})
    if WIDGET not in (bundle or {}):
        return None
    _show_still(subject, made.still)
    return {WIDGET: bundle[WIDGET], "text/plain": repr(subject)}, about


def display(subject: Any) -> Any:
    """What marimo shows by its protocol `_display_`: the widget, or a still picture without anywidget."""
    return widget(subject) if find_spec("anywidget") is not None else Still(subject._repr_html_())


@dataclass(frozen=True)
class Still:
    """A picture without a widget."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def _show_still(subject: Any, name: str) -> None:
    """Display what is seen where there is no kernel: in an exported or reopened notebook. The viewer hides it.

    It is an output of its own: nbconvert prefers the widget to anything else in one bundle, and draws it blank.
    """
    from IPython.display import publish_display_data  # type: ignore[import-not-found, unused-ignore]

    tokens = getattr(subject, "tokens", ())  # of a reading
    drawn = subject.attention(0) if len(tokens) > STILL else subject
    still = f'<div data-regard-still="{name}">{drawn._repr_html_()}</div>'
    publish_display_data({"text/html": still, "text/plain": repr(subject)})  # type: ignore[no-untyped-call, unused-ignore]


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return hasattr(running, "kernel")


class QueryCancelled(Exception):
    """The page cancelled the query."""


class Conversation:
    """Answers a page's queries in order on one thread; cancelled ones are skipped."""

    def __init__(self, answers: Answers | LookupAnswers, send: Callable[..., None]) -> None:
        self._answers = answers
        self._others = Others(answers)
        self._send = send
        self._waiting: set[str] = set()
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, "regard-widget")

    def receive(self, _widget: Any, content: Any, _buffers: Any = None) -> None:
        if not isinstance(content, dict):
            return
        if "cancel" in content:
            with self._lock:
                self._waiting.discard(str(content["cancel"]))
            return
        name = content.get("id")
        if not isinstance(name, str) or len(name) > 100:
            return
        with self._lock:
            if len(self._waiting) >= WAITING:
                self._send({"id": name, "error": f"More than {WAITING} queries are waiting."})
                return
            self._waiting.add(name)
        if content.get("kind") == "progress":  # of what the worker does: it must not wait for it
            self._answer(name, content)
        else:
            self._worker.submit(self._answer, name, content)

    def close(self) -> None:
        with self._lock:
            self._waiting.clear()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _answer(self, name: str, content: dict[str, Any]) -> None:
        kind, parameters = content.get("kind"), content.get("parameters")

        def stop() -> None:
            if name not in self._waiting:
                raise QueryCancelled

        def news(status: dict[str, Any]) -> None:
            stop()
            self._reply({"id": name, "news": status})

        try:
            if kind in Others.KINDS:
                frame = self._others.answer(str(kind), parameters, stop, news)
            else:
                answers = self._others.named(content.get("reading"))
                frame = answers.answer(kind, parameters, stop)  # type: ignore[arg-type]
            stop()
        except QueryCancelled:
            return
        except RegardError as problem:
            self._reply({"id": name, "error": str(problem)})
        except Exception as problem:  # noqa: BLE001 - every failure must reach the waiting page
            self._reply({"id": name, "error": f"{type(problem).__name__}: {problem}"})
        else:
            self._reply({"id": name}, [frame])
        finally:
            with self._lock:
                self._waiting.discard(name)

    def _reply(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        self._send(content, buffers or [])


class Others:
    """Readings beside the first: other texts, and texts that were continued."""

    KINDS = ("models", "read", "generate", "close")
    MOST = 6  # kept open

    def __init__(self, first: Answers | LookupAnswers) -> None:
        self._first = first
        self._open: dict[str, Answers] = {}

    def named(self, name: Any) -> Answers | LookupAnswers:
        """The answers of a reading; the first one without a name."""
        if name is None:
            return self._first
        if name not in self._open:
            raise errors.OptionError("This reading has been closed: read the text again.")
        return self._open[name]

    def answer(self, kind: str, parameters: Any, stop: Stop, news: Callable[[dict[str, Any]], None]) -> bytes:
        """The frame that answers one of `KINDS`."""
        parameters = {} if parameters is None else parameters
        if kind == "models":
            reader = self._first.reader
            return frames.pack({"models": sorted({*models_here(), *([] if reader is None else [reader.name])})})
        if kind == "close":
            self._open.pop(str(params.parameters(parameters, ("reading",)).get("reading")), None)
            return frames.pack({})
        values = params.parameters(parameters, ("text", "model", *(params.GENERATION if kind == "generate" else ())))
        text = params.text("text", values.get("text"))
        model = self._model(values.get("model"))
        if kind == "read":
            return self._open_reading(model.read(text, on_layer=lambda _done, _of: stop()))
        written: list[str] = []

        def on_token(piece: str) -> None:
            written.append(piece)
            news({"text": "".join(written), "progress": len(written) / tokens})

        tokens, sampling = params.generation(values)
        return self._open_reading(model.generate(text, tokens, on_token=on_token, **sampling))

    def _open_reading(self, reading: Any) -> bytes:
        name, answers = token_hex(8), Answers(reading)
        self._open[name] = answers
        while len(self._open) > self.MOST:
            del self._open[next(iter(self._open))]
        return frames.pack({"reading": name, "description": answers.description()})

    def _model(self, name: Any) -> Reader:
        reader = self._first.reader
        if reader is not None and name in (None, reader.name):
            return reader
        if name not in models_here():
            raise errors.OptionError(
                f"No model {name!r} is on this machine, and the one that read this text is not at hand."
                if reader is None
                else f"No model {name!r} is on this machine: `regard models` lists those that are."
            )
        return open_here(str(name))


@cache
def _widget_class() -> Any:
    """The widget class, created on first use: importing anywidget is slow."""
    import anywidget
    from traitlets import Bytes, Unicode

    def start(self: Any, answers: Answers | LookupAnswers) -> None:
        anywidget.AnyWidget.__init__(self, still=token_hex(8), wasm=bundle.wasm())
        self._conversation = Conversation(answers, self.send)
        self.on_msg(self._conversation.receive)

    def close(self: Any) -> None:
        self._conversation.close()
        anywidget.AnyWidget.close(self)

    script, style = bundle.script(ENTRY, default=True), bundle.style()
    still = Unicode().tag(sync=True)  # the name of the still picture
    wasm = Bytes().tag(sync=True)  # the kernels that the page computes with
    members = {"_esm": script, "_css": style, "still": still, "wasm": wasm, "__init__": start, "close": close}
    return type("Viewer", (anywidget.AnyWidget,), members)
