"""Lazy biases: the slopes of the paper, the buckets of T5, and tables that are as long as the sequence."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

import regard
from regard.biases import alibi, bucket_of, paper_slopes, relative_positions
from regard.errors import OptionError, TooLarge


def test_slopes_of_a_power_of_two_fall_by_one_ratio() -> None:
    assert paper_slopes(8) == [2.0**-head for head in range(1, 9)]
    assert paper_slopes(1) == [2.0**-8]
    np.testing.assert_allclose(paper_slopes(16), [2 ** (-head / 2) for head in range(1, 17)], rtol=1e-15)  # a rounding


def test_slopes_of_other_counts_add_every_second_one_of_the_next_power() -> None:
    assert paper_slopes(3) == [2.0**-4, 2.0**-8, 2.0**-2]
    between = [2**-0.5 * 2.0**-head for head in range(4)]
    np.testing.assert_allclose(paper_slopes(12), [*paper_slopes(8), *between], rtol=1e-15)  # roundings of the powers
    for heads in range(1, 66):
        assert len(set(paper_slopes(heads))) == heads


def test_alibi_is_minus_slope_times_distance() -> None:
    slopes = np.array([0.5, 0.25, 3.0], dtype=np.float32)
    table = alibi(slopes).table(3, lowest=-5, highest=7, dtype=np.float32)
    assert table.dtype == np.float32
    expected = [[-slope * abs(apart) for apart in range(-5, 8)] for slope in slopes]
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_array_equal(alibi(heads=3).table(3, 0, 4), -np.outer(paper_slopes(3), range(5)))


def test_one_slope_serves_all_heads() -> None:
    assert alibi(0.5).table(heads=7, lowest=0, highest=2).tolist() == [[0.0, -0.5, -1.0]]


def test_distances_past_the_range_of_half_precision_stay_finite() -> None:
    table = alibi([2.0**-8]).table(1, lowest=0, highest=131_071, dtype=np.float16)
    assert table.dtype == np.float16
    assert np.isfinite(table).all()
    assert table[0, -1] == -512  # 131,071 / 256, to eleven bits


def t5_bucket(apart: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """T5's rule as its paper's code says it, one distance at a time, in the same precision."""
    memory_minus_context = -apart
    start = 0
    if bidirectional:
        buckets //= 2
        start = buckets if memory_minus_context > 0 else 0
        distance = abs(memory_minus_context)
    else:
        distance = max(-memory_minus_context, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    logarithm = np.log(np.float32(distance) / np.float32(exact)) / np.float32(math.log(max_distance / exact))
    return start + min(exact + int(logarithm * np.float32(buckets - exact)), buckets - 1)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 64), (8, 20), (12, 50), (64, 512), (320, 800)])
def test_buckets_are_those_of_t5(buckets: int, max_distance: int, bidirectional: bool, library: str) -> None:
    xp = pytest.importorskip(library)
    found = bucket_of(xp.arange(-1000, 1001), buckets, max_distance, bidirectional, xp)
    assert found.tolist() == [t5_bucket(apart, buckets, max_distance, bidirectional) for apart in range(-1000, 1001)]


def test_known_buckets_of_t5() -> None:
    """Worked by hand: 16 buckets a side, 8 exact; 8 · 2^(m/2) begins bucket 8 + m; 128 and more share the last."""
    apart = np.array([0, 7, 8, 11, 12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 127, 128, 5000])
    before = [0, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 15, 15]
    assert bucket_of(apart, 32, 128, True).tolist() == before
    assert bucket_of(-apart[1:], 32, 128, True).tolist() == [16 + bucket for bucket in before[1:]]
    assert bucket_of(-apart, 32, 128, False).tolist() == [0] * 20


def test_relative_positions_look_up_each_head() -> None:
    learned = np.random.default_rng(0).standard_normal((32, 5)).astype(np.float32)
    table = relative_positions(learned).table(5, lowest=-200, highest=300, dtype=np.float32)
    assert table.shape == (5, 501)
    assert table.dtype == np.float32
    for apart in (-200, -9, -1, 0, 1, 17, 300):
        np.testing.assert_array_equal(table[:, apart + 200], learned[t5_bucket(apart, 32, 128, True)])


def test_gradients_reach_slopes_and_tables() -> None:
    torch = pytest.importorskip("torch")
    slopes = torch.tensor([0.5, 0.25], requires_grad=True)
    alibi(slopes).table(2, -1, 2, torch, torch.float64).sum().backward()
    assert slopes.grad.tolist() == [-4.0, -4.0]  # 1 + 0 + 1 + 2
    learned = torch.zeros(32, 3, requires_grad=True)
    relative_positions(learned).table(3, 0, 9, torch, torch.float32).sum().backward()
    assert learned.grad[:10].tolist() == [[1.0] * 3] * 8 + [[2.0] * 3] + [[0.0] * 3]


@pytest.mark.parametrize("kind", ["alibi", "relative_positions"])
def test_tables_trace_with_dynamic_shapes(kind: str) -> None:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()

    def table(given: Any, queries: Any, keys: Any) -> Any:
        bias = alibi(given[0]) if kind == "alibi" else relative_positions(given)
        return bias.table(3, 1 - keys.shape[0], queries.shape[0] - 1, torch, torch.float32)

    compiled = torch.compile(table, fullgraph=True, dynamic=True, backend="eager")
    given = torch.randn(32, 3)
    for queries, keys in ((5, 7), (11, 13), (7, 3)):
        arrays = torch.zeros(queries), torch.zeros(keys)
        assert torch.equal(compiled(given, *arrays), table(given, *arrays))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: alibi(), "either slopes"),
        (lambda: alibi([0.5], heads=1), "both"),
        (lambda: alibi(heads=0), "an integer from 1 to 65536"),
        (lambda: alibi(heads=10**30), "an integer from 1 to 65536"),
        (lambda: alibi(np.ones((2, 2))), "one per head"),
        (lambda: alibi([0.5, 0.25]).table(3, 0, 1), "`slopes` are for 2 heads, the attention has 3"),
        (lambda: relative_positions(np.ones((16, 4))), r"expected the shape \(32, head\)"),
        (lambda: relative_positions(np.ones((32, 4)), max_distance=8), "more than the 8 distances"),
        (lambda: relative_positions(np.ones((32, 4))).table(3, 0, 1), "`table` are for 4 heads"),
    ],
)
def test_a_bias_that_does_not_fit_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        wrong()


def test_biases_print_how_they_were_made() -> None:
    assert repr(alibi([0.5, 0.25])) == "alibi([0.5, 0.25])"
    assert repr(relative_positions(np.ones((32, 4)), bidirectional=False)).endswith(
        "max_distance=128, bidirectional=False)"
    )


def test_offsets_far_apart_are_refused_before_memory_is_taken() -> None:
    """One row of biases by distance serves all sequences: it would reach from one offset to the other."""
    ones = np.ones((2, 8, 4, 4), np.float32)
    tracemalloc.start()
    with pytest.raises(TooLarge, match="separately"):
        regard.Attention(ones, ones, bias=alibi(heads=8), offset=[0, 2**27])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24  # where the biases would take gigabytes
    ones = ones.astype(np.float64)  # biases of 2^27 leave float32 no digits for the scores
    far = regard.Attention(ones, ones, bias=alibi(heads=8), offset=[2**27, 2**27 + 3])
    near = regard.Attention(ones, ones, bias=alibi(heads=8), offset=[4, 7])
    np.testing.assert_allclose(far.dense(), near.dense(), rtol=1e-6)


@pytest.mark.parametrize("slopes", ["0.5", [None], [[0.5], [0.25, 1]], {}, True, np.array(["a"]), object()])
def test_slopes_of_other_types_are_refused_in_a_sentence(slopes: Any) -> None:
    with pytest.raises(OptionError, match=r"`slopes` is .*one per head"):
        alibi(slopes)
    with pytest.raises(OptionError, match=r"`table` is .*expected numbers"):
        relative_positions(slopes)
    with pytest.raises(OptionError, match=r"`buckets` is .*integer"):
        relative_positions(np.zeros((8, 2)), buckets=slopes)
