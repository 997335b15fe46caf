"""Keys, values and queries of a look-up: checks, and conversion to vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import arrays, errors, validate
from regard.errors import count, kind_of

Floats = NDArray[np.float64]
Embed = Callable[[Any], Any]
METHODS = ("spelling", "model")
DEEPEST = 100  # levels of nested values


def keys_and_values(keys: Any, values: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Those of a mapping, or one value per key."""
    if isinstance(keys, Mapping):
        if values is not None:
            raise errors.option("values", values, "None with a dictionary, which has its own values")
        _check_depth(keys)
        return tuple(keys.keys()), tuple(keys.values())
    for name, given in (("keys", keys), ("values", values)):
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise errors.TypeProblem(
                f"`{name}` are {kind_of(given)}; expected a dictionary, or keys and as many values.\n"
                'As in lookup({"brand": "Ford"}), or lookup([[1, 0], [0, 1]], ["first", "second"]).'
            )
    rows = tuple(_rows(keys)), tuple(_rows(values))
    _check_depth(rows)
    if len(rows[0]) != len(rows[1]):
        raise errors.ShapeError(
            f"`values` hold {count(len(rows[1]), 'value')} for {count(len(rows[0]), 'key')}.\nEach key needs one value."
        )
    return rows


def _check_depth(content: Any) -> None:
    """Refuse values nested deeper than recursion could follow."""
    level, depth = [content], 0
    while level:
        if depth > DEEPEST:
            raise errors.OptionError(
                f"The values are nested more than {DEEPEST} levels deep; expected a flat dictionary."
            )
        inside = (one.values() if isinstance(one, Mapping) else one for one in level)
        level = [part for parts in inside for part in parts if isinstance(part, (Mapping, list, tuple))]
        depth += 1


def _rows(given: Any) -> Iterable[Any]:
    rows: Iterable[Any] = arrays.numpy_of(given) if hasattr(given, "ndim") else given
    return rows


def _is_vector(thing: Any) -> bool:
    if hasattr(thing, "ndim"):
        return bool(thing.ndim) and "bool" not in str(thing.dtype)
    if not isinstance(thing, (list, tuple)) or not thing:
        return False
    return all(validate.is_number(part) or _is_vector(part) for part in thing)


def are_vectors(things: Sequence[Any]) -> bool:
    """Whether all are lists, tuples or arrays of numbers."""
    return bool(things) and all(_is_vector(thing) for thing in things)


def are_numbers(things: Sequence[Any]) -> bool:
    """Whether all are single numbers."""
    return bool(things) and all(validate.is_number(thing) for thing in things)


def numbers(name: str, things: Sequence[Any]) -> Floats:
    """One row per item, finite, of equal length."""
    rows = [np.asarray(arrays.numpy_of(thing) if hasattr(thing, "ndim") else _array(name, thing)) for thing in things]
    shapes = [row.shape for row in rows]
    for place, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise errors.ShapeError(
                f"`{name}` are of unequal length: {name}[0] has shape {shapes[0]}, {name}[{place}] has {shape}.\n"
                "All of them need the same number of numbers."
            )
    try:
        array = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise errors.unsupported_dtype(name, rows[0].dtype) from None
    if not np.isfinite(array).all():
        place = int(np.argwhere(~np.isfinite(array))[0][0])
        raise errors.option(f"{name}[{place}]", things[place], "finite numbers")
    return array


def _array(name: str, thing: Any) -> NDArray[Any]:
    try:
        return np.asarray(thing)
    except ValueError:
        raise errors.ShapeError(f"`{name}` hold rows of unequal length: {thing!r}.\nGive rows of one length.") from None


def embedding(embed: Any) -> Embed | None:
    """The function from a key to a vector; None for the default, and for the spelling, which needs all keys."""
    if embed is None or embed == "spelling":
        return None
    if callable(embed):
        return embed  # type: ignore[no-any-return]
    validate.choice("embed", embed, METHODS)
    return by_model


def by_model(text: Any) -> Any:
    """The default model's embedding of a text, a vector of length 1."""
    return _default_model().embed(str(text))


@lru_cache(maxsize=1)
def _default_model() -> Any:
    from regard.models.architectures import model

    return model()


def embedded(things: Sequence[Any], name: str, embed: Embed) -> Floats:
    """The vectors, (item, size)."""
    vectors = numbers(name, [embed(thing) for thing in things])
    if vectors.ndim != 2:
        raise errors.ShapeError(f"`embed` gave shape {vectors.shape[1:]} for each key; expected one vector for each.")
    return vectors
