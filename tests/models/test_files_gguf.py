"""GGUF files: names, settings and tensors as on the hub; impossible counts are refused without allocating."""

import struct
import sys
import tracemalloc

import numpy as np
import pytest

from regard.errors import Unsupported
from regard.models import files
from regard.models.errors import BrokenFile, MissingFile
from regard.models.files.gguf import BLOCKS, in_hub_order, open_gguf

from .attacks import ARRAY, Q4_1, Q8_0, STRING, gguf, llama_metadata, llama_tensors, string


@pytest.fixture
def tensors():
    return llama_tensors(np.random.default_rng(20240229))


@pytest.fixture
def sound(tmp_path, tensors):
    return gguf(tmp_path / "tiny.gguf", llama_metadata(), tensors)


def array_of(kind: int, count: int, content: bytes = b"") -> bytes:
    return struct.pack("<IIQ", ARRAY, kind, count) + content


def refused(path, reason: str) -> None:
    """The file is refused with its name and the reason, and almost nothing is allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(BrokenFile) as caught:
            files.open_checkpoint(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize("count", [2**32, 2**60, 2**64 - 1])
def test_impossible_counts_are_refused_without_allocating(tmp_path, tensors, count):
    path = tmp_path / "wild.gguf"
    refused(gguf(path, llama_metadata(), tensors, counts=(count, None)), f"claims {count} tensors")
    refused(gguf(path, llama_metadata(), tensors, counts=(None, count)), f"claims {count} entries")
    for kind, what in ((STRING, "strings"), (4, "numbers"), (0, "numbers"), (ARRAY, "arrays")):
        wild = llama_metadata() | {"wild": array_of(kind, count)}
        refused(gguf(path, wild, {}), f"claims {count} {what} in 'wild'")
    refused(gguf(path, {"wild": struct.pack("<IQ", STRING, count)}, {}), f"claims {count} bytes")
    refused(gguf(path, {"wild": array_of(STRING, 1, struct.pack("<Q", count))}, {}), f"claims {count} bytes")


def test_more_values_than_any_vocabulary_are_refused(tmp_path):
    """A file of one gigabyte would take thirty as Python objects."""
    path = gguf(tmp_path / "wild.gguf", {"wild": array_of(0, 2**22, bytes(2**22))}, {})
    refused(path, "at most 2097152 values")


def test_invalid_names_and_types_are_refused(tmp_path, tensors):
    path = tmp_path / "wild.gguf"
    refused(gguf(path, {"wild": struct.pack("<I", 99) + bytes(8)}, {}), "of type 99")
    deep = b"".join(array_of(ARRAY, 1)[4:] for _ in range(50))
    refused(gguf(path, {"wild": struct.pack("<I", ARRAY) + deep}, {}), "nests arrays")
    refused(gguf(path, {"wild": struct.pack("<I", STRING) + string(b"\xff\xfe")}, {}), "UTF-8")
    refused(gguf(path, {"general.architecture": 7}, tensors), "general.architecture")
    refused(gguf(path, {"general.alignment": 24}, tensors), "alignment is 24")
    refused(gguf(path, llama_metadata(**{"llama.block_count": None}), tensors), "no llama.block_count")
    refused(gguf(path, llama_metadata(**{"llama.block_count": "many"}), tensors), "llama.block_count is many")
    refused(gguf(path, llama_metadata(**{"llama.attention.head_count": 3}), tensors), "not a multiple of 2 · 3 heads")


def test_tensors_outside_the_file_or_overlapping_are_refused(tmp_path, tensors):
    path = tmp_path / "wild.gguf"
    metadata = llama_metadata()
    refused(gguf(path, metadata, tensors, offsets={"blk.0.attn_q.weight": 2**60}), "'blk.0.attn_q.weight' ends at byte")
    refused(gguf(path, metadata, tensors, offsets={"blk.0.attn_q.weight": 0}), "overlap")
    refused(gguf(path, metadata, {"token_embd.weight": (0, (2**40, 2**40), b"")}), "claims shape")
    refused(gguf(path, metadata, {"token_embd.weight": (0, (2**30, 8), b"")}), "ends at byte")
    refused(gguf(path, metadata, {"token_embd.weight": (0, (1,) * 5, bytes(4))}), "claims 5 axes")
    refused(gguf(path, metadata, {"token_embd.weight": (Q8_0, (2, 33), bytes(70))}), "not a multiple of 32")


def test_every_truncated_file_is_refused(sound):
    whole = sound.read_bytes()
    for length in [*range(400), *range(400, len(whole), 97)]:
        sound.write_bytes(whole[:length])
        with pytest.raises(BrokenFile):
            open_gguf(sound)


def test_any_changed_byte_of_the_header_is_read_or_refused(sound):
    """No other exception than RegardError is raised."""
    whole = bytearray(sound.read_bytes())
    rng, complaints = np.random.default_rng(7), set()
    for place in rng.choice(4000, 600, replace=False):
        changed = bytearray(whole)
        changed[place] = rng.integers(256)
        sound.write_bytes(changed)
        try:
            opened = files.open_checkpoint(sound)
            assert opened.tokeniser.size
        except (BrokenFile, MissingFile, Unsupported) as problem:
            complaints.add(str(problem).split(":")[0])
    assert complaints
    assert all(str(sound) in complaint for complaint in complaints)


def test_other_files_and_versions_are_refused(tmp_path, tensors):
    path = tmp_path / "other.gguf"
    path.write_bytes(b"GGML" + bytes(100))
    refused(path, "does not begin with GGUF")
    with pytest.raises(Unsupported, match=r"version 1"):
        open_gguf(gguf(path, llama_metadata(), tensors, version=1))
    with pytest.raises(Unsupported, match=r"big-endian"):
        open_gguf(gguf(path, llama_metadata(), tensors, version=3 << 24))
    with pytest.raises(Unsupported, match=r"'mamba'.*\nKnown in GGUF files are llama"):
        open_gguf(gguf(path, llama_metadata(**{"general.architecture": "mamba"}), tensors))
    with pytest.raises(Unsupported, match="ffn_gate_exps"):
        open_gguf(gguf(path, llama_metadata(), tensors | {"blk.0.ffn_gate_exps.weight": np.zeros((2, 2))}))


def test_settings_have_the_names_of_a_config_json(sound):
    opened = files.open_checkpoint(sound)
    assert opened.architecture == "llama"
    assert opened.config == {
        "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "intermediate_size": 16, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "head_dim": 4, "vocab_size": 258, "bos_token_id": 0, "tie_word_embeddings": True, "hidden_act": "silu",
        "model_type": "llama",
    }  # fmt: skip


def test_tensors_have_the_names_of_the_hub_and_the_order_of_its_rows(sound, tensors):
    weights = files.open_checkpoint(sound).weights
    assert weights.names == {
        "model.embed_tokens.weight", "model.norm.weight",
        *(f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkv"),
    }  # fmt: skip
    np.testing.assert_array_equal(weights["model.embed_tokens.weight"], tensors["token_embd.weight"])
    np.testing.assert_array_equal(weights["model.layers.0.self_attn.v_proj.weight"], tensors["blk.0.attn_v.weight"])
    taken = weights["model.layers.0.self_attn.q_proj.weight"]
    np.testing.assert_array_equal(taken, tensors["blk.0.attn_q.weight"][[0, 2, 1, 3, 4, 6, 5, 7]])


def test_undoing_the_permutation_of_llama_cpp_restores_the_rows(draw):
    hub = draw(5 * 14, 3)
    theirs = hub.reshape(5, 2, 7, 3).swapaxes(1, 2).reshape(hub.shape)
    np.testing.assert_array_equal(in_hub_order(theirs, 5), hub)


def test_rows_of_qwen_are_not_permuted(tmp_path, tensors):
    named = {name.replace("llama.", "qwen2."): given for name, given in llama_metadata().items()}
    path = gguf(tmp_path / "qwen.gguf", named | {"general.architecture": "qwen2"}, tensors)
    taken = files.open_checkpoint(path).weights["model.layers.0.self_attn.q_proj.weight"]
    np.testing.assert_array_equal(taken, tensors["blk.0.attn_q.weight"])


@pytest.mark.parametrize("kind", [0, 1, 2, Q4_1, 6, 7, Q8_0, 12, 14, 30])
def test_stored_types_are_dequantised_as_by_the_gguf_library(tmp_path, tensors, kind):
    library = pytest.importorskip("gguf")
    per_block, size = BLOCKS[kind]
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 256, (8, 512 // per_block * size), dtype=np.uint8)
    if kind in (0, 1, 30):
        rows &= 0x3F
    else:  # scales in float16, wherever the kind has them, that are neither NaN nor infinite
        rows.reshape(-1, size)[:, [1, 3, size - 1]] &= 0x3F
    stored = {"blk.0.attn_v.weight": (kind, (8, 512), rows.tobytes())}
    taken = open_gguf(gguf(tmp_path / "quantised.gguf", llama_metadata(), tensors | stored))
    expected = library.quants.dequantize(rows, library.GGMLQuantizationType(kind))
    if kind in (0, 1):
        expected = rows.view(("<f4", "<f2")[kind]).astype(np.float32)
    got = taken["model.layers.0.self_attn.v_proj.weight"]
    assert got.dtype == np.float32
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(got, expected)


def test_smollm2_needs_no_gguf_library(smollm2_path, monkeypatch, tmp_path, tensors):
    monkeypatch.setitem(sys.modules, "gguf", None)
    opened = files.open_checkpoint(smollm2_path)
    assert opened.weights["model.layers.0.self_attn.k_proj.weight"].shape == (192, 576)
    uncommon = {"blk.0.attn_v.weight": (6, (8, 32), bytes(8 * 22))}
    opened = files.open_checkpoint(gguf(tmp_path / "uncommon.gguf", llama_metadata(), tensors | uncommon))
    with pytest.raises(Unsupported, match=r"(?s)uncommon.gguf.*needs the package gguf.*-m pip install gguf"):
        opened.weights["model.layers.0.self_attn.v_proj.weight"]


def test_block_sizes_equal_the_gguf_library():
    library = pytest.importorskip("gguf")
    known = {kind.value: sizes for kind, sizes in library.GGML_QUANT_SIZES.items()}
    assert {kind: known[kind] for kind in BLOCKS} == BLOCKS


def test_smollm2_tensors_equal_the_gguf_library(smollm2_path):
    library = pytest.importorskip("gguf")
    opened = files.open_checkpoint(smollm2_path)
    assert opened.config["num_key_value_heads"] == 3 and opened.config["rope_theta"] == 100000
    assert opened.config["rms_norm_eps"] == 1e-5 and opened.config["tie_word_embeddings"]
    assert len(opened.weights.names) == 272
    stored = {tensor.name: tensor for tensor in library.GGUFReader(smollm2_path).tensors}
    for theirs, ours in {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.7.ffn_down.weight": "model.layers.7.mlp.down_proj.weight",
        "blk.29.attn_norm.weight": "model.layers.29.input_layernorm.weight",
    }.items():
        expected = library.quants.dequantize(stored[theirs].data, stored[theirs].tensor_type)
        np.testing.assert_array_equal(opened.weights[ours], expected)
