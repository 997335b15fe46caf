"""Frames, the wire format of every answer: a JSON header followed by arrays.

A frame is the header's length (32 bits, little-endian), the header in UTF-8, padded with spaces so that the body starts
at a multiple of 8, and the arrays, each aligned to 8 bytes. The header lists them under "arrays":

>>> frame = pack({"exact": True}, {"weight": np.array([[0.25, 0.75]])})
>>> header, arrays = unpack(frame)
>>> header["exact"], header["arrays"]["weight"], arrays["weight"].tolist()
(True, {'dtype': 'f4', 'shape': [1, 2], 'offset': 0}, [[0.25, 0.75]])
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import errors
from regard.arrays import numpy_of

Floats = NDArray[Any]
Integers = NDArray[np.int64]
Parts = tuple[dict[str, Any], dict[str, Any]]  # a header and arrays
ALIGNMENT = 8
DTYPES = {"f4": "<f4", "f2": "<f2", "i4": "<i4", "u1": "u1", "u2": "<u2"}
_NARROWED = {"f8": "f4", "i8": "i4", "b1": "u1"}


def pack(header: Mapping[str, Any], arrays: Mapping[str, Any] | None = None) -> bytes:
    """A header and arrays as bytes; 64-bit floats and integers are narrowed to 32 bits."""
    offsets: dict[str, Any] = {}
    pieces: list[bytes] = []
    offset = 0
    for name, array in (arrays or {}).items():
        stored = numpy_of(array)
        kind = stored.dtype.str.lstrip("<>|=")
        kind = _NARROWED.get(kind, kind)
        if kind not in DTYPES:
            raise errors.unsupported_dtype("arrays", stored.dtype)
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(stored, DTYPES[kind]).reshape(stored.shape)
        offsets[name] = {"dtype": kind, "shape": list(stored.shape), "offset": offset}
        padding = -stored.nbytes % ALIGNMENT
        pieces += [stored.tobytes(), b"\0" * padding]
        offset += stored.nbytes + padding
    head = json_bytes({**header, "arrays": offsets})
    head += b" " * (-(4 + len(head)) % ALIGNMENT)
    return b"".join([struct.pack("<I", len(head)), head, *pieces])


def unpack(frame: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header, and the arrays as views of the bytes."""
    body = 4 + struct.unpack_from("<I", frame)[0]
    header = json.loads(frame[4:body])
    arrays = {}
    for name, span in header["arrays"].items():
        array = np.frombuffer(frame, DTYPES[span["dtype"]], math.prod(span["shape"]), body + span["offset"])
        arrays[name] = array.reshape(span["shape"])
    return header, arrays


def json_bytes(header: Mapping[str, Any]) -> bytes:
    """As JSON; NaN and infinities become null, unpaired surrogates are escaped."""
    header = _finite(header)
    try:
        return json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(header, separators=(",", ":"), allow_nan=False).encode()


def _finite(thing: Any) -> Any:
    if isinstance(thing, Mapping):
        return {str(name): _finite(part) for name, part in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_finite(part) for part in thing] if not _plain(thing) else thing
    if isinstance(thing, (float, np.floating)):
        return float(thing) if math.isfinite(thing) else None
    if isinstance(thing, np.generic):
        return thing.item()
    return thing


def _plain(things: Any) -> bool:
    """Whether a list holds only strings and integers: skips the recursion for 100,000 tokens."""
    return all(type(thing) in (str, int) for thing in things)
