"""The native engine, compiled from native/: takes arrays and fills arrays. regard.engines.native is its interface.

Arrays offer a buffer: float16, float32, float64, and 16-bit integers that stand for bfloat16. None: not given.
"""

from typing import Any

from numpy.typing import NDArray

from regard.masks import Mask

_Array = NDArray[Any]

class Scores:
    """Everything that decides the scores; keeps its arrays alive."""

    def __init__(
        self,
        queries: _Array,
        keys: _Array,
        scale: float,
        softcap: float = 0.0,
        bias: _Array | None = None,
        mask: _Array | None = None,
        relative: _Array | None = None,
        relative_zero: int = 0,
        sinks: _Array | None = None,
        first: _Array | None = None,
        last: _Array | None = None,
        second_first: _Array | None = None,
        second_last: _Array | None = None,
        offset: _Array | int | None = None,
    ) -> None: ...

def forward(
    scores: Scores,
    values: _Array | None,
    output: _Array | None,
    row_max: _Array | None = None,
    row_sum: _Array | None = None,
    logsumexp: _Array | None = None,
    entropy: _Array | None = None,
    peak: _Array | None = None,
    distance: _Array | None = None,
    top_index: _Array | None = None,
    top_weight: _Array | None = None,
    top: int = 0,
) -> None: ...
def are_usual(queries: Any, keys: Any, /) -> bool: ...
def product(queries: Any, keys: Any, values: Any, mask: Mask | None, /) -> Any: ...
def backflow(scores: Scores, row_max: _Array, row_sum: _Array, rows: _Array | None, output: _Array) -> None: ...
def pooled(
    scores: Scores,
    row_max: _Array,
    row_sum: _Array,
    row_edges: _Array,
    column_edges: _Array,
    largest: bool,
    output: _Array,
) -> None: ...
def tile(scores: Scores, row_max: _Array | None, row_sum: _Array | None, stage: int, output: _Array) -> None: ...
def backward(
    scores: Scores,
    values: _Array,
    output: _Array,
    row_max: _Array,
    row_sum: _Array,
    flow: _Array,
    grad_queries: _Array,
    grad_keys: _Array,
    grad_values: _Array,
    grad_bias: _Array | None = None,
    grad_relative: _Array | None = None,
    grad_sinks: _Array | None = None,
) -> None: ...
def linear(
    x: _Array,
    weight: _Array,
    bias: _Array | None,
    residual: _Array | None,
    output: _Array,
    activation: int = 0,
    times: _Array | None = None,
) -> None: ...
def activate(x: _Array, output: _Array, activation: int, flow: _Array | None = None) -> None: ...
def norm(
    x: _Array, weight: _Array | None, bias: _Array | None, output: _Array, epsilon: float, centred: bool
) -> None: ...
def rotary(x: _Array, cosines: _Array, sines: _Array, output: _Array, interleaved: bool) -> None: ...
def vector_lengths(vectors: _Array, grams: _Array, lengths: _Array) -> None: ...
def head_sums(
    weights: _Array,
    entropy: _Array,
    distance: _Array,
    norms: _Array,
    flags: _Array,
    same_token: _Array,
    same_word: _Array,
    settings: tuple[int, bool, int, int, int],
    sums: _Array,
    received: _Array,
) -> None: ...
def strongest_links(weights: _Array, may: _Array, first: int, best: _Array, best_weight: _Array) -> None: ...
def word_choices(weights: _Array, edges: _Array, counts: _Array, aside: _Array, best: _Array) -> None: ...
def fingerprint(array: _Array) -> int: ...
def threads() -> int: ...
def set_threads(count: int) -> None: ...
def set_team(parallel: int, most: int) -> None: ...
def borrow_team(borrows: bool) -> None: ...
def instructions() -> str: ...
def why() -> str: ...
def compiled() -> list[str]: ...
def runnable() -> list[str]: ...
def machine_limit(seconds: float = 0.5) -> float: ...

takes_tensors: bool
