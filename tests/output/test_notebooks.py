"""An attention in a notebook: a figure if possible, text otherwise, never an error."""

from xml.etree import ElementTree

import numpy as np
import pytest

from regard.attention import Attention
from regard.attention.pooled import PooledMap
from regard.masks import causal
from regard.output import figure, html

from ..patterns import search
from .cases import CAT_SAT
from .svg_boxes import boxes


def attention(*leading, queries=5, keys=7, size=3, **options):
    rng = np.random.default_rng(1)
    return Attention(rng.normal(size=(*leading, queries, size)), rng.normal(size=(*leading, keys, size)), **options)


def picture(shown):
    return search(r"(?s)<svg.*</svg>", shown)[0]


def test_a_small_attention_is_its_heat_map():
    A = Attention(CAT_SAT, CAT_SAT)
    shown = A._repr_html_()
    assert str(figure.heat_map(A)).strip() == picture(shown)
    assert "Attention(query 3, key 3; head_dim 4, float64)" in shown
    assert "A.select" not in shown and "<script" not in shown


@pytest.mark.parametrize(
    ("leading", "note"),
    [
        ((1,), None),
        ((3,), None),
        ((1, 3), None),
        ((2, 1), "batch 0 of 2: A.select(batch=…)"),
        ((2, 3), "batch 0 of 2: A.select(batch=…)"),
        ((1, 13), "Heads 0 to 11 of 13: A.select(head=…)"),
    ],
)
def test_the_first_sequence_and_its_first_twelve_heads_are_shown_and_the_rest_is_named(leading, note):
    A = attention(*leading)
    shown = A._repr_html_()
    assert (note in shown) if note else ("A.select" not in shown)
    count = leading[-1] if leading else 1
    drawn = picture(shown)
    assert all(f">head {head}<" in drawn for head in range(min(count, 12) if count > 1 else 0))
    assert ">head 12<" not in drawn


def test_masked_keys_are_grey():
    assert "Grey" in attention(queries=5, keys=5, mask=causal())._repr_html_()


@pytest.mark.parametrize("shape", [(65, 3), (3, 65), (700, 300)])
def test_a_large_attention_is_pooled(shape, monkeypatch):
    asked = []

    def watched(self, shape, **options):
        asked.append(shape)
        return of_map(self, shape, **options)

    of_map = Attention.pooled
    monkeypatch.setattr(Attention, "pooled", watched)
    A = attention(1, queries=shape[0], keys=shape[1])
    shown = A._repr_html_()
    assert asked == [(min(shape[0], 64), min(shape[1], 64))]
    assert isinstance(of_map(A, asked[0]), PooledMap)
    assert f"{shape[0]} × {shape[1]} weights, each cell the mean" in shown
    assert len(shown) < 500_000
    ElementTree.fromstring(picture(shown))


def test_work_of_minutes_waits_for_a_request(monkeypatch):
    monkeypatch.setattr(Attention, "pooled", lambda *_: pytest.fail("this is slow"))
    shown = Attention(*np.zeros((2, 1 << 16, 5)))._repr_html_()
    assert "<svg" not in shown and "heat_map draws it" in shown and "query 65536" in shown


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("count", [6, 100])
def test_tensors_are_shown_as_arrays_are(dtype, count):
    torch = pytest.importorskip("torch")
    q, k = torch.randn(2, 1, 2, count, 3, dtype=getattr(torch, dtype), generator=torch.Generator().manual_seed(0))
    shown = Attention(q.requires_grad_(), k)._repr_html_()
    assert q.grad is None
    if dtype == "float64":
        plain = Attention(q.detach().numpy(), k.numpy())._repr_html_()
        assert [box.text for box in boxes(picture(shown))] == [box.text for box in boxes(picture(plain))]
    assert "<svg" in shown and ">head 1<" in shown


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e300])
def test_nan_and_infinities_do_not_break_a_figure(number):
    with np.errstate(all="ignore"):
        for count in (3, 100):
            queries = np.ones((count, 2))
            queries[1] = number
            ElementTree.fromstring(picture(Attention(queries, np.ones((count, 2)))._repr_html_()))


def test_an_attention_without_queries_has_a_notebook_representation():
    assert "query 0" in Attention(np.ones((0, 2)), np.ones((3, 2)))._repr_html_()


def test_what_cannot_be_drawn_is_refused_with_a_reason(monkeypatch):
    def fails(*_, **__):
        raise MemoryError

    monkeypatch.setattr(html, "weights_of", fails)
    assert attention(scale=2.0)._repr_html_() == "<pre>Attention(query 5, key 7; head_dim 3, float64, scale=2.0)</pre>"


def test_meta_tensors_have_a_notebook_representation():
    torch = pytest.importorskip("torch")
    shown = Attention(torch.zeros(3, 2, device="meta"), torch.zeros(3, 2, device="meta"))._repr_html_()
    assert "query 3" in shown
