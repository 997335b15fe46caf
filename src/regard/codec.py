"""Arrays and JSON metadata in one safetensors file: how layers, readings and training checkpoints are saved.

A file holds named tensors and, in its header under the key "regard_<kind>", a JSON object with the version of its
format. Nothing is unpickled, and every problem with a file raises an `OptionError` that names the file.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     save(f"{folder}/run.safetensors", {"loss": np.array([2.5, 1.5])}, {"step": 20}, kind="checkpoint")
...     tensors, metadata = load(f"{folder}/run.safetensors", "checkpoint")
>>> tensors["loss"].tolist(), metadata["step"]
([2.5, 1.5], 20)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from regard import arrays, atomic_file, errors
from regard.arrays import Array, is_array
from regard.errors import OptionError, shown

DEEPEST = 32  # levels of nesting in a description; real layers and masks nest less than 10 deep

DIGEST = "digest"  # in the metadata of a sealed file
EMPTY: Mapping[str, Array] = {}

T = TypeVar("T")
Kinds = Mapping[str, type[Any]]  # dataclasses by their names


def metadata_key(kind: str) -> str:
    """Where in a file's header the metadata of this kind is: "regard_reading"."""
    return f"regard_{kind}"


def save(
    path: str | os.PathLike[str], tensors: Mapping[str, Array], metadata: Mapping[str, Any], *, kind: str,
    version: int = 1, sealed: bool = False,
) -> None:  # fmt: skip
    """Write named arrays of NumPy or PyTorch and JSON metadata; a write that fails leaves the old file as it was.

    `kind` names what the file holds, such as "reading"; `load` refuses a file of another kind or version. Tensors of
    bfloat16 are stored as float32 where `ml_dtypes` is not installed. A `sealed` file carries a digest of its content.
    """
    safetensors = _safetensors(kind)
    path = Path(path)
    if not path.parent.is_dir():
        raise errors.option("path", str(path), "a file in an existing folder", f"Create {path.parent} first.")
    contents = {name: np.ascontiguousarray(_in_numpy(array)) for name, array in tensors.items()}
    described: dict[str, Any] = {"version": version, **metadata}
    if sealed:
        described = with_digest(described, contents)
    header = {metadata_key(kind): json.dumps(described)}  # one key: safetensors writes several in random order
    try:
        with atomic_file.replacing(path) as temporary:
            safetensors.numpy.save_file(contents, temporary, header)
    except safetensors.SafetensorError as problem:
        raise OptionError(f"{str(path)!r} cannot be written: {problem}.") from None


def load(
    path: str | os.PathLike[str], kind: str, *, version: int = 1, sealed: bool = False
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors, as NumPy arrays, and the metadata of a file that `save` wrote with this kind and version."""
    return load_as(path, kind, lambda tensors, metadata: (tensors, metadata), version=version, sealed=sealed)


def load_as(
    path: str | os.PathLike[str], kind: str, build: Callable[[dict[str, Array], dict[str, Any]], T], *,
    version: int = 1, sealed: bool = False,
) -> T:  # fmt: skip
    """What `build(tensors, metadata)` makes of a file; an error it raises becomes one that names the file.

    With `sealed`, a file whose content does not match its digest is refused.
    """
    safetensors = _safetensors(kind)
    path = Path(path)
    if not path.is_file():
        raise errors.option("path", str(path), "an existing file")
    _small_floats()  # NumPy knows bfloat16 once ml_dtypes is loaded

    def problem(why: str) -> OptionError:
        return OptionError(f"{path} cannot be read as a {kind.replace('_', ' ')}: {why}.")

    try:
        with safetensors.safe_open(path, framework="np") as file:
            headers = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (safetensors.SafetensorError, OSError) as found:
        raise problem(f"it is not a valid safetensors file ({found})") from found
    except TypeError as found:  # a dtype that NumPy lacks
        raise problem(f"{found}; ml_dtypes adds bfloat16 and float8 to NumPy") from found
    if metadata_key(kind) not in headers:
        others = [key.removeprefix("regard_") for key in headers if key.startswith("regard_")]
        raise problem(f"it holds a {others[0][:40]}" if others else "its header has no metadata of Regard")
    try:
        metadata = json.loads(headers[metadata_key(kind)])
        found_version = metadata["version"]
        if type(found_version) is int and found_version == version:
            return build(tensors, without_digest(metadata, tensors) if sealed else metadata)
    except errors.RegardError as found:
        raise problem(str(found).rstrip(".")) from found
    except ValueError as found:  # says what is wrong
        raise problem(f"its metadata is invalid ({found})") from found
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as found:
        raise problem(f"its metadata is invalid ({type(found).__name__}: {found})") from found
    is_older = type(found_version) is int and found_version < version
    of = "it is of an older format: version" if is_older else "its format has version"
    raise problem(f"{of} {shown(found_version)}, this Regard reads {version}")


def digest(metadata: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """SHA-256 of the metadata and of the name, type, shape and numbers of every tensor."""
    digest = hashlib.sha256(json.dumps(metadata).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(json.dumps([name, array.dtype.name, list(array.shape)]).encode() + array.tobytes())
    return digest.hexdigest()


def with_digest(content: Mapping[str, Any], tensors: Mapping[str, Array] = EMPTY) -> dict[str, Any]:
    """A JSON object with the digest of itself and of the tensors that belong to it.

    >>> without_digest(with_digest({"step": 20}))
    {'step': 20}
    """
    return {**content, DIGEST: digest(content, tensors)}


def without_digest(content: Mapping[str, Any], tensors: Mapping[str, Array] = EMPTY) -> dict[str, Any]:
    """What `with_digest` was given; an error where the content is not that."""
    rest = {name: value for name, value in content.items() if name != DIGEST}
    if content.get(DIGEST) != digest(rest, tensors):
        raise OptionError("its content does not match its digest; the file is damaged")
    return rest


# Dataclasses as JSON: fields by name, arrays as references to tensors


def describe(name: str, value: Any, tensors: dict[str, Array], kinds: Kinds, fix: str = "") -> Any:
    """A value as JSON; its arrays are added to `tensors` under dotted names, one that is used twice only once.

    >>> from regard.masks.kinds import Window
    >>> describe("mask", Window(3, 0), {}, {"Window": Window})
    {'kind': 'Window', 'left': 3, 'right': 0}
    """
    if is_array(value) and tuple(value.shape):
        stored_name = next((other for other, array in tensors.items() if array is value), name)
        tensors[stored_name] = value
        return {"array": stored_name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, tuple):
        return [describe(f"{name}.{number}", part, tensors, kinds, fix) for number, part in enumerate(value)]
    if is_dataclass(value) and kinds.get(type(value).__name__) is type(value):
        described = {"kind": type(value).__name__}
        for field in fields(value):
            part = f"{name}.{field.name}" if name else field.name
            described[field.name] = describe(part, getattr(value, field.name), tensors, kinds, fix)
        return described
    if is_array(value) or isinstance(value, np.generic):
        return value.item()
    raise errors.Unsupported(
        f"`{name or type(value).__name__}` is {shown(value)}, which cannot be saved: expected an array, a number, a "
        f"string or one of {', '.join(kinds)}." + (f"\n{fix}" if fix else "")
    )


def build(described: Any, tensors: Mapping[str, Array], kinds: Kinds, depth: int = 0) -> Any:
    """The value that `describe` described; a ValueError where the description does not fit the dataclasses."""
    if depth > DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    if isinstance(described, list):
        return tuple(build(part, tensors, kinds, depth + 1) for part in described)
    if not isinstance(described, dict):
        return described
    if set(described) == {"array"}:
        return tensor(described["array"], tensors)
    if set(described) == {"slice"}:
        return slice(*described["slice"])
    kind = kinds.get(described.get("kind", ""))
    if kind is None:
        raise ValueError(f"unknown kind {shown(described.get('kind'))}; known are {', '.join(kinds)}")
    field_of = {field.name: field for field in fields(kind)}
    parts = {name: build(part, tensors, kinds, depth + 1) for name, part in described.items() if name != "kind"}
    if unknown := set(parts) - set(field_of):
        raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    if missing := [name for name, field in field_of.items() if field.default is MISSING and name not in parts]:
        raise ValueError(f"{kind.__name__} lacks {', '.join(missing)}")
    expected = get_type_hints(kind)
    for name, part in parts.items():
        if not _is_a(expected[name], part):
            raise ValueError(f"`{name}` of {kind.__name__} cannot be of type {type(part).__name__}")
    return kind(**parts)


def tensor(name: Any, tensors: Mapping[str, Array]) -> Array:
    """The tensor of this name; a ValueError where there is none."""
    if not isinstance(name, str) or name not in tensors:
        raise ValueError(f"tensor {shown(name)} is missing")
    return tensors[name]


def _is_a(expected: Any, value: Any) -> bool:
    """Whether a value has the type that a field declares."""
    if expected is Any:  # arrays and indices are annotated so
        return is_array(value) or isinstance(value, slice)
    if get_origin(expected) in (Union, UnionType):
        return any(_is_a(alternative, value) for alternative in get_args(expected))
    if get_origin(expected) is tuple:
        return isinstance(value, tuple) and all(_is_a(get_args(expected)[0], part) for part in value)
    if isinstance(value, bool) or expected is bool:
        return isinstance(value, bool) and expected is bool
    return isinstance(value, (int, float) if expected is float else expected)


def _in_numpy(array: Array) -> Array:
    if str(array.dtype) == "torch.bfloat16" and (small := _small_floats()) is not None:
        bits = array.detach().cpu().contiguous().view(array.new_empty(0).short().dtype)
        return bits.numpy().view(small.bfloat16)
    return arrays.numpy_of(array)


def _small_floats() -> Any:
    try:
        return import_module("ml_dtypes")
    except ImportError:
        return None


def _safetensors(kind: str) -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as problem:
        raise errors.missing_package(f"A {kind} in a file", "safetensors") from problem
    return safetensors
