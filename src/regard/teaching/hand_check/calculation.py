"""The steps of attention, each computed from the steps before it, and the calculation of one number written out.

Arrays have a head axis in front, except those of HEADLESS steps. `x` and `context` are the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.engines import generic
from regard.teaching.hand_check.inputs import Inputs, Numbers
from regard.trace.arithmetic import dot, factor, precise, softmax_line, total

Arrays = Mapping[str, Numbers]
LONGEST = 1000.0  # divisors up to this are written as a root


@dataclass(frozen=True)
class Way:
    """One way to compute a step: what it needs, the computation, and how that is written for one number.

    `written` takes the place and what is needed, and gives the line; or, where the number is a sum, its terms and None,
    or the two vectors whose product it is.
    """

    needs: tuple[str, ...]
    compute: Callable[..., Numbers]
    written: Callable[..., str | tuple[Numbers, Numbers | None]]

    def __call__(self, arrays: Sequence[Numbers]) -> Numbers:
        """The step; NaN where what it needs is not known."""
        with np.errstate(all="ignore"):
            return np.asarray(self.compute(*arrays), np.float64)

    def write(self, index: Sequence[int], arrays: Sequence[Numbers], result: float) -> str:
        """The calculation of one number."""
        line = self.written(index, *arrays)
        if isinstance(line, tuple):
            left, right = line
            line = total([factor(term, precise) for term in left]) if right is None else dot(left, right, show=precise)
        return f"{line} = {precise(result)}"

    def terms(self, index: Sequence[int], arrays: Sequence[Numbers]) -> Numbers | None:
        """The terms of the sum at one place."""
        line = self.written(index, *arrays)
        return None if isinstance(line, str) else np.asarray(line[0] if line[1] is None else line[0] * line[1])


def start(inputs: Inputs) -> dict[str, Numbers]:
    """What is known before the first step."""
    arrays: dict[str, Any] = {"position": inputs.position, "output_gradient": inputs.output_gradient}
    if inputs.x is not None:
        arrays |= {"x": inputs.x, "context": inputs.x if inputs.context is None else inputs.context}
    for name, matrix in inputs.matrices.items():
        arrays[name] = matrix if name == "W_O" else split_columns(matrix, inputs.heads)
    visible = inputs.visible()
    arrays |= inputs.parts | {"visible": None if visible is None else visible.astype(np.float64)}
    return {name: array for name, array in arrays.items() if array is not None}


def split_columns(matrix: Numbers, heads: int) -> Numbers:
    """(in, head · head_dim) → (head, in, head_dim)."""
    return np.stack(np.split(matrix, heads, axis=1))


def divisor_of(inputs: Inputs, arrays: Arrays) -> Numbers | None:
    """√d_k unless another divisor is given."""
    size = next((arrays[name].shape[-1] for name in ("query", "key", "W_q", "W_k") if name in arrays), None)
    return np.array(inputs.divisor) if inputs.divisor is not None else None if size is None else np.array(size**0.5)


def ways_to(step: str, arrays: Arrays) -> list[Way]:
    """The ways to compute a step from what is known; weights from masked scores with a mask, q from x + position."""
    stage = "masked" if "visible" in arrays or "masked" in arrays else "scaled"
    left_out = {"scaled" if stage == "masked" else "masked"} if step == "weight" else set()
    if step in ("query", "key", "value"):
        left_out = {"x", "context"} if "position" in arrays else {"positioned"}
    return [way for way in WAYS[step] if arrays.keys() >= {*way.needs} and left_out.isdisjoint(way.needs)]


def solve(inputs: Inputs) -> dict[str, Numbers]:
    """Every step that the inputs determine, exactly."""
    arrays = start(inputs)
    for step in WAYS:
        divisor = divisor_of(inputs, arrays)
        if divisor is not None:
            arrays["divisor"] = divisor
        for way in ways_to(step, arrays)[:1] if step not in arrays else ():
            arrays[step] = way([arrays[name] for name in way.needs])
    return {step: array for step, array in arrays.items() if step in WAYS}


# The computation


def softmax(scores: Numbers) -> Numbers:
    """Over keys; rows that are masked entirely give zeros."""
    with np.errstate(all="ignore"):
        return np.asarray(generic.softmax_rows(scores[None]).weights[0])


def concatenate(outputs: Numbers) -> Numbers:
    """(head, query, value_dim) → (query, head · value_dim)."""
    return outputs.swapaxes(0, 1).reshape(outputs.shape[1], -1)


def mask(scaled: Numbers, visible: Numbers) -> Numbers:
    """−∞ where a query may not see a key."""
    return np.where(visible > 0, scaled, -np.inf)


def divisor_text(divisor: float) -> str:
    """√4 for 2, since d_k = 4 is what the reader knows."""
    size = round(min(divisor, LONGEST) ** 2)
    return f"√{size}" if abs(divisor - size**0.5) < 1e-9 else precise(divisor)


# How each number is written


def _divided_line(index: Sequence[int], numbers: Numbers, divisor: Numbers) -> str:
    return f"{precise(numbers[tuple(index)])} / {divisor_text(float(divisor))}"


def _softmax_line(index: Sequence[int], stage: Numbers) -> str:
    row = stage[index[0], index[1]]
    return "masked: e^(−∞)" if np.isneginf(row[index[2]]) else softmax_line(row, index[2], show=precise)[0]


def _softmax_gradient_line(index: Sequence[int], weights: Numbers, gradients: Numbers, means: Numbers) -> str:
    weight, gradient, mean = weights[tuple(index)], gradients[tuple(index)], means[tuple(index[:2])]
    return f"{factor(weight, precise)}·({precise(gradient)} − {factor(mean, precise)})"


def _projection(source: str, name: str) -> Way:
    """q, k or v of each head: rows times W."""
    return Way((source, name), np.matmul, lambda p, rows, W: (rows[p[1]], W[p[0]][:, p[2]]))


def _between(query: str, key: str) -> Way:
    """The product of each query's vector and each key's."""
    return Way((query, key), lambda q, k: q @ k.swapaxes(-1, -2), lambda p, q, k: (q[p[:2]], k[p[0], p[2]]))


WAYS: dict[str, tuple[Way, ...]] = {
    "positioned": (Way(("x", "position"), np.add, lambda p, x, at: (np.array([x[p], at[p]]), None)),),
    "query": (_projection("x", "W_q"), _projection("positioned", "W_q")),
    "key": (_projection("context", "W_k"), _projection("positioned", "W_k")),
    "value": (_projection("context", "W_v"), _projection("positioned", "W_v")),
    "score": (_between("query", "key"),),
    "unscaled_weight": (Way(("score",), softmax, _softmax_line),),
    "scaled": (Way(("score", "divisor"), np.divide, _divided_line),),
    "masked": (
        Way(("scaled", "visible"), mask, lambda p, s, seen: precise(s[p]) if seen[p[1:]] > 0 else "masked: −∞"),
    ),
    "weight": (Way(("scaled",), softmax, _softmax_line), Way(("masked",), softmax, _softmax_line)),
    "weighted_value": (
        Way(
            ("weight", "value"),
            lambda w, v: w[..., None] * v[:, None],
            lambda p, w, v: f"{factor(w[p[:3]], precise)}·{factor(v[p[0], p[2], p[3]], precise)}",
        ),
    ),
    "output": (
        Way(("weighted_value",), lambda wv: wv.sum(axis=2), lambda p, wv: (wv[p[0], p[1], :, p[2]], None)),
        Way(("weight", "value"), np.matmul, lambda p, w, v: (w[p[:2]], v[p[0], :, p[2]])),
    ),
    "weight_gradient": (_between("output_gradient", "value"),),
    "mean_gradient": (
        Way(("weight", "weight_gradient"), lambda w, g: (w * g).sum(axis=-1), lambda p, w, g: (w[p], g[p])),
    ),
    "scaled_gradient": (
        Way(
            ("weight", "weight_gradient", "mean_gradient"),
            lambda w, g, mean: w * (g - mean[..., None]),
            _softmax_gradient_line,
        ),
    ),
    "score_gradient": (Way(("scaled_gradient", "divisor"), np.divide, _divided_line),),
    "concatenated": (
        Way(("output",), concatenate, lambda p, o: "component {1} of head {0}".format(*divmod(p[1], o.shape[-1]))),
    ),
    "projected": (Way(("concatenated", "W_O"), np.matmul, lambda p, rows, W: (rows[p[0]], W[:, p[1]])),),
}


def spread_of(step: str, arrays: Arrays, spread: Mapping[str, Any]) -> Any:
    """How far each number may be off if q, k and v were printed rounded, from the `spread` of the steps before."""
    with np.errstate(all="ignore"):
        if step == "score" and {"query", "key"} <= arrays.keys():
            queries, keys = np.abs(arrays["query"]), np.abs(arrays["key"])
            of_query, of_key = (spread.get(name, 0.0) for name in ("query", "key"))
            both = of_query * of_key * queries.shape[-1]
            return queries.sum(-1)[..., None] * of_key + keys.sum(-1)[:, None] * of_query + both
        if step in ("scaled", "masked") and "score" in spread:
            return spread["score"] / arrays["divisor"]
        if step == "weight" and "scaled" in spread:  # each exponent, and the largest of its row
            return np.nan_to_num(arrays["weight"] * np.expm1(2 * spread["scaled"].max(axis=-1, keepdims=True)))
        if step in ("weighted_value", "output") and "weight" in spread and "value" in arrays:
            weights, values, of_value = arrays["weight"], np.abs(arrays["value"]), spread.get("value", 0.0)
            if step == "output":
                return spread["weight"] @ (values + of_value) + weights.sum(axis=-1, keepdims=True) * of_value
            return spread["weight"][..., None] * (values[:, None] + of_value) + weights[..., None] * of_value
    return None
