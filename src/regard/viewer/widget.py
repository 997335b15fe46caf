"""Notebooks: a widget that asks the Python behind it, wherever anywidget runs.

Messages come as {id, kind, parameters} and are answered by {id} with a frame, or by {id, error}; {cancel: id} says that
nobody waits for an answer any more.
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
WAITING = 64  # questions at once
WIDGET = "application/vnd.jupyter.widget-view+json"


def widget(subject: Any) -> Any:
    """A reading, a trace, an attention or a look-up as an anywidget: the last expression of a cell shows it."""
    if find_spec("anywidget") is None:
        raise errors.missing_package("A widget", "anywidget")
    return _widget_class()(Answers(subject))


def mimebundle(subject: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """What a notebook shows of a subject by a widget; None where there is no notebook or no anywidget."""
    if not _in_notebook() or find_spec("anywidget") is None:
        return None
    found = widget(subject)._repr_mimebundle_()
    bundle, about = found if isinstance(found, tuple) else (found, {})
    if WIDGET not in (bundle or {}):
        return None
    return {WIDGET: bundle[WIDGET], "text/plain": repr(subject)}, about


def _in_notebook() -> bool:
    """Whether a kernel is there that widgets can talk to."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return hasattr(running, "kernel")


class Cancelled(Exception):
    """Nobody waits for this answer any more."""


class Conversation:
    """Questions from a page, answered one after the other on a thread of their own; cancelled ones are left out."""

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
                self._send({"id": name, "error": f"More than {WAITING} questions wait for their answers."})
                return
            self._waiting.add(name)
        self._worker.submit(self._answer, name, content.get("kind"), content.get("parameters"))

    def close(self) -> None:
        """Answer nothing more."""
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
        except Exception as problem:  # noqa: BLE001 - a page that waits must hear of it, whatever went wrong
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
    """The widget, made when it is first needed: importing anywidget takes a while."""
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
