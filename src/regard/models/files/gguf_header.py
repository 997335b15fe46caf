"""The header of a GGUF file: metadata by name, and where each tensor is.

Counts and lengths are claims of the file: each is held against the bytes that are left before it is followed, so a
header that claims 2⁶⁰ strings costs nothing. Strings and numbers are read from the mapped file, one pass, no seeking.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import unsupported
from regard.models.errors import BrokenFile, broken
from regard.models.files.weights import Array
from regard.models.regular_file import open_regular

MAGIC = b"GGUF"
VERSIONS = (2, 3)
STRING, ARRAY = 8, 9
NUMBERS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
MOST_AXES = 4  # of a tensor in this format
DEEPEST = 4  # arrays of arrays
ALIGNMENT = 32  # bytes, unless the metadata says otherwise
MOST_VALUES = 2**21  # in all arrays of the metadata: four times what the largest vocabularies take
LONGEST_STRING = 2**24  # bytes
LEAST_ENTRY, LEAST_TENSOR = 13, 24  # bytes that the smallest entry of either kind takes


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as the header describes it: `shape` in NumPy's order, the longest stride first."""

    kind: int  # of ggml
    shape: tuple[int, ...]
    offset: int  # bytes after the header


@dataclass(frozen=True, eq=False)
class Header:
    """What stands before the numbers."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]
    first: int  # the byte where the numbers begin
    content: Array  # the mapped file, as bytes


def read_header(path: Path) -> Header:
    """Check and read the header of a file."""
    with open_regular(path, "a GGUF file") as file:
        size = file.seek(0, 2)
        if size < 24:
            raise broken(path, f"it has {size} bytes, and the header of a GGUF file takes 24 at least")
        content = np.memmap(file, np.uint8, mode="r").view(np.ndarray)
    return _Reader(path, content.data).header(content)


class _Reader:
    """A place in the mapped file that moves on as values are taken."""

    def __init__(self, path: Path, view: memoryview) -> None:
        self.path, self.view, self.place = path, view, 0
        self.values = 0  # in the arrays that were read

    def header(self, content: Array) -> Header:
        if bytes(self._bytes(4, "the magic number")) != MAGIC:
            raise broken(self.path, "it does not begin with GGUF")
        version = self._number("<I", "the version")
        if version not in VERSIONS:
            kind = "big-endian" if version.to_bytes(4, "little")[3] in VERSIONS else f"version {version}"
            raise unsupported(f"{self.path}, a GGUF file of {kind},", "Known are little-endian versions 2 and 3.")
        tensor_count, entry_count = (self._number("<Q", "its counts") for _ in range(2))
        self._room(tensor_count, LEAST_TENSOR, "tensors")
        self._room(entry_count, LEAST_ENTRY, "entries of metadata")
        metadata: dict[str, Any] = {}
        for _ in range(entry_count):
            name = self._string("a name in the metadata")
            if name in metadata:
                raise self._broken(f"{name[:80]!r} comes twice in its metadata")
            metadata[name] = self._value(self._number("<I", f"the type of {name[:80]!r}"), name, 0)
        tensors: dict[str, StoredTensor] = {}
        for _ in range(tensor_count):
            name = self._string("the name of a tensor")
            if name in tensors:
                raise self._broken(f"tensor {name[:80]!r} comes twice")
            tensors[name] = self._tensor(name)
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or alignment not in [2**power for power in range(21)]:
            raise self._broken(f"its alignment is {str(alignment)[:40]}, which is not a power of two up to a million")
        return Header(metadata, tensors, -(-self.place // alignment) * alignment, content)

    def _tensor(self, name: str) -> StoredTensor:
        axes = self._number("<I", f"the axes of {name[:80]!r}")
        if not 0 < axes <= MOST_AXES:
            raise self._broken(f"tensor {name[:80]!r} claims {axes} axes; there are 1 to {MOST_AXES}")
        shape = [self._number("<Q", f"the shape of {name[:80]!r}") for _ in range(axes)]
        if math.prod(shape) >= 2**62 or 0 in shape:
            raise self._broken(f"tensor {name[:80]!r} claims shape {shape}")
        kind = self._number("<I", f"the type of {name[:80]!r}")
        return StoredTensor(kind, tuple(reversed(shape)), self._number("<Q", f"the place of {name[:80]!r}"))

    def _value(self, kind: int, name: str, depth: int) -> Any:
        if kind == STRING:
            return self._string(f"{name[:80]!r}")
        if kind == ARRAY:
            return self._array(name, depth + 1)
        return self._numbers(kind, 1, name)[0]

    def _array(self, name: str, depth: int) -> list[Any]:
        if depth > DEEPEST:
            raise self._broken(f"{name[:80]!r} holds arrays inside arrays, more than {DEEPEST} deep")
        kind, count = (
            self._number("<I", f"the type of {name[:80]!r}"),
            self._number("<Q", f"the length of {name[:80]!r}"),
        )
        self.values += count
        if kind == STRING:
            self._room(count, 8, f"strings in {name[:80]!r}")
            return self._strings(count, name)
        if kind == ARRAY:
            self._room(count, 12, f"arrays in {name[:80]!r}")
            return [self._array(name, depth + 1) for _ in range(count)]
        return self._numbers(kind, count, name)

    def _numbers(self, kind: int, count: int, name: str) -> list[Any]:
        if kind not in NUMBERS:
            raise self._broken(f"{name[:80]!r} is of type {kind}, which GGUF does not have")
        dtype = np.dtype(NUMBERS[kind])
        self._room(count, dtype.itemsize, f"numbers in {name[:80]!r}")
        taken = self._bytes(count * dtype.itemsize, name)
        if kind == 7:
            return [byte != 0 for byte in taken]
        values: list[Any] = np.frombuffer(taken, dtype).tolist()
        return values

    def _strings(self, count: int, name: str) -> list[str]:
        """Many strings, as a vocabulary is: the same as _string, without a call for each."""
        view, place, size = self.view, self.place, len(self.view)
        unpack, strings = struct.Struct("<Q").unpack_from, []
        try:
            for _ in range(count):
                (length,) = unpack(view, place)
                start, place = place + 8, place + 8 + length
                if place > size:
                    raise self._broken(f"a string in {name[:80]!r} claims {length} bytes, {size - start} are left")
                strings.append(str(view[start:place], "utf-8"))
        except struct.error:
            raise self._broken(f"it ends in the middle of {name[:80]!r}") from None
        except UnicodeDecodeError:
            raise self._broken(f"a string in {name[:80]!r} is no text in UTF-8") from None
        self.place = place
        return strings

    def _string(self, what: str) -> str:
        length = self._number("<Q", f"the length of {what}")
        if length > len(self.view) - self.place:
            raise self._broken(f"{what} claims {length} bytes, {len(self.view) - self.place} are left")
        if length > LONGEST_STRING:
            raise self._broken(f"{what} claims {length} bytes, more than {LONGEST_STRING}")
        try:
            return str(self._bytes(length, what), "utf-8")
        except UnicodeDecodeError:
            raise self._broken(f"{what} is no text in UTF-8") from None

    def _number(self, form: str, what: str) -> int:
        taken = self._bytes(struct.calcsize(form), what)
        return int(struct.unpack(form, taken)[0])

    def _bytes(self, count: int, what: str) -> memoryview:
        if count > len(self.view) - self.place:
            raise self._broken(f"it ends in the middle of {what}")
        self.place += count
        return self.view[self.place - count : self.place]

    def _room(self, count: int, each: int, what: str) -> None:
        left = len(self.view) - self.place
        if count * each > left:
            raise self._broken(f"it claims {count} {what}, and {left} bytes are left")
        if self.values > MOST_VALUES:
            raise self._broken(f"it claims {count} {what}, and more than {MOST_VALUES} values are no vocabulary")

    def _broken(self, why: str) -> BrokenFile:
        return broken(self.path, why, "It may be cut off: get it again.")
