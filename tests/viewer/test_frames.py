"""Frames round-trip, arrays are aligned, and broken frames are refused."""

import json
import struct

import numpy as np
import pytest

from regard.errors import TypeProblem
from regard.viewer import frames

ATTACKS = [
    "</script>",
    "<img src=x onerror=alert(1)>",
    "\0",
    "\u202eabc",
    "👩‍👩‍👧",
    "x" * 10_000,
    "\ud800",
    '"\\',
    "\u2028",
]


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("f4", "f4"), ("f2", "f2"), ("i4", "i4"), ("u1", "u1"), ("u2", "u2"), ("f8", "f4"), ("i8", "i4"), ("?", "u1")],
)
def test_arrays_come_back_as_they_were(dtype, kind):
    given = np.arange(21).reshape(3, 7).astype(dtype)
    header, arrays = frames.unpack(frames.pack({}, {"some": given}))
    assert header["arrays"]["some"]["dtype"] == kind
    assert arrays["some"].tolist() == given.astype(arrays["some"].dtype).tolist()


def test_the_header_and_every_array_start_at_a_multiple_of_eight():
    for letters in range(9):
        frame = frames.pack({"a": "x" * letters}, {"one": np.zeros(3, "u1"), "two": np.ones((5,), "f2")})
        (length,) = struct.unpack_from("<I", frame)
        assert (4 + length) % 8 == 0
        header = json.loads(frame[4 : 4 + length])
        assert all(place["offset"] % 8 == 0 for place in header["arrays"].values())
        assert len(frame) == 4 + length + 8 + 16


@pytest.mark.parametrize("text", ATTACKS, ids=lambda text: ascii(text)[:12])
def test_any_text_comes_back(text):
    header, _ = frames.unpack(frames.pack({"tokens": [text], "title": text}))
    assert header["tokens"] == [text] and header["title"] == text


def test_nan_and_infinities_become_null_in_json():
    header, _ = frames.unpack(frames.pack({"a": float("nan"), "b": [float("inf"), 1.5], "c": np.float32(0.5)}))
    assert (header["a"], header["b"], header["c"]) == (None, [None, 1.5], 0.5)


def test_views_and_empty_arrays_are_packed_by_content():
    turned = np.arange(6.0).reshape(2, 3).T
    _, arrays = frames.unpack(frames.pack({}, {"turned": turned, "none": np.zeros((0, 4))}))
    assert arrays["turned"].tolist() == turned.tolist()
    assert arrays["none"].shape == (0, 4)


def test_numbers_of_other_kinds_are_refused():
    with pytest.raises(TypeProblem):
        frames.pack({}, {"a": np.zeros(2, complex)})
