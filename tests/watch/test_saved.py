"""A recording in a file, or pickled, gives the numbers that it gave."""

import pickle

import pytest
import torch

import regard
from regard import errors
from regard.watch import Seen

from .architectures import ARCHITECTURES, build, inputs_of
from .folders import TEXT, bert, tokenizer
from .models import llama, tokens
from .test_recogniser import Own, by_matmul, draw, with_a_cap

BY_NAME = {one.name: one for one in ARCHITECTURES}
KINDS = ["Llama", "BERT", "Gemma 3", "T5 (bias by distance)", "GPT-OSS (sinks)", "Gemma 2 (soft cap)", "Qwen2-VL"]


@pytest.mark.parametrize("name", KINDS)
def test_all_weights_and_statistics_come_back(name, tmp_path):
    model, inputs = build(BY_NAME[name]), inputs_of(BY_NAME[name])
    with regard.watch(model) as seen, torch.no_grad():
        model(**inputs)
    seen.save(tmp_path / "seen.safetensors")
    loaded = Seen.load(tmp_path / "seen.safetensors")
    for layer, other in zip(seen, loaded, strict=True):
        assert (layer.name, layer.number, layer.cross) == (other.name, other.number, other.cross)
        assert torch.equal(layer.attention.dense(), other.attention.dense())
        assert torch.equal(layer.output, other.output) and torch.equal(layer.values, other.values)
    assert loaded.statistics().rows == seen.statistics().rows
    assert loaded.certificate == seen.certificate


@pytest.mark.parametrize("attend", [by_matmul, with_a_cap])
def test_recognised_attention_comes_back(attend, tmp_path):
    model = Own(attend).eval()
    with regard.watch(model) as seen, torch.no_grad():
        model(draw(2, 5, 32))
    loaded = pickle.loads(pickle.dumps(seen))
    assert torch.equal(loaded.layers[0].attention.dense(), seen.layers[0].attention.dense())
    assert loaded.layers[0].is_recognised and repr(loaded).partition("\n")[2] == repr(seen).partition("\n")[2]


def test_summaries_of_generated_tokens_come_back(tmp_path):
    model = llama()
    keep = ["entropy", "peak", "logsumexp", "distance", "top", "column_sums"]
    with regard.watch(model, keep=keep) as seen:
        model.generate(tokens(2, 5), max_new_tokens=4, do_sample=False)
    loaded = pickle.loads(pickle.dumps(seen))
    for layer, other in zip(seen, loaded, strict=True):
        assert torch.equal(layer.entropy(), other.entropy()) and torch.equal(layer.column_sums(), other.column_sums())
        assert torch.equal(layer.top(3).index, other.top(3).index)
    assert loaded.statistics().rows == seen.statistics().rows
    with pytest.raises(errors.OptionError, match='keep="all"'):
        loaded.layers[0].attention


def test_a_reading_of_a_file_is_that_of_the_recording(tmp_path):
    model, words = bert(), tokenizer("encoder")
    with regard.watch(model) as seen, torch.no_grad():
        model(**words([TEXT, "the cat sat"], return_tensors="pt", padding=True))
    loaded = pickle.loads(pickle.dumps(seen))
    for batch in (0, 1):
        one, other = seen.reading(words, batch=batch), loaded.reading(words, batch=batch)
        assert one.text == other.text and (one.weights(layer=1) == other.weights(layer=1)).all()


def test_text_and_model_of_a_recording_from_a_file_are_unverified(tmp_path):
    model, words = bert(), tokenizer("encoder")
    with regard.watch(model) as seen, torch.no_grad():
        model(**words(TEXT, return_tensors="pt"))
    seen.save(tmp_path / "seen.safetensors")
    loaded = Seen.load(tmp_path / "seen.safetensors")
    for part in (loaded, loaded.runs[-1]):
        assert "seen.safetensors" in part.reading(words).unverified
    assert (seen.statistics().source, loaded.statistics().source) == ("BertModel", "BertModel (unverified)")
    assert seen.reading(words).unverified == pickle.loads(pickle.dumps(seen)).reading(words).unverified == ""


def test_every_pass_that_was_kept_comes_back():
    model = llama()
    with regard.watch(model, runs=None) as seen, torch.no_grad():
        for length in (4, 6):
            model(tokens(1, length))
    loaded = pickle.loads(pickle.dumps(seen))
    assert [run.layers[0].attention.shape[-1] for run in loaded.runs] == [4, 6]


def test_a_damaged_file_is_refused(tmp_path):
    file = tmp_path / "seen.safetensors"
    with regard.watch(llama()) as seen, torch.no_grad():
        seen._model(tokens(1, 4))
    seen.save(file)
    contents = bytearray(file.read_bytes())
    contents[-5] ^= 4  # a bit of a number
    file.write_bytes(contents)
    with pytest.raises(errors.OptionError, match=r"seen\.safetensors.*damaged"):
        Seen.load(file)


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"nothing of ours")
    with pytest.raises(errors.OptionError, match="cannot be read as a recording"):
        Seen.load(tmp_path / "file")
