"""Layers as safetensors files: arrays by name, and a header that says how they make a layer. Nothing is unpickled."""

from __future__ import annotations

import json
import os
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from regard import arrays, errors
from regard.arrays import Array
from regard.layers.decoder import Decoder
from regard.layers.embedding import Embedding
from regard.layers.encoder import Encoder
from regard.layers.feed_forward import FeedForward
from regard.layers.layer import Layer, is_array
from regard.layers.linear import Linear
from regard.layers.multi_head import MultiHead
from regard.layers.norms import LayerNorm, RMSNorm
from regard.layers.positions import Alibi, Learned, Rotary, Sinusoidal
from regard.layers.transformer import Transformer

KEY = "regard"  # where in the file's metadata the structure is
VERSION = 1
DEEPEST = 32  # no layer nests deeper
KINDS: dict[str, type[Layer]] = {
    kind.__name__: kind
    for kind in (
        Alibi, Decoder, Embedding, Encoder, FeedForward, LayerNorm, Learned, Linear, MultiHead, RMSNorm, Rotary,
        Sinusoidal, Transformer,
    )
}  # fmt: skip


def save(layer: Layer, path: str | os.PathLike[str]) -> None:
    """Write a layer to a file, all of it or nothing; an array that is used twice is stored once.

    Tensors of bfloat16 are stored as float32 where `ml_dtypes` is not installed.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.layers import Linear
    >>> with TemporaryDirectory() as folder:
    ...     save(Linear([[1, 0], [0, 2]]), f"{folder}/layer.safetensors")
    ...     load(f"{folder}/layer.safetensors").weight.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    safetensors = safetensors_for("layers")
    stored: dict[str, Array] = {}
    structure = {"version": VERSION, "layer": _described("", layer, stored, {})}
    path = Path(path)
    if not path.parent.is_dir():
        raise errors.option("path", str(path), "a file in a folder that is there", f"Make {path.parent} first.")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        contents = {name: np.ascontiguousarray(_in_numpy(array)) for name, array in stored.items()}
        safetensors.numpy.save_file(contents, part, {KEY: json.dumps(structure)})
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a layer from a file, as NumPy arrays; `.to_torch()` makes tensors of them.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.layers import Embedding
    >>> with TemporaryDirectory() as folder:
    ...     save(Embedding([[1, 2]]), f"{folder}/layer.safetensors")
    ...     load(f"{folder}/layer.safetensors")
    Embedding(weight (1, 2) float64)
    """
    safetensors = safetensors_for("layers")
    path = Path(path)
    if not path.is_file():
        raise errors.option("path", str(path), "a file that is there")
    _small_floats()  # NumPy knows bfloat16 once they are loaded
    try:
        with safetensors.safe_open(path, framework="np") as file:
            structure = (file.metadata() or {}).get(KEY)
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except safetensors.SafetensorError as problem:
        raise _broken(path, f"it is no safetensors file: {problem}") from problem
    except TypeError as problem:  # of a type
        raise _broken(path, f"{problem}; with ml_dtypes installed, NumPy knows more types") from problem
    if structure is None:
        raise _broken(path, "its header has no structure of layers; `save` writes one")
    try:
        described = json.loads(structure)
        version = described["version"]
        if version == VERSION:
            layer = _layer(described["layer"], stored, 0)
            if isinstance(layer, Layer):
                return layer
            raise ValueError("no layer is described")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
        if isinstance(problem, errors.RegardError):
            raise _broken(path, str(problem)) from problem
        raise _broken(path, f"its structure cannot be read ({type(problem).__name__}: {problem})") from problem
    raise _broken(path, f"its structure has version {version!r}, this Regard reads {VERSION}")


def _described(name: str, value: Any, stored: dict[str, Array], names: dict[int, str]) -> Any:
    """The value as JSON says it; arrays go to `stored`."""
    if is_array(value):
        if id(value) not in names:
            names[id(value)] = name
            stored[name] = value
        return {"array": names[id(value)]}
    if isinstance(value, Layer):
        if KINDS.get(type(value).__name__) is not type(value):
            raise errors.unsupported(f"Saving a {type(value).__name__}", f"Known are {', '.join(KINDS)}.")
        parts = [(field.name, getattr(value, field.name)) for field in fields(value)]  # type: ignore[arg-type]
        return {"kind": type(value).__name__} | {
            field: _described(f"{name}.{field}" if name else field, part, stored, names) for field, part in parts
        }
    if isinstance(value, tuple):
        return [_described(f"{name}.{place}", part, stored, names) for place, part in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.item() if isinstance(value, np.generic) else _refuse(name, value)


def _refuse(name: str, value: Any) -> Any:
    raise errors.option(name, value, "an array, a layer, a number or a word", "Nothing else can be saved.")


def _layer(described: Any, stored: dict[str, Array], depth: int) -> Any:
    """The value that JSON describes; whatever does not fit is refused."""
    if depth > DEEPEST:
        raise ValueError(f"layers nest deeper than {DEEPEST}")
    if isinstance(described, list):
        return tuple(_layer(part, stored, depth + 1) for part in described)
    if not isinstance(described, dict):
        return described
    if set(described) == {"array"}:
        if described["array"] not in stored:
            raise ValueError(f"array {described['array']!r} is missing")
        return stored[described["array"]]
    kind = KINDS.get(described.get("kind", ""))
    if kind is None:
        raise ValueError(f"layer {described.get('kind')!r} is not known; known are {', '.join(KINDS)}")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    given = {name: part for name, part in described.items() if name != "kind"}
    if unknown := set(given) - set(known):
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    missing = [name for name, field in known.items() if field.default is MISSING and name not in given]
    if missing:
        raise ValueError(f"{kind.__name__} lacks {', '.join(missing)}")
    made = {name: _layer(part, stored, depth + 1) for name, part in given.items()}
    expected = get_type_hints(kind)
    for name, part in made.items():
        if not _is_a(expected[name], part):
            raise ValueError(f"`{name}` of {kind.__name__} cannot be {type(part).__name__}")
    return kind(**made)


def _is_a(expected: Any, value: Any) -> bool:
    """Whether a value is what a field is declared to hold."""
    if expected is Any:  # an array, of either library
        return is_array(value)
    if get_origin(expected) in (Union, UnionType):
        return any(_is_a(one, value) for one in get_args(expected))
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


def _broken(path: Path, why: str) -> errors.OptionError:
    return errors.OptionError(f"{path} cannot be read as a layer: {why}.")


def safetensors_for(what: str) -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as problem:
        raise errors.missing_package(f"Saving and loading {what}", "safetensors") from problem
    return safetensors
