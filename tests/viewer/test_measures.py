"""Norms, means and rollout in the viewer are those of a Reading, on every host."""

import numpy as np
import pytest

import regard
from regard.reading import Reading
from regard.viewer import frames
from regard.viewer.page import page
from regard.viewer.queries import Answers

from .cases import COUNT, HEADS, WORDS, reading, weights
from .page_in_node import ask_page

REGION = {"rows": [0, COUNT], "columns": [0, COUNT], "shape": [COUNT, COUNT]}
HALF = 1e-3  # a page stores these in 16 bits


def answers(shown, asked, host):
    if host == "page":
        return list(ask_page(page(shown), asked))
    return [frames.unpack(Answers(shown).answer(kind, parameters)) for kind, parameters in asked]


@pytest.mark.parametrize("host", ["python", "page"])
def test_mean_and_rollout_are_those_of_the_reading(host):
    shown = reading()
    asked = [("tile", {"layer": 0, "head": 0, **REGION, "measure": name}) for name in ("mean", "rollout")]
    (_, mean), (_, rolled) = answers(shown, asked, host)
    np.testing.assert_allclose(mean["weight"], weights().mean(axis=(0, 1)), atol=HALF)
    np.testing.assert_allclose(rolled["weight"], shown.rollout(), atol=HALF)


@pytest.mark.parametrize("host", ["python", "page"])
def test_a_row_by_word_sums_keys_and_averages_queries(host):
    shown = reading()
    asked = [("row", {"layer": 0, "heads": [0], "query": 7, "by": "word", "measure": "rollout"})]
    [(_, found)] = answers(shown, asked, host)
    first, last = WORDS[5]
    expected = np.add.reduceat(shown.rollout()[first:last].mean(axis=0), [start for start, _ in WORDS])
    np.testing.assert_allclose(found["weight"][0], expected, atol=HALF)


@pytest.mark.parametrize("host", ["python", "page"])
def test_norms_of_tokens_are_weight_times_the_length_of_the_value(host):
    shown = reading()
    [(_, found)] = answers(shown, [("tile", {"layer": 1, "head": 4, **REGION, "measure": "norm"})], host)
    values = np.asarray(shown.seen[1].values)[4 // 2]
    np.testing.assert_allclose(found["weight"], weights()[1, 4] * np.linalg.norm(values, axis=1), rtol=2e-3, atol=HALF)


@pytest.mark.parametrize("host", ["python", "page"])
def test_grams_give_the_norms_of_words(host):
    shown = reading()
    [(_, found)] = answers(shown, [("value_grams", {"layer": 0})], host)
    assert found["gram"].shape == (HEADS, sum((last - first) ** 2 for first, last in WORDS))
    for head in (0, 5):
        table = shown.norms(5, layer=0, head=head, sinks=True, itself=True)
        row = weights()[0, head, 6:9].mean(axis=0)
        at, norms = 0, []
        for first, last in WORDS:
            size = last - first
            gram = found["gram"][head, at : at + size * size].reshape(size, size)
            norms.append(np.sqrt(row[first:last] @ gram @ row[first:last]))
            at += size * size
        expected = dict(zip(table["Word"], table[table.columns[3].name], strict=True))
        np.testing.assert_allclose(norms, [expected[label] for label in shown.labels], rtol=1e-4)


def test_long_texts_show_weights_alone(monkeypatch):
    monkeypatch.setattr("regard.viewer.describe.MEASURED", COUNT - 1)
    header, _ = frames.unpack(Answers(reading()).answer("describe"))
    assert header["measures"] == ["weight"]
    with pytest.raises(regard.errors.RegardError, match="measure"):
        Answers(reading()).answer("tile", {"layer": 0, "head": 0, **REGION, "measure": "rollout"})


def test_heads_for_a_pair_are_those_of_the_reading():
    shown = reading()
    _, found = frames.unpack(Answers(shown).answer("heads_for", {"query": 7, "key": 3, "by": "word"}))
    table = Reading.heads_for(shown, 5, 2)
    assert list(zip(found["layer"], found["head"], strict=True)) == list(
        zip(table["layer"], table["head"], strict=True)
    )
    np.testing.assert_allclose(found["weight"], table["weight"], rtol=1e-6)
