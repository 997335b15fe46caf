"""Queries about a reading or a look-up, answered as frames.

>>> from regard.attention import Attention
>>> from regard.viewer import frames
>>> E = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
>>> answers = Answers(Attention(E, E).explain(E, words=["The", "cat", "sat"]))
>>> header, arrays = frames.unpack(answers.answer("row", {"layer": 0, "heads": [0], "query": 1}))
>>> arrays["weight"].round(2).tolist()
[[0.16, 0.42, 0.42]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from regard import errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.output.weight_figures import pool_matrix
from regard.reading import Reading, links
from regard.reading.reader import Reader
from regard.reading.weights import mean_over_heads, rollout, value_grams
from regard.teaching.lookup import Lookup, said
from regard.trace import Trace
from regard.viewer import block_weights, frames, long_texts, model_answers, params, similar
from regard.viewer.architecture import architecture
from regard.viewer.describe import describe, describe_lookup, known_heads, measures_of, query_kinds
from regard.viewer.description import Description
from regard.viewer.frames import Floats, Parts
from regard.viewer.long_texts import MapRequest, Pyramids, Stop, is_long

POOLS = ("mean", "max")
QUALITIES = ("exact", "first")


def go_on() -> None:
    """Never stop."""


def answers_for(shown: Any, embedder: similar.Embedder = similar.ON_THIS_MACHINE) -> Answers | LookupAnswers:
    """The answers about anything that a page can show."""
    return LookupAnswers(shown, embedder) if isinstance(shown, Lookup) else Answers(shown, embedder)


def reading_of(shown: Any) -> Reading:
    """A reading, a trace or an attention as a reading."""
    if isinstance(shown, Reading):
        return shown
    if isinstance(shown, (Trace, Attention)):
        return Reading.of(shown)
    raise errors.option("subject", type(shown).__name__, "a Reading, a Trace, an Attention or a look-up")


class _Parameters:
    """The parameters of one query about a reading; each is checked when it is used."""

    def __init__(self, reading: Reading, content: Any, names: Sequence[str]) -> None:
        self._reading = reading
        self.values = params.parameters({} if content is None else content, names)

    def word(self, name: str, choices: Sequence[str]) -> str:
        return params.word(name, self.values.get(name), choices)

    @cached_property
    def layer(self) -> int:
        return params.place("layer", self.values.get("layer", 0), self._reading.layers)

    @property
    def attention(self) -> Attention:
        return self._reading.seen[self.layer].attention

    @cached_property
    def head(self) -> int:
        return params.place("head", self.values.get("head"), self.attention.shape[0])

    @cached_property
    def heads(self) -> list[int]:
        return params.places("heads", self.values.get("heads"), self.attention.shape[0])

    @cached_property
    def query(self) -> int:
        return params.place("query", self.values.get("query"), len(self._reading.queries))

    @property
    def query_or_last(self) -> int:
        return self.query if "query" in self.values else len(self._reading.queries) - 1

    @property
    def by_word(self) -> bool:
        return self.word("by", ("token", "word")) == "word"

    @property
    def measure(self) -> str:
        return self.word("measure", measures_of(self._reading))

    @property
    def tokens(self) -> list[int]:
        return params.places("tokens", self.values.get("tokens"), len(self._reading.tokens), params.MOST_KEYS)


class Answers:
    """Answers every query of a view about one reading; thread-safe."""

    def __init__(self, shown: Any, embedder: similar.Embedder = similar.ON_THIS_MACHINE) -> None:
        self.reading = reading_of(shown)
        self._embedder = embedder
        self._pyramids = Pyramids(self.reading)
        self._heads: dict[tuple[int, int], Attention] = {}
        self._over_layers: dict[str, Any] = {}  # means and rollout, (token, token)
        self._other: model_answers.OtherText | None = None  # the text that activations were taken from last
        self._lens_parts: Parts | None = None

    @property
    def reader(self) -> Reader | None:
        """The model that read the text, where it is at hand."""
        return self.reading.reader

    @property
    def nbytes(self) -> int:
        return self.reading.nbytes

    def answer(self, kind: str, parameters: Any = None, stop: Stop = go_on) -> bytes:
        """The frame that answers a query; `stop` is called between steps and may raise to cancel."""
        validate.choice("kind", kind, ["describe", "meaning", *query_kinds(self.reading)])
        names, answer = KINDS[kind]
        checked = _Parameters(self.reading, parameters, names.split())
        stop()
        with np.errstate(all="ignore"):
            return frames.pack(*answer(self, checked, stop))

    def description(self) -> Description:
        """The `describe` answer, ready for JSON."""
        has = query_kinds(self.reading)
        description = describe(self.reading, has=[*has, "meaning"] if self._embedder.is_here() else has)
        if "embed" in has:
            description["compared"] = similar.COMPARED
        return description

    def _tile(self, request: _Parameters, stop: Stop) -> Parts:
        values, attention, layer, head = request.values, request.attention, request.layer, request.head
        rows = params.span("rows", values.get("rows"), attention.shape[1])
        columns = params.span("columns", values.get("columns"), attention.shape[2])
        shape = params.cells(values.get("shape"), rows[1] - rows[0], columns[1] - columns[0])
        pool, quality, measure = request.word("pool", POOLS), request.word("quality", QUALITIES), request.measure
        header: dict[str, Any] = {"exact": True, "sampled": None, "cell": None}
        region = MapRequest(rows, columns, shape, pool)
        if measure != "weight":
            whole = norms_of_head(self.reading, layer, head) if measure == "norm" else self._matrix(measure)
            cells = pool_matrix(whole, region.row_edges, region.column_edges, pool)
        elif is_long(self.reading):
            cells, about = self._pyramids.tile(layer, head, region, quality == "exact", stop)
            header |= about
        else:
            of_head = self._heads.setdefault((layer, head), attention.select(head=head))  # keeps its row statistics
            cells = of_head.pooled(shape, rows=rows, columns=columns, pool=pool).array  # type: ignore[arg-type]
        return {**header, "rows": rows, "columns": columns}, {"weight": cells}

    def _progress(self, request: _Parameters, stop: Stop) -> Parts:
        """How far the exact pass over a head of a long text is."""
        return {"share": self._pyramids.progress(request.layer, request.head, request.word("pool", POOLS))}, {}

    def _row(self, request: _Parameters, stop: Stop) -> Parts:
        heads, query, by_word, measure = request.heads, request.query, request.by_word, request.measure
        pieces = word_around(self.reading, query) if by_word else slice(query, query + 1)
        if measure in OVER_LAYERS:
            row = self._matrix(measure)[pieces].mean(axis=0)[None]
            row = self.reading.word_weights.sum_pieces(row) if by_word else row
        elif by_word:
            row = self.reading.word_weights.row(pieces, request.layer, heads)
        else:
            row = numpy_of(request.attention[heads, query, :])
        return {"query": query, "heads": heads}, {"weight": row}

    def _matrix(self, measure: str) -> Floats:
        """The mean over all layers and heads, or the rollout, kept once computed."""
        if measure not in self._over_layers:
            self._over_layers[measure] = over_layers(self.reading, measure)
        matrix: Floats = self._over_layers[measure]
        return matrix

    def _statistics(self, request: _Parameters, stop: Stop) -> Parts:
        of_layers, sampled = [], None
        for attention, _ in self.reading.seen:
            stop()
            if is_long(self.reading):
                arrays, sampled = long_texts.sampled_statistics(self.reading, attention, stop)
            else:
                arrays = head_statistics(self.reading, attention)
            of_layers.append(arrays)
        most = max(attention.shape[0] for attention, _ in self.reading.seen)
        stacked = np.full((4, len(of_layers), most), np.nan, np.float32)  # NaN for heads that a layer does not have
        names = ("entropy", "distance", "sinks", "peak")
        for layer, arrays in enumerate(of_layers):
            for number, name in enumerate(names):
                stacked[number, layer, : len(arrays[name])] = arrays[name]
        heads_known = known_heads(self.reading)
        header = {"sampled": sampled, "patterns": heads_known and heads_known["labels"]}
        return header, dict(zip(names, stacked, strict=True))

    def _thumbnails(self, request: _Parameters, stop: Stop) -> Parts:
        attention, most = request.attention, params.MOST_CELLS
        rows, columns = params.cells(request.values.get("shape", [64, 64]), most, most)
        shape = (min(rows, attention.shape[1]), min(columns, attention.shape[2]))
        if not is_long(self.reading):
            return {"sampled": None}, {"weight": attention.pooled(shape).array}
        whole = MapRequest((0, attention.shape[1]), (0, attention.shape[2]), shape, "mean")
        maps = []
        for head in range(attention.shape[0]):
            stop()
            maps.append(long_texts.sampled_map(attention, head, whole, stop))
        return {"sampled": maps[0][1]}, {"weight": np.stack([array for array, _ in maps])}

    def _along(self, request: _Parameters, stop: Stop) -> Parts:
        heads = request.heads
        if is_long(self.reading):
            arrays, sampled = long_texts.sampled_along(self.reading, request.attention, heads, stop)
            return {"sampled": sampled, "heads": heads}, arrays
        arrays = {
            "received": numpy_of(request.attention.column_sums())[heads],
            "entropy": numpy_of(request.attention.entropy())[heads],
            "distance": distance(self.reading, request.attention)[heads],
        }
        return {"sampled": None, "heads": heads}, arrays

    def _links(self, request: _Parameters, stop: Stop) -> Parts:
        values, attention, heads = request.values, request.attention, request.heads
        count = params.count("count", values.get("count"), params.MOST_LINKS, 50)
        itself = params.switch("itself", values.get("itself"), False)
        aside = () if params.switch("sinks", values.get("sinks"), True) else self.reading.sinks
        queries, best, sampled = self.reading.queries, [], None
        step = max(1, BLOCK // max(len(self.reading.tokens), 1))  # blocks bound the memory of their weights
        blocks: list[Any] = [
            np.arange(start, min(start + step, len(queries))) for start in range(0, len(queries), step)
        ]
        if is_long(self.reading):
            blocks, sampled = long_texts.sampled_blocks(self.reading)
        for block in blocks:
            stop()
            rows = mean_over_heads(attention, heads, block)
            own_key = block + queries.start if isinstance(queries, range) else None
            best.append(links.strongest_links(rows, block, own_key, count, itself=itself, sinks=aside))
        return {"sampled": sampled, "heads": heads}, links.merge_links(best, count)._asdict()

    def _heads_for(self, request: _Parameters, stop: Stop) -> Parts:
        query, key = request.query, params.place("key", request.values.get("key"), len(self.reading.tokens))
        return {"query": query, "key": key}, heads_for(self.reading, query, key, request.by_word, stop)

    def _vectors(self, request: _Parameters, stop: Stop) -> Parts:
        attention, head, most = request.attention, request.head, params.MOST_KEYS
        query = None if request.values.get("query") is None else request.query
        keys = request.values.get("keys")
        if keys is not None:
            keys = params.places("keys", keys, attention.shape[2], most)
        elif attention.shape[2] > most or (query is None and attention.shape[1] > most):
            raise errors.option("keys", None, f"the positions of at most {most} keys, and a query")
        values = self.reading.seen[request.layer].values if self.reading.has_values else None
        return head_vectors(attention, values, head, query, keys)

    def _steps(self, request: _Parameters, stop: Stop) -> Parts:
        params.place("head", request.values.get("head", 0), request.attention.shape[0])
        return steps_after(self.reading, request.layer, request.query)

    def _states(self, request: _Parameters, stop: Stop) -> Parts:
        states, tokens = self.reading.states, request.tokens
        if request.values.get("layer") is not None:
            layer = params.place("layer", request.values["layer"], len(states))
            return {"layer": layer, "tokens": tokens}, {"state": numpy_of(states[layer])[tokens]}
        if len(tokens) > params.MOST_TOKENS:
            raise errors.option("tokens", f"{len(tokens)} tokens", f"at most {params.MOST_TOKENS}, or one layer")
        of_layers = np.stack([numpy_of(rows)[tokens] for rows in states])
        return {"layer": None, "tokens": tokens}, {"state": of_layers}

    def _flow(self, request: _Parameters, stop: Stop) -> Parts:
        query, changes = request.query, model_answers.changes_of(self.reading, request.values)
        with_weights = params.switch("weights", request.values.get("weights"), False)
        word = word_around(self.reading, query) if with_weights else None
        return model_answers.flow(self.reading, changes, query, stop, word)

    def _patching(self, request: _Parameters, stop: Stop) -> Parts:
        text = params.text("text", request.values.get("text"), model_answers.LONGEST_TEXT)
        if self._other is None or self._other.text != text:
            self._other = model_answers.other_text(self.reading, text)
        by = request.word("by", model_answers.BY)
        return model_answers.effects(self.reading, self._other, by, request.layer, request.query, stop)

    def _lens(self, _request: _Parameters, stop: Stop) -> Parts:
        if self._lens_parts is None:
            self._lens_parts = model_answers.lens(self.reading, stop)
        return self._lens_parts


# Of each kind of query the names of its parameters, and the answer.
KINDS: dict[str, tuple[str, Callable[[Answers, _Parameters, Stop], Parts]]] = {
    "describe": ("", lambda of, _request, _stop: (dict(of.description()), {})),
    "architecture": ("", lambda of, _request, _stop: (architecture(of.reading), {})),
    "statistics": ("", Answers._statistics),
    "likelihood": ("", lambda of, _request, stop: model_answers.likelihood(of.reading, stop)),
    "lens": ("", Answers._lens),
    "next": ("query", lambda of, request, _stop: model_answers.next_token(of.reading, request.query_or_last)),
    "block": ("layer", lambda of, request, _stop: block_weights.answer(of.reading.blocks[request.layer])),
    "value_grams": (
        "layer",
        lambda of, request, _stop: ({"layer": request.layer}, {"gram": grams(of.reading, request.layer)}),
    ),
    "tile": ("layer head rows columns shape pool quality measure", Answers._tile),
    "progress": ("layer head pool", Answers._progress),
    "thumbnails": ("layer shape", Answers._thumbnails),
    "row": ("layer heads query by measure", Answers._row),
    "along": ("layer heads", Answers._along),
    "links": ("layer heads count itself sinks", Answers._links),
    "heads_for": ("query key by", Answers._heads_for),
    "vectors": ("layer head query keys", Answers._vectors),
    "steps": ("layer head query", Answers._steps),
    "states": ("layer tokens", Answers._states),
    "embedding": ("tokens", lambda of, request, _stop: embedding_steps(of.reading, request.tokens)),
    "embed": (
        "texts",
        lambda of, request, _stop: similar.embed(model_answers.reader_of(of.reading), request.values.get("texts")),
    ),
    "meaning": ("texts", lambda of, request, _stop: meaning(of._embedder, request.values)),
    "flow": ("layer head query silenced blocked divisor temperature mask weights", Answers._flow),
    "patching": ("text by layer query", Answers._patching),
}


class LookupAnswers:
    """Answers the queries of a page about a dictionary that is looked up softly."""

    reader: Reader | None = None
    nbytes = 0

    def __init__(self, lookup: Lookup, embedder: similar.Embedder = similar.ON_THIS_MACHINE) -> None:
        self._lookup = lookup
        self._embedder = embedder

    def description(self) -> Description:
        description = describe_lookup(self._lookup)
        description["has"] += ["meaning"] if self._embedder.is_here() else []
        return description

    def answer(self, kind: str, parameters: Any = None, stop: Stop = go_on) -> bytes:
        names = {"describe": (), "meaning": ("texts",), "lookup": ("query", "temperature")}
        values = params.parameters(parameters or {}, names[validate.choice("kind", kind, list(names))])
        stop()
        if kind == "describe":
            return frames.pack(self.description())
        with np.errstate(all="ignore"):
            parts = meaning(self._embedder, values) if kind == "meaning" else look_up(self._lookup, values)
            return frames.pack(*parts)


def meaning(embedder: similar.Embedder, values: Mapping[str, Any]) -> Parts:
    """Vectors of texts by the default model, whatever read the text."""
    if not embedder.is_here():
        fix = f"Download it: regard models get {similar.DEFAULT}"
        raise errors.OptionError(f"{similar.DEFAULT} is not on this machine.\n{fix}")
    return similar.embed(embedder.model(), values.get("texts"))


# Exact weights and statistics of texts that are not long

BLOCK = 1 << 22  # weights per block


def own_key(reading: Reading, query: int) -> int | None:
    """The key position of a query; None if it is not among the keys."""
    own_key = reading.queries[query]
    return own_key if isinstance(own_key, int) and own_key < len(reading.tokens) else None


def word_around(reading: Reading, query: int) -> slice:
    """The queries that belong to the same word as this one."""
    own_index = own_key(reading, query)
    if own_index is None:
        return slice(query, query + 1)
    word, shift = reading.words[reading.word_weights.place_of(own_index)], own_index - query
    return slice(max(word.first - shift, 0), min(word.last - shift, len(reading.queries)))


def heads_for(reading: Reading, query: int, key: int, by_word: bool, stop: Stop = go_on) -> dict[str, Floats]:
    """Every head by the weight of one query on one key, strongest first: layer, head, weight; O(n) per head."""
    weights, ranked = reading.word_weights, []
    for layer, (attention, _) in enumerate(reading.seen):
        stop()
        if by_word:
            of_heads = weights.row(word_around(reading, query), layer, range(attention.shape[0]))
        else:
            of_heads = numpy_of(attention[:, query, :])
        column = of_heads[:, weights.place_of(key) if by_word else key]
        ranked += [(-float(weight), layer, head) for head, weight in enumerate(column)]
    weight, layers, heads = zip(*sorted(ranked), strict=True)
    return {
        "layer": np.array(layers, np.int32),
        "head": np.array(heads, np.int32),
        "weight": -np.array(weight, np.float32),
    }


def head_statistics(reading: Reading, attention: Attention) -> dict[str, Floats]:
    """Means over all rows that see a key, (head,): entropy, distance, weight on sinks, peak."""
    entropy, peak = numpy_of(attention.entropy()), numpy_of(attention.peak())
    seeing = peak > 0
    on_sinks = numpy_of(attention.weight_on(list(reading.sinks))) if reading.sinks else np.zeros_like(entropy)
    of_rows = {"entropy": entropy, "peak": peak, "distance": distance(reading, attention), "sinks": on_sinks}
    count = np.maximum(seeing.sum(axis=-1), 1)
    return {name: np.where(seeing, array, 0).sum(axis=-1) / count for name, array in of_rows.items()}


def distance(reading: Reading, attention: Attention) -> Floats:
    """Mean distance of each query's attention, (head, query); NaN where queries are not among the keys."""
    among = isinstance(reading.queries, range)
    return numpy_of(attention.distance()) if among else np.full(attention.shape[:2], np.nan)


# What can be shown instead of one head's weights: ‖weight · v · W_O‖, the mean over all layers and heads, rollout.
# These matrices are computed whole, for short texts alone: see `regard.viewer.describe.measures_of`.

OVER_LAYERS = ("mean", "rollout")


def grams(reading: Reading, layer: int, spans: Sequence[tuple[int, int]] | None = None) -> Floats:
    """Products v · v of the tokens of each word after W_O, (head, products): see `value_grams`."""
    attention, values = reading.seen[layer]
    words = [(word.first, word.last) for word in reading.words] if spans is None else list(spans)
    return value_grams(values, reading.output_weights(layer), attention.shape[0], words)


def norms_of_head(reading: Reading, layer: int, head: int) -> Floats:
    """‖weight · v · W_O‖ of one head between tokens, (query, key)."""
    norms = np.sqrt(grams(reading, layer, [(index, index + 1) for index in range(len(reading.tokens))])[head])
    weighted: Floats = numpy_of(reading.seen[layer].attention.select(head=head).dense(limit=None)) * norms
    return weighted


def over_layers(reading: Reading, measure: str) -> Floats:
    """The mean over all layers and heads, or the rollout through all layers: (token, token)."""
    attentions = reading.word_weights.attentions
    if measure == "rollout":
        return rollout(attentions)
    mean: Floats = np.mean([mean_over_heads(attention) for attention in attentions], axis=0)
    return mean


# Queries, keys and values of one head, the steps after attention, and look-ups

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
            biased, capped = (numpy_of(stage[head, query, :]) for stage in (attention.biased, attention.capped))
            arrays["bias"] = (biased - capped)[some]
    sink = None if attention.sinks is None else float(numpy_of(attention.sinks)[head])
    header = {"scale": float(scores.scale), "softcap": attention.softcap, "sink": sink, "keys": keys}
    return header, {name: array.astype(np.float32) if name != "visible" else array for name, array in arrays.items()}


def steps_after(reading: Reading, layer: int, query: int) -> Parts:
    """The steps after attention for one query, as far as the layers are known."""
    trace, blocks, states = reading.trace, reading.blocks, reading.states
    if trace is None and blocks and states and len(reading.queries) <= LONGEST_EXPLAINED:
        trace = blocks[layer].explain(states[layer], query=query)
    if trace is not None:
        row = query if len(trace.query_words) == len(reading.queries) else 0
        arrays = {"outputs": numpy_of(trace["output"])[:, row]}
        arrays |= {name: numpy_of(trace[name])[row] for name in AFTER if name in trace}
        formulas = {step.name: step.formula for step in trace.steps}
        before = "positioned" if "positioned" in trace else "embedding"
        own_index = own_key(reading, query)
        if before in trace and own_index is not None and own_index < len(trace[before]):
            arrays["state"] = numpy_of(trace[before])[own_index]
        return {"formulas": formulas, "names": list(arrays)}, arrays
    outputs = _outputs(*reading.seen[layer], query)
    formulas = {"outputs": "output = Σ weight · v", "concatenated": "the outputs of all heads, concatenated"}
    return {"formulas": formulas, "names": list(formulas)}, {"outputs": outputs, "concatenated": outputs.reshape(-1)}


def embedding_steps(reading: Reading, tokens: Sequence[int]) -> Parts:
    """How the first layer's input came about: the token's row of the table, + position, normed; (token, width) each."""
    model, ids = model_answers.transformer_of(reading), np.array([token.id for token in reading.tokens])
    steps = {step.name: numpy_of(step.value) for step in model.embedding_steps(ids, separate=True)}
    arrays = {"embedding": steps["embedding"][tokens]}
    if "positioned" in steps:
        arrays["position"] = (steps["positioned"] - steps["embedding"])[tokens]
    if "normed" in steps:
        arrays["normed"] = steps["normed"][tokens]
    return {"tokens": list(tokens), "scale": model.embedding_scale}, arrays


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


def look_up(lookup: Lookup, values: Mapping[str, Any]) -> Parts:
    """The weights and similarities of all keys, and the value."""
    query, temperature = _lookup_query(values.get("query")), params.number("temperature", values.get("temperature"))
    answer = lookup.soft(query, temperature)
    header = {
        "value": said(answer.value),
        "notes": answer.notes,
        "temperature": lookup.temperature_for(temperature),
        "hard": said(lookup.hard(query).value),
    }
    return header, {"weight": answer.weights, "similarity": lookup.similarities(query)}


def _lookup_query(value: Any) -> Any:
    if isinstance(value, str):
        return params.text("query", value, params.MOST_LETTERS)
    if isinstance(value, list) and 1 <= len(value) <= params.MOST_KEYS and all(map(validate.is_number, value)):
        return value
    raise errors.option("query", value, "a string, or a list of numbers")
