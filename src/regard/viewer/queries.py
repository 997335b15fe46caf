"""Queries about a subject, answered as frames.

>>> from regard.attention import Attention
>>> from regard.viewer import frames
>>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
>>> answers = Answers(Attention(E, E).explain(E, words=["The", "cat", "sat"]))
>>> header, arrays = frames.unpack(answers.answer("row", {"layer": 0, "heads": [0], "query": 1}))
>>> arrays["weight"].round(2).tolist()
[[0.16, 0.42, 0.42]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regard import errors, validate
from regard.arrays import numpy_of
from regard.attention import Attention
from regard.reading import links
from regard.viewer import frames, params, sampling, vectors, weights
from regard.viewer.metadata import answered, describe
from regard.viewer.pyramid import Pyramids
from regard.viewer.subject import Subject, subject_of

Stop = Callable[[], None]  # called between steps; raises if the query was cancelled
POOLS = ("mean", "max")
QUALITIES = ("exact", "first")


def go_on() -> None:
    """Never stop."""


class Answers:
    """Answers every query of a view about one subject; thread-safe."""

    def __init__(self, subject: Any) -> None:
        self.subject: Subject = subject_of(subject)
        self._pyramids = Pyramids(self.subject)
        self._heads: dict[tuple[int, int], Attention] = {}
        self._kinds: dict[str, Callable[[Mapping[str, Any], Stop], bytes]] = {
            "describe": self._describe,
            "tile": self._tile,
            "row": self._row,
            "statistics": self._statistics,
            "thumbnails": self._thumbnails,
            "along": self._along,
            "links": self._links,
            "vectors": self._vectors,
            "steps": self._steps,
            "lookup": self._lookup,
        }

    def answer(self, kind: str, parameters: Any = None, stop: Stop = go_on) -> bytes:
        """The frame that answers a query; `stop` is called between steps and may raise to cancel."""
        known = ["describe", *answered(self.subject)]
        validate.choice("kind", kind, known)
        stop()
        with np.errstate(all="ignore"):
            return self._kinds[kind]({} if parameters is None else parameters, stop)

    # Queries

    def _describe(self, given: Any, stop: Stop) -> bytes:
        params.parameters(given, ())
        return frames.pack(describe(self.subject))

    def _tile(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "head", "rows", "columns", "shape", "pool", "quality"))
        layer, attention = self._layer(given)
        head = params.place("head", given.get("head"), attention.shape[0])
        rows = params.span("rows", given.get("rows"), attention.shape[1])
        columns = params.span("columns", given.get("columns"), attention.shape[2])
        shape = params.cells(given.get("shape"), rows[1] - rows[0], columns[1] - columns[0])
        pool = params.word("pool", given.get("pool"), POOLS)
        quality = params.word("quality", given.get("quality"), QUALITIES)
        header: dict[str, Any] = {"exact": True, "sampled": None, "cell": None}
        if self.subject.is_long:
            asked = sampling.Asked(rows, columns, shape, pool)
            found, about = self._pyramids.tile(layer, head, asked, quality == "exact", stop)
            header |= about
        else:
            of_head = self._heads.setdefault((layer, head), attention.select(head=head))  # keeps its row statistics
            found = of_head.pooled(shape, rows=rows, columns=columns, pool=pool).array  # type: ignore[arg-type]
        return frames.pack({**header, "rows": rows, "columns": columns}, {"weight": found})

    def _row(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "heads", "query", "by"))
        _, attention = self._layer(given)
        heads = params.places("heads", given.get("heads"), attention.shape[0])
        query = params.place("query", given.get("query"), attention.shape[1])
        by_word = params.word("by", given.get("by"), ("token", "word")) == "word"
        if by_word:
            found = weights.word_row(self.subject, attention, heads, query)
        else:
            found = weights.row(attention, heads, query)
        return frames.pack({"query": query, "heads": heads}, {"weight": found})

    def _statistics(self, given: Any, stop: Stop) -> bytes:
        params.parameters(given, ())
        subject, found, sampled = self.subject, [], None
        for attention in subject.attentions:
            stop()
            if subject.is_long:
                sample = sampling.statistics(subject, attention, stop)
                sampled = sample.said
                found.append(sample.arrays)
            else:
                found.append(weights.statistics(subject, attention))
        return frames.pack({"sampled": sampled, "patterns": None}, _stacked(found))

    def _thumbnails(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "shape"))
        _, attention = self._layer(given)
        wanted = given.get("shape", [64, 64])
        most = (min(attention.shape[1], params.MOST_CELLS), min(attention.shape[2], params.MOST_CELLS))
        shape = params.cells(wanted, params.MOST_CELLS, params.MOST_CELLS)
        shape = (min(shape[0], most[0]), min(shape[1], most[1]))
        if not self.subject.is_long:
            return frames.pack({"sampled": None}, {"weight": attention.pooled(shape).array})
        whole = sampling.Asked((0, attention.shape[1]), (0, attention.shape[2]), shape, "mean")
        found = []
        for head in range(attention.shape[0]):
            stop()
            found.append(sampling.picture(attention, head, whole, stop))
        return frames.pack({"sampled": found[0].said}, {"weight": np.stack([one.array for one in found])})

    def _along(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "heads"))
        _, attention = self._layer(given)
        heads = params.places("heads", given.get("heads"), attention.shape[0])
        if self.subject.is_long:
            sample = sampling.along(self.subject, attention, heads, stop)
            return frames.pack({"sampled": sample.said, "heads": heads}, sample.arrays)
        found = weights.along(self.subject, attention)
        return frames.pack({"sampled": None, "heads": heads}, {name: part[heads] for name, part in found.items()})

    def _links(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "heads", "count", "itself", "sinks"))
        _, attention = self._layer(given)
        heads = params.places("heads", given.get("heads"), attention.shape[0])
        count = params.count("count", given.get("count"), params.MOST_LINKS, 50)
        itself = params.switch("itself", given.get("itself"), False)
        sinks = params.switch("sinks", given.get("sinks"), True)
        blocks, said = weights.blocks_of(self.subject), None
        if self.subject.is_long:
            blocks, said = sampling.blocks_of(self.subject)
        first, aside = self.subject.first_query, () if sinks else self.subject.sinks
        best = []
        for block in blocks:
            stop()
            rows = weights.mean_over_heads(attention, heads, block)
            own = None if first is None else block + first
            best.append(links.strongest_links(rows, block, own, count, itself=itself, sinks=aside))
        return frames.pack({"sampled": said, "heads": heads}, links.merged(best, count)._asdict())

    def _vectors(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "head", "query", "keys"))
        layer, attention = self._layer(given)
        head = params.place("head", given.get("head"), attention.shape[0])
        query = None if given.get("query") is None else params.place("query", given["query"], attention.shape[1])
        keys = given.get("keys")
        if keys is not None:
            keys = params.places("keys", keys, attention.shape[2], params.MOST_KEYS)
        elif attention.shape[2] > params.MOST_KEYS or (query is None and attention.shape[1] > params.MOST_KEYS):
            raise errors.option("keys", None, f"the positions of at most {params.MOST_KEYS} keys, and a query")
        return frames.pack(*vectors.of_head(attention, self.subject.values[layer], head, query, keys))

    def _steps(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "head", "query"))
        layer, attention = self._layer(given)
        params.place("head", given.get("head", 0), attention.shape[0])
        query = params.place("query", given.get("query"), attention.shape[1])
        return frames.pack(*vectors.steps(self.subject, layer, query))

    def _lookup(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("query", "temperature"))
        assert self.subject.lookup is not None
        return frames.pack(*vectors.looked_up(self.subject.lookup, given.get("query"), given.get("temperature")))

    def _layer(self, given: Mapping[str, Any]) -> tuple[int, Attention]:
        layer = params.place("layer", given.get("layer", 0), self.subject.layers)
        return layer, self.subject.attentions[layer]


def _stacked(found: list[dict[str, Any]]) -> dict[str, Any]:
    """(layer, head); NaN for heads that a layer does not have."""
    most = max(len(next(iter(of_layer.values()))) for of_layer in found)
    names = ("entropy", "distance", "sinks", "peak")
    stacked = {name: np.full((len(found), most), np.nan, np.float32) for name in names}
    for layer, of_layer in enumerate(found):
        for name in names:
            numbers = numpy_of(of_layer[name])
            stacked[name][layer, : len(numbers)] = numbers
    return stacked
