"""What is timed: the cases, and the arrays they are made of.

Every process makes its own arrays from the case alone, so that nothing large travels between processes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
SIZES = (64, 128)
LENGTHS = (128, 512, 2048, 8192)
LONG = 32768  # with one head
SAMPLED_ROWS = 16


@dataclass(frozen=True)
class Case:
    """One shape, with everything that decides how long it takes."""

    kind: str  # what is computed: a name that the peers know
    heads: int
    queries: int
    keys: int
    size: int
    causal: bool = False
    storage: str = "float32"
    scores: str = "random"  # or "rising": every key's score is larger than the one before it
    shortest: int = 0  # of the sequences that are packed one after the other; 0: there is one sequence
    longest: int = 0

    @cached_property
    def name(self) -> str:
        counts = f"n {self.keys}" if self.queries == self.keys else f"{self.queries} × {self.keys}"
        if self.shortest:
            counts = f"{len(self.lengths)} sequences of {self.shortest} to {self.longest}"
        heads = f"{self.heads} head{'s' if self.heads > 1 else ''}"
        return f"{heads}, {counts}, size {self.size}" + (", causal" if self.causal else "")

    @cached_property
    def lengths(self) -> list[int]:
        """Of the packed sequences."""
        if not self.shortest:
            return [self.keys]
        random, found, left = np.random.default_rng(3), [], self.keys
        while left > 0:
            found.append(min(left, int(random.integers(self.shortest, self.longest + 1))))
            left -= found[-1]
        return found

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that it sees, in one head."""
        if self.queries != self.keys:
            return self.queries * self.keys
        return sum(_pairs(n, self.causal) for n in self.lengths)

    @property
    def equal_batch(self) -> tuple[int, int]:
        """Sequences of one length, and that length, with about as many pairs as the packed ones."""
        length = round(sum(n * n for n in self.lengths) / self.keys)
        return max(1, round(self.pairs / _pairs(length, self.causal))), length

    @property
    def equal_pairs(self) -> int:
        count, length = self.equal_batch
        return count * _pairs(length, self.causal)

    @property
    def forward_flops(self) -> int:
        """Of the two products alone: a multiplication and an addition for each number of a key and of a value."""
        return 4 * self.heads * self.pairs * self.size

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _pairs(n: int, causal: bool) -> int:
    return n * (n + 1) // 2 if causal else n * n


@dataclass(frozen=True, eq=False)
class Inputs:
    """Float32 arrays (head, token, size) whose numbers the case's storage type holds exactly."""

    queries: Floats
    keys: Floats
    values: Floats
    flow: Floats  # the gradient of the output


def inputs(case: Case) -> Inputs:
    random = np.random.default_rng(7)

    def normal(tokens: int) -> Floats:
        return stored(random.standard_normal((case.heads, tokens, case.size), dtype=np.float32), case.storage)

    queries, keys, values = normal(case.queries), normal(case.keys), normal(case.keys)
    if case.scores == "rising":  # from 0 to about 8 over the keys, after scaling
        steps = np.arange(1, case.keys + 1, dtype=np.float32)[:, None] / case.keys
        keys = np.broadcast_to(steps * (10 / np.sqrt(case.size)), keys.shape).copy()
        queries = np.abs(queries)
    flow = normal(case.queries) if case.kind == "backward" else values
    return Inputs(queries, keys, values, flow)


def stored(numbers: Floats, storage: str) -> Floats:
    """The nearest numbers that the storage type holds, as float32."""
    if storage == "float16":
        return numbers.astype(np.float16).astype(np.float32)
    if storage == "bfloat16":  # the upper half of a float32, rounded to even
        bits = numbers.view(np.uint32)
        rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        return (rounded & np.uint32(0xFFFF0000)).view(np.float32)
    return numbers


def sampled_rows(case: Case) -> NDArray[np.int64]:
    """The queries whose results are compared with float64: the first, the last and some between."""
    wanted = np.linspace(0, case.queries - 1, SAMPLED_ROWS)
    return np.unique(wanted.round().astype(np.int64))


def square(kind: str, heads: int, n: int, size: int, causal: bool = False, **rest: Any) -> Case:
    return Case(kind, heads, n, n, size, causal, **rest)


def shapes(kind: str, quick: bool) -> list[Case]:
    """The shapes of the forward and the backward section: short ones first."""
    if quick:
        return [square(kind, 8, n, 64, causal) for n in (128, 512, 2048) for causal in (False, True)]
    heads_and_lengths = [*((8, n) for n in LENGTHS), *([(1, LONG)] if kind == "forward" else [])]
    masks = (False, True)
    return [square(kind, h, n, size, causal) for h, n in heads_and_lengths for size in SIZES for causal in masks]


def avx2_cases(quick: bool) -> list[Case]:
    lengths = (512,) if quick else (512, 2048, 8192)
    return [square("forward", 8, n, size, causal) for n in lengths for size in SIZES for causal in (False, True)]


def half_cases(quick: bool) -> list[Case]:
    return [
        square("forward", 8, 2048, size, causal, storage=storage)
        for storage in ("float16", "bfloat16")
        for size in (SIZES[:1] if quick else SIZES)
        for causal in (False, True)
    ]


def packed_cases(kind: str, quick: bool) -> list[Case]:
    sentences = [square(kind, 8, 2048, 64, causal, shortest=5, longest=60) for causal in (False, True)]
    return sentences if quick else [*sentences, square(kind, 8, 8192, 64, True, shortest=16, longest=512)]


def small_cases(quick: bool) -> list[Case]:
    sizes = SIZES[:1] if quick else SIZES
    lengths = (3, 16, 32, 64)
    return [square("forward", 8, n, size, causal) for n in lengths for size in sizes for causal in (False, True)]


def decode_cases(quick: bool) -> list[Case]:
    sizes = SIZES[:1] if quick else SIZES
    return [
        Case("forward", 8, 1, keys, size, storage=kind)
        for keys in ((8192,) if quick else (8192, LONG))
        for kind in ("float32", "bfloat16")
        for size in sizes
    ]


def statistics_cases(quick: bool) -> list[Case]:
    shapes = [(2048, 64)] if quick else [(512, 64), (2048, 64), (2048, 128), (8192, 64)]
    return [
        square("statistics", 8, n, size, causal, scores=scores)
        for n, size in shapes
        for causal in (False, True)
        for scores in ("random", "rising")
        if scores == "random" or n <= 2048  # the worst case shows at any length
    ]


def column_cases(quick: bool) -> list[Case]:
    shapes = [(2048, 64)] if quick else [(2048, 64), (2048, 128), (8192, 64)]
    return [square("columns", 8, n, size, causal) for n, size in shapes for causal in (False, True)]


def multihead_cases(quick: bool) -> list[Case]:
    return [square("multihead", 8, n, 64) for n in ((128, 512) if quick else (128, 512, 2048))]


def alternation_cases(quick: bool) -> list[Case]:
    return [square("alternation", 8, n, 64) for n in ((128,) if quick else (128, 512))]
