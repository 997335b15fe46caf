"""The notebook widget: the page sends its queries to the Python kernel, wherever anywidget runs.

Messages are {id, kind, parameters}, answered by {id} with a frame or by {id, error}; {cancel: id} cancels a query.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import Any

from regard import errors
from regard.errors import RegardError
from regard.viewer import bundle
from regard.viewer.queries import Answers

ENTRY = "hosts/widget.js"
WAITING = 64  # queries waiting at once
WIDGET = "application/vnd.jupyter.widget-view+json"


def widget(subject: Any) -> Any:
    """A reading, a trace, an attention or a look-up as an anywidget."""
    if find_spec("anywidget") is None:
        raise errors.missing_package("A widget", "anywidget")
    return _widget_class()(Answers(subject))


def mimebundle(subject: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The MIME bundle of the widget; None without a notebook or without anywidget."""
    if not _in_notebook() or find_spec("anywidget") is None:
        return None
    found = widget(subject)._repr_mimebundle_()
    bundle, about = found if isinstance(found, tuple) else (found, {})
    if WIDGET not in (bundle or {}):
        return None
    return {WIDGET: bundle[WIDGET], "text/plain": repr(subject)}, about


def _in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return hasattr(running, "kernel")


class Cancelled(Exception):
    """The page cancelled the query."""


class Conversation:
    """Answers a page's queries in order on one thread; cancelled ones are skipped."""

    def __init__(self, answers: Answers, send: Callable[..., None]) -> None:
        self._answers = answers
        self._send = send
        self._waiting: set[str] = set()
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, "regard-widget")

    def received(self, _widget: Any, content: Any, _buffers: Any = None) -> None:
        """A message from the page."""
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
        self._worker.submit(self._answer, name, content.get("kind"), content.get("parameters"))

    def close(self) -> None:
        """Cancel all queries."""
        with self._lock:
            self._waiting.clear()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _answer(self, name: str, kind: Any, parameters: Any) -> None:
        def stop() -> None:
            if name not in self._waiting:
                raise Cancelled

        try:
            frame = self._answers.answer(kind, parameters, stop)
            stop()
        except Cancelled:
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


@cache
def _widget_class() -> Any:
    """The widget class, created on first use: importing anywidget is slow."""
    import anywidget

    def start(self: Any, answers: Answers) -> None:
        anywidget.AnyWidget.__init__(self)
        self._conversation = Conversation(answers, self.send)
        self.on_msg(self._conversation.received)

    def close(self: Any) -> None:
        self._conversation.close()
        anywidget.AnyWidget.close(self)

    script, style = bundle.script(ENTRY, ("default",)), bundle.style()
    return type("Viewer", (anywidget.AnyWidget,), {"_esm": script, "_css": style, "__init__": start, "close": close})
