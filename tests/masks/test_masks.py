"""Masks as values: which of them are intervals, what they cost, how they print, trace and refuse."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import OptionError, TypeProblem
from regard.masks import Mask, allowed, causal, chunks, documents, first, padding, prefix, where, window

ALL = slice(None)


def place(mask: Mask, queries: int, keys: int, **more: Any) -> Any:
    return mask.visible(queries=queries, keys=keys, **more)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("mask", "intervals"),
    [
        (causal(), 1),
        (causal() & window(5) & padding([7, 11]), 1),
        (causal() & padding([7, 11], side="left") & chunks(4), 1),
        (prefix(3) & documents([0] * 6 + [1] * 7), 1),
        (~causal(), 1),  # its lower gap is empty, and known to be
        (first(2) | causal(), 1),
        (first(4) | window(3), 2),
        (causal() & (first(2) | window(3)), 2),
        (causal() & (first(2) | window(3)) & padding([7, 11]), 2),
        (~window(2), 2),
        (~window(2) & padding([7, 11]), 2),
    ],
)
def test_these_masks_are_intervals_alone(mask: Mask, intervals: int, library: str) -> None:
    xp = pytest.importorskip(library)
    visible = mask.visible(queries=13, keys=13, batch=2, xp=xp)
    assert visible.rest is None
    assert visible.first is not None
    assert (visible.second_first is not None) == (intervals == 2)


def test_three_intervals_are_kept_as_two_where_no_query_has_three() -> None:
    mask = ~(first(2) | window(1)) & causal()  # between the first two and the window
    visible = mask.visible(queries=17, keys=17)
    assert visible.rest is None
    three = ~(~first(2) & ~window(1))
    assert three.visible(queries=17, keys=17).rest is None


def test_a_query_with_three_intervals_is_evaluated_by_tile() -> None:
    mask = ~(first(2) | window(1)) | first(1)  # 0, the keys before the window, the keys after it
    visible = mask.visible(queries=17, keys=17)
    assert visible.rest is not None
    assert visible.rest.dense is None
    assert "".join("#" if seen else "." for seen in visible.tile([8], ALL)[0, 0, 0]) == "#.#####...#######"


def test_scattered_documents_are_limited_to_where_they_reach() -> None:
    visible = place(documents([0, 1, 0, 2, 2]), 5, 5)
    assert visible.rest is not None
    assert visible.first.tolist() == [[0, 1, 0, 3, 3]]
    assert visible.last.tolist() == [[3, 2, 3, 5, 5]]


def test_an_array_is_not_copied() -> None:
    array = np.random.default_rng(0).random((3, 5, 7)) < 0.5
    visible = place(allowed(array) & causal(), 5, 7, batch=2, heads=3)
    assert visible.rest is not None
    assert visible.rest.dense.shape == (1, 3, 5, 7)
    assert np.shares_memory(visible.rest.dense, array)
    assert np.shares_memory(visible.rows(slice(1, 3)).select(head=2).rest.dense, array)


def test_memory_grows_with_the_queries_and_not_with_their_square() -> None:
    queries = 100_000
    ids = np.repeat(np.arange(100), 1000)
    mask = causal() & (first(4) | window(1024)) & documents(ids) & ~chunks(7)
    tracemalloc.start()
    visible = mask.visible(queries=queries, keys=queries)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert visible.tile([99_999], [99_998]).shape == (1, 1, 1, 1)
    assert most < 400 * queries  # a few dozen numbers a query while combining; a matrix would take 100,000 bytes each


def test_small_masks_of_numbers_are_remembered() -> None:
    """Placing a mask costs more than a small attention: equal masks at the same place are the same object."""
    assert (causal() & window(3)).visible(queries=3, keys=3) is (causal() & window(3)).visible(queries=3, keys=3)
    remembered = place(causal(), 3, 3)
    assert remembered is not causal().visible(queries=3, keys=5)
    with pytest.raises(ValueError, match="read-only"):
        remembered.last[0, 0] = 7


def test_changed_arrays_are_noticed() -> None:
    counts = np.array([2, 3])
    mask = causal() & padding(counts)
    before = place(mask, 5, 5, batch=2).last.copy()
    counts[:] = 1
    assert place(mask, 5, 5, batch=2).last.tolist() != before.tolist()


def test_windows_may_be_wider_than_any_sequence() -> None:
    visible = place(window(2**63, 0), 3, 3)
    assert visible.first.tolist() == [[0, 0, 0]]
    assert place(chunks(2**40), 3, 3, offset=1).last.tolist() == [[3, 3, 3]]
    assert place(prefix(2**40), 2, 3).last.tolist() == [[3, 3]]
    assert place(padding([2**40, 1]), 2, 3, batch=2).last.tolist() == [[3, 3], [1, 1]]
    assert place(padding(np.array([2**40 + 1, 1])), 2, 3, batch=2).last.tolist() == [[3, 3], [1, 1]]


# Values


def test_masks_compare_and_hash_as_values() -> None:
    assert causal() & window(3) == causal() & window(3)
    assert hash(causal() & first(3)) == hash(causal() & first(3))
    assert first(3) != chunks(3)
    assert padding([3, 4]) == padding((3, 4))
    counts = np.array([3, 4])
    one, other = padding(counts), padding(counts)
    assert one == one
    assert one != other  # arrays are compared by identity, never by content
    assert len({one, other, allowed(np.eye(3, dtype=bool)), documents(np.arange(3))}) == 4


def test_double_negation_is_the_mask_itself() -> None:
    mask = window(3)
    assert ~~mask is mask


def test_the_expression_makes_the_mask_again() -> None:
    for expression in (
        "causal()",
        "window(3)",
        "window(3, 0)",
        "padding(3)",
        "padding((3, 4), side='left')",
        "prefix(3)",
        "prefix(3, start=2)",
        "chunks(4)",
        "first(4)",
        "causal() & (first(4) | window(8))",
        "~(causal() & first(2)) | chunks(2)",
    ):
        mask = eval(expression)
        assert mask.expression == expression
        assert eval(mask.expression) == mask


def test_a_mask_prints_its_expression_and_its_picture() -> None:
    assert repr(chunks(3) & causal()).splitlines()[:4] == ["chunks(3) & causal()", "█·······", "██······", "███·····"]
    assert repr(documents([0, 0, 1])) == "documents([0, 0, 1])\n██·\n██·\n··█"
    assert repr(where(lambda query, key: query.nothing)) == "where(lambda)"  # what can't be drawn still prints


@pytest.mark.parametrize(
    ("mask", "needed"),
    [
        (causal(), True),
        (window(1), True),
        (prefix(1), True),
        (chunks(2), True),
        (documents([0, 1]), True),
        (where(lambda query, key: query >= key), True),
        (padding(3), False),
        (first(2), False),
        (allowed([[True]]), False),
        (~(first(2) | padding(3)), False),
        (first(2) & ~causal(), True),
    ],
)
def test_masks_know_whether_positions_matter(mask: Mask, needed: bool) -> None:
    assert mask.needs_position is needed


# Tracing

TRACED: dict[str, Callable[[Any], Mask]] = {
    "causal": lambda counts: causal(),
    "window": lambda counts: window(3, 2),
    "causal & window": lambda counts: causal() & window(5),
    "prefix": lambda counts: prefix(3),
    "prefix, tensors": lambda counts: prefix(counts, start=counts // 2),
    "chunks": lambda counts: chunks(4),
    "first | window": lambda counts: first(4) | window(2),
    "causal & (first | window)": lambda counts: causal() & (first(4) | window(2)),
    "lengths": lambda counts: padding(counts),
    "lengths on the left & causal": lambda counts: causal() & padding(counts, side="left"),
}


@pytest.mark.parametrize("name", TRACED)
def test_intervals_trace_with_dynamic_shapes(name: str) -> None:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()

    def ends(queries: Any, keys: Any, counts: Any) -> list[Any]:
        count, key_count = queries.shape[-2], keys.shape[-2]
        visible = TRACED[name](counts).visible(
            queries=count, keys=key_count, batch=2, offset=key_count - count, xp=torch
        )
        found = [visible.first, visible.last, visible.second_first, visible.second_last]
        return [end for end in found if end is not None]

    graphs = []

    def counting(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(ends, fullgraph=True, dynamic=True, backend=counting)
    counts = torch.tensor([3, 5])
    for query_count, key_count in ((7, 11), (5, 5), (13, 17)):
        queries, keys = torch.zeros(2, 3, query_count, 2), torch.zeros(2, 3, key_count, 2)
        plain, traced = ends(queries, keys, counts), compiled(queries, keys, counts)
        assert len(plain) == len(traced) in (2, 4)
        assert all(torch.equal(one, other) for one, other in zip(plain, traced, strict=True))
    assert len(graphs) == 1  # one for all sizes


@pytest.mark.parametrize("name", ["inverse", "documents", "where", "allowed", "two and two"])
def test_tiles_trace_too(name: str) -> None:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    mask = {
        "inverse": ~(causal() & window(2)),
        "documents": documents(torch.tensor([0, 0, 1, 1, 0, 2, 2])) & causal(),
        "where": where(lambda query, key: (query - key) % 3 == 0) | window(1),
        "allowed": causal() & ~allowed(torch.eye(7, dtype=torch.bool)),
        "two and two": (first(2) | window(1)) & ~window(0),
    }[name]

    def tile(queries: Any, keys: Any) -> Any:
        visible = mask.visible(queries=queries.shape[-2], keys=keys.shape[-2], xp=torch)
        return visible.tile(slice(None), slice(1, None))

    compiled = torch.compile(tile, fullgraph=True, dynamic=True, backend="eager")
    queries = torch.zeros(1, 1, 7, 2)
    assert torch.equal(tile(queries, queries), compiled(queries, queries))


# What is refused, and how


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: window(-1), "`left` is -1"),
        (lambda: window(1.5), "`left` is 1.5"),  # type: ignore[arg-type]
        (lambda: chunks(0), "`n` is 0; expected an integer, at least 1"),
        (lambda: first("4"), "`n` is '4'"),  # type: ignore[arg-type]
        (lambda: padding([3, 4], side="rihgt"), "Did you mean 'right'"),
        (lambda: padding([3.5]), "`counts` is 3.5"),
        (lambda: padding(np.ones((2, 2), dtype=int)), "one per sequence"),
        (lambda: prefix(-1), "`n` is -1"),
        (lambda: documents(np.zeros((1, 1, 1))), r"\(batch, position\)"),
        (lambda: allowed(np.ones((3, 3))), "bias=array"),
        (lambda: allowed(np.ones(3, dtype=bool)), "expected \\(query, key\\)"),
        (lambda: where("causal"), "a function of query positions"),  # type: ignore[arg-type]
        (lambda: where(lambda query: query > 0), "It takes 1"),
    ],
)
def test_a_mask_that_makes_no_sense_is_refused_at_once(wrong: Callable[[], Mask], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        wrong()


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (padding([1, 2, 3]), "`counts` are for 3 sequences, the batch holds 2"),
        (prefix([1, 2, 3]), "`n` are for 3 sequences"),
        (documents([[0] * 7] * 3), "`ids` are for 3 sequences"),
        (documents([0] * 4), "`ids` name the documents of 4 positions"),
        (allowed(np.ones((5, 6), dtype=bool)), "does not fit attention of shape"),
        (allowed(np.ones((2, 7), dtype=bool)), "is mask\\[:, None, None, :\\]"),
    ],
)
def test_a_mask_that_does_not_fit_says_why(mask: Mask, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        mask.visible(queries=5, keys=7, batch=2, heads=3)


@pytest.mark.parametrize("offset", [1.5, 2**31, [1, 2, 3], np.array([0.5, 1.5]), np.zeros((2, 2), dtype=int), "3"])
def test_an_offset_is_a_number_or_one_for_each_sequence(offset: Any) -> None:
    with pytest.raises(OptionError, match="`offset`"):
        causal().visible(queries=3, keys=3, batch=2, offset=offset)


def test_a_function_must_give_booleans() -> None:
    visible = where(lambda query, key: query - key).visible(queries=3, keys=3)
    with pytest.raises(OptionError, match=r"int64; expected booleans"):
        visible.tile(ALL, ALL)


def test_masks_combine_with_masks_alone() -> None:
    array = np.eye(3, dtype=bool)
    for wrong in (lambda: causal() & array, lambda: array | causal(), lambda: causal() | None):  # type: ignore[operator]
        with pytest.raises(TypeProblem, match=r"allowed\(array\)"):
            wrong()
    with pytest.raises(TypeProblem, match="not `and`, `or`, `not`"):
        causal() and window(3)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_repeated_array_is_not_copied_in_full(library: str) -> None:
    """Stride 0, from `broadcast_to` or `expand`: n² booleans that take no memory, and none in any result."""
    xp, n = pytest.importorskip(library), 4096
    ones = np.ones((1, 1), bool)
    array = np.broadcast_to(ones, (n, n)) if library == "numpy" else xp.from_numpy(ones).expand(n, n)
    q = np.ones((1, n, 4), np.float32)
    q = q if library == "numpy" else xp.from_numpy(q)
    tracemalloc.start()
    A = regard.Attention(q, q, mask=allowed(array))
    A @ q
    A.column_sums()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * n / 2
    assert np.asarray(A[0, :3, -3:] * n).round(3).tolist() == [[1.0] * 3] * 3


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("operator", ["&", "|", "~&"])
def test_three_thousand_masks_combine(operator: str, library: str) -> None:
    xp, n = pytest.importorskip(library), 24
    rng = np.random.default_rng(5)
    masks, seen = [], []
    i, j = np.arange(n)[:, None], np.arange(n)
    for kind, number in zip(rng.integers(0, 3, 3000), rng.integers(0, n, 3000).tolist(), strict=True):
        if kind == 0:
            masks.append(window(number, 0 if operator == "|" else n))
            seen.append((i - j <= number) & (j - i <= (0 if operator == "|" else n)))
        elif kind == 1:
            masks.append(first(number // 8 if operator == "|" else n - number // 8))
            seen.append(np.broadcast_to(j < (number // 8 if operator == "|" else n - number // 8), (n, n)))
        else:
            array = (rng.random((n, n)) < 1e-4) == (operator == "|")
            masks.append(allowed(array))
            seen.append(array)
    mask, expected = masks[0], seen[0]
    for other, more in zip(masks[1:], seen[1:], strict=True):
        if operator == "~&":
            mask, expected = mask & ~~other, expected & more
        else:
            mask = mask & other if operator == "&" else mask | other
            expected = expected & more if operator == "&" else expected | more
    found = place(mask, n, n, xp=xp).tile(ALL, ALL)
    assert np.array_equal(np.asarray(found)[0, 0], expected)
    assert len(mask.expression) > 3000 and mask == mask and mask.needs_position


def test_a_mask_nested_too_deep_is_refused_with_words() -> None:
    def nested(depth: int) -> Mask:
        mask = causal()
        for number in range(depth):
            mask = (mask & window(number)) | first(number)
        return mask

    assert place(nested(40), 5, 5).tile(ALL, ALL).shape == (1, 1, 5, 5)
    with pytest.raises(OptionError, match="deep"):
        nested(3000)


def test_documents_go_by_any_name() -> None:
    named = documents(["b", "b", None, 2.5, 2.5])
    assert np.array_equal(place(named, 5, 5).tile(ALL, ALL), place(documents([0, 0, 1, 2, 2]), 5, 5).tile(ALL, ALL))


def _raises(query: Any, key: Any) -> Any:
    raise ZeroDivisionError("no")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_raises, "ZeroDivisionError: no"),
        (lambda query, key: True if query > key else False, "compare"),  # noqa: SIM210 - the truth of an array
        (lambda query, key: np.ones((3, 2), bool), r"shape \(3, 2\)"),
        (lambda query, key: np.ones((1, 1, 1, 5, 5), bool), r"shape \(1, 1, 1, 5, 5\)"),
        (lambda query, key: np.ones((7, 1, 5, 5), bool), r"shape \(7, 1, 5, 5\)"),
    ],
)
def test_a_function_that_fails_or_gives_another_shape_is_named(function: Any, said: str) -> None:
    A = regard.Attention(np.ones((5, 2)), np.ones((5, 2)), mask=where(function))
    with pytest.raises(OptionError, match=said) as raised:
        A.dense()
    assert "where" in str(raised.value)
