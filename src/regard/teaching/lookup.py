"""Hard and soft look-up, from a dictionary to attention.

Keys and values are looked up by equality, as in a dictionary (hard), or by similarity (soft). The lesson shows when the
soft look-up tends to the hard one as the temperature goes to 0, and the three cases in which it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from regard import errors, validate
from regard.attention.attention import Attention
from regard.errors import shown
from regard.provenance import LOOK_UP
from regard.tables import Column, Table, digits_for, printed_number, printed_vector
from regard.teaching.lookup_vectors import (
    BY_ATTENTION,
    Embed,
    Floats,
    Similarity,
    Spelling,
    are_numbers,
    are_vectors,
    attention_for,
    by_model,
    checked_similarity,
    embedded,
    embedding,
    keys_and_values,
    numbers_of,
    pieces,
    shares,
    similarities_by_function,
    similarities_of_vectors,
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The result for one query, or for several.

    value     Σ weight · value for numbers and vectors, otherwise the value of the most probable key; an array or a list
              for several queries
    weights   (key,) or (query, key): softmax weights of the soft look-up; in a hard one, 1 for equal keys
    found     whether any key has weight; a list for several queries
    notes     remarks on the value
    """

    kind: Literal["hard", "soft"]
    queries: tuple[Any, ...]
    keys: tuple[Any, ...]
    value: Any
    weights: Floats
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> Any:
        """Whether any key has weight; a list for several queries."""
        return self.weights.any(axis=-1).tolist()

    def table(self, most: int | None = None) -> Table:
        """*query, key, probability*: the keys of each query, most probable first, at most `most` of them.

        A hard look-up has *equal* instead of *probability*: 1 for equal keys.
        """
        weights = self.weights.reshape(len(self.queries), len(self.keys))
        rows = []
        for query, row in zip(self.queries, weights, strict=True):
            order = np.argsort(-row, kind="stable")[:most]
            rows += [(query, self.keys[key], float(row[key])) for key in order]
        soft = self.kind == "soft"
        columns = (
            _column("query", self.queries),
            _column("key", self.keys),
            Column("probability" if soft else "equal", "number", 2 if soft else 0, shade=True),
        )
        where = "SELECT value WHERE key ≈ query" if soft else "SELECT value WHERE key = query"
        highlight = 0 if rows and rows[0][2] else None
        return Table(where, columns, tuple(rows), (self._said(), *self.notes), highlight, LOOK_UP)

    def best(self) -> Table:
        """One row per query: its most probable key."""
        return self.table(1)

    def _said(self) -> str:
        if self.weights.ndim == 1:
            return f"value: {said(self.value)}"
        return "values: " + "; ".join(said(value) for value in self.value)

    def __repr__(self) -> str:
        asked = shown(self.queries[0] if self.weights.ndim == 1 else list(self.queries))
        return f"Answer({self.kind}: {asked} → {said(self.value)})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def said(value: Any) -> str:
    """A value on one short line.

    >>> said(np.array([-4.4, 8.2, 5.0])), said("Ford"), said(None)
    ('[−4.40 8.20 5.00]', "'Ford'", 'None')
    """
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) <= 12:
        return f"[{printed_vector(value, max(digits_for(value), 2 if value.any() else 0))}]"
    return printed_number(value, 2) if isinstance(value, (float, np.floating)) else shown(value)


def _column(name: str, cells: Sequence[Any]) -> Column:
    if are_vectors(cells):
        return Column(name, "vector", digits_for([number for cell in cells for number in np.ravel(cell)]))
    return Column(name, "word")


# Keys and values

OF_VECTORS: Similarity = "scaled dot"
OF_TEXTS: Similarity = "cosine"
TEXT_TEMPERATURE = 0.1  # cosines are between 0 and 1: at temperature 1 all keys would have nearly equal weights


def lookup(
    keys: Any, values: Any = None, *, similarity: Similarity | None = None, temperature: float | None = None,
    embed: Any = None,
) -> Lookup:  # fmt: skip
    """A dictionary with look-up by equality (`hard`) and by similarity (`soft`).

    keys, values  a dictionary (a JSON object), or keys and as many values: vectors, numbers, texts or anything else
    similarity    "dot", "scaled dot" (divided by √d; the default for vectors), "cosine" (the default for texts),
                  "negative distance" (−‖q − k‖), or a function of a query and a key
    temperature   divides the similarities; 1 by default, 0.1 for texts; 0 is the limit: the most similar key gets 1
    embed         text to vector: "spelling" (trigrams of its words; the default), "model", or a function of one key.
                  A similarity function gets the keys unchanged, unless `embed` is given

    >>> car = lookup({"brand": "Ford", "model": "Mustang", "year": 1964})
    >>> car.get("brand"), car.get("colour")
    ('Ford', None)
    >>> car.soft("the brand of it").value
    'Ford'
    """
    names, contents = keys_and_values(keys, values)
    return Lookup(names, contents, similarity, _temperature(temperature), embed)


@dataclass(frozen=True, eq=False, repr=False)
class Lookup:
    """Keys and values; made by `lookup`."""

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    similarity: Similarity | None = None
    temperature: float | None = None
    embed: Any = None

    def __post_init__(self) -> None:
        if self.similarity is not None:
            checked_similarity(self.similarity)
        embedding(self.embed)
        if self._keys_are_vectors:
            self._key_numbers  # noqa: B018 - checks lengths and NaN now, not at the first look-up
        self._value_numbers  # noqa: B018

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        kind = "vectors" if self._keys_are_vectors else "texts" if self._keys_are_texts else "keys of other kinds"
        return f"Lookup({len(self)} keys: {kind})"

    # By equality

    def get(self, *path: Any, default: Any = None) -> Any:
        """The value of an equal key, as in a Python dictionary; further names are keys of nested values.

        >>> person = lookup({"name": "Jane", "phones": [{"number": "0117"}]})
        >>> person.get("name"), person.get("phones", 0, "number"), person.get("phones", 1, "number")
        ('Jane', '0117', None)
        """
        if not path:
            return default
        places = np.flatnonzero(self._equal(path[0]))
        if not len(places):
            return default
        value = self.values[places[-1]]
        for part in path[1:]:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return default
        return value

    def hard(self, query: Any) -> Answer:
        """z = Σ 1(q = k_j) v_j: the sum of the values of all equal keys, 0 if there are none.

        For values that are neither numbers nor vectors, the value of the last equal key, None if there is none.

        >>> lookup(["a", "b", "b"], [[1, 0], [0, 1], [0, 1]]).hard("b").value
        array([0., 2.])
        """
        queries, many = self._queries(query)
        equal = np.array([self._equal(one) for one in queries], np.float64).reshape(len(queries), len(self))
        found = [self._summed(row.astype(bool)) for row in equal]
        notes = [f"No key equals query {place}." for place, row in enumerate(equal) if not row.any()]
        notes = ["No key equals the query."] if notes and not many else notes
        if self._value_numbers is None and (equal.sum(axis=1) > 1).any():
            notes.append("Several keys are equal, and their values cannot be added: the value is that of the last one.")
        return self._answer("hard", queries, many, found, equal, notes)

    def _equal(self, query: Any) -> Any:
        """Which keys equal the query, (key,)."""
        if self._keys_are_vectors:
            return (self._key_numbers == self._query_vectors([query])).all(axis=1)
        return np.array([bool(key is query or _same(key, query)) for key in self.keys], bool)

    def _summed(self, equal: Any) -> Any:
        numbers = self._value_numbers
        if numbers is not None and numbers.ndim > 1:
            return numbers[equal].sum(axis=0)
        chosen = [self.values[place] for place in np.flatnonzero(equal)]
        return sum(chosen) if numbers is not None else chosen[-1] if chosen else None

    # By similarity

    def soft(self, query: Any, temperature: float | None = None) -> Answer:
        """z = Σ softmax(similarity(q, k_j) / temperature) v_j: the weighted mean of the values.

        For values that are neither numbers nor vectors, the value of the most probable key; a note says so.

        >>> notes = lookup([[1, 0], [0, 1]], [[10.0], [20.0]], similarity="negative distance")
        >>> notes.soft([1, 0]).value, notes.soft([1, 0], temperature=0.01).value
        (array([11.9...]), array([10.]))
        """
        queries, many = self._queries(query)
        asked = self.temperature_for(temperature)
        if not self.keys:
            raise errors.option("keys", (), "at least one key", "The weights of a soft look-up sum to 1 over the keys.")
        attention = self._attention(queries, asked)
        if attention is None:
            weights = shares(self._scores(queries), asked)
        else:
            weights = np.asarray(attention.dense())
        return self._answer("soft", queries, many, *self._blended(queries, many, attention, weights))

    def similarities(self, query: Any) -> Floats:
        """The similarity of the query to each key, (key,), or (query, key) for several queries."""
        queries, many = self._queries(query)
        found = self._scores(queries)
        return found if many else found[0]

    def attention(self, query: Any, temperature: float | None = None) -> Attention:
        """The equivalent `Attention`, for the similarities dot, scaled dot and cosine."""
        queries, _ = self._queries(query)
        found = self._attention(queries, self.temperature_for(temperature))
        if found is None:
            raise errors.unsupported(
                f"similarity={self._how!r} at this temperature as an Attention",
                f"Attention takes {', '.join(map(repr, BY_ATTENTION))} at a temperature that is not tiny.",
            )
        return found

    def leaves(self) -> Lookup:
        """A flat look-up of all nested values, with their paths as keys.

        >>> lookup({"name": "Jane", "address": {"town": "Hull"}, "phones": ["0117"]}).leaves().keys
        ('name', 'address.town', 'phones.0')
        """
        found = dict(_leaves("", zip(self.keys, self.values, strict=True)))
        return Lookup(tuple(found), tuple(found.values()), self.similarity, self.temperature, self.embed)

    # Keys and values

    @cached_property
    def _keys_are_vectors(self) -> bool:
        return self.embed is None and (are_vectors(self.keys) or are_numbers(self.keys))

    @cached_property
    def _keys_are_texts(self) -> bool:
        return bool(self.keys) and all(isinstance(key, str) for key in self.keys)

    @cached_property
    def _key_numbers(self) -> Floats:
        """(key, component)."""
        vectors = numbers_of("keys", self.keys)
        if vectors.ndim > 2:
            raise errors.wrong_dimensions("keys", vectors)
        return vectors.reshape(len(self.keys), -1)

    @cached_property
    def _value_numbers(self) -> Floats | None:
        """(key,) or (key, ...), or None if not all values are numbers or vectors."""
        if not (are_numbers(self.values) or are_vectors(self.values)):
            return None
        if not self._keys_are_vectors and _are_ragged(self.values):
            return None  # lists of unequal length, as in JSON, are not vectors
        return numbers_of("values", self.values)

    @property
    def _how(self) -> Similarity:
        return self.similarity or (OF_VECTORS if self._keys_are_vectors else OF_TEXTS)

    @cached_property
    def _to_vector(self) -> Embed | None:
        """The function from a key to a vector; None if keys are vectors, or are passed on to a similarity function."""
        embed = embedding(self.embed)
        if embed is not None or self._keys_are_vectors or (callable(self._how) and self.embed is None):
            return embed
        for key in self.keys:
            if not isinstance(key, str):
                raise errors.TypeProblem(
                    f"`keys` hold {key!r}, neither a text nor a vector, which a soft look-up needs.\n"
                    "Give embed=function (key to vector), or similarity=function (of a query and a key)."
                )
        return Spelling(self.keys)

    @property
    def by_spelling(self) -> bool:
        """Whether texts are compared by their spelling."""
        return isinstance(self._to_vector, Spelling)

    @cached_property
    def _vectors(self) -> Floats:
        embed = self._to_vector
        return self._key_numbers if embed is None else embedded(self.keys, "keys", embed)

    # Queries

    def _queries(self, query: Any) -> tuple[tuple[Any, ...], bool]:
        """The queries, and whether there are several: rows of a matrix, or a list of non-vectors."""
        if not self._keys_are_vectors:
            return (tuple(query), True) if isinstance(query, list) else ((query,), False)
        if hasattr(query, "ndim"):
            many = query.ndim == 2
        elif are_numbers(self.keys):
            many = isinstance(query, (list, tuple)) and are_numbers(query)
        else:
            many = isinstance(query, (list, tuple)) and bool(query) and not any(map(validate.is_number, query))
        return (tuple(query), True) if many else ((query,), False)

    def _query_vectors(self, queries: Sequence[Any]) -> Floats:
        """(query, component), as long as the keys."""
        if self._to_vector is not None:
            for query in queries if self.by_spelling else ():
                if not isinstance(query, str):
                    raise errors.TypeProblem(f"`query` is {query!r}; expected a text, as the keys are.")
            vectors = embedded(queries, "queries", self._to_vector)
        else:
            if not (are_vectors(queries) or are_numbers(queries)):
                raise errors.TypeProblem(
                    f"`query` is {queries[0]!r}; expected {self._vectors.shape[1]} numbers, as the keys are."
                )
            vectors = numbers_of("queries", queries).reshape(len(queries), -1)
        if vectors.shape[1] != self._vectors.shape[1]:
            raise errors.ShapeError(
                f"`query` has {vectors.shape[1]} components, `keys` have {self._vectors.shape[1]}.\n"
                "Queries and keys need equally many."
            )
        return vectors

    def temperature_for(self, asked: float | None = None) -> float:
        """The temperature of a look-up: the given one, that of this object, or the default."""
        asked = _temperature(asked)
        if asked is None:
            asked = self.temperature
        if asked is not None:
            return asked
        return TEXT_TEMPERATURE if self.by_spelling or self._to_vector is by_model else 1.0

    # Computation

    def _attention(self, queries: Sequence[Any], temperature: float) -> Attention | None:
        if self._how not in BY_ATTENTION:
            return None
        return attention_for(self._query_vectors(queries), self._vectors, self._how, temperature)

    def _scores(self, queries: Sequence[Any]) -> Floats:
        how = self._how
        if not callable(how):
            return similarities_of_vectors(self._query_vectors(queries), self._vectors, how)
        if self._to_vector is None and not self._keys_are_vectors:
            return similarities_by_function(queries, self.keys, how)
        return similarities_by_function(self._query_vectors(queries), self._vectors, how)

    def _blended(
        self, queries: Sequence[Any], many: bool, attention: Attention | None, weights: Floats
    ) -> tuple[list[Any], Floats, list[str]]:
        """The value per query, the weights, and notes."""
        notes = self._spelling_notes(queries, many) if self.by_spelling else []
        numbers = self._value_numbers
        if numbers is not None:
            flat = numbers.reshape(len(self), -1)
            blend = np.asarray(weights @ flat if attention is None else attention @ flat)
            blend = blend.reshape(len(queries), *numbers.shape[1:])
            return [float(one) if numbers.ndim == 1 else one for one in blend], weights, notes
        notes.append("These values cannot be averaged: the value is that of the most probable key.")
        if ((weights == weights.max(axis=1, keepdims=True)).sum(axis=1) > 1).any():
            notes.append("Several keys are equally probable: the value is that of the first one.")
        return [self.values[int(row.argmax())] if row.any() else None for row in weights], weights, notes

    def _spelling_notes(self, queries: Sequence[str], many: bool) -> list[str]:
        known = set().union(*(pieces(key) for key in self.keys))
        alien = [place for place, query in enumerate(queries) if not known & pieces(query).keys()]
        names = [f"Query {place}" if many else "The query" for place in alien]
        return [f"{name} shares no trigram with any key: all keys have the same weight." for name in names]

    def _answer(
        self, kind: Any, queries: Sequence[Any], many: bool, found: list[Any], weights: Floats, notes: list[str]
    ) -> Answer:
        if not many:
            return Answer(kind, tuple(queries), self.keys, found[0], weights[0], tuple(notes))
        value = found if self._value_numbers is None else np.array(found)
        return Answer(kind, tuple(queries), self.keys, value, weights, tuple(notes))


def _temperature(temperature: Any) -> float | None:
    if temperature is None:
        return None
    fix = "Towards 0 the most similar key gets all the weight; large temperatures give even weights."
    return validate.number("temperature", temperature, least=0, fix=fix)


def _same(key: Any, query: Any) -> bool:
    try:
        return bool(key == query)
    except ValueError:  # comparing arrays gives an array
        return bool(np.array_equal(key, query))


def _are_ragged(values: Sequence[Any]) -> bool:
    """Whether lists differ in length at any level."""
    try:
        return len({np.shape(value) for value in values}) > 1
    except ValueError:
        return True


def _leaves(path: str, items: Any) -> Iterator[tuple[str, Any]]:
    for name, value in items:
        here = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping):
            yield from _leaves(here, value.items())
        elif isinstance(value, (list, tuple)):
            yield from _leaves(here, enumerate(value))
        else:
            yield here, value


# The lesson

# From the lecture notes. The last two keys are equal.
QUERIES = ((0.3, 1.2, 2.2), (0.1, 6.2, 2.1), (2.1, 2.5, 5.2), (1.1, 6.6, 4.3))
KEYS = ((0.4, 1.4, 0.0), (0.2, -1.1, 0.0), (0.3, 1.2, 4.0), (0.3, 1.2, 4.0))
VALUES = ((2.3, 1.1, 3.5), (3.0, 1.0, 0.5), (-2.2, 4.1, 2.5), (-2.2, 4.1, 2.5))
TEMPERATURES = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.0)


def lookup_lesson() -> tuple[Table, ...]:
    """Five tables: the limit; equal keys; no equal key; the dot product; both similarities for each query.

    >>> for table in lookup_lesson():
    ...     print(table.title)
    It tends to the hard look-up: negative distance, unique keys, an equal key
    It does not, 1: two keys are equal
    It does not, 2: a miss
    It does not, 3: similarity by the dot product
    What the dot product and the negative distance find for each query of the notes as temperature → 0
    """
    unique = lookup(KEYS[:3], VALUES[:3], similarity="negative distance")
    equal = lookup(KEYS, VALUES, similarity="negative distance")
    by_dot = lookup(QUERIES, VALUES, similarity="dot")
    return (
        _cooling(
            "It tends to the hard look-up: negative distance, unique keys, an equal key", unique, KEYS[0],
            "The key that equals the query is at distance 0, the others further away: in the end it has all weight.",
        ),
        _cooling(
            "It does not, 1: two keys are equal", equal, KEYS[2],
            "Equal keys share the weight, 1/2 each, so the soft look-up gives the mean of their values; the hard one "
            "adds them up.",
        ),
        _cooling(
            "It does not, 2: a miss", unique, QUERIES[0],
            "Weights sum to 1 even if no key equals the query: the soft look-up gives the value of the nearest key, "
            "the hard one 0.",
        ),
        _cooling(
            "It does not, 3: similarity by the dot product", by_dot, QUERIES[0],
            "Here the keys are the notes' four queries. A long key can have a larger product with the query than the "
            "query with itself; that key takes all weight. Cosine finds the equal key, unless another has the same "
            "direction.",
        ),
        _two_similarities(),
    )  # fmt: skip


def _cooling(title: str, keys_and_values: Lookup, query: Any, why: str) -> Table:
    """The soft value at falling temperatures, and the hard value."""
    hard = keys_and_values.hard(query).value
    rows: list[tuple[Any, ...]] = []
    for temperature in TEMPERATURES:
        answer = keys_and_values.soft(query, temperature)
        shown = f"{temperature:g}" if temperature else "→ 0"
        rows.append((shown, answer.weights, answer.value, float(abs(answer.value - hard).max())))
    rows.append(("hard", keys_and_values.hard(query).weights, hard, 0.0))
    columns = (
        Column("temperature", "word"),
        Column("weights", "vector"),
        Column("value", "vector"),
        Column("from hard", "number"),
    )
    asked = " ".join(f"{number:g}" for number in query)
    notes = f"Query [{asked}], which the hard look-up answers {said(hard)}.", why
    return Table(title, columns, tuple(rows), notes, source=LOOK_UP)


def _two_similarities() -> Table:
    """The limits of both similarities for queries that equal no key."""
    dot, distance = (lookup(KEYS, VALUES, similarity=how) for how in ("dot", "negative distance"))
    rows = tuple(
        (query, dot.hard(query).value, dot.soft(query, 0).value, distance.soft(query, 0).value) for query in QUERIES
    )
    columns = (
        Column("query", "vector", 1),
        Column("hard", "vector", 0),
        Column("soft, dot", "vector", 1),
        Column("soft, distance", "vector", 1),
    )
    notes = (
        "None of them equals a key. Dot product and distance can find different keys: the dot product also "
        "grows with the length of a key.",
    )
    return Table(
        "What the dot product and the negative distance find for each query of the notes as temperature → 0",
        columns, rows, notes, source=LOOK_UP,
    )  # fmt: skip
