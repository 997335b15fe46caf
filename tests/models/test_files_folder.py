"""Folders as on the hub: one file or several, settings, tokeniser; what does not fit is refused by name."""

import json

import numpy as np
import pytest

from regard.errors import ShapeError
from regard.models import files
from regard.models.errors import BrokenFile, MissingFile

from .attacks import entry, gguf, llama_metadata, llama_tensors, safetensors

tokenizers = pytest.importorskip("tokenizers")


def shard(path, name: str, rows: int = 2):
    numbers = np.arange(rows * 3, dtype="<f4")
    return safetensors(path, {name: entry(shape=(rows, 3), offsets=(0, numbers.nbytes))}, numbers.tobytes())


def tokeniser_file(path, words: int) -> None:
    vocabulary = {"[UNK]": 0} | {f"word{number}": number for number in range(1, words)}
    tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]")).save(str(path))


@pytest.fixture
def folder(tmp_path):
    config = {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 5}
    (tmp_path / "config.json").write_text(json.dumps(config))
    shard(tmp_path / "model.safetensors", "embeddings.word_embeddings.weight", rows=5)
    tokeniser_file(tmp_path / "tokenizer.json", 5)
    return tmp_path


def test_a_folder_opens_with_its_settings_tensors_and_tokeniser(folder):
    opened = files.open_checkpoint(folder)
    assert opened.architecture == "BertModel"
    assert opened.config["vocab_size"] == 5
    assert opened.tensor("embeddings.word_embeddings.weight", 5, None).tolist()[1] == [3, 4, 5]
    assert opened.tokeniser.size == 5
    assert opened.tokeniser is opened.tokeniser


def test_model_type_is_used_where_no_class_is_named(folder):
    (folder / "config.json").write_text('{"model_type": "bert"}')
    assert files.open_checkpoint(folder).architecture == "bert"
    (folder / "config.json").write_text("{}")
    with pytest.raises(BrokenFile, match=r"config.json is broken: it has neither `architectures` nor `model_type`"):
        files.open_checkpoint(folder)


@pytest.mark.parametrize("words", [6, 5000])
def test_a_tokeniser_with_more_tokens_than_the_model_is_refused(folder, words):
    tokeniser_file(folder / "tokenizer.json", words)
    opened = files.open_checkpoint(folder)
    with pytest.raises(BrokenFile, match=rf"(?s){folder}.*{words} tokens.*belongs to another model"):
        opened.tokeniser


def test_a_vocabulary_in_a_gguf_file_larger_than_its_embedding_is_refused(tmp_path):
    tensors = llama_tensors(np.random.default_rng(1)) | {"token_embd.weight": np.zeros((257, 8), np.float32)}
    opened = files.open_checkpoint(gguf(tmp_path / "tiny.gguf", llama_metadata(), tensors))
    with pytest.raises(BrokenFile, match=r"tiny.gguf .*258 tokens, .* 257"):
        opened.tokeniser


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff", b'{"model": {"type": "BPE", "vocab": 7}}', b"{" * 9999]
)
def test_a_broken_tokeniser_is_named(folder, content):
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(BrokenFile, match=r"tokenizer.json is broken: its tokeniser fails"):
        files.open_checkpoint(folder).tokeniser


def test_missing_parts_are_named(folder):
    (folder / "tokenizer.json").unlink()
    opened = files.open_checkpoint(folder)  # a model without one can still be looked into
    with pytest.raises(MissingFile, match=r"tokenizer.json; expected the tokeniser"):
        opened.tokeniser
    with pytest.raises(MissingFile, match=r"tensor 'pooler' in .*model.safetensors"):
        opened.tensor("pooler", 3)
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model.safetensors; expected the weights"):
        files.open_checkpoint(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"config.json; expected the settings"):
        files.open_checkpoint(folder)
    with pytest.raises(FileNotFoundError, match=r"nowhere; expected a folder with config.json"):
        files.open_checkpoint(folder / "nowhere")


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder):
    opened = files.open_checkpoint(folder)
    for wanted in [(5, 4), (5,), (5, 3, 1)]:
        with pytest.raises(ShapeError, match=r"'embeddings.word_embeddings.weight' has shape \(5, 3\)") as caught:
            opened.tensor("embeddings.word_embeddings.weight", *wanted)
        assert str(folder) in str(caught.value)
        assert ", ".join(map(str, wanted)) in str(caught.value)


def test_a_pickle_is_never_opened(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit'\ntR.")
    with pytest.raises(MissingFile, match=r"pytorch_model.bin is a pickle.*never opened"):
        files.open_checkpoint(folder)


def test_shards_are_found_by_the_index(folder):
    (folder / "model.safetensors").unlink()
    shard(folder / "model-00001-of-00002.safetensors", "a")
    shard(folder / "model-00002-of-00002.safetensors", "b", rows=4)
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    weights = files.open_checkpoint(folder).weights
    assert weights.names == {"a", "b"}
    assert weights.shape("b") == weights["b"].shape == (4, 3)
    with pytest.raises(MissingFile, match="'c'"):
        weights["c"]
    (folder / places["b"]).unlink()
    with pytest.raises(MissingFile, match=r"model-00002-of-00002.safetensors; expected a part of the model"):
        files.open_checkpoint(folder)


def test_shards_without_an_index_are_joined_unless_they_contradict_each_other(folder):
    (folder / "model.safetensors").unlink()
    shard(folder / "one.safetensors", "a")
    shard(folder / "two.safetensors", "b")
    assert files.open_checkpoint(folder).weights.names == {"a", "b"}
    shard(folder / "two.safetensors", "a")
    with pytest.raises(BrokenFile, match=r"two.safetensors .* 'a' is also in one.safetensors"):
        files.open_checkpoint(folder)


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/passwd", "a\\b.safetensors", "C:x.safetensors", ".."])
def test_an_index_never_points_outside_the_folder(folder, file):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises((BrokenFile, MissingFile)) as caught:
        files.open_checkpoint(folder)
    assert "not a file in the same folder" in str(caught.value) or "Download the rest" in str(caught.value)


@pytest.mark.parametrize(
    "index", [{}, {"weight_map": 3}, {"weight_map": {"a": 3}}, {"weight_map": {"b": "one.safetensors"}}]
)
def test_a_broken_index_is_named(folder, index):
    (folder / "model.safetensors").unlink()
    shard(folder / "one.safetensors", "a")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(BrokenFile, match=r"model.safetensors.index.json is broken"):
        files.open_checkpoint(folder)


def test_weights_alone_are_not_a_model(folder):
    with pytest.raises(BrokenFile, match=r"Open the folder with config\.json"):
        files.open_checkpoint(folder / "model.safetensors")


def test_minilm_has_the_settings_of_its_model_card(minilm_path):
    opened = files.open_checkpoint(minilm_path)
    assert opened.architecture == "BertModel"
    assert opened.tensor("embeddings.word_embeddings.weight", 30522, 384).dtype == np.float32
    assert opened.tokeniser.size == 30522
