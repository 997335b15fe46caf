"""The errors that Regard raises, and the few functions that word their messages.

A message names the argument, what came and what was expected, and ends with the likely fix. Errors are raised where the
problem is found; only the wording that several modules need is here.

>>> print(misfit("`keys` have head_dim 48, `queries` have 64.", "Check W_k.", queries=(8, 5, 64), keys=(8, 7, 48)))
`keys` have head_dim 48, `queries` have 64.
  queries  head 8, query 5, head_dim 64
  keys     head 8, key 7,   head_dim 48
Check W_k.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LONGEST_LINE = 600  # characters of a line of a message
Shaped = Any  # an array, or its shape

_AXES = {
    "keys": ("batch", "head", "key", "head_dim"),
    "values": ("batch", "head", "key", "value_dim"),
    "mask": ("batch", "head", "query", "key"),
    "bias": ("batch", "head", "query", "key"),
    "attention": ("batch", "head", "query", "key"),
    "sinks": ("head",),
}
_MODULES = {"python-pptx": "pptx"}  # of packages, where the names differ
_QUERY_AXES = ("batch", "head", "query", "head_dim")


class RegardError(Exception):
    """The base class of all errors that Regard raises; a line of a message is shortened where it is very long."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*(shortened(part) if isinstance(part, str) else part for part in parts))


class ShapeError(RegardError, ValueError):
    """Arrays whose shapes do not fit each other."""


class TypeProblem(RegardError, TypeError):
    """An argument of a type that cannot be used."""


class OptionError(RegardError, ValueError):
    """An option with an invalid value, or a required option that is missing."""


class OutOfRange(RegardError, IndexError):
    """An index past the end of an axis."""


class TooLarge(RegardError, MemoryError):
    """A result that would take more memory than the limit."""


class Unsupported(RegardError, NotImplementedError):
    """A valid request that Regard does not implement, or for which a package is missing."""


# Errors that several modules raise


def option(name: str, came: object, expected: str, fix: str = "") -> OptionError:
    """Any option: what came, what was expected, the likely fix."""
    return OptionError(f"`{name}` is {shown(came)}; expected {expected}." + (f"\n{fix}" if fix else ""))


def unsupported(what: str, instead: str) -> Unsupported:
    """Something Regard does not do, and what to do instead."""
    return Unsupported(f"{what} is not supported.\n{instead}")


def traced() -> Unsupported:
    """What `torch.jit.trace` would record: the memory of results, not the computation."""
    return unsupported("torch.jit.trace", "Use torch.compile or torch.export, which follow attention for any length.")


def missing_package(what: str, *packages: str, instead: str = "") -> Unsupported:
    """A package that something needs and that is not installed, with the command that installs it here.

    >>> print(missing_package("Reading text", "tokenizers"))
    Reading text needs the package tokenizers, which is not installed.
    Install it: ...python... -m pip install tokenizers
    """
    several = len(packages) > 1
    names = f"the packages {' and '.join(packages)}" if several else f"the package {packages[0]}"
    command = install_command(packages)
    return Unsupported(
        f"{what} needs {names}, which {'are' if several else 'is'} not installed.\n"
        f"Install {'them' if several else 'it'}: {command}" + (f"\n{instead}" if instead else "")
    )


def require(what: str, *packages: str, instead: str = "") -> None:
    """Raise one error for all of the packages that `what` needs and that are not installed."""
    missing = [package for package in packages if find_spec(_MODULES.get(package, package)) is None]
    if missing:
        raise missing_package(what, *missing, instead=instead)


def install_command(packages: Sequence[str]) -> str:
    """The command that installs packages for the running Python, to be pasted into a shell.

    An environment that uv made has no pip; one that `uvx` made is thrown away, so the packages belong into its command.
    """
    python = shlex.quote(sys.executable or "python")
    if PathFinder.find_spec("pip") is not None:  # importlib.util would make setuptools give up its distutils
        return f"{python} -m pip install {shlex.join(packages)}"
    settings = Path(sys.prefix, "pyvenv.cfg")
    if not settings.is_file() or "\nuv = " not in settings.read_text(encoding="utf-8"):
        return f"{python} -m ensurepip && {python} -m pip install {shlex.join(packages)}"
    if "archive-v0" in Path(sys.prefix).parts:
        return f"uvx {shlex.join(f'--with={package}' for package in packages)} regard {shlex.join(sys.argv[1:])}"
    return f"uv pip install --python {python} {shlex.join(packages)}"


def misfit(came: str, fix: str, **arrays: Shaped) -> ShapeError:
    """Arrays that do not fit each other, listed with their axes."""
    return ShapeError(with_shapes(came, fix, **arrays))


def wrong_dimensions(name: str, array: Shaped) -> ShapeError:
    """An array with too few or too many axes."""
    shape, (what, last) = shape_of(array), _AXES.get(name, _QUERY_AXES)[-2:]
    fix = f"For a single {what}, add its axis: {name}[None]." if len(shape) < 2 else "Join the leading axes into one."
    return ShapeError(
        f"`{name}` have {count(len(shape), 'axis')}, shape {shape}; expected ({what}, {last}), with head and batch "
        f"in front where there are any.\n{fix}"
    )


def unsupported_dtype(name: str, dtype: object) -> TypeProblem:
    """Numbers that attention is not computed with."""
    kind = type_name(dtype)
    if "complex" in kind:
        fix = "Softmax has no order to work with on complex numbers: take the real part or the magnitude first."
    elif kind == "object":
        fix = "An object array holds Python objects, often rows of unequal length: check them, then .astype('float32')."
    else:
        convert = "float()" if str(dtype).startswith("torch.") else "astype('float32')"
        fix = f"Convert first, as in {name}.{convert}."
    return TypeProblem(f"`{name}` are of type {kind}; expected float16, bfloat16, float32 or float64.\n{fix}")


def families_mixed(**arrays: object) -> TypeProblem:
    """NumPy arrays together with PyTorch tensors."""
    came = ", ".join(f"`{name}` are {kind_of(array)}" for name, array in arrays.items())
    return TypeProblem(
        f"{came}.\nAll arrays of one attention come from one library: use torch.from_numpy(array) or tensor.numpy()."
    )


def not_an_array(name: str, thing: object) -> TypeProblem:
    """Something that is neither a NumPy array nor a PyTorch tensor."""
    return TypeProblem(
        f"`{name}` are {kind_of(thing)}; expected a NumPy array or a PyTorch tensor.\n"
        f"For nested lists, numpy.asarray({name}, dtype='float32') makes one."
    )


def bad_offset(offset: object, batch: int) -> OptionError:
    """An offset that is neither one number nor one for each sequence."""
    fix = "It is the position of the first query: the number of keys that came before it."
    return option("offset", offset, f"an integer, or integers of shape ({batch},), one for each sequence", fix)


def index_out_of_range(axis: str, index: object, count: int) -> OutOfRange:
    """An index past the end of an axis, for example a head that is not there."""
    return OutOfRange(f"{axis} {index} is out of range: there {there_are(count, axis)}, counted from 0.")


# Wording


def with_shapes(came: str, fix: str, **arrays: Shaped) -> str:
    """A message with a line per array that names its axes, aligned in columns."""
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
    """One cell per axis, aligned at the last axis."""
    names = _AXES.get(name, _QUERY_AXES)[-len(shape) :] if shape else ()
    names = ("axis",) * (len(shape) - len(names)) + names
    cells = [f"{axis} {size}" for axis, size in zip(names, shape, strict=True)]
    cells = [cell + "," for cell in cells[:-1]] + cells[-1:]
    return [""] * (axes - len(cells)) + cells


def shape_of(array: Shaped) -> tuple[int, ...]:
    """The shape of an array, or the shape that stands for one."""
    return tuple(array.shape if hasattr(array, "shape") else array)


def type_name(dtype: object) -> str:
    """float32, whichever library it is from."""
    return str(dtype).removeprefix("torch.")


def kind_of(thing: object) -> str:
    """A NumPy array, a PyTorch tensor, or the name of any other type."""
    module = type(thing).__module__.partition(".")[0]
    class_names = {("numpy", "ndarray"): "a NumPy array", ("torch", "Tensor"): "a PyTorch tensor"}
    return class_names.get((module, type(thing).__name__), f"of type {type(thing).__name__}")


def shown(value: object) -> str:
    """The value on one short line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - a message must not fail; integers of more than 4,300 digits have no repr
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def shortened(message: str) -> str:
    """A message whose very long lines, which an argument made so, lack their middle.

    >>> len(shortened("There is no file " + "x" * 10_000))
    603
    """
    if len(message) <= LONGEST_LINE:
        return message
    head, tail = LONGEST_LINE * 2 // 3, LONGEST_LINE // 3
    lines = message.split("\n")
    return "\n".join(line if len(line) <= LONGEST_LINE else f"{line[:head]} … {line[-tail:]}" for line in lines)


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


def sizes_apart(first: int, second: int) -> tuple[str, str]:
    """Two sizes with as many digits as tell them apart.

    >>> sizes_apart(12, 4096), sizes_apart(2**20, 2**20 + 1)
    (('12 bytes', '4 KiB'), ('1048576 bytes', '1048577 bytes'))
    """
    sizes = size_in_bytes(first), size_in_bytes(second)
    return sizes if sizes[0] != sizes[1] or first == second else (f"{first} bytes", f"{second} bytes")


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


def reason_of(problem: BaseException) -> str:
    """Why a file cannot be read or written, or a service not reached: the system's words in one line.

    >>> reason_of(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory'
    """
    reason = getattr(problem, "strerror", None) or str(problem)
    return reason.splitlines()[0][:200].rstrip(".").lower() if reason else "unknown"
