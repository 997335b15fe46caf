"""One form for everything that can be viewed: a reading, a trace, an attention or a look-up; and its description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from regard import errors
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.heads.roles import TREEBANK, KnownHeads, known
from regard.heads.sentence_relations import (
    EXAMPLES,
    POSSIBLE,
    REFERENCE,
    RelationAnswer,
    TaggedSentence,
    also_best,
    answers,
    not_here,
)  # fmt: skip
from regard.layers import Encoder, Linear, Transformer
from regard.masks import Mask, allowed
from regard.masks.kinds import Causal, Window
from regard.masks.mask import Both
from regard.provenance import GIVEN, LOOK_UP
from regard.reading import Reading
from regard.reading.numbering import numbers_for
from regard.reading.opening import opening
from regard.reading.reader import Reader
from regard.teaching.lookup import Lookup
from regard.trace import Trace
from regard.trace.steps import Projection
from regard.viewer.description import (
    CertificateNumbers,
    Description,
    Editable,
    HeadRoles,
    KeptParts,
    Kind,
    LayerMask,
    LookupParts,
    Measure,
    RoleAnswer,
    RoleScore,
    Sizes,
    Start,
)

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
    ids: tuple[int, ...] = ()  # of the tokens, in the model's vocabulary
    stops: tuple[int, ...] = ()  # where each token ends in the text, in characters
    reader: Reader | None = None  # the model that read the text, where it is at hand
    note: str | None = None
    certificate: Callable[[], Any] | None = None
    unverified: str = ""  # what the certificate cannot know of a reading from a file
    trace: Trace | None = None
    lookup: Lookup | None = None
    layer_numbers: tuple[int, ...] = ()  # in the model, for people: queries and frames go by position
    head_numbers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        heads = max((attention.shape[0] for attention in self.attentions), default=0)
        object.__setattr__(self, "layer_numbers", numbers_for("layer", self.layer_numbers, self.layers))
        object.__setattr__(self, "head_numbers", numbers_for("head", self.head_numbers, heads))

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
    def has_all_states(self) -> bool:
        """Whether the states after every block are known."""
        return bool(self.blocks) and len(self.states) == len(self.blocks) + 1 == self.layers + 1

    def require_reader(self) -> Reader:
        """The model that read the text."""
        if self.reader is None:
            raise errors.Unsupported("The model that read this text is not at hand: read the text again.")
        return self.reader

    def require_transformer(self) -> Transformer:
        """The layers of the model that read the text."""
        transformer = self.require_reader().transformer
        if transformer is None:
            raise errors.unsupported(
                f"Computing layers of {self.model} again", "Read the text with a model that Regard computes itself."
            )
        return transformer

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
        ids=tuple(token.id for token in tokens),
        stops=tuple(token.stop for token in tokens),
        reader=reading.reader,
        certificate=(lambda: reading.certificate) if hasattr(type(reading), "certificate") else None,
        unverified=reading.unverified,
        layer_numbers=reading.layer_numbers,
        head_numbers=reading.head_numbers,
    )


def _of_trace(trace: Trace) -> Subject:
    tokens = trace.words
    same = trace.own_key is not None
    return Subject(
        "trace",
        _titled(" ".join(tokens)),
        trace.source.text or " ".join(tokens),
        "",
        tokens,
        (_attention_of(trace),),
        (trace["value"],),
        _each(tokens),
        query_tokens=None if same else trace.query_words,
        first_query=trace.own_key,
        note=trace.note,
        trace=trace,
        head_numbers=trace.source.heads,
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


# The `describe` answer: tokens, sizes, masks, and the kinds of queries that can be answered

FORMAT = 1
SMALL = 16  # words, and embedding width, up to which every entry can be edited
CERTIFIED = 4096  # tokens: certifying a longer reading takes too long
MASKED_QUERIES = 4096  # up to which intervals of visible keys are listed one by one
MOST_EDGES = 16  # of these intervals, per query on average


def describe(
    subject: Subject,
    *,
    has: Sequence[str] | None = None,
    measures: Sequence[Measure] | None = None,
    kept: KeptParts | None = None,
) -> Description:
    """The description, ready for JSON; `kept` says which layers and heads a page holds, where not all."""
    first = subject.attentions[0] if subject.attentions else None
    masks, mask_of_layer = _masks(subject)
    return {
        "format": FORMAT,
        "kind": subject.kind,
        "title": subject.title,
        "text": subject.text,
        "model": subject.model,
        "source": source_of(subject),
        "tokens": subject.tokens,
        "special": subject.special,
        "joined": subject.joined,
        "words": subject.words,
        "given": subject.given,
        "stops": _stops(subject),
        "layers": subject.layers,
        "layer_numbers": subject.layer_numbers,
        **_sizes(subject, first),  # type: ignore[typeddict-item]  # it has no `compared`
        "head_numbers": subject.head_numbers,
        "sinks": subject.sinks,
        "queries": subject.queries,
        "query_tokens": subject.query_tokens,
        "first_query": subject.first_query,
        "masks": masks,
        "mask_of_layer": mask_of_layer,
        "long": subject.is_long,
        "certificate": _certificate(subject),
        "has": answered(subject) if has is None else list(has),
        "measures": measures_of(subject) if measures is None else list(measures),
        "w_o": has_w_o(subject),
        "kept": kept or {"layers": None, "heads": None},
        "editable": None if subject.trace is None else _editable(subject.trace),
        "lookup": None if subject.lookup is None else _lookup_description(subject.lookup),
        "note": subject.note,
        "known": known_heads(subject),
        "start": start_of(subject),
    }


def source_of(subject: Subject) -> str:
    """Where the numbers come from, as exports say: a model, or typed by hand, random numbers, a look-up, vectors."""
    if subject.kind == "lookup":
        return LOOK_UP
    if subject.trace is not None:
        return subject.trace.source.name
    model = GIVEN if subject.model == "given" else subject.model
    return f"{model} (unverified)" if subject.unverified else model


def _stops(subject: Subject) -> list[int] | None:
    """Where each token ends in the text, in UTF-16 units, as JavaScript counts; None for long texts and vectors."""
    if subject.is_long or not subject.stops or not subject.text:
        return None
    wide = np.cumsum([0, *(ord(letter) > 0xFFFF for letter in subject.text)])
    return [int(stop + wide[min(stop, len(subject.text))]) for stop in subject.stops]


def known_heads(subject: Subject) -> HeadRoles | None:
    """What the heads of the subject's model do, in general and in this text; None for other models."""
    found = known(subject)
    if found is None:
        return None
    places = [[(layer, head) for head in range(found.heads)] for layer in range(subject.layers)]
    sentence = TaggedSentence(_word_texts(subject), subject.words, subject.attentions, _sink_words(subject))
    return {
        "treebank": TREEBANK,
        "source": found.source,
        "labels": [[found.label(*place) for place in row] for row in places],
        "said": [[found.short(*place) for place in row] for row in places],
        "relations": [
            [[[role.relation, role.direction, role.arrow] for role in found.roles_of(*place)] for place in row]
            for row in places
        ],
        "possible": POSSIBLE,
        "classes": [sorted(of_word) for of_word in sentence.classes],
        "asks": [
            {
                "name": name,
                "answers": [_answer(found, subject, answer) for answer in answers(found, name, sentence)],
                "nothing": not_here(found, name, sentence),
                "example": EXAMPLES[name],
            }
            for name in found.groups
            if name in EXAMPLES
        ],
    }


def _answer(found: KnownHeads, subject: Subject, answer: RelationAnswer) -> RoleAnswer:
    """An answer for the page: the head, the link by its tokens, and the score of the head in general."""
    layer, head, query, key, weight = answer.link
    return {
        "layer": layer,
        "head": head,
        "query": subject.words[query][0],
        "key": subject.words[key][0],
        "weight": weight,
        "arrow": answer.arrow,
        "scored": None if answer.role is None else cast(RoleScore, answer.role._asdict()),
        "same": "" if answer.role is None else also_best(found, answer.role),
        "unscored": found.nothing_for(REFERENCE) if answer.role is None else None,
    }


def start_of(subject: Subject) -> Start | None:
    """Layer, head and query token of the strongest link between content words: where a view opens; None if unknown."""
    whole = subject.first_query == 0 and subject.queries == subject.keys
    if not whole or not subject.words or subject.is_long:
        return None
    found = opening(_word_texts(subject), subject.words, subject.attentions, _sink_words(subject))
    return {"layer": found.layer, "head": found.head, "query": subject.words[found.query][0]}


def _word_texts(subject: Subject) -> list[str]:
    return ["".join(subject.tokens[first:last]) for first, last in subject.words]


def _sink_words(subject: Subject) -> set[int]:
    sinks = set(subject.sinks)
    return {place for place, (first, last) in enumerate(subject.words) if sinks.intersection(range(first, last))}


MEASURED = 1024  # tokens of a text whose means and rollout are computed, as whole matrices


def measures_of(subject: Subject) -> list[Measure]:
    """What can be shown: weights, ‖weight · v · W_O‖, the mean over all layers and heads, rollout."""
    found: list[Measure] = ["weight"]
    square = subject.first_query == 0 and subject.queries == subject.keys
    if not subject.attentions or not square or subject.keys > MEASURED:
        return found
    if all(values is not None for values in subject.values):
        found.append("norm")
    several = sum(attention.shape[0] for attention in subject.attentions) > 1
    return [*found, "mean", "rollout"] if several else found


def has_w_o(subject: Subject) -> bool:
    """Whether norms can be taken after W_O."""
    return bool(subject.blocks) and all(block.attention.w_o is not None for block in subject.blocks)


def answered(subject: Subject) -> list[str]:
    """The kinds of queries that this subject can answer."""
    if subject.lookup is not None:
        return ["lookup"]
    found = ["tile", "row", "statistics", "thumbnails", "along", "links", "heads_for", "vectors", "architecture"]
    if subject.is_long:
        found.append("progress")
    if any(values is not None for values in subject.values):
        found.append("steps")
    if subject.states:
        found.append("states")
    if subject.blocks:
        found.append("block")
    if subject.reader is not None and subject.reader.transformer is not None and subject.has_all_states:
        complete = len(subject.reader.block_shapes) == len(subject.blocks)
        found += ["embedding", *(["flow"] if complete and not subject.is_long else [])]
        found += ["next", "likelihood"] if complete and subject.reader.writes else []
        found += [] if subject.reader.causal else ["embed"]
    if "norm" in measures_of(subject):
        found.append("value_grams")
    return found


def _sizes(subject: Subject, attention: Attention | None) -> Sizes:
    if attention is None:
        return {
            "heads": 0, "key_heads": None, "head_dim": None, "value_dim": None, "scale": None, "softcap": None,
            "mask": None, "causal": False, "window": None,
        }  # fmt: skip
    values, mask = subject.values[0], _layer_mask(subject, attention)
    return {
        "heads": attention.shape[0],
        "key_heads": attention.keys.shape[0],
        "head_dim": attention.queries.shape[-1],
        "value_dim": None if values is None else values.shape[-1],
        "scale": attention.scores.scale,
        "softcap": attention.softcap,
        "mask": None if attention.mask is None else attention.mask.expression,
        "causal": mask["causal"],
        "window": mask["window"],
    }


def _masks(subject: Subject) -> tuple[list[LayerMask], list[int]]:
    """The different masks, and which of them each layer has."""
    masks: list[LayerMask] = []
    of_layers: list[int] = []
    before: list[tuple[Mask | None, int]] = []  # masks of arrays are compared by identity, their intervals by value
    for attention in subject.attentions:
        place = next((place for mask, place in before if mask == attention.mask), None)
        if place is None:
            mask = _layer_mask(subject, attention)
            masks += [] if mask in masks else [mask]
            place = masks.index(mask)
            before.append((attention.mask, place))
        of_layers.append(place)
    return masks, of_layers


def _layer_mask(subject: Subject, attention: Attention) -> LayerMask:
    parts = _parts(attention.mask)
    is_causal = any(isinstance(part, Causal) for part in parts)
    window = min((part.left + 1 for part in parts if isinstance(part, Window)), default=None)
    if not parts or (is_causal and all(isinstance(part, (Causal, Window)) for part in parts)):
        return {"causal": is_causal, "window": window, "visible": None}
    visible = _intervals(attention)
    if not is_causal and visible is not None and subject.first_query is not None and subject.queries > 1:
        ends = [max(of_query[1::2], default=0) for of_query in visible]
        is_causal = all(end <= subject.first_query + query + 1 for query, end in enumerate(ends))
    return {"causal": is_causal, "window": None, "visible": visible}


def _intervals(attention: Attention) -> list[list[int]] | None:
    """The ends of the intervals of keys that each query sees in some head; None where there are too many."""
    queries, keys = attention.shape[-2:]
    visible = attention.scores.visible
    if visible is None or queries > MASKED_QUERIES or (visible.rest is not None and queries * keys > 1 << 20):
        return None
    if visible.rest is None:
        parts = [visible.first, visible.last, visible.second_first, visible.second_last]
        ends = np.stack([numpy_of(part)[0] for part in parts if part is not None], axis=1)
        return [[int(end) for pair in row.reshape(-1, 2) if pair[0] < pair[1] for end in pair] for row in ends]
    seen = np.pad(numpy_of(visible.tile(slice(None), slice(None)))[0].any(axis=0), ((0, 0), (1, 1)))
    edges = seen[:, 1:] != seen[:, :-1]
    return None if edges.sum() > MOST_EDGES * queries else [np.flatnonzero(row).tolist() for row in edges]


def _parts(mask: Mask | None) -> list[Mask]:
    """The masks combined by `&`."""
    if isinstance(mask, Both):
        return [part for one in mask.masks for part in _parts(one)]
    whole = getattr(mask, "whole", None)  # a mask selected for some heads
    if isinstance(whole, Mask):
        return _parts(whole)
    return [] if mask is None else [mask]


def _certificate(subject: Subject) -> CertificateNumbers | None:
    if subject.certificate is None or subject.queries > CERTIFIED:
        return None
    found = subject.certificate()
    return {
        "row_sums": found.row_sums,
        "forbidden": found.forbidden,
        "output": found.output,
        "rows": found.rows,
        "line": str(found),
        "unverified": subject.unverified,
    }


# Small examples


def _editable(trace: Trace) -> Editable | None:
    """Embeddings and projection matrices as in x · W, if small enough to edit by hand.

    w_q, w_k, w_v (head, width, head_dim), w_o (head · value_dim, width), with b_q, b_k, b_v (head, head_dim) and b_o.
    """
    parts = trace.origin.parts
    made = [parts.get(name) for name in ("query", "key", "value")]
    if "embedding" not in trace or len(trace.words) > SMALL or len(trace.query_words) != len(trace.words):
        return None
    embedding = numpy_of(trace["embedding"])
    if embedding.shape[1] > SMALL or any(not isinstance(part, Projection) or part.then for part in made):
        return None
    if not all(np.array_equal(embedding, numpy_of(part.rows)) for part in made if isinstance(part, Projection)):
        return None
    (w_q, b_q), (w_k, b_k), (w_v, b_v) = (_of_heads(part) for part in made if isinstance(part, Projection))
    last = parts.get("projected")
    w_o, b_o = _matrix(last.linear) if isinstance(last, Projection) else (None, None)
    return {
        "tokens": trace.words, "embedding": embedding.tolist(), "note": trace.note,
        "w_q": w_q, "b_q": b_q, "w_k": w_k, "b_k": b_k, "w_v": w_v, "b_v": b_v, "w_o": w_o, "b_o": b_o,
    }  # fmt: skip


def _of_heads(part: Projection) -> tuple[Any, Any]:
    """The matrix and bias of each query head, repeated for heads that share them."""
    bias = None if part.linear.bias is None else numpy_of(part.linear.bias).reshape(part.heads, -1)
    return _repeated(part.matrices, part.shared_by), None if bias is None else _repeated(bias, part.shared_by)


def _repeated(of_heads: Any, times: int) -> Any:
    return np.repeat(of_heads, times, 0).tolist()


def _matrix(linear: Linear) -> tuple[Any, Any]:
    return numpy_of(linear.matrix).tolist(), None if linear.bias is None else numpy_of(linear.bias).tolist()


def _lookup_description(lookup: Lookup) -> LookupParts:
    how = lookup._how
    numbers = lookup._value_numbers
    return {
        "keys": [key if isinstance(key, str) else str(key) for key in lookup.keys],
        "values": [value if isinstance(value, str) else str(value) for value in lookup.values],
        "numbers": None if numbers is None else numbers.reshape(len(lookup), -1).tolist(),
        "vectors": None if callable(how) or lookup.by_spelling else lookup._vectors.tolist(),
        "spelling": lookup.by_spelling and not callable(how),  # the page computes these vectors itself
        "similarity": "function" if callable(how) else how,
        "temperature": lookup.temperature_for(None),
        "query": None,
    }
