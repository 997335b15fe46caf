"""Long texts: first maps from sampled rows, exact ones from the cells of one pass, zoomed maps always exact."""

import threading
from typing import Any

import numpy as np
import pytest

from regard.attention import Attention
from regard.attention.pooled import even_edges
from regard.errors import OptionError
from regard.masks import causal
from regard.reading import Reading
from regard.viewer import long_texts
from regard.viewer.queries import Answers

from .cases import asked

COUNT, HEADS, SIZE = 611, 2, 5


@pytest.fixture
def small(monkeypatch):
    """Applies the limits of long texts to sizes that NumPy can compute."""
    monkeypatch.setattr(long_texts, "LONG", 100)
    monkeypatch.setattr(long_texts, "NEAR", 200**2)
    monkeypatch.setattr(long_texts, "QUICK", 64 * COUNT)
    monkeypatch.setattr(long_texts, "CELLS", 64)
    monkeypatch.setattr(long_texts, "BLOCK", 50 * COUNT)
    monkeypatch.setattr(long_texts, "LEAST", 0)
    monkeypatch.setattr(long_texts, "SAMPLED_BLOCK", 20 * COUNT)


@pytest.fixture(params=[None, causal()], ids=["all", "causal"])
def case(request, small):
    rng = np.random.default_rng(3)
    queries, keys, values = rng.normal(size=(3, HEADS, COUNT, SIZE))
    attention = Attention(queries, keys, mask=request.param)
    return Answers(Reading.of(attention, values)), np.asarray(attention)


def pooled(expected, rows, columns, shape, pool="mean"):
    row_edges, column_edges = even_edges(rows[0], rows[1], shape[0]), even_edges(columns[0], columns[1], shape[1])
    reduce = np.maximum if pool == "max" else np.add
    part = expected[rows[0] : rows[1], columns[0] : columns[1]].astype(float)
    found = reduce.reduceat(part, row_edges[:-1] - rows[0], axis=0)
    found = reduce.reduceat(found, column_edges[:-1] - columns[0], axis=1)
    return found if pool == "max" else found / np.diff(row_edges)[:, None] / np.diff(column_edges)


def tile(answers, rows, columns, shape, pool="mean", quality="exact", head=1):
    header, found = asked(
        answers, "tile", layer=0, head=head, rows=list(rows), columns=list(columns), shape=list(shape), pool=pool,
        quality=quality,
    )  # fmt: skip
    return header, found["weight"]


WHOLE = ((0, COUNT), (0, COUNT))


def test_the_first_map_is_made_of_sampled_rows_and_labelled_so(case):
    answers, expected = case
    header, found = tile(answers, *WHOLE, (47, 31), quality="first")
    assert header["sampled"] == "every 13th row" and header["exact"] is False
    edges = even_edges(0, COUNT, 47)
    rows = (edges[:-1] + edges[1:] - 1) // 2
    columns = even_edges(0, COUNT, 31)
    exact = np.add.reduceat(expected[1][rows], columns[:-1], axis=1) / np.diff(columns)
    np.testing.assert_allclose(found, exact, atol=1e-6)


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("cells", [64, 32, 16])
def test_the_whole_map_is_exact(case, pool, cells):
    answers, expected = case
    header, found = tile(answers, *WHOLE, (cells, cells), pool)
    assert header["exact"] is True and header["sampled"] is None and header["cell"] == [10, 10]
    np.testing.assert_allclose(found, pooled(expected[1], *WHOLE, (cells, cells), pool), atol=1e-6)


def test_after_the_exact_pass_the_first_map_is_exact(case):
    answers, expected = case
    tile(answers, *WHOLE, (64, 64))
    header, found = tile(answers, *WHOLE, (32, 32), quality="first")
    assert header["exact"] is True
    np.testing.assert_allclose(found, pooled(expected[1], *WHOLE, (32, 32)), atol=1e-6)


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("before", [False, True], ids=["at once", "after the pass"])
@pytest.mark.parametrize("region", [((101, 299), (7, 205)), ((0, 13), (600, 611)), ((610, 611), (0, 1))])
def test_a_zoomed_map_is_exact(case, region, before, pool):
    answers, expected = case
    if before:
        tile(answers, *WHOLE, (64, 64))
    shape = (min(19, region[0][1] - region[0][0]), min(11, region[1][1] - region[1][0]))
    header, found = tile(answers, region[0], region[1], shape, pool)
    assert header["exact"] is True and header["cell"] is None
    np.testing.assert_allclose(found, pooled(expected[1], region[0], region[1], shape, pool), atol=1e-6)


def test_a_first_zoomed_map_does_not_wait_for_many_row_states(case):
    answers, _ = case
    assert tile(answers, (0, 64), (0, 50), (8, 8), quality="first")[0]["exact"] is True
    assert tile(answers, (200, 400), (0, 50), (8, 8), quality="first")[0]["sampled"] is not None


def test_cells_that_an_edge_cuts_are_shared_out(case):
    answers, expected = case
    region = ((100, 507), (33, 602))
    header, found = tile(answers, *region, (20, 20))
    assert header["exact"] is False and header["cell"] == [10, 10]
    sums = found * np.diff(even_edges(*region[0], 20))[:, None] * np.diff(even_edges(*region[1], 20))
    whole = expected[1][100:507, 33:602].sum()
    assert sums.sum() == pytest.approx(whole, rel=0.02)  # only cells at the border are guessed


def test_the_largest_of_cut_cells_is_never_too_small(case):
    answers, expected = case
    region = ((100, 507), (33, 602))
    _, found = tile(answers, *region, (20, 20), "max")
    assert (found >= pooled(expected[1], *region, (20, 20), "max") - 1e-6).all()


def test_cached_cells_stay_within_their_limit(small, monkeypatch):
    rng = np.random.default_rng(4)
    heads = 7
    queries, keys = rng.normal(size=(2, heads, COUNT, SIZE)).astype(np.float32)
    answers = Answers(Attention(queries, keys))
    one = 64 * 64 * 4 + COUNT * 9
    monkeypatch.setattr(answers._pyramids, "_limit", 3 * one)
    for head in range(heads):
        tile(answers, *WHOLE, (64, 64), head=head)
        assert sum(of_head.bytes for of_head in answers._pyramids._heads.values()) <= 3 * one
    assert tile(answers, *WHOLE, (64, 64), head=0)[0]["exact"]


def test_a_pass_is_cancelled_between_its_steps(case):
    answers, expected = case
    steps: list[Any] = []

    class Gone(Exception):
        pass

    def stop():
        steps.append(None)
        if len(steps) > 4:
            raise Gone

    with pytest.raises(Gone):
        answers.answer("tile", {"layer": 0, "head": 1, "shape": [64, 64]}, stop)
    assert len(steps) == 5
    _, found = tile(answers, *WHOLE, (64, 64))
    np.testing.assert_allclose(found, pooled(expected[1], *WHOLE, (64, 64)), atol=1e-6)


def test_concurrent_queries_are_answered(case):
    answers, expected = case
    found = {}

    def ask(place):
        found[place] = tile(answers, *WHOLE, (32, 32)) if place % 2 else tile(answers, (5, 105), (8, 150), (9, 9))

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place in range(6):
        region, shape = (WHOLE, (32, 32)) if place % 2 else (((5, 105), (8, 150)), (9, 9))
        np.testing.assert_allclose(found[place][1], pooled(expected[1], *region, shape), atol=1e-6)


def test_statistics_from_sampled_rows_are_labelled_as_sampled(case):
    answers, expected = case
    header, found = asked(answers, "statistics")
    assert header["sampled"] == "every 4th row"
    edges = even_edges(0, COUNT, long_texts.SAMPLED_ROWS)
    rows = (edges[:-1] + edges[1:] - 1) // 2
    sampled = expected[:, rows]
    np.testing.assert_allclose(found["peak"][0], sampled.max(-1).mean(-1), atol=1e-5)
    logarithms = np.log(np.where(sampled > 0, sampled, 1))
    np.testing.assert_allclose(found["entropy"][0], -(sampled * logarithms).sum(-1).mean(-1), atol=1e-4)
    apart = np.abs(rows[:, None] - np.arange(COUNT))
    np.testing.assert_allclose(found["distance"][0], (sampled * apart).sum(-1).mean(-1), rtol=1e-4)


def test_along_and_links_and_thumbnails_come_from_rows(case):
    answers, expected = case
    header, found = asked(answers, "along", layer=0, heads=[0])
    edges = even_edges(0, COUNT, long_texts.SAMPLED_ROWS)
    rows = (edges[:-1] + edges[1:] - 1) // 2
    np.testing.assert_allclose(found["received"][0], expected[0][rows].sum(0) * COUNT / len(rows), rtol=1e-4, atol=1e-5)
    assert found["entropy"].shape == (1, COUNT) and header["sampled"]
    header, found = asked(answers, "links", layer=0, heads=[0], count=7, itself=True)
    assert header["sampled"] and set(found["query"].tolist()) <= set(rows.tolist())
    np.testing.assert_allclose(found["weight"], expected[0][found["query"], found["key"]], atol=1e-6)
    header, found = asked(answers, "thumbnails", layer=0, shape=[16, 16])
    assert header["sampled"] and found["weight"].shape == (HEADS, 16, 16)


def test_vectors_of_many_tokens_are_requested_by_key():
    count = 5000
    subject_ = Attention(np.zeros((count, 2)), np.ones((count, 2)))
    with pytest.raises(OptionError, match="keys"):
        asked(subject_, "vectors", layer=0, head=0)
    _, found = asked(subject_, "vectors", layer=0, head=0, query=4999, keys=[0, 4999])
    assert found["k"].shape == (2, 2) and found["visible"].tolist() == [1, 1]


def test_the_progress_of_the_exact_pass_rises_to_1(case):
    answers, _ = case
    seen = []

    def look():
        seen.append(asked(answers, "progress", layer=0, head=1, pool="mean")[0]["share"])

    parameters = {"layer": 0, "head": 1, "rows": [0, COUNT], "columns": [0, COUNT], "shape": [32, 32]}
    answers.answer("tile", {**parameters, "quality": "exact"}, look)
    look()
    assert seen == sorted(seen) and seen[0] == 0 and seen[-1] == 1
    assert any(0 < share < 1 for share in seen)
    assert asked(answers, "progress", layer=0, head=0, pool="mean")[0]["share"] == 0
