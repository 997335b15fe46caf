"""Models that transformers runs, on the command line: `regard see`, `heads` and `studio` with --model hf:PATH."""

import csv
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from regard import errors
from regard.cli.app import app
from regard.watch.pretrained import Pretrained

from ..heads.conftest import tiny_bert, tiny_llama
from ..studio.cases import client
from .folders import TEXT, saved
from .models import eager_weights

TREEBANK = Path(__file__).parents[1] / "heads"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made: dict[str, str] = {}

    def of(kind):
        if kind not in made:
            made[kind] = saved(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return of


def call(*arguments):
    # Wide: a folder with a long name does not break the sentence that names it.
    return CliRunner(env={"COLUMNS": "300"}).invoke(app, [*arguments], catch_exceptions=False)


def said(*arguments):
    finished = call(*arguments)
    assert finished.exit_code == 0, finished.output
    return finished.stdout


def refused(*arguments):
    finished = call(*arguments)
    assert finished.exit_code == 2, finished.output
    assert "Traceback" not in finished.output and TEXT not in finished.stdout
    return finished.stderr


# regard see


@pytest.mark.parametrize(
    ("kind", "layers"), [("encoder", 2), ("decoder", 3), ("encoder-decoder", 2)], ids=lambda one: str(one)
)
def test_see_shows_the_weights_of_eager_attention(folder, kind, layers, tmp_path):
    path = folder(kind)
    assert f"{layers} layers × 4 heads" in said("see", TEXT, "--model", f"hf:{path}")
    reader = Pretrained.open(path)
    model = reader.model.get_encoder() if kind == "encoder-decoder" else reader.model
    expected = eager_weights(model, **reader.tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False))
    reading = reader.read(TEXT)
    for layer, weights in enumerate(expected.attentions):
        np.testing.assert_allclose(reading.weights(layer=layer, by="token"), weights[0].mean(0), atol=3e-6)
    said("see", TEXT, "--model", f"hf:{path}", "--out", str(tmp_path / "page.html"))
    assert "mat" in (tmp_path / "page.html").read_text()


def test_see_generates_what_transformers_generates_and_shows_every_token(folder):
    reader = Pretrained.open(folder("decoder"))
    inputs = reader.tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False)
    expected = reader.model.generate(**inputs, max_new_tokens=5, do_sample=False)[0]
    pieces: list[str] = []
    reading = reader.generate(TEXT, 5, on_token=pieces.append)
    assert [token.id for token in reading.tokens] == expected.tolist() and reading.given == len(inputs["input_ids"][0])
    assert "".join(pieces).split() == reader.tokenizer.decode(expected[-5:]).split()
    assert reading.certificate.forbidden == 0 and reading.certificate.output < 1e-4
    assert f"{len(reading.tokens)} tokens" in said(
        "generate", TEXT, "--model", f"hf:{folder('decoder')}", "--tokens", "5"
    )


def test_sampling_depends_on_the_seed_alone(folder):
    reader = Pretrained.open(folder("decoder"))
    torch.manual_seed(1)
    first = reader.generate(TEXT, 6, temperature=1.0, seed=4)
    state = torch.random.get_rng_state()
    again = reader.generate(TEXT, 6, temperature=1.0, seed=4)
    assert first.text == again.text and torch.equal(state, torch.random.get_rng_state())
    assert any(reader.generate(TEXT, 6, temperature=1.0, seed=seed).text != first.text for seed in (5, 6, 7))


def test_a_decoder_beside_an_encoder_generates(folder):
    assert "tokens" in said("generate", TEXT, "--model", f"hf:{folder('encoder-decoder')}", "--tokens", "4")


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder-decoder"])
def test_a_text_as_a_vector_is_the_mean_of_the_last_hidden_states(folder, kind):
    reader = Pretrained.open(folder(kind))
    body = reader.model.get_encoder() if kind == "encoder-decoder" else reader.model.base_model
    with torch.no_grad():
        states = body(**reader.tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False)).last_hidden_state[0]
    np.testing.assert_allclose(reader.embed(TEXT, normalise=False), states.mean(0), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(reader.embed([TEXT, "the cat"]), axis=1), 1, atol=1e-6)


# regard heads


@pytest.mark.parametrize("make", [tiny_bert, tiny_llama])
def test_heads_gives_the_statistics_of_regards_own_engine(make, tmp_path):
    path = str(make(tmp_path).folder)
    text = "the cat sat on the table so they left the cat"
    ours, theirs = (
        list(csv.DictReader(io.StringIO(said("heads", "text", text, "--model", name, "--show", "csv"))))
        for name in (path, f"hf:{path}")
    )
    assert len(ours) == len(theirs) > 0
    for one, other in zip(ours, theirs, strict=True):
        for name in ("entropy", "previous", "first", "window", "received", "sinks by norm", "contribution"):
            assert float(one[name] or -1) == pytest.approx(float(other[name] or -1), abs=2e-5), name


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder-decoder"])
def test_heads_labels_every_head(folder, kind):
    data = json.loads(said("heads", "text", TEXT, "--model", f"hf:{folder(kind)}", "--show", "json"))
    assert (data["layers"], data["heads"]) == (3 if kind == "decoder" else 2, 4)
    induction = next(one for one in data["statistics"] if one["name"] == "induction")
    assert np.isfinite(induction["mean"]).all()


def test_heads_scores_relations_of_a_treebank_beside_an_untrained_twin(folder):
    files = (str(TREEBANK / "small-dev.conllu"), "--score", str(TREEBANK / "small-test.conllu"))
    found = said("heads", "treebank", *files, "--model", f"hf:{folder('encoder')}", "--untrained")
    assert "untrained" in found and "determiner" in found


def test_what_needs_regards_own_engine_is_refused(folder):
    arguments = ("corpus", "x", "--out", "y", "--model", f"hf:{folder('decoder')}")
    assert "leave out hf:" in refused("heads", *arguments)


def test_heads_of_transformers_can_be_silenced(folder):
    said_of = said("heads", "text", "the kids were scared", "--silence", "0.1", "--model", f"hf:{folder('decoder')}")
    assert "0.1" in said_of


# regard studio


@pytest.fixture
def served(monkeypatch):
    """The studio that the command would serve."""
    found = []
    monkeypatch.setattr("regard.studio.serve.serve", lambda make, **_: found.append(make()))

    def of(*arguments):
        finished = call("studio", *arguments)
        assert finished.exit_code == 0, finished.output
        return found[-1]

    return of


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder-decoder"])
def test_the_studio_begins_with_the_model_of_transformers_and_reads_other_texts(folder, served, kind):
    made = served("The cat sat", "--model", f"hf:{folder(kind)}")
    library, name = made.library, made.library.usual
    assert name == f"{folder(kind)} (transformers)"
    assert library.check_name(None) == name and library.is_here(name)
    reader = library.model(name)
    layers: list[tuple[int, int]] = []
    assert reader.read("dogs ran away", on_layer=lambda *one: layers.append(one)).layers
    assert layers == [(1, 3), (2, 3), (3, 3)] if kind == "decoder" else layers == [(1, 2), (2, 2)]
    assert reader.read("dogs ran away").model == name  # by which the page asks for another text
    assert reader.beginning("the cat " * 200).startswith("the cat")
    with client(made) as page:
        listed = page.get("/models")
        assert listed.status_code == 200, listed.text
        assert name in [one["name"] for one in listed.json()["models"]]


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"temperature": 1, "top_p": 5}, {"top_k": 0}, {"seed": -1}])
def test_sampling_is_checked_before_anything_is_generated(folder, wrong):
    with pytest.raises(errors.OptionError, match=f"`{list(wrong)[-1]}` is"):
        Pretrained.open(folder("decoder")).generate("the cat", 2, **wrong)


def test_reading_is_cancelled_between_layers(folder):
    class Stop(Exception):
        pass

    def stop(done, _of):
        if done == 2:
            raise Stop

    reader = Pretrained.open(folder("decoder"))
    with pytest.raises(Stop):
        reader.read(TEXT, on_layer=stop)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in reader.model.modules())
    assert reader.read(TEXT).certificate.forbidden == 0


def test_two_threads_read_with_one_model(folder):
    reader = Pretrained.open(folder("decoder"))
    texts = ["the cat sat on a mat", "dogs ran away because it was tired", "it looked at dogs"] * 3
    expected = [reader.read(text) for text in texts]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(reader.read, texts))
    for one, other in zip(found, expected, strict=True):
        assert one.text == other.text
        np.testing.assert_allclose(one.weights(layer=2), other.weights(layer=2), atol=1e-6)


# Refusals


@pytest.mark.parametrize("command", [("see",), ("heads", "text")], ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("kind", "message"), [("unseen", "LongformerModel computes its attention in its own code"), ("images", "images")]
)
def test_models_that_cannot_be_read_are_named(folder, command, kind, message):
    assert message in refused(*command, TEXT, "--model", f"hf:{folder(kind)}")


@pytest.mark.parametrize("command", [("see",), ("heads", "text")], ids=lambda command: command[0])
def test_paths_without_a_model_are_refused(tmp_path, command):
    for name in ("nothing-here", "no/such/folder/here", "../.."):
        assert "cannot open" in refused(*command, TEXT, "--model", f"hf:{tmp_path / name}")
    (tmp_path / "file.txt").write_text("no model")
    assert "folder" in refused(*command, TEXT, "--model", f"hf:{tmp_path / 'file.txt'}")
    assert "config.json" in refused(*command, TEXT, "--model", f"hf:{tmp_path}")


def test_an_encoder_does_not_write(folder):
    assert "no language-model head" in refused("generate", TEXT, "--model", f"hf:{folder('encoder')}", "--tokens", "3")


def test_texts_that_are_too_long_or_empty_are_refused(folder):
    reader = Pretrained.open(folder("encoder"))
    assert reader.longest == 64
    with pytest.raises(errors.RegardError, match="reads at most 64"):
        reader.read("cat " * 63)
    assert len(reader.read(reader.beginning("cat " * 63)).tokens) == 64
    with pytest.raises(errors.RegardError, match="more are to be generated"):
        Pretrained.open(folder("decoder")).generate("cat " * 100, 40)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b""),
        ("config.json", b"[1, 2"),
        ("config.json", b"[]"),
        ("config.json", b'"llama"'),
        ("config.json", b"{}"),
        ("config.json", b'{"model_type": "no-such-kind"}'),
        ("config.json", b'{"model_type": ["llama"]}'),
        ("config.json", b'{"model_type": "llama", "hidden_size": "wide"}'),
        ("config.json", b'{"model_type": "llama", "num_attention_heads": 0}'),
        ("config.json", b'{"model_type": "llama", "hidden_size": -8}'),
        ("config.json", b"\xff\xfe\x00"),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"\x00\x01"),
        ("tokenizer_config.json", b"[]"),
        ("tokenizer_config.json", b'{"tokenizer_class": 3}'),
        ("model.safetensors", b""),
        ("model.safetensors", b"\xff" * 64),
        ("model.safetensors", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"),
    ],
)
def test_broken_files_are_refused_without_a_traceback(tmp_path, file, content):
    path = saved("decoder", tmp_path)
    (tmp_path / file).write_bytes(content)
    assert re.search("cannot open|cannot read|fails", refused("see", TEXT, "--model", f"hf:{path}"))


def test_code_in_a_folder_is_never_run(tmp_path):
    path = saved("decoder", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model_type"]
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: pass\nclass Model: pass\n")
    refused("see", TEXT, "--model", f"hf:{path}")
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_never_run_code(tmp_path):
    import pickle

    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    path = saved("decoder", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"model.norm.weight": Evil()}))
    refused("see", TEXT, "--model", f"hf:{path}")
    assert not (tmp_path / "ran").exists()
