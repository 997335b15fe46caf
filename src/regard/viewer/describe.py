"""What a page is told of a reading or of a look-up: tokens, sizes, masks, and the queries that can be answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from regard.arrays import numpy_of
from regard.attention import Attention
from regard.heads import sentence_relations as relations
from regard.heads.roles import TREEBANK, KnownHeads, known
from regard.masks import Mask
from regard.masks.kinds import Causal, Window
from regard.masks.mask import Both
from regard.provenance import LOOK_UP
from regard.reading import Reading, synthetic
from regard.reading.highlights import opening
from regard.teaching.lookup import Lookup
from regard.trace import Trace
from regard.trace.named_steps import Projection
from regard.viewer import description
from regard.viewer.long_texts import is_long

FORMAT = 1
LONGEST_TITLE = 80  # characters
SMALL = 16  # words, and embedding width, up to which every entry can be edited
CERTIFIED = 4096  # tokens: certifying a longer reading takes too long
MASKED_QUERIES = 4096  # up to which intervals of visible keys are listed one by one
MOST_EDGES = 16  # of these intervals, per query on average


def describe(
    reading: Reading,
    *,
    has: Sequence[str] | None = None,
    measures: Sequence[description.Measure] | None = None,
    kept: description.KeptParts | None = None,
) -> description.Description:
    """The description, ready for JSON; `kept` says which layers and heads a page holds, where not all."""
    trace, tokens, stops = reading.trace, reading.tokens, None
    if trace is None and reading.text and not is_long(reading):  # in UTF-16 units, as JavaScript counts
        wide = np.cumsum([0, *(ord(letter) > 0xFFFF for letter in reading.text)])
        stops = [int(token.stop + wide[min(token.stop, len(reading.text))]) for token in tokens]
    masks, mask_of_layer = _masks(reading)
    return {
        "format": FORMAT,
        "kind": "reading" if trace is None else "trace",
        "title": title_of(reading),
        "text": reading.text,
        "model": reading.model if reading.has_values else "given",
        "source": trace.source.name if trace else reading.model + (" (unverified)" if reading.unverified else ""),
        "tokens": [token.text for token in tokens],
        "special": [index for index, token in enumerate(tokens) if token.special],
        "joined": [index for index, token in enumerate(tokens) if token.joined],
        "words": [(word.first, word.last) for word in reading.words],
        "given": reading.given,
        "stops": stops,
        "layers": reading.layers,
        "layer_numbers": reading.layer_numbers,
        **_sizes(reading),  # type: ignore[typeddict-item]  # it has no `compared`
        "head_numbers": reading.head_numbers,
        "sinks": reading.sinks,
        "queries": len(reading.queries),
        "query_tokens": None if isinstance(reading.queries, range) else reading.queries,
        "first_query": reading.queries.start if isinstance(reading.queries, range) else None,
        "masks": masks,
        "mask_of_layer": mask_of_layer,
        "long": is_long(reading),
        "certificate": _certificate(reading),
        "has": query_kinds(reading) if has is None else list(has),
        "measures": measures_of(reading) if measures is None else list(measures),
        "w_o": bool(reading.blocks) and all(block.attention.w_o is not None for block in reading.blocks),
        "kept": kept or {"layers": None, "heads": None},
        "editable": None if trace is None else _editable(trace),
        "lookup": None,
        "note": reading.note,
        "known": known_heads(reading),
        "start": start_of(reading),
    }


def describe_lookup(lookup: Lookup) -> description.Description:
    """The description of a dictionary that is looked up softly, which has no attention until a query comes."""
    numbers = lookup._value_numbers
    keys = [str(key) for key in lookup.keys]
    return {
        "format": FORMAT, "kind": "lookup", "title": "A dictionary made soft", "text": "", "model": "",
        "source": LOOK_UP, "tokens": keys, "special": (), "joined": (),
        "words": [(index, index + 1) for index in range(len(keys))], "given": None, "stops": None,
        "layers": 0, "layer_numbers": (), "heads": 0, "key_heads": None, "head_dim": None, "value_dim": None,
        "scale": None, "softcap": None, "mask": None, "causal": False, "window": None, "head_numbers": (), "sinks": (),
        "queries": 0, "query_tokens": None, "first_query": 0, "masks": [], "mask_of_layer": [], "long": False,
        "certificate": None, "has": ["lookup"], "measures": ["weight"], "w_o": False,
        "kept": {"layers": None, "heads": None}, "editable": None, "note": None, "known": None, "start": None,
        "lookup": {
            "keys": keys,
            "values": [str(value) for value in lookup.values],
            "numbers": None if numbers is None else numbers.reshape(len(lookup), -1).tolist(),
            "vectors": None if lookup.by_spelling else lookup._vectors.tolist(),
            "spelling": lookup.by_spelling,  # the page computes these vectors itself
            "similarity": lookup._how,
            "temperature": lookup.temperature_for(None),
            "query": None,
        },
    }  # fmt: skip


def title_of(reading: Reading) -> str:
    """The text on one line, shortened; the words of a trace; the sizes of vectors without a text."""
    if not reading.has_values:
        return repr(reading.seen[0].attention)
    text = reading.text if reading.trace is None else " ".join(reading.trace.words)
    text = " ".join(text[: 4 * LONGEST_TITLE].split())
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1].rstrip() + "…"


def known_heads(reading: Reading) -> description.HeadRoles | None:
    """What the heads of the reading's model do, in general and in this text; None for other models."""
    if _is_synthetic(reading):
        names = [list(synthetic.HEADS)]
        return {
            "treebank": "", "source": "how it was made", "labels": names, "said": names,
            "relations": [[[] for _ in synthetic.HEADS]], "possible": {}, "classes": [], "asks": [],
        }  # fmt: skip
    atlas = known(reading)
    if atlas is None:
        return None
    grid = [[(layer, head) for head in range(atlas.heads)] for layer in range(reading.layers)]
    sentence = relations.TaggedSentence.of(reading)
    return {
        "treebank": TREEBANK,
        "source": atlas.source,
        "labels": [[atlas.name(*cell) for cell in row] for row in grid],
        "said": [[atlas.short(*cell) for cell in row] for row in grid],
        "relations": [
            [[[role.relation, role.direction, role.arrow] for role in atlas.roles_of(*cell)] for cell in row]
            for row in grid
        ],
        "possible": relations.POSSIBLE,
        "classes": [sorted(of_word) for of_word in sentence.classes],
        "asks": [
            {
                "name": name,
                "answers": [_answer(atlas, reading, answer) for answer in relations.answers(atlas, name, sentence)],
                "nothing": relations.not_here(atlas, name, sentence),
                "example": relations.EXAMPLES[name],
            }
            for name in atlas.groups
            if name in relations.EXAMPLES
        ],
    }


def _answer(heads: KnownHeads, reading: Reading, answer: relations.RelationAnswer) -> description.RoleAnswer:
    """An answer for the page: the head, the link by its tokens, and the score of the head in general."""
    layer, head, query, key, weight = answer.link
    return {
        "layer": layer,
        "head": head,
        "query": reading.words[query].first,
        "key": reading.words[key].first,
        "weight": weight,
        "arrow": answer.arrow,
        "scored": None if answer.role is None else cast(description.RoleScore, answer.role._asdict()),
        "same": "" if answer.role is None else relations.also_best(heads, answer.role),
        "unscored": heads.nothing_for(relations.REFERENCE) if answer.role is None else None,
    }


def start_of(reading: Reading) -> description.Start | None:
    """Layer, head and query token of the strongest link between content words: where a view opens; None if unknown."""
    if _is_synthetic(reading):
        middle = len(reading.tokens) * 7 // 16  # in the second half of a document, which repeats its first
        return {"layer": 0, "head": synthetic.FIRST_SHOWN, "query": middle, "view": "matrix"}
    if not reading.tokens or not reading.is_square or is_long(reading):
        return None
    link = opening(reading.word_weights, reading.sink_words)
    return {"layer": link.layer, "head": link.head, "query": reading.words[link.query].first}


def _is_synthetic(reading: Reading) -> bool:
    return reading.model == synthetic.MODEL and (reading.layers, reading.heads) == (1, len(synthetic.HEADS))


MEASURED = 1024  # tokens of a text whose means and rollout are computed, as whole matrices


def measures_of(reading: Reading) -> list[description.Measure]:
    """What can be shown: weights, ‖weight · v · W_O‖, the mean over all layers and heads, rollout."""
    measures: list[description.Measure] = ["weight"]
    if not reading.is_square or len(reading.tokens) > MEASURED:
        return measures
    measures += ["norm"] if reading.has_values else []
    several = sum(seen.attention.shape[0] for seen in reading.seen) > 1
    return [*measures, "mean", "rollout"] if several else measures


def query_kinds(reading: Reading) -> list[str]:
    """The kinds of queries that can be answered about a reading."""
    kinds = ["tile", "row", "statistics", "thumbnails", "along", "links", "heads_for", "vectors", "architecture"]
    reader, blocks = reading.reader, reading.blocks
    kinds += ["progress"] if is_long(reading) else []
    kinds += ["steps"] if reading.has_values else []
    kinds += ["states"] if reading.states else []
    kinds += ["block"] if blocks else []
    if reader is not None and reader.transformer is not None and blocks and reading.states:
        complete = len(reader.block_shapes) == len(blocks)
        kinds += ["embedding", *(["flow", "patching"] if complete and not is_long(reading) else [])]
        kinds += ["next", "likelihood"] if complete and reader.writes else []
        kinds += ["lens"] if complete and reader.writes and not is_long(reading) else []
        kinds += [] if reader.causal else ["embed"]
    return [*kinds, "value_grams"] if "norm" in measures_of(reading) else kinds


def _sizes(reading: Reading) -> description.Sizes:
    attention, values = reading.seen[0]
    mask = _layer_mask(reading, attention)
    return {
        "heads": attention.shape[0],
        "key_heads": attention.keys.shape[0],
        "head_dim": attention.queries.shape[-1],
        "value_dim": values.shape[-1] or None,
        "scale": attention.scores.scale,
        "softcap": attention.softcap,
        "mask": None if attention.mask is None else attention.mask.expression,
        "causal": mask["causal"],
        "window": mask["window"],
    }


def _masks(reading: Reading) -> tuple[list[description.LayerMask], list[int]]:
    """The different masks, and which of them each layer has."""
    masks: list[description.LayerMask] = []
    of_layers: list[int] = []
    before: list[tuple[Mask | None, int]] = []  # masks of arrays are compared by identity, their intervals by value
    for attention, _ in reading.seen:
        index = next((index for mask, index in before if mask == attention.mask), None)
        if index is None:
            mask = _layer_mask(reading, attention)
            masks += [] if mask in masks else [mask]
            index = masks.index(mask)
            before.append((attention.mask, index))
        of_layers.append(index)
    return masks, of_layers


def _layer_mask(reading: Reading, attention: Attention) -> description.LayerMask:
    parts = _parts(attention.mask)
    is_causal = any(isinstance(part, Causal) for part in parts)
    window = min((part.left + 1 for part in parts if isinstance(part, Window)), default=None)
    if not parts or (is_causal and all(isinstance(part, (Causal, Window)) for part in parts)):
        return {"causal": is_causal, "window": window, "visible": None}
    visible = _intervals(attention)
    if not is_causal and visible is not None and isinstance(reading.queries, range) and len(reading.queries) > 1:
        ends = [max(of_query[1::2], default=0) for of_query in visible]
        is_causal = all(end <= query + 1 for query, end in zip(reading.queries, ends, strict=True))
    return {"causal": is_causal, "window": None, "visible": visible}


def _intervals(attention: Attention) -> list[list[int]] | None:
    """The ends of the intervals of keys that each query sees in some head; None where there are too many."""
    queries, keys = attention.shape[-2:]
    visible = attention.scores.visible
    if visible is None or queries > MASKED_QUERIES or (visible.rest is not None and queries * keys > 1 << 20):
        return None
    if visible.rest is None:
        ends = np.stack([numpy_of(end)[0] for _, end in visible.ends()], axis=1)
        return [[int(end) for pair in row.reshape(-1, 2) if pair[0] < pair[1] for end in pair] for row in ends]
    seen = np.pad(numpy_of(visible.tile(slice(None), slice(None)))[0].any(axis=0), ((0, 0), (1, 1)))
    edges = seen[:, 1:] != seen[:, :-1]
    return None if edges.sum() > MOST_EDGES * queries else [np.flatnonzero(row).tolist() for row in edges]


def _parts(mask: Mask | None) -> list[Mask]:
    """The masks combined by `&`."""
    if isinstance(mask, Both):
        return [part for part_mask in mask.masks for part in _parts(part_mask)]
    whole = getattr(mask, "whole", None)  # a mask selected for some heads
    if isinstance(whole, Mask):
        return _parts(whole)
    return [] if mask is None else [mask]


def _certificate(reading: Reading) -> description.CertificateNumbers | None:
    """Of a text: a trace shows every number, and vectors without values have no outputs."""
    if not is_certified(reading) or len(reading.queries) > CERTIFIED:
        return None
    checked = reading.certificate
    return {
        "row_sums": checked.row_sums,
        "forbidden": checked.forbidden,
        "output": checked.output,
        "rows": checked.rows,
        "line": str(checked),
        "unverified": reading.unverified,
    }


def is_certified(reading: Reading) -> bool:
    """Whether a page says how exact the numbers are: not of a trace, which shows them all, nor without outputs."""
    return reading.trace is None and reading.has_values


# Small examples


def _editable(trace: Trace) -> description.Editable | None:
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
    after = (last.linear.matrix, last.linear.bias) if isinstance(last, Projection) else (None, None)
    w_o, b_o = (None if array is None else numpy_of(array).tolist() for array in after)
    return {
        "tokens": trace.words, "embedding": embedding.tolist(), "note": trace.note,
        "w_q": w_q, "b_q": b_q, "w_k": w_k, "b_k": b_k, "w_v": w_v, "b_v": b_v, "w_o": w_o, "b_o": b_o,
    }  # fmt: skip


def _of_heads(part: Projection) -> tuple[Any, Any]:
    """The matrix and bias of each query head, repeated for heads that share them."""
    bias = None if part.linear.bias is None else numpy_of(part.linear.bias).reshape(part.heads, -1)
    matrices = np.repeat(part.matrices, part.shared_by, 0).tolist()
    return matrices, None if bias is None else np.repeat(bias, part.shared_by, 0).tolist()
