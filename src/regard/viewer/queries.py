"""Queries about a subject, answered as frames.

>>> from regard.attention import Attention
>>> from regard.viewer import frames, long_texts, params
>>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
>>> answers = Answers(Attention(E, E).explain(E, words=["The", "cat", "sat"]))
>>> header, arrays = frames.unpack(answers.answer("row", {"layer": 0, "heads": [0], "query": 1}))
>>> arrays["weight"].round(2).tolist()
[[0.16, 0.42, 0.42]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.reading import links
from regard.teaching.lookup import Lookup, said
from regard.trace import Trace
from regard.viewer import block_weights, frames, long_texts, measures, next_token, params, similar
from regard.viewer.architecture import architecture
from regard.viewer.description import Description
from regard.viewer.long_texts import MapRequest, Pyramids
from regard.viewer.subject import Subject, answered, describe, known_heads, measures_of, subject_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

Stop = Callable[[], None]  # called between steps; raises if the query was cancelled
POOLS = ("mean", "max")
QUALITIES = ("exact", "first")


def go_on() -> None:
    """Never stop."""


class Answers:
    """Answers every query of a view about one subject; thread-safe."""

    def __init__(self, subject: Any, embedder: similar.Embedder = similar.ON_THIS_MACHINE) -> None:
        self.subject: Subject = subject_of(subject)
        self._embedder = embedder
        self._pyramids = Pyramids(self.subject)
        self._heads: dict[tuple[int, int], Attention] = {}
        self._over_layers: dict[str, Any] = {}  # means and rollout, (token, token)

    def answer(self, kind: str, parameters: Any = None, stop: Stop = go_on) -> bytes:
        """The frame that answers a query; `stop` is called between steps and may raise to cancel."""
        validate.choice("kind", kind, ["describe", "meaning", *answered(self.subject)])
        stop()
        with np.errstate(all="ignore"):
            # By name: a dictionary of bound methods would be a reference cycle, which keeps a closed reading in memory.
            found: bytes = getattr(self, f"_{kind}")({} if parameters is None else parameters, stop)
            return found

    def description(self) -> Description:
        """The `describe` answer, ready for JSON."""
        has = answered(self.subject)
        description = describe(self.subject, has=[*has, "meaning"] if self._embedder.is_here() else has)
        if "embed" in has:
            description["compared"] = similar.COMPARED
        return description

    # Queries

    def _describe(self, given: Any, stop: Stop) -> bytes:
        params.parameters(given, ())
        return frames.pack(self.description())

    def _tile(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "head", "rows", "columns", "shape", "pool", "quality", "measure"))
        layer, attention = self._layer(given)
        head = params.place("head", given.get("head"), attention.shape[0])
        rows = params.span("rows", given.get("rows"), attention.shape[1])
        columns = params.span("columns", given.get("columns"), attention.shape[2])
        shape = params.cells(given.get("shape"), rows[1] - rows[0], columns[1] - columns[0])
        pool = params.word("pool", given.get("pool"), POOLS)
        quality = params.word("quality", given.get("quality"), QUALITIES)
        header: dict[str, Any] = {"exact": True, "sampled": None, "cell": None}
        measure = params.word("measure", given.get("measure"), measures_of(self.subject))
        asked = MapRequest(rows, columns, shape, pool)
        if measure != "weight":
            whole = measures.of_head(self.subject, layer, head) if measure == "norm" else self._matrix(measure)
            found = measures.pooled(whole, asked.row_edges, asked.column_edges, pool)
        elif self.subject.is_long:
            found, about = self._pyramids.tile(layer, head, asked, quality == "exact", stop)
            header |= about
        else:
            of_head = self._heads.setdefault((layer, head), attention.select(head=head))  # keeps its row statistics
            found = of_head.pooled(shape, rows=rows, columns=columns, pool=pool).array  # type: ignore[arg-type]
        return frames.pack({**header, "rows": rows, "columns": columns}, {"weight": found})

    def _progress(self, given: Any, stop: Stop) -> bytes:
        """How far the exact pass over a head of a long text is."""
        given = params.parameters(given, ("layer", "head", "pool"))
        layer, attention = self._layer(given)
        head = params.place("head", given.get("head"), attention.shape[0])
        pool = params.word("pool", given.get("pool"), POOLS)
        return frames.pack({"share": self._pyramids.progress(layer, head, pool)})

    def _row(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "heads", "query", "by", "measure"))
        _, attention = self._layer(given)
        heads = params.places("heads", given.get("heads"), attention.shape[0])
        query = params.place("query", given.get("query"), attention.shape[1])
        by_word = params.word("by", given.get("by"), ("token", "word")) == "word"
        measure = params.word("measure", given.get("measure"), measures_of(self.subject))
        if measure in ("mean", "rollout"):
            found = self._matrix(measure)[query][None] if not by_word else self._word_row(measure, query)
        elif by_word:
            found = word_row(self.subject, attention, heads, query)
        else:
            found = weights_row(attention, heads, query)
        return frames.pack({"query": query, "heads": heads}, {"weight": found})

    def _word_row(self, measure: str, query: int) -> Floats:
        first, last = word_around(self.subject, query)
        rows = self._matrix(measure)[first:last].mean(axis=0)
        found: Floats = np.add.reduceat(rows, [start for start, _ in self.subject.words])[None]
        return found

    def _matrix(self, measure: str) -> Floats:
        """The mean over all layers and heads, or the rollout, kept once computed."""
        if measure not in self._over_layers:
            self._over_layers[measure] = measures.over_layers(self.subject, measure)
        found: Floats = self._over_layers[measure]
        return found

    def _value_grams(self, given: Any, stop: Stop) -> bytes:
        layer, _ = self._layer(params.parameters(given, ("layer",)))
        return frames.pack({"layer": layer}, {"gram": measures.grams(self.subject, layer)})

    def _statistics(self, given: Any, stop: Stop) -> bytes:
        params.parameters(given, ())
        subject, found, sampled = self.subject, [], None
        for attention in subject.attentions:
            stop()
            if subject.is_long:
                sample = long_texts.sampled_statistics(subject, attention, stop)
                sampled = sample.said
                found.append(sample.arrays)
            else:
                found.append(head_statistics(subject, attention))
        known = known_heads(subject)
        return frames.pack({"sampled": sampled, "patterns": known and known["labels"]}, _stacked(found))

    def _thumbnails(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "shape"))
        _, attention = self._layer(given)
        wanted = given.get("shape", [64, 64])
        most = (min(attention.shape[1], params.MOST_CELLS), min(attention.shape[2], params.MOST_CELLS))
        shape = params.cells(wanted, params.MOST_CELLS, params.MOST_CELLS)
        shape = (min(shape[0], most[0]), min(shape[1], most[1]))
        if not self.subject.is_long:
            return frames.pack({"sampled": None}, {"weight": attention.pooled(shape).array})
        whole = MapRequest((0, attention.shape[1]), (0, attention.shape[2]), shape, "mean")
        found = []
        for head in range(attention.shape[0]):
            stop()
            found.append(long_texts.sampled_map(attention, head, whole, stop))
        return frames.pack({"sampled": found[0][1]}, {"weight": np.stack([array for array, _ in found])})

    def _along(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "heads"))
        _, attention = self._layer(given)
        heads = params.places("heads", given.get("heads"), attention.shape[0])
        if self.subject.is_long:
            sample = long_texts.sampled_along(self.subject, attention, heads, stop)
            return frames.pack({"sampled": sample.said, "heads": heads}, sample.arrays)
        found = token_statistics(self.subject, attention)
        return frames.pack({"sampled": None, "heads": heads}, {name: part[heads] for name, part in found.items()})

    def _links(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "heads", "count", "itself", "sinks"))
        _, attention = self._layer(given)
        heads = params.places("heads", given.get("heads"), attention.shape[0])
        count = params.count("count", given.get("count"), params.MOST_LINKS, 50)
        itself = params.switch("itself", given.get("itself"), False)
        sinks = params.switch("sinks", given.get("sinks"), True)
        blocks, said = blocks_of(self.subject), None
        if self.subject.is_long:
            blocks, said = long_texts.sampled_blocks(self.subject)
        first, aside = self.subject.first_query, () if sinks else self.subject.sinks
        best = []
        for block in blocks:
            stop()
            rows = mean_over_heads(attention, heads, block)
            own = None if first is None else block + first
            best.append(links.strongest_links(rows, block, own, count, itself=itself, sinks=aside))
        return frames.pack({"sampled": said, "heads": heads}, links.merged(best, count)._asdict())

    def _heads_for(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("query", "key", "by"))
        query = params.place("query", given.get("query"), self.subject.queries)
        key = params.place("key", given.get("key"), self.subject.keys)
        by_word = params.word("by", given.get("by"), ("token", "word")) == "word"
        return frames.pack({"query": query, "key": key}, heads_for(self.subject, query, key, by_word, stop))

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
        return frames.pack(*head_vectors(attention, self.subject.values[layer], head, query, keys))

    def _steps(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "head", "query"))
        layer, attention = self._layer(given)
        params.place("head", given.get("head", 0), attention.shape[0])
        query = params.place("query", given.get("query"), attention.shape[1])
        return frames.pack(*steps_after(self.subject, layer, query))

    def _states(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("layer", "tokens"))
        states = self.subject.states
        tokens = params.places("tokens", given.get("tokens"), len(states[0]), params.MOST_KEYS)
        if given.get("layer") is not None:
            layer = params.place("layer", given["layer"], len(states))
            return frames.pack({"layer": layer, "tokens": tokens}, {"state": numpy_of(states[layer])[tokens]})
        if len(tokens) > params.MOST_TOKENS:
            raise errors.option("tokens", f"{len(tokens)} tokens", f"at most {params.MOST_TOKENS}, or one layer")
        of_layers = np.stack([numpy_of(rows)[tokens] for rows in states])
        return frames.pack({"layer": None, "tokens": tokens}, {"state": of_layers})

    def _embedding(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("tokens",))
        tokens = params.places("tokens", given.get("tokens"), self.subject.keys, params.MOST_KEYS)
        return frames.pack(*embedding_steps(self.subject, tokens))

    def _block(self, given: Any, stop: Stop) -> bytes:
        layer, _ = self._layer(params.parameters(given, ("layer",)))
        return frames.pack(*block_weights.answer(self.subject, layer))

    def _architecture(self, given: Any, stop: Stop) -> bytes:
        params.parameters(given, ())
        return frames.pack(architecture(self.subject))

    def _next(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("query",))
        query = params.place("query", given.get("query", self.subject.queries - 1), self.subject.queries)
        return frames.pack(*next_token.next_token(self.subject, query))

    def _flow(self, given: Any, stop: Stop) -> bytes:
        known = ("layer", "head", "query", "silenced", "divisor", "temperature", "mask")
        given = params.parameters(given, known)
        query = params.place("query", given.get("query"), self.subject.queries)
        return frames.pack(*next_token.flow(self.subject, next_token.changes_of(self.subject, given), query, stop))

    def _likelihood(self, given: Any, stop: Stop) -> bytes:
        params.parameters(given, ())
        return frames.pack(*next_token.likelihood(self.subject, stop))

    def _embed(self, given: Any, stop: Stop) -> bytes:
        texts = params.parameters(given, ("texts",)).get("texts")
        return frames.pack(*similar.embedded(self.subject.require_reader(), texts))

    def _meaning(self, given: Any, stop: Stop) -> bytes:
        """Vectors by the default model, whatever read the text."""
        given = params.parameters(given, ("texts",))
        if not self._embedder.is_here():
            fix = f"Download it: regard models get {similar.DEFAULT}"
            raise errors.OptionError(f"{similar.DEFAULT} is not on this machine.\n{fix}")
        return frames.pack(*similar.embedded(self._embedder.model(), given.get("texts")))

    def _lookup(self, given: Any, stop: Stop) -> bytes:
        given = params.parameters(given, ("query", "temperature"))
        assert self.subject.lookup is not None
        return frames.pack(*looked_up(self.subject.lookup, given.get("query"), given.get("temperature")))

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


# Exact weights and statistics of texts that are not long

BLOCK = 1 << 22  # weights per block


def weights_row(attention: Attention, heads: Sequence[int], query: int) -> Floats:
    """The weights of one query, (head, key); O(heads · n)."""
    found: Floats = numpy_of(attention[list(heads), query, :])
    return found


def word_row(subject: Subject, attention: Attention, heads: Sequence[int], query: int) -> Floats:
    """The same by word, (head, word): averaged over the query word's pieces, summed over each key word's pieces."""
    first, last = word_around(subject, query)
    rows = sum(weights_row(attention, heads, piece) for piece in range(first, last)) / (last - first)
    starts = [start for start, _ in subject.words]
    found: Floats = np.add.reduceat(rows, starts, axis=-1)
    return found


def word_around(subject: Subject, query: int) -> tuple[int, int]:
    """The queries that belong to the same word as this one."""
    own = subject.own_key(query)
    if own is None or subject.query_tokens is not None:
        return query, query + 1
    shift = own - query
    starts = np.array([start for start, _ in subject.words])
    first, last = subject.words[int(np.searchsorted(starts, own, "right")) - 1]
    return max(first - shift, 0), min(last - shift, subject.queries)


def heads_for(subject: Subject, query: int, key: int, by_word: bool, stop: Stop = go_on) -> dict[str, Floats]:
    """Every head by the weight of one query on one key, strongest first: layer, head, weight; O(n) per head."""
    starts = np.array([start for start, _ in subject.words])
    column = int(np.searchsorted(starts, key, "right")) - 1 if by_word else key
    found = []
    for layer, attention in enumerate(subject.attentions):
        stop()
        heads = range(attention.shape[0])
        rows = word_row(subject, attention, heads, query) if by_word else weights_row(attention, heads, query)
        found += [(layer, head, float(rows[head, column])) for head in heads]
    found.sort(key=lambda one: (-one[2], one[0], one[1]))
    layers, numbers, weights = zip(*found, strict=True)
    return {
        "layer": np.array(layers, np.int32),
        "head": np.array(numbers, np.int32),
        "weight": np.array(weights, np.float32),
    }


def head_statistics(subject: Subject, attention: Attention) -> dict[str, Floats]:
    """Means over all rows that see a key, (head,): entropy, distance, mass on sinks, peak."""
    entropy, peak = numpy_of(attention.entropy()), numpy_of(attention.peak())
    seeing = peak > 0
    found = {"entropy": entropy, "peak": peak, "distance": distance(subject, attention)}
    if subject.sinks:
        found["sinks"] = numpy_of(attention.weight_on(list(subject.sinks)))
    else:
        found["sinks"] = np.zeros_like(entropy)
    count = np.maximum(seeing.sum(axis=-1), 1)
    return {name: np.where(seeing, array, 0).sum(axis=-1) / count for name, array in found.items()}


def distance(subject: Subject, attention: Attention) -> Floats:
    """Mean distance of each query's attention, (head, query); NaN where queries are not among the keys."""
    if subject.first_query is None:
        return np.full(attention.shape[:2], np.nan)
    found: Floats = numpy_of(attention.distance())
    return found


def token_statistics(subject: Subject, attention: Attention) -> dict[str, Floats]:
    """Per token: attention received, and the entropy and mean distance of its own attention, (head, token)."""
    return {
        "received": numpy_of(attention.column_sums()),
        "entropy": numpy_of(attention.entropy()),
        "distance": distance(subject, attention),
    }


def mean_over_heads(attention: Attention, heads: Sequence[int], queries: Any) -> Floats:
    """The weights of some queries, (query, key), averaged over heads."""
    found = np.zeros((len(queries), attention.shape[-1]), np.float64)
    for head in heads:
        found += numpy_of(attention[head, queries, :])
    mean: Floats = found / len(heads)
    return mean


def blocks_of(subject: Subject) -> list[Any]:
    """All queries, in blocks that bound the memory of their weights."""
    step = max(1, BLOCK // max(subject.keys, 1))
    return [np.arange(start, min(start + step, subject.queries)) for start in range(0, subject.queries, step)]


# Queries, keys and values of one head, the steps after attention, and look-ups

Parts = tuple[dict[str, Any], dict[str, Any]]  # a header and arrays
AFTER = ("concatenated", "projected", "attended", "fed_forward", "result")
LONGEST_EXPLAINED = 4096  # tokens: explaining one query recomputes the keys and values of all tokens


def head_vectors(
    attention: Attention, values: Array | None, head: int, query: int | None, keys: Sequence[int] | None
) -> Parts:
    """q, k and v of one head as used in its scores; for one query also the visible keys and their bias."""
    scores = attention.scores
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


def steps_after(subject: Subject, layer: int, query: int) -> Parts:
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


def embedding_steps(subject: Subject, tokens: Sequence[int]) -> Parts:
    """How the first layer's input came about: the token's row of the table, + position, normed; (token, width) each."""
    model = subject.require_transformer()
    found = {step.name: numpy_of(step.value) for step in model.embedding_steps(np.array(subject.ids), separate=True)}
    arrays = {"embedding": found["embedding"][tokens]}
    if "positioned" in found:
        arrays["position"] = (found["positioned"] - found["embedding"])[tokens]
    if "normed" in found:
        arrays["normed"] = found["normed"][tokens]
    return {"tokens": list(tokens), "scale": model.embedding_scale}, arrays


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
    asked = _lookup_query(query)
    answer = lookup.soft(asked, params.number("temperature", temperature))
    similarity = lookup._scores((asked,))[0]
    header = {
        "value": said(answer.value),
        "notes": answer.notes,
        "temperature": lookup.temperature_for(params.number("temperature", temperature)),
        "hard": said(lookup.hard(asked).value),
    }
    return header, {"weight": answer.weights, "similarity": similarity}


def _lookup_query(given: Any) -> Any:
    if isinstance(given, str):
        return params.text("query", given, params.MOST_LETTERS)
    if isinstance(given, list) and 1 <= len(given) <= params.MOST_KEYS and all(map(validate.is_number, given)):
        return given
    raise errors.option("query", given, "a string, or a list of numbers")
