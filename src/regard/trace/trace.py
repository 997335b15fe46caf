"""A trace: the steps of one attention as tables and as written-out calculations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard import validate
from regard.arrays import Array, numpy_of
from regard.notebook import InNotebooks
from regard.provenance import Source, provenance
from regard.tables import Column, Table, digits_for, in_last_digits, printed_number
from regard.trace.labels import numbered
from regard.trace.named_steps import Steps, last_stage, own_key_of, query_label, read_only, row_of, weighted_values_of
from regard.trace.why import Why, why

STAGE_COLUMNS = {"capped": "capped", "biased": "+ bias", "masked": "masked"}
FEW = 1000  # keys up to which the printed terms are added up


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Steps, InNotebooks):
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

    def noted(self, note: str | None, source: Source | None = None) -> Trace:
        """The same trace with a note for people, and with the source that files name, if one is given.

        >>> trace.noted("W_q = W_k = W_v = I").table("cat").notes
        ('W_q = W_k = W_v = I',)
        """
        return replace(self, note=note, source=source or self.source)

    def table(self, query: Any = None, head: int = 0) -> Table:
        """The step table of one query: Word · q · k · v · score · score/√d_k · softmax · softmax × v · sum.

        >>> table = trace.table("cat")
        >>> for row in table:
        ...     print(" | ".join(table.printed(row)))
        The |         | 1 0 1 0 | 1 0 1 0 | 0 | 0 | 0.16 | 0.16 0.00 0.16 0.00 |
        cat | 0 1 0 1 | 0 1 0 1 | 0 1 0 1 | 2 | 1 | 0.42 | 0.00 0.42 0.00 0.42 | 0.58 0.84 0.58 0.84
        sat |         | 1 1 1 1 | 1 1 1 1 | 2 | 1 | 0.42 | 0.42 0.42 0.42 0.42 |
        """
        return _table(self, row_of(self, query), validate.index("head", head, self.heads))

    def tables(self, head: int = 0) -> tuple[Table, ...]:
        """The step tables of all queries.

        >>> [table.title for table in trace.tables()]
        ['Query The: d_k = 4, √d_k = 2', 'Query cat: d_k = 4, √d_k = 2', 'Query sat: d_k = 4, √d_k = 2']
        """
        head = validate.index("head", head, self.heads)
        return tuple(_table(self, row, head) for row in range(len(self.query_words)))

    def why(
        self, name: str, *, query: Any = None, key: Any = None, head: int = 0, component: int | None = None,
        full: bool = False,
    ) -> Why:  # fmt: skip
        """How a number or vector of one step is calculated, written out.

        query, key   a word, a word and which of its occurrences, or a position
        component    one number of a vector, as in `why("output", query="cat", component=0)`
        full         do not shorten long vectors

        >>> print(trace.why("scaled", query="cat", key="sat"))
        2 / √4 = 1
        """
        head = validate.index("head", head, self.heads)
        return why(self, name, query=query, key=key, head=head, component=component, full=full)

    def weighted_values(self, query: Any = None, head: int = 0) -> Array:
        """Weight × value of one query and head for every key, (key, value_dim); O(n).

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


# The step table of the slides: for one query, one row per key


def _table(trace: Steps, row: int, head: int) -> Table:
    """Word · q · k · v · score · score/√d_k · softmax · softmax × v · sum; O(n).

    q and sum are in the row of the query, or in the first row if the query is not among the keys. A masked key has
    neither weight nor weighted value: its cells are blank.
    """
    count = len(trace.words)
    own_key = own_key_of(trace, row)
    asking = 0 if own_key is None else own_key
    queries, keys, values = (numpy_of(trace[name][head]) for name in ("query", "key", "value"))
    weights, output = numpy_of(trace["weight"][head, row]), numpy_of(trace["output"][head, row])
    weighted = numpy_of(weighted_values_of(trace, row, head))  # (key, value_dim)
    fine = max(2, digits_for([*output, *np.abs(weighted).max(axis=0, initial=0)]))

    columns: list[Column] = [Column("Word", "word")]
    cells: list[Any] = [numbered(trace.words)]
    for name, vectors in (("q", _only(queries[row], asking, count)), ("k", keys), ("v", values)):
        columns.append(Column(name, "vector", digits_for(queries if name == "q" else vectors)))
        cells.append(vectors)
    for name in trace.names:
        if name in ("score", "scaled", *STAGE_COLUMNS):
            stage = numpy_of(trace[name][head, row])
            by = "/√d_k" if trace.origin.is_root else f"·{trace.origin.scale:.4g}"
            heading = {"score": "score", "scaled": f"score{by}", **STAGE_COLUMNS}[name]
            columns.append(Column(heading, "number", digits_for(stage)))
            cells.append(stage.tolist())
    columns += [
        Column("softmax", "number", max(2, digits_for(weights)), shade=True),
        Column("softmax × v", "vector", fine),
        Column("sum", "vector", fine),
    ]
    hidden = np.isneginf(numpy_of(trace[last_stage(trace)][head, row]))
    for part in (weights.tolist(), weighted):
        cells += [[None if is_hidden else cell for cell, is_hidden in zip(part, hidden, strict=True)]]
    cells.append(_only(output, asking, count))
    return Table(
        _title(trace, row, head),
        tuple(columns),
        tuple(zip(*cells, strict=True)),
        _notes(trace, row, head, weights, weighted, output, fine),
        own_key,
        source_in_words(trace, head),
    )


def source_in_words(trace: Steps, head: int | None = None) -> str:
    """Where the numbers come from, of one head or of all."""
    source = trace.source
    numbers = source.heads or (tuple(range(trace.heads)) if trace.heads > 1 else ())
    heads = numbers[head : head + 1] if head is not None else ()
    return provenance(source.name, heads=heads, text=source.text or " ".join(trace.words))


def _only(vector: Any, index: int, count: int) -> list[Any]:
    """A vector in one row, None in the others."""
    return [vector if row == index else None for row in range(count)]


def _title(trace: Steps, row: int, head: int) -> str:
    of_head = f", head {head}" if trace.heads > 1 else ""
    root = f", √d_k = {trace.head_dim**0.5:.3g}" if trace.origin.is_root else ""
    return f"Query {query_label(trace, row)}{of_head}: d_k = {trace.head_dim}{root}"


def _notes(trace: Steps, row: int, head: int, weights: Any, weighted: Any, output: Any, digits: int) -> tuple[str, ...]:
    notes = [] if trace.note is None else [trace.note]
    if trace.origin.sinks is not None:
        share = max(0.0, 1 - float(weights.sum()))
        notes.append(f"The sink takes {printed_number(share, 2)} of the weight and has no value.")
    if not np.any(weights):
        notes.append(f"{trace.query_words[row]} may see no key: weights and sum are 0.")
    terms, sums = in_last_digits(weighted[:FEW], digits), in_last_digits(output, digits)
    with np.errstate(all="ignore"):
        add_up = not np.any(np.isfinite(sums) & (terms.sum(axis=0) != sums))
    if len(weighted) <= FEW and not add_up:
        notes.append(
            "Every number is rounded on its own: the printed terms may miss the printed sum by half a last digit each."
        )
    return tuple(notes)
