"""`regard models`: list, get and remove."""

import re

import pytest
from huggingface_hub import hf_hub_download
from typer.testing import CliRunner

from regard.cli.app import app
from regard.models import store

from .serving import COMMIT, hub

SETTINGS = b'{"architectures": ["BertModel"], "model_type": "bert"}'
HEADER = b'{"a": {"dtype": "F32", "shape": [2000000], "data_offsets": [0, 8000000]}}'
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + bytes(8_000_000)
FILES = {"config.json": SETTINGS, "tokenizer.json": b"{}", "model.safetensors": WEIGHTS}


def run(*arguments: str, code: int = 0):
    finished = CliRunner().invoke(app, ["models", *arguments], catch_exceptions=False)
    assert finished.exit_code == code, finished.output
    return finished.stdout if code == 0 else finished.stderr


@pytest.fixture
def served(own_cache, monkeypatch):
    with hub() as state:
        monkeypatch.setenv("HF_ENDPOINT", state.address)
        state.model("owner/tiny", FILES)
        yield state


def test_the_list_fits_eighty_columns_and_shows_licence_size_and_presence(own_cache, hub_cache):
    listed = run()
    rows = [" ".join(line.split()) for line in listed.splitlines()]
    assert "minilm all-MiniLM-L6-v2: BERT, 6 × 12 heads Apache-2.0 91 MB no" in rows
    assert any(row.startswith("smollm2 ") and row.endswith("Apache-2.0 98 MB no") for row in rows)
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert str(own_cache) in listed.replace("\n", "") and str(hub_cache) in listed.replace("\n", "")


def test_a_model_is_downloaded_listed_and_removed(served, own_cache, hub_cache):
    assert re.fullmatch(rf"owner/tiny is downloaded: {hub_cache}/.*{COMMIT} \(8 MB\)\n", run("get", "owner/tiny"))
    assert "owner/tiny is already in the cache" in run("get", "owner/tiny")
    assert "owner/tiny from the hub see card 8 MB yes" in [" ".join(line.split()) for line in run().splitlines()]
    assert run("remove", "owner/tiny") == "Removed owner/tiny: 8 MB freed.\n"
    assert store.kept("owner/tiny") is None


def test_models_that_regard_does_not_open_are_not_listed(served, hub_cache):
    others = {"config.json": b'{"model_type": "whisper"}', "model.safetensors": b"no header"}
    for name in others:
        served.model("owner/odd", FILES | {name: others[name]})
        store.get("owner/odd")
        assert "owner/odd" not in run()
        run("remove", "owner/odd")
    hf_hub_download("owner/tiny", "config.json", endpoint=served.address, cache_dir=hub_cache)
    assert "owner/tiny" not in run()  # its weights are not there
    assert "The model 'minilm' is not in the cache.\nModels there: none" in run("remove", "minilm", code=2)


def test_unknown_models_exit_with_2_and_name_the_known_ones(served):
    assert "Did you mean 'minilm'?" in run("get", "minlm", code=2)
    assert "The model 'minilm' is not in the cache" in run("remove", "minilm", code=2)
    assert "no model 'owner/none' that you may read" in run("get", "owner/none", code=2)
    assert "There is no model '../x'" in run("remove", "../x", code=2)


def test_the_help_shows_examples():
    for command in ([], ["get"], ["remove"]):
        shown = run(*command, "--help")
        assert "Examples:" in shown and "  regard models" in shown
        assert all(len(line) <= 80 for line in shown.splitlines())
