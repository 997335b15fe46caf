"""Arrays of every kind that NumPy makes: laid out in any way, read-only, on disk, of any size; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import regard
from regard.errors import RegardError

from ..engine_names import ENGINES, NUMPY_ENGINES, as_numpy, for_engine, using
from ..everything import everything

Array = Any


@pytest.fixture
def arrays() -> dict[str, Array]:
    rng = np.random.default_rng(11)
    shapes = {
        "queries": (2, 6, 7, 5),
        "keys": (2, 3, 11, 5),
        "values": (2, 3, 11, 4),
        "bias": (1, 6, 1, 11),
        "flow": (2, 6, 7, 4),
    }
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


# Those of which tests/properties draws none.
KINDS: dict[str, Callable[[Array], Array]] = {
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "order of bytes changed twice": lambda array: (
        array.byteswap().view(array.dtype.newbyteorder()).byteswap().view(array.dtype.newbyteorder().newbyteorder())
    ),
    "subclass": lambda array: array.view(type("Named", (np.ndarray,), {})),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", NUMPY_ENGINES)
def test_how_an_array_lies_in_memory_changes_nothing(engine: str, kind: str, arrays: dict[str, Array]) -> None:
    def found(arrays: dict[str, Array]) -> dict[str, Array]:
        options: dict[str, Any] = {"bias": arrays["bias"], "mask": regard.window(6), "offset": 2}
        A = regard.Attention(arrays["queries"], arrays["keys"], **options)
        return everything(A, arrays["values"], arrays["flow"], with_gradients=False)

    with using(engine):
        expected, ours = found(arrays), found({name: KINDS[kind](array) for name, array in arrays.items()})
    for name, array in expected.items():
        assert_array_equal(ours[name], array, err_msg=name)


@pytest.mark.parametrize("engine", ENGINES)
def test_integers_of_either_byte_order_count_the_same(engine: str, arrays: dict[str, Array]) -> None:
    queries, keys = (for_engine(engine, arrays[name]) for name in ("queries", "keys"))
    batch = len(queries)
    lengths, offset = np.arange(1, batch + 1), np.arange(batch) + 2
    embedding = for_engine(engine, np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))
    found = [
        (
            regard.Attention(queries, keys, mask=regard.padding(lengths.astype(kind))).dense(),
            regard.Attention(queries, keys, mask=regard.causal(), offset=offset.astype(kind)).dense(),
            regard.layers.Embedding(embedding)(np.array([4, 0, 3]).astype(kind)),
        )
        for kind in ("=i8", ">i8", ">u2")
    ]
    for other in found[1:]:
        for ours, expected in zip(other, found[0], strict=True):
            assert_array_equal(as_numpy(ours), as_numpy(expected))


def test_a_read_only_array_is_not_written_to_and_not_copied(arrays: dict[str, Array]) -> None:
    queries = arrays["queries"].copy()
    queries.flags.writeable = False
    A = regard.Attention(queries, arrays["keys"])
    assert A.queries is queries
    A @ arrays["values"], A.entropy(), A.column_sums()
    assert_array_equal(queries, arrays["queries"])


EMPTY = {
    "no query": ((2, 3, 0, 4), (2, 3, 5, 4), (2, 3, 5, 6)),
    "no sequence": ((0, 3, 7, 4), (0, 3, 5, 4), (0, 3, 5, 6)),
    "no number in a value": ((2, 3, 7, 4), (2, 3, 5, 4), (2, 3, 5, 0)),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", EMPTY)
@pytest.mark.parametrize(
    "options",
    [{}, {"mask": regard.causal(), "offset": 0}, {"mask": regard.masks.where(lambda i, j: j <= i), "offset": 0}],
    ids=["plain", "causal", "function"],
)
def test_where_there_is_nothing_the_result_is_empty_or_zero(engine: str, case: str, options: dict[str, Any]) -> None:
    queries, keys, values = (for_engine(engine, np.ones(shape, np.float32)) for shape in EMPTY[case])
    batch, head, query = queries.shape[:3]
    key, value_size = values.shape[2:]
    with using(engine):
        A = regard.Attention(queries, keys, **options)
        output = A @ values
        attended = A.attend(values, ("logsumexp", "entropy", "peak"), top=2)
        flow = for_engine(engine, np.ones((batch, head, query, value_size), np.float32))
        found = [A.column_sums(), A.mT @ flow, A.dense(), A[..., :0, :], A.top(2).index]
        if query:
            found.append(A.pooled((2, 2)).array)
    shapes = [(batch, head, key), (batch, head, key, value_size), (batch, head, query, key), (batch, head, 0, key)]
    shapes += [(batch, head, query, 2), (batch, head, 2, 2)]
    assert tuple(output.shape) == tuple(attended.output.shape) == (batch, head, query, value_size)
    assert attended.entropy is not None and tuple(attended.entropy.shape) == (batch, head, query)
    assert [tuple(array.shape) for array in found] == shapes[: len(found)]
    if not query:
        assert_array_equal(as_numpy(found[0]), np.zeros((batch, head, key)))
        assert_array_equal(as_numpy(found[1]), np.zeros((batch, head, key, value_size)))


ONES = np.ones((2, 3, 5, 4), np.float32)
NOT_NUMBERS: dict[str, Any] = {
    "complex numbers": ONES.astype(complex),
    "an object array": ONES.astype(object),
    "booleans": ONES.astype(bool),
    "text": np.full(ONES.shape, "a"),
    "dates": ONES.astype("datetime64[s]"),
    "long doubles": ONES.astype(np.longdouble),
    "a masked array": np.ma.masked_array(ONES, ONES > 0),
    "records": np.zeros(ONES.shape, [("x", "f4")]),
    "lists of unequal length": [[1.0, 2.0], [1.0]],
    "nothing": None,
    "a number": 3.0,
    "a word": "queries",
    "a set": {1, 2},
}


def hand_over(name: str, given: Any) -> None:
    match name:
        case "queries":
            regard.Attention(given, ONES)
        case "keys":
            regard.Attention(ONES, given)
        case "values":
            regard.Attention(ONES, ONES) @ given
        case "u":
            regard.Attention(ONES, ONES).mT @ given
        case _:
            regard.Attention(ONES, ONES, **{name: given})


OPTIONS = ("bias", "sinks")
REFUSED = [
    (name, what)
    for name in ("queries", "keys", "values", "u", *OPTIONS)
    for what in NOT_NUMBERS
    if not (name in OPTIONS and what in ("nothing", "a number"))  # an option may be None, or one number
]


@pytest.mark.parametrize("engine", NUMPY_ENGINES)
@pytest.mark.parametrize(("name", "what"), [*REFUSED, *((name, "a complex number") for name in OPTIONS)])
def test_what_are_no_floats_is_refused_by_name(engine: str, name: str, what: str) -> None:
    given = 3j if what == "a complex number" else NOT_NUMBERS[what]
    with using(engine), pytest.raises(RegardError) as caught:
        hand_over(name, given)
    assert name in str(caught.value)
    assert "\n" in str(caught.value), "a message has a likely fix on its second line"


A = regard.Attention(ONES, ONES)
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "sizes that differ": (lambda: regard.Attention(ONES, ONES[..., :3]), "`keys` have head_dim 3, `queries` have 4"),
    "heads that do not divide": (lambda: regard.Attention(ONES, ONES[:, :2]), "2 key heads"),
    "another batch": (lambda: regard.Attention(ONES, ONES[:1]), "sequence"),
    "another number of axes": (lambda: regard.Attention(ONES, ONES[0]), "axes"),
    "one axis": (lambda: regard.Attention(ONES[0, 0, 0], ONES[0, 0, 0]), "axis"),
    "five axes": (lambda: regard.Attention(ONES[None], ONES[None]), "5 axes"),
    "no keys": (lambda: regard.Attention(ONES, ONES[:, :, :0]), "no key"),
    "no query heads": (lambda: regard.Attention(ONES[:, :0], ONES), "0 query heads"),
    "no key heads": (lambda: regard.Attention(ONES, ONES[:, :0]), "key head"),
    "vectors of size 0": (lambda: regard.Attention(ONES[..., :0], ONES[..., :0]), "head_dim 0"),
    "types that differ": (lambda: regard.Attention(ONES, ONES.astype(np.float64)), "float64"),
    "a scale that is NaN": (lambda: regard.Attention(ONES, ONES, scale=np.nan), "`scale` is nan"),
    "a scale that is infinite": (lambda: regard.Attention(ONES, ONES, scale=np.inf), "`scale` is inf"),
    "a scale that is a word": (lambda: regard.Attention(ONES, ONES, scale="big"), "`scale` is 'big'"),  # type: ignore[arg-type]
    "a soft cap of zero": (lambda: regard.Attention(ONES, ONES, softcap=0), "`softcap` is 0"),
    "a soft cap that is NaN": (lambda: regard.Attention(ONES, ONES, softcap=np.nan), "`softcap` is nan"),
    "an array as a mask": (lambda: regard.Attention(ONES, ONES, mask=np.ones((5, 5), bool)), "allowed(array)"),  # type: ignore[arg-type]
    "a mask of another shape": (
        lambda: regard.Attention(ONES, ONES, mask=regard.masks.allowed(np.ones((5, 6), bool))), "does not fit"),
    "a mask of numbers": (lambda: regard.masks.allowed(np.ones((5, 5))), "expected booleans"),
    "lengths of another batch": (lambda: regard.Attention(ONES, ONES, mask=regard.padding([1, 2, 3])), "sequences"),
    "documents that end too soon": (
        lambda: regard.Attention(ONES, ONES, mask=regard.masks.documents([0, 1])),
        "positions",
    ),
    "a bias of another shape": (lambda: regard.Attention(ONES, ONES, bias=np.ones((5, 6))), "does not fit"),
    "sinks for other heads": (lambda: regard.Attention(ONES, ONES, sinks=np.ones(2, np.float32)), "(3,)"),
    "an unknown similarity": (lambda: regard.Attention(ONES, ONES, similarity="cosin"), "cosine"),  # type: ignore[arg-type]
    "an offset that is no integer": (lambda: regard.Attention(ONES, ONES, offset=1.5), "`offset` is 1.5"),
    "offsets for another batch": (lambda: regard.Attention(ONES, ONES, offset=[1, 2, 3]), "`offset` is"),
    "an offset that is needed": (lambda: regard.Attention(ONES[:, :, :2], ONES, mask=regard.causal()), "bottom-right"),
    "values for other keys": (lambda: A @ ONES[:, :, :4], "4 values for 5 keys"),
    "values of another batch": (lambda: A @ np.ones((3, 3, 5, 4), np.float32), "`values`"),
    "values of another type": (lambda: A @ ONES.astype(np.float16), "float16"),
    "rows for other queries": (lambda: A.mT @ ONES[:, :, :4], "`u`"),
    "top of nothing": (lambda: A.top(0), "`k` is 0"),
    "an unknown statistic": (lambda: A.attend(ONES, ("entrophy",)), "Did you mean 'entropy'"),
    "a map without cells": (lambda: A.pooled((0, 3)), "`shape`"),
    "a map of more cells than weights": (lambda: A.pooled((6, 3)), "`shape`"),
    "an unknown pool": (lambda: A.pooled((2, 2), pool="median"), "`pool` is 'median'"),  # type: ignore[arg-type]
    "an index past the end": (lambda: A[0, 3], "head 3 is out of range"),
    "too many indices": (lambda: A[0, 0, 0, 0, 0], "5 indices"),
    "an index of another kind": (lambda: A["the first"], "not a valid index"),
    "a scale that is an array": (lambda: regard.Attention(ONES, ONES, scale=np.ones(3)), "`scale` is array"),  # type: ignore[arg-type]
    "a scale beyond all floats": (lambda: regard.Attention(ONES, ONES, scale=10**400), "`scale`"),
    "a scale too long to print": (lambda: regard.Attention(ONES, ONES, scale=10**5000), "`scale`"),
    "a soft cap beyond all floats": (lambda: regard.Attention(ONES, ONES, softcap=10**400), "`softcap`"),
    "a negative soft cap": (lambda: regard.Attention(ONES, ONES, softcap=-1.0), "`softcap` is -1.0"),
    "a mask that was not called": (lambda: regard.Attention(ONES, ONES, mask=regard.causal), "Call it: causal()"),  # type: ignore[arg-type]
    "another": (lambda: regard.Attention(ONES, ONES, mask=regard.window), "Call it: window(…)"),  # type: ignore[arg-type]
    "a function for a mask": (lambda: regard.Attention(ONES, ONES, mask=lambda i, j: i > j), "masks.where("),  # type: ignore[arg-type]
    "a word for a mask": (lambda: regard.Attention(ONES, ONES, mask="causal"), "`mask`"),  # type: ignore[arg-type]
    "the package called": (lambda: regard.attention(ONES, ONES), "regard.Attention(queries"),  # type: ignore[operator]
    "a bias of five axes": (lambda: regard.Attention(ONES, ONES, bias=np.ones((1, 1, 1, 1, 5))), "does not fit"),
    "slopes for other heads": (lambda: regard.Attention(ONES, ONES, bias=regard.biases.alibi(heads=8)), "8 heads"),
    "a similarity of another type": (lambda: regard.Attention(ONES, ONES, similarity=np.zeros(3)), "'dot' or"),  # type: ignore[arg-type]
    "an offset too far": (lambda: regard.Attention(ONES, ONES, offset=2**40), "`offset`"),
    "offsets of unequal length": (lambda: regard.Attention(ONES, ONES, offset=[[1, [2]]]), "`offset`"),
    "an offset that is true": (lambda: regard.Attention(ONES, ONES, offset=True), "`offset`"),
    "values of more axes": (lambda: regard.Attention(ONES[0], ONES[0]) @ ONES, "`values`"),
    "statistics that are a number": (lambda: A.attend(ONES, 3), "`statistics`"),  # type: ignore[arg-type]
    "fewer than no strongest keys": (lambda: A.attend(ONES, top=-1), "`top` is -1"),
    "weight on a key that is not there": (lambda: A.weight_on([5]), "key 5"),
    "a head that is not there": (lambda: A.select(head=3), "head 3"),
    "a head that is true": (lambda: A.select(head=True), "not a valid index"),
    "a head of no head axis": (lambda: regard.Attention(ONES[0, 0], ONES[0, 0]).select(head=0), "`head`"),
    "more keys of another size": (lambda: A.extended(ONES[..., :3]), "head_dim"),
    "a matrix too large": (lambda: regard.Attention(np.ones((10**6, 1)), np.ones((10**6, 1))).dense(), "TiB"),
}  # fmt: skip


@pytest.mark.parametrize("engine", NUMPY_ENGINES)
@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused_in_words_that_help(engine: str, what: str) -> None:
    call, said = BAD[what]
    with using(engine), pytest.raises(RegardError) as caught:
        call()
    assert said in str(caught.value)


def record_field(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Ones as a field of packed records: no number is aligned, though NumPy says so of an empty array."""
    records = np.ones(shape, np.dtype([("before", "u1"), ("here", dtype)]))
    return records["here"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("engine", NUMPY_ENGINES)
def test_misaligned_empty_arrays_are_empty_arrays(engine: str, dtype: Any) -> None:
    ones = np.ones((1, 1, 3, 4), dtype)
    with using(engine):
        no_queries = regard.Attention(record_field((1, 1, 0, 4), dtype), ones, bias=record_field((1, 1, 0, 3), dtype))
        assert (no_queries @ ones).shape == (1, 1, 0, 4)
        assert no_queries.entropy().shape == (1, 1, 0)
        assert not no_queries.column_sums().any()
        assert not (no_queries.mT @ record_field((1, 1, 0, 2), dtype)).any()
        no_batch = regard.Attention(record_field((0, 1, 3, 4), dtype), record_field((0, 1, 3, 4), dtype))
        assert (no_batch @ record_field((0, 1, 3, 4), dtype)).shape == (0, 1, 3, 4)
        assert no_batch.pooled((2, 2)).shape == (0, 1, 2, 2)
        A = regard.Attention(ones, ones)
        assert (A @ record_field((1, 1, 3, 0), dtype)).shape == (1, 1, 3, 0)
        entropy = A.attend(record_field((1, 1, 3, 0), dtype), ("entropy",)).entropy
        assert entropy is not None and entropy.shape == (1, 1, 3)
        assert (A.mT @ record_field((1, 1, 3, 0), dtype)).shape == (1, 1, 3, 0)
