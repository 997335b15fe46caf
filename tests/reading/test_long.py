"""Texts of 100,000 tokens: results for one word take O(n) memory."""

import tracemalloc

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.engines import select
from regard.masks import causal, window
from regard.reading import Reading

COUNT = 100_000
ROOM = 64 << 20  # bytes; one dense matrix would take 37 GiB


walks_over_all_rows = pytest.mark.skipif(
    select.NATIVE_PROBLEM is not None or select.WANTED == "reference",
    reason="walks over 100,000 rows, which takes the reference engine minutes",
)


@pytest.fixture(scope="module")
def reading():
    rng = np.random.default_rng(11)
    # A window keeps the time of what walks over all rows small; memory is what is tested.
    mask = causal() & window(127, 0)
    layers = [rng.normal(size=(3, 2, COUNT, 4)).astype(np.float32) for _ in range(2)]
    made = Reading.of([Attention(layer[0], layer[1], mask=mask) for layer in layers], [layer[2] for layer in layers])
    made.words, made.labels, made.sinks  # cached before memory is measured
    return made


ASKED = {
    "looks": lambda reading: reading.strongest(70_000),
    "heads_for": lambda reading: reading.heads_for(70_000),
    "norms": lambda reading: reading.norms(70_000, layer=1),
    "pairs of some words": lambda reading: reading.pairs(words=(70_000, 70_020)),
    "table": lambda reading: reading.explain(70_000, layer=1)["output"],
    "certificate": lambda reading: type(reading).certificate.func(reading),
    "row": lambda reading: reading.attention(1)[0, 70_000],
}


def in_little_room(asked, reading):
    tracemalloc.start()
    try:
        found = asked(reading)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < ROOM
    return found


@pytest.mark.parametrize("name", ASKED)
def test_one_word_of_a_long_text_takes_linear_memory(reading, name):
    assert in_little_room(ASKED[name], reading) is not None


@walks_over_all_rows
def test_rollout_of_one_word_takes_linear_memory_and_reaches_two_windows_back(reading):
    found = in_little_room(lambda reading: reading.rollout(70_000), reading)
    assert found.sum() == pytest.approx(1, abs=1e-4)
    assert np.flatnonzero(found).min() == 70_000 - 2 * 127
    assert np.flatnonzero(found).max() == 70_000


def test_results_of_gigabytes_are_refused(reading):
    for asked in (reading.rollout, reading.weights):
        with pytest.raises(errors.TooLarge, match="GiB"):
            asked()
