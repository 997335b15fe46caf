"""Why scores are divided by √d_k: weights and gradients as d_k grows, for any divisor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import errors, validate
from regard.attention.attention import Attention
from regard.tables import Column, Table, printed_number

Floats = NDArray[np.float64]
Divisor = float | str | Callable[[int], float]

SIZES = tuple(2**power for power in range(11))  # 1 … 1,024
MOST_SIZE = 1 << 14  # d_k
KNOWN: dict[str, Callable[[int], float]] = {"1": lambda size: 1.0, "√d_k": math.sqrt, "d_k": float}
USUAL = ("1", "√d_k", "d_k")
SATURATED = 0.99  # a query whose largest weight is above this attends to one key only
QUANTITIES = ("entropy", "largest_weight", "saturated", "through_softmax", "typical_query", "gradient_q", "gradient_k")


@dataclass(frozen=True, eq=False, repr=False)
class ScalingLesson:
    """The measurements, each an array (divisor, size): means over all queries of all draws unless stated otherwise.

    entropy          of the weights, in nats
    largest_weight   of each query
    saturated        the share of queries with a largest weight above 0.99
    through_softmax  root mean square of ‖∂L/∂scaled score‖ over queries: the gradient through the softmax
    typical_query    median over queries of ‖∂L/∂q‖
    gradient_q       ‖∂L/∂W_q‖, root mean square over draws
    gradient_k       ‖∂L/∂W_k‖, root mean square over draws
    """

    sizes: tuple[int, ...]
    divisors: tuple[str, ...]
    divided_by: Floats
    entropy: Floats
    largest_weight: Floats
    saturated: Floats
    through_softmax: Floats
    typical_query: Floats
    gradient_q: Floats
    gradient_k: Floats
    width: int
    setting: str

    def curve(self, quantity: str, divisor: Any = "√d_k") -> Floats:
        """One quantity over the sizes, for a plot."""
        validate.choice("quantity", quantity, QUANTITIES)
        return np.array(getattr(self, quantity)[self._row(divisor)])

    def table(self, divisor: Any = "√d_k") -> Table:
        """One row per d_k, for one divisor."""
        row = self._row(divisor)
        columns = (
            Column("d_k", "number", 0),
            Column("divisor", "number"),
            Column("entropy", "number"),
            Column("largest", "number", shade=True),
            Column("> 0.99", "number", shade=True),
            Column("softmax ∂", "number", 3),
            Column("typical ∂q", "number", 4),
            Column("‖∂W_q‖", "number"),
            Column("‖∂W_k‖", "number"),
        )
        cells = (self.sizes, self.divided_by[row], *(getattr(self, name)[row] for name in QUANTITIES))
        rows = tuple((int(size), *map(float, rest)) for size, *rest in zip(*cells, strict=True))
        name = self.divisors[row]
        title = "Scores not divided" if name == "1" else f"Scores divided by {name}"
        return Table(title, columns, rows, (self.setting, *self.findings(name)), source=self.setting)

    def tables(self) -> tuple[Table, ...]:
        """softmax of [6, 4] and of [3, 2], then one table per divisor."""
        return (halved_scores(), *(self.table(name) for name in self.divisors))

    def findings(self, divisor: Any = "√d_k") -> tuple[str, ...]:
        """A summary of these numbers in words."""
        row = self._row(divisor)
        each = self.gradient_q[row] / np.sqrt(self.width * np.array(self.sizes))
        first, last = self.gradient_q[row, [0, -1]]  # both 0 for a single token
        direction = "grows" if last > 2 * first else "shrinks" if last < first / 2 else "keeps its size"
        return (
            f"From d_k = {self.sizes[0]} to {self.sizes[-1]}: entropy {_run(self.entropy[row])}, "
            f"largest weight {_run(self.largest_weight[row])}; "
            f"above 0.99 for {_run(self.saturated[row])} of the queries.",
            f"Gradients: through the softmax {_run(self.through_softmax[row], 3)}; at a typical query "
            f"{_run(self.typical_query[row], 4)}; ‖∂W_q‖ {direction}, {_run(self.gradient_q[row])}; for each of the "
            f"d_k · {self.width} numbers of W_q {_run(each, 3)}.",
        )

    def __repr__(self) -> str:
        return f"ScalingLesson(d_k {_listed(self.sizes)}; divided by {', '.join(self.divisors)})"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        from regard.output import figure, notebook_html

        return notebook_html(figure.scaling(self), *self.tables())

    def _row(self, divisor: Any) -> int:
        name = str(divisor) if str(divisor) in self.divisors else _named(divisor)[0]
        return self.divisors.index(validate.choice("divisor", name, self.divisors))


def scaling_lesson(
    divisors: Sequence[Divisor] | Mapping[str, Divisor] = USUAL, *, sizes: Sequence[int] = SIZES, tokens: int = 32,
    width: int = 64, draws: int = 8, seed: int = 0,
) -> ScalingLesson:  # fmt: skip
    """Weights and gradients of seeded random attention, for each divisor and each d_k.

    divisors  numbers, "√d_k", "d_k", functions of d_k, or a dictionary of names and these
    sizes     the d_k to try
    tokens    number of queries and keys; the entropy is at most its logarithm
    width     of the tokens' vectors, d_model
    draws     number of independent repetitions

    Tokens are standard normal; W_q and W_k have variance 1/width, so that q and k have variance 1, and q · k has
    variance d_k. The loss is Σ weight · g, with random g that are equal for all d_k and divisors, so that
    differences in the gradients come from the softmax and the divisor. O(tokens · width · d_k) per draw.

    >>> lesson = scaling_lesson(sizes=(4, 256), draws=2)
    >>> lesson
    ScalingLesson(d_k 4, 256; divided by 1, √d_k, d_k)
    >>> bool(lesson.curve("entropy", "√d_k")[1] > 2 > 1 > lesson.curve("entropy", 1)[1])
    True
    """
    if isinstance(divisors, Mapping):
        chosen = {str(name): _named(divisor)[1] for name, divisor in divisors.items()}
    else:
        is_single = isinstance(divisors, (str, int, float)) or callable(divisors)
        chosen = dict(map(_named, [divisors] if is_single else divisors))
    if not chosen:
        raise errors.option("divisors", divisors, "at least one divisor", 'For example (1, "√d_k", "d_k").')
    sizes = tuple(validate.integer("sizes", size, 1, MOST_SIZE) for size in sizes)
    if not sizes:
        raise errors.option("sizes", sizes, "at least one d_k")
    tokens, width, draws = (
        validate.integer(name, number, 1) for name, number in (("tokens", tokens), ("width", width), ("draws", draws))
    )
    divided_by = np.array([[rule(size) for size in sizes] for rule in chosen.values()], np.float64)
    if not ((divided_by > 0) & np.isfinite(divided_by)).all():
        raise errors.option("divisors", divided_by.tolist(), "positive finite numbers", "Scores are divided by them.")
    measured = np.empty((len(QUANTITIES), len(chosen), len(sizes)))
    for column, size in enumerate(sizes):
        drawn = [_Draw.seeded(size, tokens, width, (seed, draw, size)) for draw in range(draws)]
        for row in range(len(chosen)):
            measured[:, row, column] = _measured(drawn, float(divided_by[row, column]))
    setting = (
        f"Seeded random tokens and weights (seed {seed}): {tokens} tokens of width {width}, {draws} draws; "
        "q and k have variance 1, so q · k has variance d_k."
    )
    arrays = dict(zip(QUANTITIES, measured, strict=True))
    return ScalingLesson(sizes, tuple(chosen), divided_by, **arrays, width=width, setting=setting)


def halved_scores() -> Table:
    """softmax of [6, 4], and of the same scores divided by 2 = √4.

    >>> table = halved_scores()
    >>> [table.printed(row) for row in table]
    [('6 4', '0.88 0.12'), ('3 2', '0.73 0.27')]
    """
    rows = tuple((pair, np.asarray(Attention([[1.0]], [[score] for score in pair])[0])) for pair in ((6, 4), (3, 2)))
    columns = Column("scores", "vector", 0), Column("softmax", "vector")
    return Table("Smaller scores, more even weights", columns, rows, ("[3, 2] is [6, 4] divided by √4.",))


@dataclass(frozen=True, eq=False, slots=True)
class _Draw:
    """One random attention of one size, before the division."""

    x: Floats  # (token, width)
    q: Floats  # (query, d_k)
    k: Floats  # (key, d_k)
    g: Floats  # (query, key): ∂L/∂weight
    products: tuple[Floats, Floats, Floats]  # x xᵀ, q qᵀ, k kᵀ, each (token, token)

    @classmethod
    def seeded(cls, size: int, tokens: int, width: int, seed: tuple[int, ...]) -> _Draw:
        # Tokens and g come from a generator that is independent of d_k, so they are the same for every d_k.
        shared, per_size = np.random.default_rng(seed[:2]), np.random.default_rng(seed)
        x, g = shared.normal(size=(tokens, width)), shared.normal(size=(tokens, tokens))
        w_q, w_k = per_size.normal(size=(2, size, width)) / math.sqrt(width)
        q, k = x @ w_q.T, x @ w_k.T
        return cls(x, q, k, g, (x @ x.T, q @ q.T, k @ k.T))


def _measured(drawn: Sequence[_Draw], divisor: float) -> tuple[float, ...]:
    """QUANTITIES, in this order."""
    attentions = [Attention(draw.q, draw.k, scale=1 / divisor) for draw in drawn]
    entropy, largest = (
        np.array([getattr(attention, name)() for attention in attentions]) for name in ("entropy", "peak")
    )
    gradients = [
        gradient_sizes(draw, np.asarray(attention.dense()), divisor)
        for draw, attention in zip(drawn, attentions, strict=True)
    ]
    scaled, of_q, w_q, w_k = (np.array(part) for part in zip(*gradients, strict=True))
    return (
        float(entropy.mean()),
        float(largest.mean()),
        float((largest > SATURATED).mean()),
        _root_mean_square(scaled),
        float(np.median(of_q)),
        _root_mean_square(w_q),
        _root_mean_square(w_k),
    )


def gradient_sizes(draw: _Draw, weights: Floats, divisor: float) -> tuple[Floats, Floats, float, float]:
    """‖∂L/∂scaled score‖ and ‖∂L/∂q‖ of each query, ‖∂L/∂W_q‖ and ‖∂L/∂W_k‖, in closed form.

    With S = ∂L/∂score, ∂L/∂q is S k and ∂L/∂W_q is (S k)ᵀ x, so its squared norm is Σ (x xᵀ) · (S k kᵀ Sᵀ): only
    (token, token) products are needed, and no gradient of d_k × width numbers is built.
    """
    scaled = weights * (draw.g - (weights * draw.g).sum(axis=1, keepdims=True))  # derivative of the softmax
    score = scaled / divisor
    of_x, of_q, of_k = draw.products
    squared_q, squared_k = score @ of_k @ score.T, score.T @ of_q @ score
    return (
        np.linalg.norm(scaled, axis=1),
        np.sqrt(np.maximum(np.diagonal(squared_q), 0)),
        math.sqrt(max(0.0, float((of_x * squared_q).sum()))),
        math.sqrt(max(0.0, float((of_x * squared_k).sum()))),
    )


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) if len(sizes) <= 3 else f"{sizes[0]}, {sizes[1]} … {sizes[-1]}"


def _run(curve: Floats, digits: int = 2) -> str:
    """Its first and last number."""
    return f"{printed_number(curve[0], digits)} → {printed_number(curve[-1], digits)}"


def _root_mean_square(numbers: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))


def _named(divisor: Any) -> tuple[str, Callable[[int], float]]:
    """The divisor's name and rule."""
    if callable(divisor):
        return str(getattr(divisor, "__name__", divisor)), divisor
    name = {"sqrt": "√d_k", "sqrt(d_k)": "√d_k"}.get(str(divisor), str(divisor))
    if name in KNOWN:
        return name, KNOWN[name]
    try:
        number = float(divisor)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise errors.option("divisor", divisor, 'a positive number, "√d_k", "d_k" or a function of d_k')
    return f"{number:g}", lambda size: number
