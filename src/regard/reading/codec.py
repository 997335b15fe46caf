"""Readings as safetensors files: arrays by name, and a header of plain JSON. Nothing is unpickled."""

from __future__ import annotations

import json
import os
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from regard import biases, errors
from regard.arrays import Array
from regard.attention import Attention, selection
from regard.errors import shown
from regard.layers import Encoder, Seen
from regard.layers import codec as of_layers
from regard.masks import kinds, mask, parameters
from regard.reading.reading import Reading
from regard.reading.tokens import Token

KEY = "regard_reading"  # where in the file's metadata the structure is
VERSION = 1
DEEPEST = 32

# All that a mask or a lazy bias can consist of, but functions.
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        kinds.Causal, kinds.Window, kinds.Lengths, kinds.Prefix, kinds.Documents, kinds.Chunks, kinds.First,
        kinds.Allowed, mask.Both, mask.Either, mask.Inverse, parameters.Given, selection.Part, selection.PartOfBias,
        biases.Alibi, biases.RelativePositions,
    )
}  # fmt: skip
OPTIONS = ("scale", "mask", "bias", "softcap", "sinks", "similarity", "offset")


def save(reading: Reading, path: str | os.PathLike[str], blocks: bool = False) -> None:
    """Write a reading to a file, all of it or nothing."""
    safetensors = of_layers.safetensors_for("readings")
    path = Path(path)
    if not path.parent.is_dir():
        raise errors.option("path", str(path), "a file in a folder that is there", f"Make {path.parent} first.")
    stored: dict[str, Array] = {}
    structure = _structure(reading, stored, blocks)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        contents = {name: np.ascontiguousarray(of_layers._in_numpy(array)) for name, array in stored.items()}
        safetensors.numpy.save_file(contents, part, {KEY: json.dumps(structure)})
        part.replace(path)
    except OSError as problem:
        raise errors.OptionError(f"{path} cannot be written: {(problem.strerror or str(problem)).lower()}.") from None
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Reading:
    """Read what `save` wrote, as NumPy arrays; a broken file gives an error that says what is wrong with it."""
    safetensors = of_layers.safetensors_for("readings")
    path = Path(path)
    if not path.is_file():
        raise errors.option("path", str(path), "a file that is there")
    of_layers._small_floats()  # NumPy knows bfloat16 once they are loaded
    try:
        with safetensors.safe_open(path, framework="np") as file:
            structure = (file.metadata() or {}).get(KEY)
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (safetensors.SafetensorError, TypeError, OSError) as problem:
        raise _broken(path, f"it is no safetensors file that can be read: {problem}") from problem
    if structure is None:
        raise _broken(path, "its header holds no reading; `Reading.save` writes one")
    try:
        described = json.loads(structure)
        version = described["version"]
        if version == VERSION:
            return _reading(described, stored)
    except errors.RegardError as problem:
        raise _broken(path, str(problem)) from problem
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as problem:
        raise _broken(path, f"its header cannot be read ({type(problem).__name__}: {problem})") from problem
    raise _broken(path, f"its header has version {version!r}, this Regard reads {VERSION}")


# Into a file


def _structure(reading: Reading, stored: dict[str, Array], blocks: bool) -> dict[str, Any]:
    def keep(name: str, array: Array) -> str:
        stored[name] = array
        return name

    layers = []
    for place, (attention, values) in enumerate(reading.seen):
        name = f"layers.{place}"
        described: dict[str, Any] = {
            "queries": keep(f"{name}.queries", attention.queries),
            "keys": keep(f"{name}.keys", attention.keys),
            "values": keep(f"{name}.values", values),
        }
        for option in OPTIONS:
            described[option] = _described(f"{name}.{option}", getattr(attention, option), stored)
        layers.append(described)
    written = reading.blocks if blocks else ()
    return {
        "version": VERSION,
        "text": reading.text,
        "tokens": [[one.text, one.id, one.start, one.stop, one.special, one.joined] for one in reading.tokens],
        "layers": layers,
        "outputs": [keep(f"outputs.{place}", array) for place, array in enumerate(reading.outputs)],
        "states": [keep(f"states.{place}", array) for place, array in enumerate(reading.states)],
        "blocks": [of_layers._described(f"blocks.{place}", one, stored, {}) for place, one in enumerate(written)],
        "model": reading.model,
        "given": reading.given,
    }


def _described(name: str, value: Any, stored: dict[str, Array]) -> Any:
    """An option as JSON says it; arrays go to `stored`."""
    if hasattr(value, "dtype") and hasattr(value, "shape") and tuple(value.shape):
        stored[name] = value
        return {"array": name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, tuple):
        return [_described(f"{name}.{place}", part, stored) for place, part in enumerate(value)]
    if KINDS.get(type(value).__name__) is type(value) and is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"kind": type(value).__name__} | {
            field: _described(f"{name}.{field}", part, stored) for field, part in parts.items()
        }
    if hasattr(value, "item") and not tuple(value.shape):
        return value.item()
    raise errors.Unsupported(
        f"A reading whose attention has {shown(value)} cannot be saved: only numbers and arrays are written to files.\n"
        "Masks of `regard.masks.where` are functions; `regard.masks.allowed(array)` says the same as an array."
    )


# Out of a file


def _reading(described: dict[str, Any], stored: dict[str, Array]) -> Reading:
    given_tokens = described["given"]
    if given_tokens is not None and (isinstance(given_tokens, bool) or not isinstance(given_tokens, int)):
        raise ValueError("'given' is not a number of tokens")
    blocks = tuple(of_layers._layer(one, stored, 0) for one in described["blocks"])
    if not all(isinstance(block, Encoder) for block in blocks):
        raise ValueError("a block is no encoder")
    return Reading(
        _a("text", described["text"], str),
        tuple(_token(one) for one in described["tokens"]),
        tuple(_seen(layer, stored) for layer in described["layers"]),
        tuple(_array(name, stored) for name in described["outputs"]),
        tuple(_array(name, stored) for name in described["states"]),
        blocks,
        _a("model", described["model"], str),
        given_tokens,
    )


def _token(described: Any) -> Token:
    text, number, start, stop, special, joined = described
    for value, kind in ((text, str), (number, int), (start, int), (stop, int), (special, bool), (joined, bool)):
        _a("a token's part", value, kind)
    return Token(text, number, start, stop, special, joined)


def _seen(described: dict[str, Any], stored: dict[str, Array]) -> Seen:
    options = {name: _built(described[name], stored, 0) for name in OPTIONS}
    queries, keys = _array(described["queries"], stored), _array(described["keys"], stored)
    return Seen(Attention(queries, keys, **options), _array(described["values"], stored))


def _array(name: Any, stored: dict[str, Array]) -> Array:
    if not isinstance(name, str) or name not in stored:
        raise ValueError(f"array {name!r} is missing")
    return stored[name]


def _built(described: Any, stored: dict[str, Array], depth: int) -> Any:
    """The option that JSON describes; whatever does not fit is refused."""
    if depth > DEEPEST:
        raise ValueError(f"a mask nests deeper than {DEEPEST}")
    if isinstance(described, list):
        return tuple(_built(part, stored, depth + 1) for part in described)
    if not isinstance(described, dict):
        return described
    if set(described) == {"array"}:
        return _array(described["array"], stored)
    if set(described) == {"slice"}:
        return slice(*described["slice"])
    kind = KINDS.get(described.get("kind", ""))
    if kind is None:
        raise ValueError(f"{described.get('kind')!r} is not known; known are {', '.join(KINDS)}")
    known = {field.name: field for field in fields(kind)}
    made = {name: _built(part, stored, depth + 1) for name, part in described.items() if name != "kind"}
    if set(made) - set(known) or any(field.default is MISSING and name not in made for name, field in known.items()):
        raise ValueError(f"{kind.__name__} has other parts than {', '.join(made) or 'none'}")
    expected = get_type_hints(kind)
    for name, part in made.items():
        if not of_layers._is_a(expected[name], part) and not isinstance(part, slice):
            raise ValueError(f"`{name}` of {kind.__name__} cannot be {type(part).__name__}")
    return kind(**made)


def _a(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} is {type(value).__name__}, not {kind.__name__}")
    return value


def _broken(path: Path, why: str) -> errors.OptionError:
    return errors.OptionError(f"{path} cannot be read as a reading: {why}.")
