"""Descriptions have the types that the page's JavaScript is checked against."""

import runpy
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from regard import masks
from regard.attention import Attention
from regard.heads.roles import shipped
from regard.layers import Linear, MultiHead
from regard.reading import Reading
from regard.teaching.lookup import lookup
from regard.viewer import describe as viewed
from regard.viewer import training_page
from regard.viewer.description import Description, TrainingHeader
from regard.viewer.queries import Answers, answers_for

from .cases import CAT_SAT, causal_reading, reading

ROOT = Path(__file__).parent.parent.parent
EYE = Linear(np.eye(4), np.ones(4))
SUBJECTS = {
    "reading": reading,
    "causal": causal_reading,
    "attention": lambda: Attention(CAT_SAT, CAT_SAT),
    "other queries": lambda: Attention(CAT_SAT[:2], CAT_SAT),
    "trace": lambda: Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=["The", "cat", "sat"]),
    "layer": lambda: MultiHead(EYE, EYE, EYE, EYE, heads=2).explain(CAT_SAT, words=["The", "cat", "sat"]),
    "look-up": lambda: lookup({"brand": "Ford", "year": "1964"}),
    "look-up of numbers": lambda: lookup([[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0]),
}


def misfit(value: typing.Any, hint: typing.Any, path: str = "") -> str:
    """Where a value, as it is packed, differs from its type; empty where it fits."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint)
        if not isinstance(value, dict) or not hint.__required_keys__ <= set(value) <= set(hints):
            return f"{path}: keys of {hint.__name__}: {value!r}"
        return next(filter(None, (misfit(part, hints[name], f"{path}.{name}") for name, part in value.items())), "")
    if origin in (typing.Union, types.UnionType):
        found = [misfit(value, part, path) for part in parts]
        return "" if "" in found else found[0]
    if origin in (list, Sequence, tuple):
        each = parts if origin is tuple else parts * len(value) if isinstance(value, (list, tuple)) else ()
        if not isinstance(value, (list, tuple)) or len(each) != len(value):
            return f"{path}: {value!r} is not {hint}"
        return next(filter(None, (misfit(*both, f"{path}[]") for both in zip(value, each, strict=True))), "")
    if origin is Mapping:
        return next(filter(None, (misfit(part, parts[1], f"{path}[]") for part in value.values())), "")
    kinds: typing.Any = {float: (float, int), type(None): type(None)}.get(hint, hint)
    fits = value in parts if origin is typing.Literal else isinstance(value, kinds)
    return "" if fits and (hint is bool) == isinstance(value, bool) else f"{path}: {value!r} is not {hint}"


def test_the_types_of_javascript_are_those_of_python():
    written = runpy.run_path(str(ROOT / "docs" / "write_types.py"))["write"]()
    assert (ROOT / "src/regard/web/description.d.ts").read_text(encoding="utf-8") == written, "run `make types`"


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_description_has_its_type(name):
    assert misfit(answers_for(SUBJECTS[name]()).description(), Description) == ""


def test_what_heads_are_known_for_has_its_type(monkeypatch):
    found = shipped("minilm")
    rng = np.random.default_rng(0)
    words = ["[CLS]", "Sarah", "left", "her", "keys", "on", "the", "table", "[SEP]"]
    q, k, v = rng.normal(size=(3, found.layers, found.heads, len(words), 4))
    read = Reading.of([Attention(*pair) for pair in zip(q, k, strict=True)], list(v), words=words)
    monkeypatch.setattr(viewed, "known", lambda _subject: found)
    description = Answers(read).description()
    roles = description["known"]
    assert roles is not None and any(ask["answers"] for ask in roles["asks"])
    assert misfit(description, Description) == ""


def test_the_header_of_a_training_page_has_its_type():
    pytest.importorskip("torch")
    from .test_training_page import record

    header, _ = training_page.film(record(), "Training")
    assert misfit(header, TrainingHeader) == ""


MASKS = [
    None, masks.causal(), masks.causal() & masks.window(2), masks.window(2), masks.window(1, 0), masks.prefix(3),
    masks.first(2), masks.chunks(3), masks.documents([0, 0, 1, 1, 1, 2, 2]), masks.documents([0, 1, 0, 1, 0, 1, 0]),
    masks.padding(5), masks.causal() & (masks.first(1) | masks.window(1)), ~masks.window(1),
    masks.where(lambda query, key: (query - key) % 2 == 0),
    masks.allowed(np.random.default_rng(2).random((2, 7, 7)) > 0.6),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(MASKS)))
def test_the_mask_of_every_layer_is_described(place):
    queries, keys = np.random.default_rng(1).normal(size=(2, 2, 7, 4))
    attentions = [Attention(queries, keys, mask=mask) for mask in (MASKS[place], masks.causal(), MASKS[place])]
    described = viewed.describe(Reading.of(attentions, [keys] * 3, words=list("abcdefg")))
    assert described["mask_of_layer"][0] == described["mask_of_layer"][2]
    assert len(described["masks"]) == (1 if place == 1 else 2)
    for attention, at in zip(attentions, described["mask_of_layer"], strict=True):
        seen = np.isfinite(np.asarray(attention.masked[:, :, :])).any(axis=0)  # in some head
        np.testing.assert_array_equal(expanded(described["masks"][at]), seen)


def expanded(mask):
    """A described mask as booleans (query, key), by the rule that the page follows."""
    query, key = np.arange(7)[:, None], np.arange(7)
    if mask["visible"] is None:
        nearest = 7 if mask["window"] is None else mask["window"]
        return (key <= query) & (key > query - nearest) if mask["causal"] else np.ones((7, 7), bool)
    found = np.zeros((7, 7), bool)
    for row, ends in enumerate(mask["visible"]):
        for first, last in zip(ends[::2], ends[1::2], strict=True):
            found[row, first:last] = True
    return found


def test_synthetic_texts_open_on_a_named_head_as_a_map():
    from regard.reading.synthetic import HEADS, synthetic
    from regard.viewer.describe import describe

    found = describe(synthetic(400))
    roles, start = found["known"], found["start"]
    assert roles is not None and roles["labels"] == [list(HEADS)]
    assert start is not None and start["view"] == "matrix"
    assert "induction" in roles["labels"][start["layer"]][start["head"]]
    assert all(word.isascii() and "-" in word for word in found["tokens"])
