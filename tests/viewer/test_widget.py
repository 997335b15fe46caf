"""The notebook widget: queries are answered by messages, cancelled ones are not; a missing anywidget is no error."""

import queue
import re
import threading
from typing import Any

import numpy as np
import pytest

from regard.attention import Attention
from regard.viewer import bundle, frames, widget
from regard.viewer.queries import Answers

from ..small_models import writer
from .cases import CAT_SAT, reading, weights


class Page:
    """The other end of a conversation."""

    def __init__(self, answers):
        self.replies: queue.Queue[Any] = queue.Queue()
        self.talk = widget.Conversation(answers, lambda content, buffers=None: self.replies.put((content, buffers)))

    def send(self, **message):
        self.talk.receive(None, message, [])

    def reply(self):
        return self.replies.get(timeout=30)


def test_an_answer_comes_with_its_frame():
    page = Page(Answers(reading()))
    page.send(id="1", kind="row", parameters={"layer": 0, "heads": [2], "query": 4})
    content, buffers = page.reply()
    assert content == {"id": "1"}
    np.testing.assert_allclose(frames.unpack(buffers[0])[1]["weight"][0], weights()[0, 2, 4], atol=1e-6)


@pytest.mark.parametrize("message", [{"kind": "nothing"}, {"kind": "row", "parameters": {"query": -1}}, {"kind": None}])
def test_invalid_parameters_give_a_one_line_error(message):
    page = Page(Answers(reading()))
    page.send(id="1", **message)
    content, buffers = page.reply()
    assert content["id"] == "1" and content["error"].endswith(".") and not buffers


@pytest.mark.parametrize("message", [None, 5, [], "x", {}, {"id": 5, "kind": "row"}, {"id": "x" * 101}, {"cancel": []}])
def test_unknown_messages_are_ignored(message):
    page = Page(Answers(reading()))
    page.talk.receive(None, message, [])
    page.send(id="after", kind="describe")
    assert page.reply()[0] == {"id": "after"}


class Slow:
    """Answers on request, step by step."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.asked = []

    def answer(self, kind, parameters, stop):
        self.asked.append(kind)
        self.begun.set()
        assert self.go_on.wait(30)
        stop()
        return b"frame"


def test_cancelled_queries_are_not_answered():
    slow = Slow()
    page = Page(slow)
    page.send(id="1", kind="first")
    assert slow.begun.wait(30)
    page.send(id="2", kind="second")
    page.send(id="3", kind="third")
    page.send(cancel="1")
    page.send(cancel="2")
    slow.go_on.set()
    assert page.reply()[0] == {"id": "3"}
    assert page.replies.empty()


def test_too_many_concurrent_queries_are_refused():
    slow = Slow()
    page = Page(slow)
    for place in range(widget.WAITING + 1):
        page.send(id=str(place), kind="any")
    assert "queries are waiting" in page.reply()[0]["error"]
    slow.go_on.set()


def test_an_error_is_reported():
    class Broken:
        def answer(self, *_):
            raise ZeroDivisionError("oh")

    page = Page(Broken())
    page.send(id="1", kind="any")
    assert page.reply()[0] == {"id": "1", "error": "ZeroDivisionError: oh"}


def test_there_is_no_widget_outside_a_notebook():
    assert widget.mimebundle(Attention(CAT_SAT, CAT_SAT)) is None


def test_a_missing_anywidget_gives_a_one_line_error(monkeypatch):
    monkeypatch.setattr(widget, "find_spec", lambda _: None)
    with pytest.raises(NotImplementedError, match="pip install anywidget"):
        widget.widget(reading())
    monkeypatch.setattr(widget, "_in_notebook", lambda: True)
    assert widget.mimebundle(reading()) is None


def test_in_a_notebook_a_subject_is_its_widget_after_a_still_picture(monkeypatch):
    displayed: list[Any] = []
    monkeypatch.setattr(widget, "_in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.publish_display_data", displayed.append)
    shown = widget.mimebundle(reading())
    assert shown is not None
    bundle, _ = shown
    assert "model_id" in bundle[widget.WIDGET] and "text/plain" in bundle
    (still,) = displayed
    assert re.match(r'<div data-regard-still="[0-9a-f]{16}">', still["text/html"]) and "<svg" in still["text/html"]


def test_the_still_picture_of_a_long_text_is_one_map(monkeypatch):
    displayed: list[Any] = []
    monkeypatch.setattr("IPython.display.publish_display_data", displayed.append)
    monkeypatch.setattr(widget, "STILL", 3)
    widget._show_still(reading(), "1f")
    assert displayed[0]["text/html"].count("<svg") == 1 and "<table" not in displayed[0]["text/html"]


def test_the_widget_holds_one_script_that_exports_render():
    found = widget.widget(reading())
    assert "export default module_" in found._esm and "\nimport " not in found._esm
    assert found.wasm == bundle.wasm() and "wasm" in found.get_state()
    found.close()


def test_another_text_is_read_beside_the_first():
    page = Page(Answers(writer().read("the cat sat")))
    page.send(id="1", kind="read", parameters={"text": "love apple pie"})
    content, buffers = page.reply()
    header, _ = frames.unpack(buffers[0])
    assert content == {"id": "1"} and header["description"]["tokens"] == ["love", "apple", "pie"]
    page.send(id="2", kind="row", parameters={"layer": 0, "heads": [0], "query": 2}, reading=header["reading"])
    weights_there = frames.unpack(page.reply()[1][0])[1]["weight"][0]
    np.testing.assert_allclose(weights_there, writer().read("love apple pie").attention(0)[0, 2, :], atol=1e-6)
    page.send(id="3", kind="close", parameters={"reading": header["reading"]})
    page.reply()
    page.send(id="4", kind="describe", reading=header["reading"])
    assert "has been closed" in page.reply()[0]["error"]


def test_a_text_is_continued_with_news():
    page = Page(Answers(writer().read("the cat")))
    sampling: Any = {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "seed": 5}
    page.send(id="1", kind="generate", parameters={"text": "the cat", "tokens": 4, **sampling})
    expected = writer().generate("the cat", 4, **sampling)
    replies = [page.reply()]
    while "news" in replies[-1][0]:
        replies.append(page.reply())
    header, _ = frames.unpack(replies[-1][1][0])
    assert header["description"]["text"] == expected.text and header["description"]["given"] == 2
    assert f"the cat{replies[-2][0]['news']['text']}" == expected.text


@pytest.mark.parametrize("kind", ["read", "generate"])
def test_without_its_model_no_other_text_is_read(kind):
    page = Page(Answers(reading()))
    page.send(id="1", kind=kind, parameters={"text": "the cat", "model": "/etc/passwd"})
    assert "is on this machine" in page.reply()[0]["error"]
