"""Queries, keys and values of one head, the steps after attention, and look-ups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard import errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.attention.scores import scores_of
from regard.teaching.lookup.answer import said
from regard.teaching.lookup.dictionary import Lookup
from regard.trace import Trace
from regard.viewer import params
from regard.viewer.subject import Subject

Parts = tuple[dict[str, Any], dict[str, Any]]  # a header and arrays
AFTER = ("concatenated", "projected", "attended", "fed_forward", "result")
LONGEST_EXPLAINED = 4096  # tokens: explaining one query recomputes the keys and values of all tokens


def of_head(
    attention: Attention, values: Array | None, head: int, query: int | None, keys: Sequence[int] | None
) -> Parts:
    """q, k and v of one head as used in its scores; for one query also the visible keys and their bias."""
    scores = scores_of(attention)
    group = attention.shape[0] // attention.keys.shape[0]
    some: Any = slice(None) if keys is None else list(keys)
    arrays = {
        "q": numpy_of(scores.queries[0, head] if query is None else scores.queries[0, head, query : query + 1]),
        "k": numpy_of(scores.keys[0, head // group])[some],
    }
    if values is not None:
        arrays["v"] = numpy_of(values[head * len(values) // attention.shape[0]])[some]
    if query is not None:
        masked = numpy_of(attention.masked[head, query, :])[some]
        arrays["visible"] = masked != -np.inf
        if attention.bias is not None:
            arrays["bias"] = (numpy_of(attention.biased[head, query, :]) - numpy_of(attention.capped[head, query, :]))[
                some
            ]
    sink = None if attention.sinks is None else float(numpy_of(attention.sinks)[head])
    header = {"scale": float(scores.scale), "softcap": attention.softcap, "sink": sink, "keys": keys}
    return header, {name: array.astype(np.float32) if name != "visible" else array for name, array in arrays.items()}


def steps(subject: Subject, layer: int, query: int) -> Parts:
    """The steps after attention for one query, as far as the subject's layers are known."""
    trace = _trace(subject, layer, query)
    if trace is not None:
        row = query if len(trace.query_words) == subject.queries else 0
        arrays = {"outputs": numpy_of(trace["output"])[:, row]}
        arrays |= {name: numpy_of(trace[name])[row] for name in AFTER if name in trace}
        formulas = {step.name: step.formula for step in trace.steps}
        before = "positioned" if "positioned" in trace else "embedding"
        own = subject.own_key(query)
        if before in trace and own is not None and own < len(trace[before]):
            arrays["state"] = numpy_of(trace[before])[own]
        return {"formulas": formulas, "names": list(arrays)}, arrays
    values = subject.values[layer]
    if values is None:
        raise errors.option("steps", layer, "a subject with values", "An Attention alone has no values.")
    outputs = _outputs(subject.attentions[layer], values, query)
    formulas = {"outputs": "output = Σ weight · v", "concatenated": "the outputs of all heads, concatenated"}
    return {"formulas": formulas, "names": ["outputs", "concatenated"]}, {
        "outputs": outputs,
        "concatenated": outputs.reshape(-1),
    }


def _trace(subject: Subject, layer: int, query: int) -> Trace | None:
    if subject.trace is not None:
        return subject.trace
    if layer >= len(subject.blocks) or layer >= len(subject.states) or subject.queries > LONGEST_EXPLAINED:
        return None
    trace: Trace = subject.blocks[layer].explain(subject.states[layer], query=query)
    return trace


def _outputs(attention: Attention, values: Array, query: int) -> Any:
    """(head, value_dim) of one query, in O(n)."""
    weight = numpy_of(attention[:, query, :]).astype(np.float64)  # (head, key)
    group = attention.shape[0] // len(values)
    return np.stack(
        [
            np.where(weight[head] > 0, weight[head], 0) @ np.nan_to_num(numpy_of(values[head // group]))
            for head in range(len(weight))
        ]
    )


def looked_up(lookup: Lookup, query: Any, temperature: Any) -> Parts:
    """The weights and similarities of all keys, and the value."""
    asked = _query(query)
    answer = lookup.soft(asked, params.number("temperature", temperature))
    similarity = lookup._scores((asked,))[0]
    header = {
        "value": said(answer.value),
        "notes": answer.notes,
        "temperature": lookup.temperature_for(params.number("temperature", temperature)),
        "hard": said(lookup.hard(asked).value),
    }
    return header, {"weight": answer.weights, "similarity": similarity}


def _query(given: Any) -> Any:
    if isinstance(given, str):
        return params.text("query", given, params.MOST_LETTERS)
    if isinstance(given, list) and 1 <= len(given) <= params.MOST_KEYS and all(map(validate.is_number, given)):
        return given
    raise errors.option("query", given, "a string, or a list of numbers")
