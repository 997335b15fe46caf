"""A trace: all steps of one attention, in order, each an array with its axes and its formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import arrays, validate
from regard.arrays import Array
from regard.errors import OptionError, did_you_mean
from regard.tables import Table
from regard.trace import tables
from regard.trace.labels import row_of
from regard.trace.weighted_values import weighted_values_of

if TYPE_CHECKING:
    from regard.trace.why import Why

NAMES = (
    "embedding",
    "positioned",
    "query",
    "key",
    "value",
    "score",
    "scaled",
    "capped",
    "biased",
    "masked",
    "weight",
    "weighted_value",
    "output",
    "concatenated",
    "projected",
    "attended",
    "fed_forward",
    "result",
)
STAGES = ("score", "scaled", "capped", "biased", "masked", "weight")


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """One step: its array, the names of its axes, and its formula."""

    name: str
    source: Array | Callable[[], Array]  # a function for large arrays: called on access
    axes: tuple[str, ...]
    formula: str
    flow: Callable[[], Array | None] | None = None  # the gradient, if the array itself is not in the graph

    @property
    def array(self) -> Array:
        """The numbers: a read-only NumPy array, or a PyTorch tensor."""
        return read_only(self.source() if callable(self.source) else self.source)

    @property
    def gradient(self) -> Array | None:
        """The gradient after a backward pass, of the shape of the array; None before it, and for NumPy arrays."""
        if self.flow is not None:
            return self.flow()
        tensor: Any = self.source
        return tensor.grad if arrays.is_tensor(tensor) and tensor.requires_grad else None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(arrays.numpy_of(self.array), dtype=dtype)

    def __repr__(self) -> str:
        return f"Step({self.name}: {self.formula}; {', '.join(self.axes)})"


@dataclass(frozen=True, eq=False)
class Origin:
    """The settings that the steps were computed with."""

    scale: float = 1.0
    is_root: bool = False  # whether the scale is 1 / √d_k
    softcap: float = 0.0
    is_cosine: bool = False
    sinks: Array | None = None  # (head,)
    parts: Mapping[str, Any] = field(default_factory=dict)  # provenance of each step of a layer


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Every step of attention over one sequence. Input arrays are referred to, not copied.

    >>> from regard.attention import Attention
    >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
    >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
    >>> trace
    Trace(The cat sat; 1 head: query, key, value, score, scaled, weight, weighted_value, output)
    >>> trace["weight"][0].round(2)[0]
    array([0.42, 0.16, 0.42])
    >>> print(trace.why("score", query="cat", key="sat"))
    [0 1 0 1]·[1 1 1 1] = 0·1 + 1·1 + 0·1 + 1·1 = 2
    """

    words: tuple[str, ...]  # of the keys
    query_words: tuple[str, ...]
    steps: tuple[Step, ...]  # in the order of NAMES
    note: str | None = None
    first_query: int = 0  # position of the first query of this trace among all queries
    own_key: int | None = 0  # key of the first query; None if queries are not among the keys
    origin: Origin = field(default_factory=Origin)

    def __getitem__(self, name: str) -> Array:
        """The numbers of one step."""
        return self.step(name).array

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def step(self, name: str) -> Step:
        """One step, by name.

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
        >>> step = trace.step("scaled")
        >>> step.formula, step.axes
        ('scaled = score / √d_k', ('head', 'query', 'key'))
        """
        for step in self.steps:
            if step.name == name:
                return step
        there = f"The steps: {', '.join(self.names)}."
        if name in NAMES:
            raise OptionError(f"There is no {name!r} in this trace: nothing of that kind was computed.\n{there}")
        raise OptionError(f"There is no step {name!r}.{did_you_mean(name, self.names)}\n{there}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in order.

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
        >>> trace.names
        ('query', 'key', 'value', 'score', 'scaled', 'weight', 'weighted_value', 'output')
        """
        return tuple(step.name for step in self.steps)

    @property
    def heads(self) -> int:
        """The number of heads.

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
        >>> trace.heads
        1
        """
        return int(self["weight"].shape[0])

    @property
    def size(self) -> int:
        """The size of queries and keys, d_k.

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
        >>> trace.size
        4
        """
        return int(self["query"].shape[-1])

    def noted(self, note: str | None) -> Trace:
        """The same trace with a note on where its numbers come from.

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
        >>> trace.noted("W_q = W_k = W_v = I").table("cat").notes
        ('W_q = W_k = W_v = I',)
        """
        return replace(self, note=note)

    def table(self, query: Any = None, head: int = 0) -> Table:
        """The step table of one query: Word · q · k · v · score · score/√d_k · softmax · softmax × v · sum.

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> table = Attention(E, E).explain(E, words=["The", "cat", "sat"]).table("cat")
        >>> for row in table:
        ...     print(" | ".join(table.printed(row)))
        The |         | 1 0 1 0 | 1 0 1 0 | 0 | 0 | 0.16 | 0.16 0.00 0.16 0.00 |
        cat | 0 1 0 1 | 0 1 0 1 | 0 1 0 1 | 2 | 1 | 0.42 | 0.00 0.42 0.00 0.42 | 0.58 0.84 0.58 0.84
        sat |         | 1 1 1 1 | 1 1 1 1 | 2 | 1 | 0.42 | 0.42 0.42 0.42 0.42 |
        """
        return tables.of_query(self, row_of(self, query), validate.index("head", head, self.heads))

    def tables(self, head: int = 0) -> tuple[Table, ...]:
        """The step tables of all queries.

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
        >>> [table.title for table in trace.tables()]
        ['Query The: d_k = 4, √d_k = 2', 'Query cat: d_k = 4, √d_k = 2', 'Query sat: d_k = 4, √d_k = 2']
        """
        head = validate.index("head", head, self.heads)
        return tuple(tables.of_query(self, row, head) for row in range(len(self.query_words)))

    def why(
        self, name: str, *, query: Any = None, key: Any = None, head: int = 0, component: int | None = None,
        full: bool = False,
    ) -> Why:  # fmt: skip
        """How a number or vector of one step is calculated, written out.

        query, key   a word, a word and which of its occurrences, or a position
        component    one number of a vector, as in `why("output", query="cat", component=0)`
        full         do not shorten long vectors

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
        >>> print(trace.why("scaled", query="cat", key="sat"))
        2 / √4 = 1
        """
        from regard.trace.why import why

        head = validate.index("head", head, self.heads)
        return why(self, name, query=query, key=key, head=head, component=component, full=full)

    def weighted_values(self, query: Any = None, head: int = 0) -> Array:
        """Weight × value of one query and head for every key, (key, size); O(n).

        >>> from regard.attention import Attention
        >>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
        >>> trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
        >>> trace.weighted_values("cat").round(2)
        array([[0.16, 0. , 0.16, 0. ],
               [0. , 0.42, 0. , 0.42],
               [0.42, 0.42, 0.42, 0.42]])
        """
        row = row_of(self, query)
        return read_only(weighted_values_of(self, row, validate.index("head", head, self.heads)))

    def __repr__(self) -> str:
        shown: Sequence[str] = self.words if len(self.words) <= 12 else (*self.words[:11], "…", self.words[-1])
        heads = "1 head" if self.heads == 1 else f"{self.heads} heads"
        only = f", query {self.query_words[0]}" if len(self.query_words) == 1 < len(self.words) else ""
        return f"Trace({' '.join(shown)}{only}; {heads}: {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        from regard.output import trace_html

        return trace_html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from regard.viewer.widget import mimebundle

        return mimebundle(self)


def read_only(array: Array) -> Array:
    """A read-only view; tensors, which cannot be read-only, are returned unchanged."""
    if arrays.is_tensor(array):
        return array
    view = array.view()
    view.flags.writeable = False
    return view
