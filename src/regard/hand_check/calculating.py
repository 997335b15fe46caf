"""The steps of attention, one after the other, from whichever numbers stand before them; and the line for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.hand_check.given import Numbers
from regard.trace.blending import softmax_over_keys
from regard.trace.saying import shortened

Known = Mapping[str, Numbers]
LARGE = 20  # scores beyond this are written less the largest: e^100 means nothing to anybody

LONGEST = 1000.0  # divisors up to this are written as the root of a size


@dataclass(frozen=True)
class Way:
    """One way to a step: what it needs, how it is computed, and how that is written down for one place."""

    needs: tuple[str, ...]
    compute: Callable[..., Numbers]
    line: Callable[..., str]  # the place, then what is needed


def _projected_line(place: Sequence[int], vectors: Numbers, matrix: Numbers) -> str:
    return dot(vectors[place[0]], matrix[place[1]])


def _score_line(place: Sequence[int], queries: Numbers, keys: Numbers) -> str:
    return dot(queries[place[0]], keys[place[1]])


def _scaled_line(place: Sequence[int], scores: Numbers, divisor: Numbers) -> str:
    size = round(min(float(divisor), LONGEST) ** 2)
    by = f"√{size}" if abs(float(divisor) - size**0.5) < 1e-9 else plain(divisor)
    return f"{plain(scores[tuple(place)])} / {by}"


def _weight_line(place: Sequence[int], scaled: Numbers) -> str:
    row = scaled[place[0]]
    largest = float(row.max()) if np.abs(row).max() > LARGE else 0.0
    row = row - largest
    powers = [f"e^{factor(score)}" for score in row]
    line = f"{powers[place[1]]} / ({' + '.join(shortened(powers))})"
    return f"{line} = {plain(np.exp(row[place[1]]))} / {plain(np.exp(row).sum())}"


def _weighted_line(place: Sequence[int], weights: Numbers, values: Numbers) -> str:
    return f"{factor(weights[place[0], place[1]])}·{factor(values[place[1], place[2]])}"


def _added_line(place: Sequence[int], weighted: Numbers) -> str:
    return " + ".join(shortened([factor(term) for term in weighted[place[0], :, place[1]]]))


def _output_line(place: Sequence[int], weights: Numbers, values: Numbers) -> str:
    return dot(weights[place[0]], values[:, place[1]])


def _projected(vectors: Numbers, matrix: Numbers) -> Numbers:
    return vectors @ matrix.T


def _softmax(scaled: Numbers) -> Numbers:
    return np.asarray(softmax_over_keys(scaled[None])[0])


WAYS: dict[str, tuple[Way, ...]] = {
    "query": (Way(("embedding", "W_q"), _projected, _projected_line),),
    "key": (Way(("embedding", "W_k"), _projected, _projected_line),),
    "value": (Way(("embedding", "W_v"), _projected, _projected_line),),
    "score": (Way(("query", "key"), lambda queries, keys: queries @ keys.T, _score_line),),
    "scaled": (Way(("score", "divisor"), lambda scores, divisor: scores / divisor, _scaled_line),),
    "weight": (Way(("scaled",), _softmax, _weight_line),),
    "weighted_value": (
        Way(("weight", "value"), lambda weights, values: weights[:, :, None] * values[None], _weighted_line),
    ),
    "output": (
        Way(("weighted_value",), lambda weighted: weighted.sum(axis=1), _added_line),
        Way(("weight", "value"), lambda weights, values: weights @ values, _output_line),
    ),
}


def ways_to(step: str, known: Known) -> list[Way]:
    """The ways that what is known allows."""
    return [way for way in WAYS[step] if all(name in known for name in way.needs)]


def computed(way: Way, known: Known) -> Numbers:
    """A step from what stands before it; NaN where that is not known."""
    with np.errstate(all="ignore"):
        return np.asarray(way.compute(*(known[name] for name in way.needs)), np.float64)


def written_out(way: Way, known: Known, place: Sequence[int], result: float) -> str:
    """The calculation of one number."""
    return f"{way.line(place, *(known[name] for name in way.needs))} = {plain(result)}"


def plain(value: float | Numbers) -> str:
    """A number with up to four decimals.

    >>> plain(0.15), plain(0.155362), plain(2.0), plain(-0.00012)
    ('0.15', '0.1554', '2', '−0.00012')
    """
    value = float(value)
    if value and (abs(value) < 0.001 or abs(value) >= 1e9):
        return f"{value:.4g}".replace("-", "−")
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return text.replace("-", "−") if text != "-0" else "0"


def factor(value: float | Numbers) -> str:
    """A number inside a product or behind a plus: negative ones in brackets."""
    text = plain(value)
    return f"({text})" if text.startswith("−") else text


def dot(left: Numbers, right: Numbers) -> str:
    """Two vectors, number by number.

    >>> dot(np.array([0.0, 1.0]), np.array([2.0, -3.0]))
    '0·2 + 1·(−3)'
    """
    return " + ".join(shortened([f"{factor(a)}·{factor(b)}" for a, b in zip(left, right, strict=True)]))
