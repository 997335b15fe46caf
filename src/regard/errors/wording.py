"""How arrays, counts and sizes are said in a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Shaped = Any  # an array, or its shape

_AXES = {
    "keys": ("batch", "head", "key", "head_dim"),
    "values": ("batch", "head", "key", "value_dim"),
    "mask": ("batch", "head", "query", "key"),
    "bias": ("batch", "head", "query", "key"),
    "attention": ("batch", "head", "query", "key"),
    "sinks": ("head",),
}
_QUERY_AXES = ("batch", "head", "query", "head_dim")


def message(came: str, fix: str, **arrays: Shaped) -> str:
    """What came, every array with its axes in columns, the likely fix."""
    shapes = {name: shape_of(array) for name, array in arrays.items()}
    axes = max(len(shape) for shape in shapes.values())
    rows = {name: _cells(name, shape, axes) for name, shape in shapes.items()}
    widths = [max(len(cells[axis]) for cells in rows.values()) for axis in range(axes)]
    names = max(len(name) for name in rows)
    lines = [
        "  " + name.ljust(names) + "  " + " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        for name, cells in rows.items()
    ]
    return "\n".join([came, *(line.rstrip() for line in lines), fix])


def _cells(name: str, shape: tuple[int, ...], axes: int) -> list[str]:
    """One cell an axis, the last axes of all arrays below each other."""
    names = axes_of(name)[-len(shape) :] if shape else ()
    names = ("axis",) * (len(shape) - len(names)) + names
    cells = [f"{axis} {size}" for axis, size in zip(names, shape, strict=True)]
    cells = [cell + "," for cell in cells[:-1]] + cells[-1:]
    return [""] * (axes - len(cells)) + cells


def axes_of(name: str) -> tuple[str, ...]:
    """The names of an argument's axes, leading ones included."""
    return _AXES.get(name, _QUERY_AXES)


def shape_of(array: Shaped) -> tuple[int, ...]:
    """The shape of an array, or the shape that stands for one."""
    return tuple(array.shape if hasattr(array, "shape") else array)


def type_name(dtype: object) -> str:
    """float32, whichever library it is from."""
    return str(dtype).removeprefix("torch.")


def kind_of(thing: object) -> str:
    """A NumPy array, a PyTorch tensor, or the name of any other type."""
    module = type(thing).__module__.partition(".")[0]
    known = {("numpy", "ndarray"): "a NumPy array", ("torch", "Tensor"): "a PyTorch tensor"}
    return known.get((module, type(thing).__name__), f"of type {type(thing).__name__}")


def shown(value: object) -> str:
    """The value on one short line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - a message must not fail; integers of more than 4,300 digits have no repr
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def count(number: int, word: str) -> str:
    """So many, with the word in its right form.

    >>> count(1, "query"), count(2, "query"), count(3, "key head")
    ('1 query', '2 queries', '3 key heads')
    """
    return f"{number} {word if number == 1 else _plural(word)}"


def there_are(count: int, word: str) -> str:
    """What comes after "there": is 1 head, are 8 heads."""
    return f"is 1 {word}" if count == 1 else f"are {count} {_plural(word)}"


def size_in_bytes(count: int) -> str:
    """A size in the largest unit that keeps it above one.

    >>> size_in_bytes(3 * 2**29), size_in_bytes(2**30), size_in_bytes(12)
    ('1.5 GiB', '1 GiB', '12 bytes')
    """
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"


def _plural(word: str) -> str:
    return {"axis": "axes", "query": "queries", "index": "indices", "batch": "sequences"}.get(word, word + "s")


def did_you_mean(came: str, known: Iterable[str]) -> str:
    """What may follow a sentence: a question, where one of the known words is close.

    >>> did_you_mean("entrophy", ("entropy", "peak"))
    " Did you mean 'entropy'?"
    """
    from difflib import get_close_matches  # takes milliseconds to load

    close = get_close_matches(came, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
