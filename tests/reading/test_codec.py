"""Readings in files: what comes back, and errors for broken files."""

import struct
from dataclasses import replace

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.biases import alibi, relative_positions
from regard.layers import LayerAttention, Transformer
from regard.masks import allowed, causal, chunks, documents, first, padding, prefix, where, window
from regard.reading import Reading

from .cases import HEADS, PIECES, made, run_of

safetensors = pytest.importorskip("safetensors")
MASKS = {
    "none": None,
    "causal": causal(),
    "window": causal() & window(3),
    "either": causal() & (first(2) | window(2, 0)),
    "not": ~window(1) | chunks(4),
    "lengths": padding(7),
    "lengths of one": padding([7]),
    "array of lengths": padding(np.array([7]), side="left"),
    "prefix": prefix(3, start=1),
    "documents": documents([0] * 5 + [1] * 7),
    "array": allowed(np.tril(np.ones((12, 12), bool))),
    "array of heads": allowed(np.random.default_rng(0).random((HEADS, 12, 12)) < 0.7),
}


def same(one, other):
    assert repr(replace(one, file=other.file)) == repr(other)
    assert (one.text, one.tokens, one.words, one.given, one.model) == (
        other.text, other.tokens, other.words, other.given, other.model,
    )  # fmt: skip
    for mine, its in zip(one.seen, other.seen, strict=True):
        np.testing.assert_array_equal(mine.attention.dense(), its.attention.dense())
        np.testing.assert_array_equal(mine.values, its.values)
    assert one.strongest("cats").rows == other.strongest("cats").rows
    assert one.certificate == other.certificate


@pytest.mark.parametrize("name", MASKS)
def test_a_reading_comes_back_as_it_was(tmp_path, name):
    reading = made(mask=MASKS[name])
    reading.save(tmp_path / "reading.safetensors")
    same(reading, Reading.load(tmp_path / "reading.safetensors"))
    assert [path.name for path in tmp_path.iterdir()] == ["reading.safetensors"]


@pytest.mark.parametrize(
    "options",
    [
        {"sinks": np.linspace(-1, 1, HEADS, dtype=np.float32)},
        {"softcap": 20.0, "scale": 0.5},
        {"bias": alibi(heads=HEADS)},
        {"bias": relative_positions(np.zeros((32, HEADS)))},
        {"bias": np.random.default_rng(1).normal(size=(1, 12, 12)).astype(np.float32)},
        {"similarity": "cosine"},
        {"offset": 0},
    ],
    ids=lambda options: ", ".join(options),
)
def test_options_of_attention_come_back(tmp_path, options):
    reading = made(**options)
    reading.save(tmp_path / "reading.safetensors")
    same(reading, Reading.load(tmp_path / "reading.safetensors"))


def test_a_sequence_chosen_from_a_batch_comes_back(tmp_path):
    rng = np.random.default_rng(3)
    queries, keys, values = rng.normal(size=(3, 2, 4, 12, 5))
    batch = Attention(queries, keys, mask=padding([3, 11]), bias=alibi(heads=4))
    reading = Reading.of(batch.select(batch=1, head=[0, 2]), values[1][[0, 2]], words=PIECES)
    reading.save(tmp_path / "reading.safetensors")
    same(reading, Reading.load(tmp_path / "reading.safetensors"))


def test_states_outputs_and_blocks_come_back(tmp_path):
    reading = replace(run_of(Transformer.seeded(11, 24, 6, encoders=2, seed=5)), given=4)
    reading.save(tmp_path / "all.safetensors", blocks=True)
    reading.save(tmp_path / "bare.safetensors")
    back, bare = Reading.load(tmp_path / "all.safetensors"), Reading.load(tmp_path / "bare.safetensors")
    same(reading, back)
    assert back.norms("cats", layer=1, head=2).rows == reading.norms("cats", layer=1, head=2).rows
    np.testing.assert_array_equal(back.explain("cats", layer=1)["result"], reading.explain("cats", layer=1)["result"])
    assert bare.blocks == () and len(bare.states) == 3
    assert bare.moved("cats", reading).rows[2][2] == 0
    assert (tmp_path / "bare.safetensors").stat().st_size < (tmp_path / "all.safetensors").stat().st_size


def test_functions_are_not_saved_and_leave_no_file(tmp_path):
    reading = made(mask=where(lambda query, key: key <= query))
    with pytest.raises(errors.Unsupported, match="function"):
        reading.save(tmp_path / "reading.safetensors")
    assert not list(tmp_path.iterdir())


def test_missing_folders_and_files_are_named(tmp_path):
    with pytest.raises(errors.OptionError, match="a file in an existing folder"):
        made().save(tmp_path / "no" / "reading.safetensors")
    with pytest.raises(errors.OptionError, match="an existing file"):
        Reading.load(tmp_path / "reading.safetensors")


@pytest.mark.parametrize("kept", [0, 4, 8, 100, -1])
def test_truncated_files_are_refused(tmp_path, kept):
    path = tmp_path / "reading.safetensors"
    made().save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(errors.OptionError, match=r"reading\.safetensors cannot be read as a reading"):
        Reading.load(path)


def test_a_header_of_impossible_length_is_refused(tmp_path):
    path = tmp_path / "reading.safetensors"
    path.write_bytes(struct.pack("<Q", 2**63) + b"{}")
    with pytest.raises(errors.OptionError, match="cannot be read as a reading"):
        Reading.load(path)


def test_a_file_of_layers_is_not_a_reading(tmp_path):
    from regard.layers import Linear
    from regard.layers.codec import save

    save(Linear.seeded(3, 2), tmp_path / "layer.safetensors")
    with pytest.raises(errors.OptionError, match="it holds a layer"):
        Reading.load(tmp_path / "layer.safetensors")


def test_seen_is_the_type_that_layers_return():
    assert isinstance(Reading.of(Attention(np.eye(2), np.eye(2)), np.eye(2)).seen[0], LayerAttention)
