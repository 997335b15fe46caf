"""The studio's server, the notebook widget and the one-file page answer the same queries alike."""

import queue
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regard.attention import Attention
from regard.biases import alibi
from regard.layers import LayerAttention
from regard.masks import causal, first, window
from regard.reading import Reading, Token
from regard.viewer import frames, long_texts
from regard.viewer.page import page
from regard.viewer.queries import Answers
from regard.viewer.widget import Conversation

from ..studio.cases import client, studio
from .page_in_node import ask_page

HEADS, KEY_HEADS, HEAD_DIM = 6, 3, 4
HIDDEN_SINKS = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 8.0])
WORDS = ((0, 1), (1, 3), (3, 4), (4, 7), (7, 11))


def attention(queries=11, keys=11, size=1.0, **options):
    """Grouped heads with vectors that 16 bits hold exactly, so that a page has the same ones."""
    rng = np.random.default_rng(queries * keys)
    q = rng.integers(-16, 17, (HEADS, queries, HEAD_DIM)) / 8 * size
    k = rng.integers(-16, 17, (KEY_HEADS, keys, HEAD_DIM)) / 8
    return Attention(q, k, **options)


def subject(A, sinks=(), words=()):
    """The attention of given words, with special tokens as sinks."""
    inside = [place for first, last in words for place in range(first + 1, last)]
    tokens = tuple(
        Token(str(place), place, 0, 0, special=place in sinks, joined=place in inside) for place in range(A.shape[-1])
    )
    seen = (LayerAttention(A, np.ones((KEY_HEADS, A.shape[-1], 2))),)
    return replace(Reading.of(A), tokens=tokens, seen=seen)


SUBJECTS = {
    "square": lambda: subject(attention()),
    "sinks and words": lambda: subject(attention(mask=causal()), sinks=(0, 10), words=WORDS),
    "first query 5": lambda: subject(attention(6, 11, mask=causal(), offset=5), sinks=(0, 6), words=WORDS),
    "first query 4, a word begins before it": lambda: subject(
        attention(7, 11, mask=causal(), offset=4), words=((0, 3), (3, 6), (6, 11))
    ),
    "queries not among the keys": lambda: subject(attention(5, 11), sinks=(3,), words=WORDS),
    "every stage": lambda: subject(
        attention(mask=first(1) | window(3, 1), softcap=2.0, sinks=HIDDEN_SINKS, bias=alibi(HEADS)), sinks=(0,)
    ),
    "large scores": lambda: subject(attention(size=64.0)),
}  # fmt: skip


def queries_for(shown):
    """The queries: each kind, with and without sinks and the tokens themselves."""
    last = len(shown.queries) - 1
    asked = [("along", {"layer": 0, "heads": [1, 4]})]
    for by in ("token", "word"):
        asked += [("row", {"layer": 0, "heads": [0, 5], "query": query, "by": by}) for query in (0, 1, last)]
    region = {"rows": [1, last], "columns": [2, 9], "shape": [2, 3]}
    asked += [("tile", {"layer": 0, "head": 3, **region, "pool": pool}) for pool in ("mean", "max")]
    for itself in (False, True):
        for sinks in (False, True):
            for count in (1000, 7):
                asked.append(
                    ("links", {"layer": 0, "heads": [1, 2, 5], "count": count, "itself": itself, "sinks": sinks})
                )
    asked += [("heads_for", {"query": last, "key": 5, "by": by}) for by in ("token", "word")]
    asked.append(("vectors", {"layer": 0, "head": 4, "query": last, "keys": [0, 5, 10]}))
    return asked


def from_server(shown, asked):
    made = studio(shown=shown)
    with client(made) as browser:
        name = browser.get("/start").json()["reading"]
        for kind, parameters in asked:
            reply = browser.post(f"/ask/{name}/{kind}", json=parameters)
            assert reply.status_code == 200, reply.text
            yield frames.unpack(reply.content)


def from_widget(shown, asked):
    replies: queue.Queue[Any] = queue.Queue()
    talk = Conversation(Answers(shown), lambda content, buffers=None: replies.put((content, buffers)))
    for kind, parameters in asked:
        talk.receive(None, {"id": "1", "kind": kind, "parameters": parameters})
        content, buffers = replies.get(timeout=60)
        assert content == {"id": "1"}
        yield frames.unpack(buffers[0])
    talk.close()


def in_order(arrays):
    """Links with ties in one order: single and double precision may differ in the seventh digit."""
    links = zip(arrays["weight"], arrays["query"], arrays["key"], strict=True)
    return sorted(((-round(float(weight), 5), int(query), int(key)) for weight, query, key in links))


def assert_same(kind, parameters, expected, found):
    (header, arrays), (page_header, page_arrays) = expected, found
    assert arrays.keys() == page_arrays.keys(), (kind, parameters)
    assert header.get("sampled") is None and page_header.get("sampled") is None
    if kind == "links" and parameters["count"] == 1000:
        assert len(arrays["weight"]) and in_order(arrays) == in_order(page_arrays), parameters
    if kind == "heads_for":  # in one order, as above
        for found in (arrays, page_arrays):
            order = np.lexsort((found["head"], found["layer"]))
            found.update({name: numbers[order] for name, numbers in found.items()})
    for name, numbers in arrays.items():
        if kind == "links" and name != "weight":
            continue
        assert numbers.shape == page_arrays[name].shape, (kind, name)
        what = f"{name} of {kind} {parameters}"
        np.testing.assert_allclose(page_arrays[name], numbers, rtol=2e-5, atol=2e-6, err_msg=what)


@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("case", SUBJECTS)
def test_every_host_gives_the_same_answers(case, is_long, monkeypatch):
    if is_long:  # what is done for texts of more than 4,096 tokens, here with all rows sampled
        monkeypatch.setattr(long_texts, "LONG", 2)
    shown = SUBJECTS[case]()
    assert long_texts.is_long(shown) is is_long
    asked = queries_for(shown)
    of_all = zip(from_server(shown, asked), from_widget(shown, asked), ask_page(page(shown), asked), strict=True)
    for (kind, parameters), (expected, of_widget, of_page) in zip(asked, of_all, strict=True):
        for name, array in expected[1].items():
            np.testing.assert_array_equal(of_widget[1][name], array)
        assert_same(kind, parameters, expected, of_page)


def test_links_of_sampled_rows_are_those_of_the_whole_text(monkeypatch):
    monkeypatch.setattr(long_texts, "LONG", 2)
    monkeypatch.setattr(long_texts, "SAMPLED_ROWS", 5)
    shown = subject(attention(40, 40, mask=causal()), sinks=(0,))
    asked = ("links", {"layer": 0, "heads": [0, 3], "count": 1000, "sinks": False})
    ((header, sampled),) = from_widget(shown, [asked])
    assert header["sampled"] == "every 8th row"
    ((_, whole),) = ask_page(page(shown), [asked])
    rows = set(sampled["query"].tolist())
    kept = [at for at, query in enumerate(whole["query"]) if int(query) in rows]
    assert in_order(sampled) == in_order({name: array[kept] for name, array in whole.items()})
