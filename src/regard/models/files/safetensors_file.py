"""Safetensors files: 8 bytes of length, a JSON header, then the numbers without gaps.

Every claim of the header is compared with the size of the file before anything is allocated. The file is mapped: a
tensor in float32 is a view of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.errors import unsupported
from regard.models.errors import broken, missing
from regard.models.regular_file import object_of, open_regular

Array = NDArray[Any]
LONGEST_HEADER = 2**25  # bytes; the format allows 100 MB, which Python would take gigabytes to read
MOST_AXES = 16
SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2,
    "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "C64": 8,
}  # fmt: skip
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
INTEGERS = {
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1",
    "BOOL": "<u1",
}  # fmt: skip


class TensorFile(Protocol):
    """Tensors by their names on the hub."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all tensors."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one tensor, without reading it."""
        ...

    def __getitem__(self, name: str) -> Array:
        """A float tensor in float32: a read-only view of the file where it is stored so, else a new array."""
        ...


@dataclass(frozen=True, eq=False)
class Stored:
    """Where a tensor is in its file, and how it is stored."""

    path: Path
    content: Array  # the mapped file, as bytes
    kind: str
    shape: tuple[int, ...]
    start: int  # bytes from the beginning of the file
    stop: int

    def view(self, dtype: str) -> Array:
        """Its numbers, in a flat view of the file."""
        return self.content[self.start : self.stop].view(dtype)


@dataclass(frozen=True, eq=False)
class StoredTensors:
    """The tensors of a safetensors file, or of all files of a model, whose headers were checked."""

    path: Path
    tensors: Mapping[str, Stored]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._stored(name).shape

    def __getitem__(self, name: str) -> Array:
        """A float tensor in float32; an integer tensor is refused."""
        stored = self._stored(name)
        if stored.kind not in FLOATS:
            raise unsupported(
                f"Tensor {name[:120]!r} of type {stored.kind} in {stored.path}, where floats are expected,",
                f"Known types are {', '.join(FLOATS)}; quantised weights need a quantization_config.",
            )
        return widened(stored.view(FLOATS[stored.kind]), stored.kind).reshape(stored.shape)

    def kind(self, name: str) -> str:
        """The type a tensor is stored in."""
        return self._stored(name).kind

    def stored(self, name: str) -> Array:
        """A tensor in the type it is stored in if that is an integer type, else in float32."""
        stored = self._stored(name)
        if stored.kind not in INTEGERS:
            return self[name]
        return stored.view(INTEGERS[stored.kind]).reshape(stored.shape)

    def _stored(self, name: str) -> Stored:
        if name not in self.tensors:
            raise missing(f"tensor {name!r} in {self.path}", f"one of its {len(self.tensors)} tensors")
        return self.tensors[name]


def open_safetensors(path: Path) -> StoredTensors:
    """Check the header of a file and map it; nothing else is read."""
    with open_regular(path, "a safetensors file") as file:
        size = file.seek(0, 2)
        header_size = _header_size(file, size, path)
        header = file.read(header_size)
        content = np.memmap(file, np.uint8, mode="r") if size > 8 + header_size else np.zeros(size, np.uint8)
    entries = object_of(header, path, "its header")
    entries.pop("__metadata__", None)
    first, content = 8 + header_size, content.view(np.ndarray)
    tensors = {name: _stored(name, entry, first, content, path) for name, entry in entries.items()}
    _check_places(tensors, first, size, path)
    return StoredTensors(path, tensors)


def _header_size(file: BinaryIO, size: int, path: Path) -> int:
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if size < 8:
        raise broken(path, f"it has {size} bytes; a safetensors file begins with 8 bytes for the length of its header")
    if length > min(LONGEST_HEADER, size - 8):
        allowed = f"the file has {size}" if length > size - 8 else f"at most {LONGEST_HEADER} are read"
        raise broken(path, f"its header claims {length} bytes, {allowed}", "It may be truncated: download it again.")
    return length


def _stored(name: str, entry: Any, first: int, content: Array, path: Path) -> Stored:
    """One entry of the header, checked against itself and the size of the file."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= set(entry):
        raise broken(path, f"its header has no dtype, shape and data_offsets for {name[:80]!r}")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in SIZES:
        raise broken(path, f"tensor {name[:80]!r} is of type {str(kind)[:20]!r}, which is not a type of safetensors")
    if not _counts(shape) or len(shape) > MOST_AXES:
        raise broken(path, f"tensor {name[:80]!r} has shape {str(shape)[:80]}")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise broken(path, f"tensor {name[:80]!r} has data_offsets {str(offsets)[:80]}")
    start, stop = offsets
    if stop > len(content) - first:
        why = f"tensor {name[:80]!r} ends at byte {stop} of the data, which has {len(content) - first}"
        raise broken(path, why, "It may be truncated: download it again.")
    if math.prod(shape) * SIZES[kind] != stop - start:
        raise broken(path, f"tensor {name[:80]!r} of shape {shape} in {kind} does not take {stop - start} bytes")
    return Stored(path, content, kind, tuple(shape), first + start, first + stop)


def _counts(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and 0 <= number < 2**62 for number in numbers)


def _check_places(tensors: Mapping[str, Stored], first: int, size: int, path: Path) -> None:
    """Tensors must cover the data without overlaps or gaps."""
    before, end = "the header", first
    for name, stored in sorted(tensors.items(), key=lambda entry: (entry[1].start, entry[1].stop)):
        if stored.start < end:
            raise broken(path, f"tensors {before[:80]!r} and {name[:80]!r} overlap")
        if stored.start > end:
            raise broken(path, f"{stored.start - end} bytes before tensor {name[:80]!r} belong to no tensor")
        before, end = name, stored.stop
    if end < size:
        raise broken(path, f"its last {size - end} bytes belong to no tensor")


def widened(stored: Array, kind: str) -> Array:
    """Stored numbers as float32; bfloat16, which NumPy lacks, is given as uint16."""
    if kind == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored if stored.dtype == np.float32 and stored.flags.aligned else stored.astype(np.float32)
