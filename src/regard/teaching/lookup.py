"""Hard and soft look-up, from a dictionary to attention.

Keys and values are looked up by equality, as in a dictionary (hard), or by similarity (soft), which is `Attention` over
the keys. The lesson shows when the soft look-up tends to the hard one as the temperature goes to 0, and the three cases
in which it does not.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard import arrays, errors, validate
from regard.attention.attention import Attention
from regard.errors import count, kind_of, shown
from regard.provenance import LOOK_UP
from regard.tables import Column, Kind, Table, digits_for, printed_number, printed_vector

Floats = NDArray[np.float64]
Embed = Callable[[Any], Any]
Similarity = Literal["dot", "scaled dot", "cosine", "negative distance"]
NAMES: tuple[Similarity, ...] = get_args(Similarity)
SHARP = 2.0**20  # from larger scores the maximum is subtracted before dividing by the temperature, which is exact
TEXT_TEMPERATURE = 0.1  # cosines are between 0 and 1: at temperature 1 all keys would have nearly equal weights
DEEPEST = 100  # levels of nested values
PIECE = 3  # characters
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The result for one query.

    value     Σ weight · value for numbers and vectors, otherwise the value of the most probable key
    weights   (key,): softmax weights of the soft look-up; in a hard one, 1 for equal keys
    notes     remarks on the value
    """

    kind: Literal["hard", "soft"]
    query: Any
    keys: tuple[Any, ...]
    values: tuple[Any, ...]  # of the keys
    value: Any
    weights: Floats
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether any key has weight."""
        return bool(self.weights.any())

    def table(self, most: int | None = None, *, with_values: bool = False) -> Table:
        """*query, key, probability*: the most probable keys first, at most `most` of them.

        A hard look-up has *equal* instead of *probability*: 1 for equal keys.
        """
        order = np.argsort(-self.weights, kind="stable")[:most]
        rows = [(self.query, self.keys[key], float(self.weights[key]), self.values[key]) for key in order]
        soft = self.kind == "soft"
        weight = Column("probability" if soft else "equal", "number", 2 if soft else 0, shade=True)
        columns = (
            _column("query", (self.query,)),
            _column("key", self.keys),
            weight,
            _column("value", self.values, "text"),
        )
        shown = 4 if with_values else 3
        highlight = 0 if rows and rows[0][2] else None
        title = f"SELECT value WHERE key {'≈' if soft else '='} query"
        notes = (f"value: {said(self.value)}", *self.notes)
        return Table(title, columns[:shown], tuple(row[:shown] for row in rows), notes, highlight, LOOK_UP)

    def __repr__(self) -> str:
        return f"Answer({self.kind}: {shown(self.query)} → {said(self.value)})"

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


def _column(name: str, cells: Sequence[Any], kind: Kind = "word") -> Column:
    if are_vectors(cells) or (kind == "text" and are_numbers(cells)):
        digits = digits_for(np.concatenate([np.ravel(cell) for cell in cells]))
        return Column(name, "vector" if are_vectors(cells) else "number", digits)
    return Column(name, kind)


def lookup(
    keys: Any, values: Any = None, *, similarity: Similarity | None = None, temperature: float | None = None,
    embed: Any = None,
) -> Lookup:  # fmt: skip
    """A dictionary with look-up by equality (`hard`) and by similarity (`soft`).

    keys, values  a dictionary (a JSON object), or keys and as many values: vectors, numbers, texts or anything else
    similarity    "dot", "scaled dot" (divided by √d; the default for vectors), "cosine" (the default for texts) or
                  "negative distance" (−‖q − k‖)
    temperature   divides the similarities; 1 by default, 0.1 for texts; 0 is the limit: the most similar key gets 1
    embed         text to vector: "spelling" (trigrams of its words; the default), "model", or a function of one key

    >>> car = lookup({"brand": "Ford", "model": "Mustang", "year": 1964})
    >>> car.get("brand"), car.get("colour")
    ('Ford', None)
    >>> car.soft("the brand of it").value
    'Ford'
    """
    if isinstance(keys, Mapping):
        if values is not None:
            raise errors.option("values", values, "None with a dictionary, which has its own values")
        keys, values = list(keys.keys()), list(keys.values())
    for name, things in (("keys", keys), ("values", values)):
        if isinstance(things, (str, bytes)) or not isinstance(things, Iterable):
            raise errors.TypeProblem(
                f"`{name}` are {kind_of(things)}; expected a dictionary, or keys and as many values.\n"
                'As in lookup({"brand": "Ford"}), or lookup([[1, 0], [0, 1]], ["first", "second"]).'
            )
    keys, values = (tuple(arrays.numpy_of(part) if hasattr(part, "ndim") else part) for part in (keys, values))
    _check_depth((keys, values))
    if len(keys) != len(values):
        raise errors.ShapeError(
            f"`values` hold {count(len(values), 'value')} for {count(len(keys), 'key')}.\nEach key needs one value."
        )
    return Lookup(keys, values, similarity, _temperature(temperature), embed)


def _check_depth(content: Any) -> None:
    """Refuse values nested deeper than recursion could follow."""
    level, depth = [content], 0
    while level:
        if depth > DEEPEST + 1:
            raise errors.OptionError(f"The values are nested more than {DEEPEST} levels deep.")
        inside = (part.values() if isinstance(part, Mapping) else part for part in level)
        level = [part for parts in inside for part in parts if isinstance(part, (Mapping, list, tuple))]
        depth += 1


def _temperature(temperature: Any) -> float | None:
    fix = "Towards 0 the most similar key gets all the weight; large temperatures give even weights."
    return None if temperature is None else validate.number("temperature", temperature, least=0, fix=fix)


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
            validate.choice("similarity", self.similarity, NAMES)
        if self.embed is not None and not callable(self.embed):
            validate.choice("embed", self.embed, ("spelling", "model"))
        if self._keys_are_vectors:
            self._vectors  # noqa: B018 - checks lengths and NaN now, not at the first look-up
        self._value_numbers  # noqa: B018

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        are_texts = bool(self.keys) and all(isinstance(key, str) for key in self.keys)
        kind = "vectors" if self._keys_are_vectors else "texts" if are_texts else "keys of other kinds"
        return f"Lookup({len(self)} keys: {kind})"

    # By equality

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of an equal key, as in a Python dictionary.

        >>> lookup({"name": "Jane"}).get("name"), lookup({"name": "Jane"}).get("phone", "none")
        ('Jane', 'none')
        """
        equal = np.flatnonzero(self._equal(key))
        return self.values[equal[-1]] if len(equal) else default

    def hard(self, query: Any) -> Answer:
        """z = Σ 1(q = k_j) v_j: the sum of the values of all equal keys, 0 if there are none.

        For values that are neither numbers nor vectors, the value of the last equal key, None if there is none.

        >>> lookup(["a", "b", "b"], [[1, 0], [0, 1], [0, 1]]).hard("b").value
        array([0., 2.])
        """
        equal, numbers = self._equal(query), self._value_numbers
        chosen = [self.values[at] for at in np.flatnonzero(equal)]
        notes = [] if chosen else ["No key equals the query."]
        if numbers is None and len(chosen) > 1:
            notes.append("Several keys are equal, and their values cannot be added: the value is that of the last one.")
        value: Any = chosen[-1] if chosen else None
        if numbers is not None:
            value = sum(chosen) if numbers.ndim == 1 else numbers[equal].sum(axis=0)
        return Answer("hard", query, self.keys, self.values, value, equal.astype(np.float64), tuple(notes))

    def _equal(self, query: Any) -> Any:
        """Which keys equal the query, (key,)."""
        if self._keys_are_vectors:
            return (self._vectors == self._vector_of(query)).all(axis=1)
        return np.array([bool(key is query or _are_equal(key, query)) for key in self.keys], bool)

    # By similarity

    def soft(self, query: Any, temperature: float | None = None) -> Answer:
        """z = Σ softmax(similarity(q, k_j) / temperature) v_j: the weighted mean of the values.

        For values that are neither numbers nor vectors, the value of the most probable key; a note says so.

        >>> notes = lookup([[1, 0], [0, 1]], [[10.0], [20.0]], similarity="negative distance")
        >>> notes.soft([1, 0]).value, notes.soft([1, 0], temperature=0.01).value
        (array([11.9...]), array([10.]))
        """
        attention, numbers, notes = self.attention(query, temperature), self._value_numbers, []
        weights = np.asarray(attention.dense())[0]
        if self.by_spelling and not set().union(*map(pieces, self.keys)) & pieces(query).keys():
            notes.append("The query shares no trigram with any key: all keys have the same weight.")
        if numbers is not None:
            value: Any = np.asarray(attention @ numbers.reshape(len(self), -1)).reshape(numbers.shape[1:])
            value = value if value.ndim else float(value)
        else:
            value = self.values[int(weights.argmax())]
            notes.append("These values cannot be averaged: the value is that of the most probable key.")
            if (weights == weights.max()).sum() > 1:
                notes.append("Several keys are equally probable: the value is that of the first one.")
        return Answer("soft", query, self.keys, self.values, value, weights, tuple(notes))

    def attention(self, query: Any, temperature: float | None = None) -> Attention:
        """The attention of the query to the keys; distances, and limits of the temperature, are its bias."""
        temperature, how = self.temperature_for(temperature), self._how
        vectors, keys = self._vector_of(query)[None], self._vectors
        if how != "negative distance" and temperature:
            scale = (keys.shape[1] ** -0.5 if how == "scaled dot" else 1.0) / temperature
            lengths = [np.linalg.norm(rows, axis=1).max(initial=0.0) for rows in (vectors, keys)]
            if (1.0 if how == "cosine" else lengths[0] * lengths[1]) * scale <= SHARP:
                return Attention(vectors, keys, scale=scale, similarity="cosine" if how == "cosine" else "dot")
        scores = self.similarities(query)
        with np.errstate(all="ignore"):  # a gap that overflows is a weight of 0
            gap = scores - scores.max()
            bias = np.where(gap == 0, 0.0, gap / temperature if temperature else -np.inf)
        return Attention(np.zeros((1, 1)), np.zeros((len(self), 1)), scale=1.0, bias=bias[None])

    def similarities(self, query: Any) -> Floats:
        """The similarity of the query to each key, (key,)."""
        # Equal keys are compared once: a matrix product may round the same row differently in two places.
        unique, inverse = np.unique(self._vectors, axis=0, return_inverse=True)
        vector, how = self._vector_of(query), self._how
        if how == "negative distance":
            scores = -np.linalg.norm(unique - vector, axis=1)
        else:
            scale = unique.shape[1] ** -0.5 if how == "scaled dot" else 1.0
            attention = Attention(vector[None], unique, scale=scale, similarity="cosine" if how == "cosine" else "dot")
            scores = np.asarray(attention.scaled.dense())[0]
        return np.asarray(scores[inverse.reshape(-1)])

    def leaves(self) -> Lookup:
        """A flat look-up of all nested values, with their paths as keys.

        >>> lookup({"name": "Jane", "address": {"town": "Hull"}, "phones": ["0117"]}).leaves().keys
        ('name', 'address.town', 'phones.0')
        """
        paths = dict(_leaves("", zip(self.keys, self.values, strict=True)))
        return Lookup(tuple(paths), tuple(paths.values()), self.similarity, self.temperature, self.embed)

    def temperature_for(self, temperature: float | None = None) -> float:
        """The temperature of a look-up: the given one, that of this object, or the default."""
        for chosen in (_temperature(temperature), self.temperature):
            if chosen is not None:
                return chosen
        return TEXT_TEMPERATURE if self.by_spelling or self._to_vector is embed_by_model else 1.0

    # Keys, query and values as vectors

    @cached_property
    def _keys_are_vectors(self) -> bool:
        return self.embed is None and (are_vectors(self.keys) or are_numbers(self.keys))

    @property
    def _how(self) -> Similarity:
        return self.similarity or ("scaled dot" if self._keys_are_vectors else "cosine")

    @cached_property
    def _to_vector(self) -> Embed:
        """From a key or a query to its vector."""
        if callable(self.embed):
            return self.embed  # type: ignore[no-any-return]
        if self.embed == "model" or self._keys_are_vectors:
            return embed_by_model if self.embed else as_numbers
        for key in self.keys:
            if not isinstance(key, str):
                came = f"`keys` hold {key!r}, neither a text nor a vector, which a soft look-up needs."
                raise errors.TypeProblem(f"{came}\nGive embed=function (key to vector).")
        return Spelling(self.keys)

    @property
    def by_spelling(self) -> bool:
        return isinstance(self._to_vector, Spelling)

    @cached_property
    def _vectors(self) -> Floats:
        """The keys, (key, component)."""
        if not self.keys:
            raise errors.option("keys", (), "at least one key", "The weights of a soft look-up sum to 1 over the keys.")
        vectors = numbers_of("keys", [self._to_vector(key) for key in self.keys])
        if vectors.ndim > 2:
            raise errors.ShapeError(f"`keys` have the shape {vectors.shape}; expected one vector for each.")
        return vectors.reshape(len(self), -1)

    def _vector_of(self, query: Any) -> Floats:
        """(component,), as long as the keys."""
        vector, width = numbers_of("query", [self._to_vector(query)])[0], self._vectors.shape[1]
        if vector.ndim > 1 or vector.size != width:
            came = f"{vector.size} components" if vector.ndim < 2 else f"the shape {vector.shape}"
            raise errors.ShapeError(f"`query` has {came}, `keys` have {width}.\nThe query needs as many as the keys.")
        return np.atleast_1d(vector)

    @cached_property
    def _value_numbers(self) -> Floats | None:
        """(key,) or (key, ...); None if not all values are numbers or vectors, or are lists of unequal length."""
        if not (are_numbers(self.values) or are_vectors(self.values)):
            return None
        return numbers_of("values", self.values) if self._keys_are_vectors or have_one_shape(self.values) else None


def _are_equal(key: Any, query: Any) -> bool:
    try:
        return bool(key == query)
    except ValueError:  # comparing arrays gives an array
        return bool(np.array_equal(key, query))


def _leaves(path: str, items: Any) -> Iterator[tuple[str, Any]]:
    for name, value in items:
        full = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping):
            yield from _leaves(full, value.items())
        elif isinstance(value, (list, tuple)):
            yield from _leaves(full, enumerate(value))
        else:
            yield full, value


# Numbers and texts as vectors


def are_numbers(things: Sequence[Any]) -> bool:
    return bool(things) and all(map(validate.is_number, things))


def are_vectors(things: Sequence[Any]) -> bool:
    """Whether all are lists, tuples or arrays of numbers."""
    return bool(things) and all(map(_is_vector, things))


def _is_vector(thing: Any) -> bool:
    if hasattr(thing, "ndim"):
        return bool(thing.ndim) and "bool" not in str(thing.dtype)
    is_list = isinstance(thing, (list, tuple)) and bool(thing)
    return is_list and all(validate.is_number(part) or _is_vector(part) for part in thing)


def have_one_shape(things: Sequence[Any]) -> bool:
    """Whether lists have equal lengths at every level."""
    try:
        return len({np.shape(thing) for thing in things}) <= 1
    except ValueError:
        return False


def numbers_of(name: str, things: Sequence[Any]) -> Floats:
    """One row per item, finite, of equal length."""
    if not have_one_shape(things):
        raise errors.ShapeError(f"`{name}` are of unequal length.\nAll of them need the same number of numbers.")
    rows = [arrays.numpy_of(thing) if hasattr(thing, "ndim") else np.asarray(thing) for thing in things]
    try:
        array = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise errors.unsupported_dtype(name, rows[0].dtype) from None
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise errors.option(f"{name}[{row}]", things[row], "finite numbers")
    return array


def as_numbers(thing: Any) -> Any:
    """A vector or a number as it is."""
    if not (validate.is_number(thing) or _is_vector(thing)):
        raise errors.TypeProblem(f"`query` is {thing!r}; expected numbers, as the keys are.")
    return thing


def embed_by_model(text: Any) -> Any:
    """The default model's embedding of a text, a vector of length 1."""
    return _default_model().embed(str(text))


@lru_cache(maxsize=1)
def _default_model() -> Any:
    from regard.models.model import model

    return model()


def pieces(text: str) -> Counter[str]:
    """How many words of a text hold each piece: the trigrams of a word with its ends, and the whole word.

    Words are runs of letters and digits, in lower case, so that `first_name` is *first name*.

    >>> sorted(pieces("To_be"))
    ['<be', '<be>', '<to', '<to>', 'be>', 'to>']
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    counts: Counter[str] = Counter()
    for word in _WORD.findall(text) or text.split():  # a text of punctuation alone consists of that
        ended = f"<{word}>"
        counts.update({ended, *(ended[start : start + PIECE] for start in range(len(ended) - PIECE + 1))})
    return counts


class Spelling:
    """From a text to its vector of length 1: one number per piece that occurs in the keys, one for all other pieces.

    The cosine of two texts is 0 if they share no trigram and 1 if they have the same words: this compares spelling, not
    meaning. Counting pieces exactly, instead of hashing them, keeps the cosine of texts that share no piece at 0.

    >>> spelling = Spelling(["Date of birth", "Name"])
    >>> date, name = map(spelling, ["Date of birth", "Name"])
    >>> round(float(date @ spelling("birth date")), 2), float(date @ name), float(name @ spelling("zzz"))
    (0.89, 0.0, 0.0)
    """

    def __init__(self, keys: Iterable[str]) -> None:
        distinct = dict.fromkeys(piece for key in keys for piece in pieces(key))
        self.index = {piece: at for at, piece in enumerate(distinct)}

    def __call__(self, text: Any) -> Floats:
        if not isinstance(text, str):
            raise errors.TypeProblem(f"`query` is {text!r}; expected a text, as the keys are.")
        counts = pieces(text)
        vector = np.zeros(len(self.index) + 1)
        for piece in counts.keys() & self.index.keys():
            vector[self.index[piece]] = counts[piece]
        vector[-1] = math.sqrt(sum(counts[piece] ** 2 for piece in counts.keys() - self.index.keys()))
        length = math.sqrt(sum(count**2 for count in counts.values()))
        return vector / length if length else vector


# From a file and a command line


def lookup_of(content: Any, source: str, similarity: Any = None, temperature: float | None = None) -> Lookup:
    """The dictionary of a JSON file: an object, or one with the lists "keys" and "values".

    source   what the content is called in errors
    """
    keys, values = content, None
    if isinstance(content, dict) and isinstance(content.get("keys"), list) and isinstance(content.get("values"), list):
        keys, values = content["keys"], content["values"]
    elif not isinstance(content, dict):
        raise errors.OptionError(
            f'{source} holds no dictionary; expected a JSON object, as {{"brand": "Ford"}}, '
            'or one with "keys" and "values".'
        )
    if not keys:
        raise errors.OptionError(f"{source} holds no keys, so there is nothing to look up.")
    return lookup(keys, values, similarity=similarity, temperature=temperature)


def query_of(text: str, dictionary: Lookup) -> Any:
    """The query as a text, a vector or a number, like the keys."""
    if all(isinstance(key, str) for key in dictionary.keys):
        return text
    numbers = ",".join(re.split(r"[,;\s]+", text.strip().strip("[]").strip()))
    try:
        content = json.loads(f"[{numbers}]")
    except json.JSONDecodeError:
        content = []
    if not content or (len(content) > 1 and not isinstance(dictionary.keys[0], list)):
        expected = 'numbers like the keys, as in "[0.3, 1.2, 4]"'
        raise errors.OptionError(f"The keys are vectors or numbers, and the query is {text!r}; expected {expected}.")
    return content if isinstance(dictionary.keys[0], list) else content[0]


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
            "It does not, 3: similarity by the dot product", lookup(QUERIES, VALUES, similarity="dot"), QUERIES[0],
            "Here the keys are the notes' four queries. A long key can have a larger product with the query than the "
            "query with itself; that key takes all weight. Cosine finds the equal key, unless another has the same "
            "direction.",
        ),
        _two_similarities(lookup(KEYS, VALUES, similarity="dot"), equal),
    )  # fmt: skip


def _cooling(title: str, pairs: Lookup, query: Sequence[float], why: str) -> Table:
    """The soft value at falling temperatures, and the hard value."""
    hard = pairs.hard(query)
    answers = [(f"{heat:g}" if heat else "→ 0", pairs.soft(query, heat)) for heat in TEMPERATURES] + [("hard", hard)]
    rows = tuple(
        (name, answer.weights, answer.value, float(abs(answer.value - hard.value).max())) for name, answer in answers
    )
    kinds = {"temperature": "word", "weights": "vector", "value": "vector", "from hard": "number"}
    numbers = " ".join(f"{number:g}" for number in query)
    notes = f"Query [{numbers}], which the hard look-up answers {said(hard.value)}.", why
    return Table(title, tuple(Column(name, kind) for name, kind in kinds.items()), rows, notes, source=LOOK_UP)  # type: ignore[arg-type]


def _two_similarities(dot: Lookup, distance: Lookup) -> Table:
    """The limits of both similarities for queries that equal no key."""
    rows = tuple((q, dot.hard(q).value, dot.soft(q, 0).value, distance.soft(q, 0).value) for q in QUERIES)
    digits = {"query": 1, "hard": 0, "soft, dot": 1, "soft, distance": 1}
    note = (
        "None of them equals a key. Dot product and distance can find different keys: the dot product also grows with "
        "the length of a key."
    )
    title = "What the dot product and the negative distance find for each query of the notes as temperature → 0"
    columns = tuple(Column(name, "vector", decimals) for name, decimals in digits.items())
    return Table(title, columns, rows, (note,), source=LOOK_UP)
