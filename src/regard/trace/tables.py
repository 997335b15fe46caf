"""The step table of the slides: for one query, one row per key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import numpy_of
from regard.tables import Column, Table, digits_for, in_last_digits, printed_number
from regard.trace.labels import numbered, own_key_of, query_label
from regard.trace.weighted_values import weighted_values_of

if TYPE_CHECKING:
    from regard.trace.trace import Trace

STAGE_COLUMNS = {"capped": "capped", "biased": "+ bias", "masked": "masked"}
FEW = 1000  # keys up to which the printed terms are added up


def of_query(trace: Trace, row: int, head: int) -> Table:
    """Word · q · k · v · score · score/√d_k · softmax · softmax × v · sum; O(n).

    q and sum are in the row of the query, or in the first row if the query is not among the keys.
    """
    count = len(trace.words)
    place = own_key_of(trace, row)
    asking = 0 if place is None else place
    queries, keys, values = (numpy_of(trace[name][head]) for name in ("query", "key", "value"))
    weights, output = numpy_of(trace["weight"][head, row]), numpy_of(trace["output"][head, row])
    weighted = numpy_of(weighted_values_of(trace, row, head))  # (key, size)
    fine = max(2, digits_for([*output, *np.abs(weighted).max(axis=0, initial=0)]))

    columns: list[Column] = [Column("Word", "word")]
    cells: list[Any] = [numbered(trace.words)]
    for name, vectors in (("q", _only(queries[row], asking, count)), ("k", keys), ("v", values)):
        columns.append(Column(name, "vector", digits_for(queries if name == "q" else vectors)))
        cells.append(vectors)
    for name in trace.names:
        if name in ("score", "scaled", *STAGE_COLUMNS):
            stage = numpy_of(trace[name][head, row])
            heading = {"score": "score", "scaled": scaled_heading(trace), **STAGE_COLUMNS}[name]
            columns.append(Column(heading, "number", digits_for(stage)))
            cells.append(stage.tolist())
    columns += [
        Column("softmax", "number", max(2, digits_for(weights)), shade=True),
        Column("softmax × v", "vector", fine),
        Column("sum", "vector", fine),
    ]
    cells += [weights.tolist(), weighted, _only(output, asking, count)]
    return Table(
        _title(trace, row, head),
        tuple(columns),
        tuple(zip(*cells, strict=True)),
        _notes(trace, row, head, weights, weighted, output, fine),
        place,
    )


def scaled_heading(trace: Trace) -> str:
    """The heading of scaled scores: what they are divided or multiplied by."""
    if trace.origin.is_root:
        return "score/√d_k"
    return f"score·{trace.origin.scale:.4g}"


def _only(vector: Any, place: int, count: int) -> list[Any]:
    """A vector in one row, None in the others."""
    return [vector if row == place else None for row in range(count)]


def _title(trace: Trace, row: int, head: int) -> str:
    of_head = f", head {head}" if trace.heads > 1 else ""
    root = f", √d_k = {trace.size**0.5:.3g}" if trace.origin.is_root else ""
    return f"Query {query_label(trace, row)}{of_head}: d_k = {trace.size}{root}"


def _notes(trace: Trace, row: int, head: int, weights: Any, weighted: Any, output: Any, digits: int) -> tuple[str, ...]:
    notes = [] if trace.note is None else [trace.note]
    if trace.origin.sinks is not None:
        share = max(0.0, 1 - float(weights.sum()))
        notes.append(f"The sink takes {printed_number(share, 2)} of the weight and has no value.")
    if not np.any(weights):
        notes.append(f"{trace.query_words[row]} may see no key: weights and sum are 0.")
    if len(weighted) <= FEW and _add_up_differently(weighted, output, digits):
        notes.append(
            "Every number is rounded on its own: the printed terms may miss the printed sum by half a last digit each."
        )
    return tuple(notes)


def _add_up_differently(weighted: Any, output: Any, digits: int) -> bool:
    """Whether the printed terms add up to another number than the printed sum."""
    terms, sums = in_last_digits(weighted, digits), in_last_digits(output, digits)
    with np.errstate(all="ignore"):
        return bool(np.any(np.isfinite(sums) & (terms.sum(axis=0) != sums)))
