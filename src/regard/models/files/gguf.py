"""GGUF files: metadata by name, and tensors under the hub's names, dequantised when they are read.

Counts and lengths in the header are claims of the file: each is compared with the bytes that are left before anything
is read or allocated, so a header that claims 2⁶⁰ strings costs nothing. The file is mapped and read in one pass.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import chunks
from regard.errors import missing_package, unsupported
from regard.models.errors import BrokenFile, broken, missing
from regard.models.files import gguf_config
from regard.models.files.safetensors_file import Array, widened
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
PLAIN = {0: ("F32", "<f4"), 1: ("F16", "<f2"), 30: ("BF16", "<u2")}  # stored as plain numbers, by ggml type
BLOCKS = {  # numbers per block and bytes per block, by ggml type: sizes are checked without the gguf library
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66), 17: (256, 74), 18: (256, 98),
    19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
STEP = 4096  # blocks at once: intermediate results stay in the CPU cache, 1.7 times as fast as whole tensors


@dataclass(frozen=True, eq=False)
class GGUFFile:
    """A GGUF file with a checked header; tensors are named as on the hub."""

    path: Path
    header: Header
    stored: Mapping[str, str]  # from names on the hub to names in the file
    permuted: Mapping[str, int]  # tensors whose rows llama.cpp permutes, and their number of heads

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.stored)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the header."""
        return self.header.metadata

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensor(name).shape

    def __getitem__(self, name: str) -> Array:
        tensor = self._tensor(name)
        per_block, block_bytes = BLOCKS[tensor.kind]
        count = math.prod(tensor.shape)
        start = self.header.first + tensor.offset
        taken = self.header.content[start : start + count // per_block * block_bytes]
        rows = taken.reshape(tensor.shape[0], -1)  # bytes of each row: permuted before they are dequantised
        if name in self.permuted:
            rows = in_hub_order(rows, self.permuted[name])
        if tensor.kind in PLAIN:
            kind, dtype = PLAIN[tensor.kind]
            return widened(rows.view(dtype), kind).reshape(tensor.shape)
        return dequantised(rows, tensor.kind, self.path).reshape(tensor.shape)

    def _tensor(self, name: str) -> StoredTensor:
        if name not in self.stored:
            raise missing(f"tensor {name!r} in {self.path}", f"one of the {len(self.stored)} tensors of the file")
        return self.header.tensors[self.stored[name]]


def open_gguf(path: Path) -> GGUFFile:
    """Check the header of a file and name its tensors as on the hub; no tensor is read."""
    header = read_header(path)
    _check_places(header, path)
    architecture = gguf_config.architecture_of(header.metadata, path)
    stored = gguf_config.hub_names(header.tensors, architecture, path)
    permuted = gguf_config.permuted(stored, header.metadata, architecture)
    for name, heads in permuted.items():
        rows = header.tensors[stored[name]].shape[0]
        if heads < 1 or rows % (2 * heads):
            raise broken(path, f"tensor {stored[name]!r} has {rows} rows, which is not a multiple of 2 · {heads} heads")
    return GGUFFile(path, header, stored, permuted)


def in_hub_order(rows: Array, heads: int) -> Array:
    """Rows of W_q or W_k in the hub's order; llama.cpp interleaves the two halves of each head.

    >>> in_hub_order(np.arange(8), heads=2).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _check_places(header: Header, path: Path) -> None:
    """Every tensor must be inside the file, without overlaps."""
    spans = []
    for name, tensor in header.tensors.items():
        if tensor.kind not in BLOCKS:
            raise unsupported(f"Tensor {name[:80]!r} of ggml type {tensor.kind} in {path}", "Use another quantisation.")
        per_block, block_bytes = BLOCKS[tensor.kind]
        if tensor.shape[-1] % per_block:
            raise broken(
                path, f"rows of tensor {name[:80]!r} have {tensor.shape[-1]} numbers, not a multiple of {per_block}"
            )
        stop = tensor.offset + math.prod(tensor.shape) // per_block * block_bytes
        if header.first + stop > len(header.content):
            there = max(len(header.content) - header.first, 0)
            why = f"tensor {name[:80]!r} ends at byte {stop} of the data, which has {there}"
            raise broken(path, why, "It may be truncated: download it again.")
        spans.append((tensor.offset, stop, name))
    end, before = 0, ""
    for start, stop, name in sorted(spans):
        if start < end:
            raise broken(path, f"tensors {before[:80]!r} and {name[:80]!r} overlap")
        end, before = stop, name


# The header


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as described in the header; `shape` is in C order."""

    kind: int  # ggml type
    shape: tuple[int, ...]
    offset: int  # bytes after the header


@dataclass(frozen=True, eq=False)
class Header:
    """Everything before the tensor data."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]
    first: int  # byte offset of the tensor data
    content: Array  # the mapped file, as bytes


def read_header(path: Path) -> Header:
    """Check and read the header of a file."""
    with open_regular(path, "a GGUF file") as file:
        size = file.seek(0, 2)
        if size < 24:
            raise broken(path, f"it has {size} bytes; the header of a GGUF file has at least 24")
        content = np.memmap(file, np.uint8, mode="r").view(np.ndarray)
    return _Reader(path, content.data).header(content)


class _Reader:
    """A cursor in the mapped file."""

    def __init__(self, path: Path, view: memoryview) -> None:
        self.path, self.view, self.place = path, view, 0
        self.values = 0  # in all arrays read so far

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
                raise self._broken(f"{name[:80]!r} occurs twice in its metadata")
            metadata[name] = self._value(self._number("<I", f"the type of {name[:80]!r}"), name, 0)
        tensors: dict[str, StoredTensor] = {}
        for _ in range(tensor_count):
            name = self._string("the name of a tensor")
            if name in tensors:
                raise self._broken(f"tensor {name[:80]!r} occurs twice")
            tensors[name] = self._tensor(name)
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or alignment not in [2**power for power in range(21)]:
            raise self._broken(f"its alignment is {str(alignment)[:40]}, which is not a power of two up to a million")
        return Header(metadata, tensors, -(-self.place // alignment) * alignment, content)

    def _tensor(self, name: str) -> StoredTensor:
        axes = self._number("<I", f"the axes of {name[:80]!r}")
        if not 0 < axes <= MOST_AXES:
            raise self._broken(f"tensor {name[:80]!r} claims {axes} axes; expected 1 to {MOST_AXES}")
        shape = [self._number("<Q", f"the shape of {name[:80]!r}") for _ in range(axes)]
        if math.prod(shape) >= 2**62 or 0 in shape:
            raise self._broken(f"tensor {name[:80]!r} claims shape {shape}")
        kind = self._number("<I", f"the type of {name[:80]!r}")
        return StoredTensor(kind, tuple(reversed(shape)), self._number("<Q", f"the offset of {name[:80]!r}"))

    def _value(self, kind: int, name: str, depth: int) -> Any:
        if kind == STRING:
            return self._string(f"{name[:80]!r}")
        if kind == ARRAY:
            return self._array(name, depth + 1)
        return self._numbers(kind, 1, name)[0]

    def _array(self, name: str, depth: int) -> list[Any]:
        if depth > DEEPEST:
            raise self._broken(f"{name[:80]!r} nests arrays more than {DEEPEST} levels deep")
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
            raise self._broken(f"{name[:80]!r} is of type {kind}, which is not a type of GGUF")
        dtype = np.dtype(NUMBERS[kind])
        self._room(count, dtype.itemsize, f"numbers in {name[:80]!r}")
        taken = self._bytes(count * dtype.itemsize, name)
        if kind == 7:
            return [byte != 0 for byte in taken]
        values: list[Any] = np.frombuffer(taken, dtype).tolist()
        return values

    def _strings(self, count: int, name: str) -> list[str]:
        """Many strings, such as a vocabulary: `_string` inlined."""
        view, offset, size = self.view, self.place, len(self.view)
        unpack, strings = struct.Struct("<Q").unpack_from, []
        try:
            for _ in range(count):
                (length,) = unpack(view, offset)
                start, offset = offset + 8, offset + 8 + length
                if offset > size:
                    raise self._broken(f"a string in {name[:80]!r} claims {length} bytes; {size - start} are left")
                strings.append(str(view[start:offset], "utf-8"))
        except struct.error:
            raise self._broken(f"it ends in the middle of {name[:80]!r}") from None
        except UnicodeDecodeError:
            raise self._broken(f"a string in {name[:80]!r} is not UTF-8 text") from None
        self.place = offset
        return strings

    def _string(self, what: str) -> str:
        length = self._number("<Q", f"the length of {what}")
        if length > len(self.view) - self.place:
            raise self._broken(f"{what} claims {length} bytes; {len(self.view) - self.place} are left")
        if length > LONGEST_STRING:
            raise self._broken(f"{what} claims {length} bytes, more than {LONGEST_STRING}")
        try:
            return str(self._bytes(length, what), "utf-8")
        except UnicodeDecodeError:
            raise self._broken(f"{what} is not UTF-8 text") from None

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
            raise self._broken(f"it claims {count} {what}; {left} bytes are left")
        if self.values > MOST_VALUES:
            raise self._broken(f"it claims {count} {what}; at most {MOST_VALUES} values are read")

    def _broken(self, why: str) -> BrokenFile:
        return broken(self.path, why, "It may be truncated: download it again.")


# Quantised blocks as float32: the common types here, the others by the `gguf` library
#
# A block of 32 numbers has a scale in float16, Q4_1 also the least value, and then the numbers in 8 or 4 bits, the
# lower halves of the bytes first. Equal to the library bit for bit, in a fifth of its time: 0.4 s for SmolLM2, not 1.9.


def dequantised(rows: Array, kind: int, path: Path) -> Array:
    """Rows of bytes as rows of float32, by ggml type."""
    if kind not in KINDS:
        return _by_the_library(rows, kind, path)
    size, fill = KINDS[kind]
    blocks = rows.reshape(-1, size)
    numbers = np.empty((len(blocks), 32), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # an invalid scale gives NaN, as in the library
        for some in chunks(len(blocks), STEP):
            fill(blocks[some], numbers[some])
    return numbers.reshape(len(rows), -1)


def _fill_q8_0(blocks: Array, numbers: Array) -> None:
    numbers[:] = blocks[:, 2:].view(np.int8)
    numbers *= _halves(blocks, 0)


def _fill_q4_1(blocks: Array, numbers: Array) -> None:
    _fill_nibbles(blocks[:, 4:], numbers)
    numbers *= _halves(blocks, 0)
    numbers += _halves(blocks, 2)


def _fill_q4_0(blocks: Array, numbers: Array) -> None:
    _fill_nibbles(blocks[:, 2:], numbers)
    numbers -= 8
    numbers *= _halves(blocks, 0)


KINDS: dict[int, tuple[int, Callable[[Array, Array], None]]] = {  # bytes per block, and the function that decodes it
    2: (18, _fill_q4_0),
    3: (20, _fill_q4_1),
    8: (34, _fill_q8_0),
}


def _fill_nibbles(stored: Array, numbers: Array) -> None:
    numbers[:, :16] = stored & 15
    numbers[:, 16:] = stored >> 4


def _halves(blocks: Array, first: int) -> Array:
    """The float16 at a byte offset of each block, as float32."""
    return blocks[:, first : first + 2].copy().view("<f2").astype(np.float32)


def _by_the_library(rows: Array, kind: int, path: Path) -> Array:
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError:
        raise missing_package(f"Reading tensors of {path} with uncommon quantisation", "gguf") from None
    try:
        numbers: Array = quants.dequantize(rows, GGMLQuantizationType(kind))
    except (NotImplementedError, ValueError) as problem:
        raise unsupported(f"ggml type {kind} in {path} ({problem})", "Use another quantisation.") from None
    return numbers.astype(np.float32, copy=False)
