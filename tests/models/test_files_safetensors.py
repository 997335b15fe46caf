"""Safetensors files: valid ones equal the library, broken ones are refused by name without allocating."""

import json
import tracemalloc

import numpy as np
import pytest

from regard.errors import OptionError, Unsupported
from regard.models.errors import BrokenFile, MissingFile
from regard.models.files.safetensors_file import open_safetensors

from .attacks import entry, safetensors

DATA = bytes(24)
TWO = {"a": entry(offsets=(0, 24)), "b": entry(shape=(5,), offsets=(24, 44))}
DEEP = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"

# A name, the header, the bytes behind it, the length that is claimed, and a part of the complaint.
ATTACKS = [
    ("empty", b"", b"", None, "not JSON"),
    ("header of 2^63 bytes", b"{}", b"", 2**63, "its header claims 9223372036854775808 bytes"),
    ("header of 2^64 - 1 bytes", b"{}", b"", 2**64 - 1, "its header claims"),
    ("header one byte too long", b"{}", b"", 3, "its header claims 3 bytes"),
    ("header shorter than it is", {"a": entry()}, DATA, 5, "not JSON"),
    ("no JSON", b"{]", b"", None, "not JSON"),
    ("no text", b'{"\xff": 1}', b"", None, "UTF-8"),
    ("a list", b"[]", b"", None, "not an object"),
    ("nested deeply", DEEP, b"", None, "nested too deeply"),
    ("a name twice", json.dumps({"a": entry()})[:-1].encode() + b', "a": 1}', DATA, None, "occurs twice"),
    ("cut off", {"a": entry()}, DATA[:-1], None, "ends at byte 24"),
    ("too long", {"a": entry()}, DATA + b"!", None, "last 1 bytes belong to no tensor"),
    ("overlapping", {"a": entry(), "b": entry(offsets=(20, 44))}, bytes(44), None, "'a' and 'b' overlap"),
    ("the same place twice", {"a": entry(), "b": entry()}, DATA, None, "overlap"),
    ("a hole", {"a": entry(), "b": entry(offsets=(28, 52))}, bytes(52), None, "belong to no tensor"),
    ("shape and bytes", {"a": entry(shape=(2, 4))}, DATA, None, "does not take 24 bytes"),
    ("huge shape", {"a": entry(shape=(2**40, 2**40))}, DATA, None, "does not take 24 bytes"),
    ("huge offsets", {"a": entry(offsets=(2**61, 2**61 + 24))}, DATA, None, "ends at byte"),
    ("offsets past 2^62", {"a": entry(offsets=(0, 2**70))}, DATA, None, "data_offsets"),
    ("offsets that fall", {"a": entry(offsets=(24, 0))}, DATA, None, "data_offsets"),
    ("three offsets", {"a": entry(offsets=(0, 24, 30))}, DATA, None, "data_offsets"),
    ("a negative size", {"a": entry(shape=(-2, -3))}, DATA, None, "has shape"),
    ("a size that is true", {"a": entry(shape=(True, 6))}, DATA, None, "has shape"),
    ("a fraction", {"a": entry(shape=(2.0, 3))}, DATA, None, "has shape"),
    ("a thousand axes", {"a": entry(shape=[1] * 1000 + [6])}, DATA, None, "has shape"),
    ("unknown type", {"a": entry("F99")}, DATA, None, "'F99'"),
    ("no type", {"a": {"shape": [6], "data_offsets": [0, 24]}}, DATA, None, "no dtype"),
    ("a number for a tensor", {"a": 7}, DATA, None, "no dtype"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("header", "numbers", "length", "reason"), [a[1:] for a in ATTACKS], ids=[a[0] for a in ATTACKS]
)
def test_a_broken_file_is_refused_with_its_name_and_the_reason(tmp_path, header, numbers, length, reason):
    path = safetensors(tmp_path / "model.safetensors", header, numbers, length)
    with pytest.raises(BrokenFile) as caught:
        open_safetensors(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("claimed", [2**63, 10**9, 99_999_999])
def test_nothing_is_allocated_for_what_a_header_claims(tmp_path, claimed):
    path = safetensors(tmp_path / "model.safetensors", b"{}", b"", claimed)
    tracemalloc.start()
    try:
        with pytest.raises(BrokenFile):
            open_safetensors(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_any_changed_byte_gives_a_file_or_an_error_that_names_it(tmp_path):
    path = safetensors(tmp_path / "model.safetensors", TWO, bytes(44))
    whole, complaints = path.read_bytes(), set()
    rng = np.random.default_rng(11)
    for place in range(len(whole) - 44):
        for byte in [*rng.integers(256, size=3), *b'"9-{']:
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                opened = open_safetensors(path)
                assert all(opened.shape(name) is not None for name in opened.names)
            except BrokenFile as problem:
                complaints.add(str(problem).split(":")[0])
    assert complaints == {f"{path} is broken"}


@pytest.mark.parametrize("count", range(8))
def test_a_file_of_fewer_than_eight_bytes_is_refused(tmp_path, count):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\x02\0\0\0\0\0\0\0"[:count])
    with pytest.raises(BrokenFile, match=f"it has {count} bytes"):
        open_safetensors(path)


def test_every_truncated_file_is_refused(tmp_path):
    path = safetensors(tmp_path / "model.safetensors", TWO, bytes(44))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BrokenFile):
            open_safetensors(path)


def test_a_missing_file_and_a_missing_tensor_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"other\.safetensors"):
        open_safetensors(tmp_path / "other.safetensors")
    opened = open_safetensors(safetensors(tmp_path / "model.safetensors", TWO, bytes(44)))
    with pytest.raises(MissingFile, match=r"'c' in .*model\.safetensors"):
        opened["c"]
    assert issubclass(MissingFile, OptionError)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_tensors_equal_the_library(tmp_path, draw, kind):
    library = pytest.importorskip("safetensors.numpy")
    given = {"a": (draw(3, 5) * 9).astype(kind), "scalar": np.array(7, kind), "none": np.zeros((0, 3), kind)}
    library.save_file(given, tmp_path / "model.safetensors", {"format": "pt"})
    opened = open_safetensors(tmp_path / "model.safetensors")
    assert opened.names == set(given)
    for name, array in given.items():
        assert opened.shape(name) == opened[name].shape == array.shape
        assert opened[name].dtype == np.float32
        np.testing.assert_array_equal(opened[name], array.astype(np.float32))


def test_bfloat16_is_widened_exactly(tmp_path):
    exact = np.array([1.0, -2.5, 3.0e38, 0.0], np.float32)
    stored = (exact.view(np.uint32) >> 16).astype("<u2")
    path = safetensors(tmp_path / "model.safetensors", {"a": entry("BF16", (4,), (0, 8))}, stored.tobytes())
    kept = (stored.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(open_safetensors(path)["a"], kept)


def test_float32_is_a_view_of_the_file(tmp_path, draw):
    library = pytest.importorskip("safetensors.numpy")
    library.save_file({"a": draw(1000, 1000, dtype=np.float32)}, tmp_path / "model.safetensors")
    tracemalloc.start()
    try:
        taken = open_safetensors(tmp_path / "model.safetensors")["a"]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert not taken.flags.owndata
    assert not taken.flags.writeable


def test_unaligned_numbers_are_copied(tmp_path):
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} '
    header += b" " * (1 - len(header) % 4 + 4)
    path = safetensors(tmp_path / "model.safetensors", header, np.array([3, 5], "<f4").tobytes())
    taken = open_safetensors(path)["a"]
    assert taken.flags.aligned
    assert taken.tolist() == [3, 5]


def test_a_type_that_numpy_lacks_is_refused_on_access(tmp_path):
    path = safetensors(tmp_path / "model.safetensors", {"a": entry("F8_E4M3", (24,), (0, 24))}, DATA)
    opened = open_safetensors(path)
    with pytest.raises(Unsupported, match="F8_E4M3"):
        opened["a"]
