"""One form for everything that can be viewed: a reading, a trace, an attention or a look-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from regard import errors
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.layers import Encoder
from regard.masks import allowed
from regard.reading import Reading
from regard.teaching.lookup.dictionary import Lookup
from regard.trace import Trace

Kind = Literal["reading", "trace", "lookup"]
LONG = 4096  # tokens: a matrix of more than 4096² weights per head is not computed whole unless asked for


@dataclass(frozen=True, eq=False)
class Subject:
    """Tokens, and per layer a lazy attention matrix of three axes and its values, if known."""

    kind: Kind
    title: str
    text: str
    model: str
    tokens: tuple[str, ...]
    attentions: tuple[Attention, ...]  # (head, query, key), one per layer
    values: tuple[Array | None, ...]  # (key head, key, value_dim)
    words: tuple[tuple[int, int], ...] = ()  # token ranges [first, last)
    special: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()
    sinks: tuple[int, ...] = ()
    given: int | None = None
    query_tokens: tuple[str, ...] | None = None  # where queries are not among the keys
    first_query: int | None = 0  # key position of query 0; None if not among the keys
    states: tuple[Array, ...] = ()
    blocks: tuple[Encoder, ...] = ()
    note: str | None = None
    certificate: Callable[[], Any] | None = None
    trace: Trace | None = None
    lookup: Lookup | None = None

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.attentions)

    @property
    def queries(self) -> int:
        """Number of queries."""
        return int(self.attentions[0].shape[1]) if self.attentions else 0

    @property
    def keys(self) -> int:
        """Number of keys."""
        return int(self.attentions[0].shape[2]) if self.attentions else len(self.tokens)

    @property
    def is_long(self) -> bool:
        """Whether a matrix is too large to be computed whole unless asked for."""
        return self.queries * self.keys > LONG**2

    def own_key(self, query: int) -> int | None:
        """The key position of a query; None if it is not among the keys."""
        own = None if self.first_query is None else self.first_query + query
        return own if own is not None and own < self.keys else None

    def bytes_of_arrays(self) -> int:
        """Memory of queries, keys and values."""
        arrays = [a for A in self.attentions for a in (A.queries, A.keys)] + [v for v in self.values if v is not None]
        return sum(int(np.prod(array.shape)) * int(array.dtype.itemsize) for array in arrays)


def subject_of(thing: Any) -> Subject:
    """Anything viewable as a `Subject`."""
    if isinstance(thing, Subject):
        return thing
    if isinstance(thing, Reading):
        return _of_reading(thing)
    if isinstance(thing, Trace):
        return _of_trace(thing)
    if isinstance(thing, Attention):
        return _of_attention(thing)
    if isinstance(thing, Lookup):
        return _of_lookup(thing)
    raise errors.option("subject", type(thing).__name__, "a Reading, a Trace, an Attention or a look-up")


def _of_reading(reading: Reading) -> Subject:
    tokens = reading.tokens
    return Subject(
        "reading",
        _titled(reading.text),
        reading.text,
        reading.model,
        tuple(token.text for token in tokens),
        tuple(seen.attention for seen in reading.seen),
        tuple(seen.values for seen in reading.seen),
        tuple((word.first, word.last) for word in reading.words),
        _places(token.special for token in tokens),
        _places(token.joined for token in tokens),
        tuple(reading.sinks),
        reading.given,
        states=reading.states,
        blocks=reading.blocks,
        certificate=(lambda: reading.certificate) if hasattr(type(reading), "certificate") else None,
    )


def _of_trace(trace: Trace) -> Subject:
    tokens = trace.words
    same = trace.own_key is not None
    return Subject(
        "trace",
        _titled(" ".join(tokens)),
        " ".join(tokens),
        "",
        tokens,
        (_attention_of(trace),),
        (trace["value"],),
        _each(tokens),
        query_tokens=None if same else trace.query_words,
        first_query=trace.own_key,
        note=trace.note,
        trace=trace,
    )


def _attention_of(trace: Trace) -> Attention:
    """The attention of a trace; mask and bias are recovered from its stages."""
    origin = trace.origin
    capped = trace["capped"] if "capped" in trace else trace["scaled"]
    bias = mask = None
    if "biased" in trace:
        biased = trace["biased"]
        bias = biased - capped
    if "masked" in trace:
        mask = allowed(numpy_of(trace["masked"]) != -np.inf)
    sinks = None if origin.sinks is None else np.asarray(numpy_of(origin.sinks))
    return Attention(
        numpy_of(trace["query"]),
        numpy_of(trace["key"]),
        scale=origin.scale,
        mask=mask,
        bias=None if bias is None else numpy_of(bias),
        softcap=origin.softcap or None,
        sinks=sinks,
        similarity="cosine" if origin.is_cosine else "dot",
        offset=trace.own_key or 0,
    )


def _of_attention(attention: Attention) -> Subject:
    note = None
    if attention.ndim == 4:
        if attention.shape[0] > 1:
            note = f"Sequence 0 of {attention.shape[0]}: A.select(batch=…) shows another."
        attention = attention.select(batch=0)
    if attention.ndim == 2:
        attention = replace(attention, queries=attention.queries[None], keys=attention.keys[None])
    queries, keys = attention.shape[-2:]
    tokens = tuple(map(str, range(keys)))
    start = 0 if attention.offset is None and queries == keys else attention.offset
    start = None if start is None else int(np.ravel(numpy_of(start))[0])
    among = start is not None and start >= 0 and start + queries <= keys
    return Subject(
        "reading",
        repr(attention),
        "",
        "given",
        tokens,
        (attention,),
        (None,),
        _each(tokens),
        query_tokens=None if among else tuple(map(str, range(queries))),
        first_query=start if among else None,
        note=note,
    )


def _of_lookup(lookup: Lookup) -> Subject:
    tokens = tuple(key if isinstance(key, str) else str(key) for key in lookup.keys)
    return Subject("lookup", "A dictionary made soft", "", "", tokens, (), (), _each(tokens), lookup=lookup)


def _titled(text: str, longest: int = 80) -> str:
    text = " ".join(text[: 4 * longest].split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _places(flags: Any) -> tuple[int, ...]:
    return tuple(place for place, flag in enumerate(flags) if flag)


def _each(tokens: Sequence[str]) -> tuple[tuple[int, int], ...]:
    return tuple((place, place + 1) for place in range(len(tokens)))
