"""`regard models`: list, get and remove."""

import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.models import store

from .serving import hub

FILES = {"config.json": b'{"model_type": "tiny"}', "model.safetensors": b"weights" * 999_999}


def run(*arguments: str, code: int = 0):
    finished = CliRunner().invoke(app, ["models", *arguments], catch_exceptions=False)
    assert finished.exit_code == code, finished.output
    return finished.stdout if code == 0 else finished.stderr


@pytest.fixture
def served(own_cache, monkeypatch):
    with hub() as state:
        monkeypatch.setenv("HF_ENDPOINT", state.address)
        state.model("owner/tiny", FILES, licence="mit")
        yield state


def test_the_list_fits_eighty_columns_and_shows_licence_size_and_presence(own_cache):
    listed = run()
    rows = [" ".join(line.split()) for line in listed.splitlines()]
    assert "minilm all-MiniLM-L6-v2: BERT, 6 × 12 heads Apache-2.0 91 MB no" in rows
    assert any(row.startswith("smollm2 ") and row.endswith("Apache-2.0 98 MB no") for row in rows)
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert str(own_cache) in listed.replace("\n", "")


def test_a_model_is_downloaded_listed_and_removed(served, own_cache):
    assert run("get", "owner/tiny") == f"owner/tiny is downloaded: {own_cache / 'owner--tiny'} (7 MB)\n"
    assert "owner/tiny is already in the cache" in run("get", "owner/tiny")
    assert "owner/tiny from the hub mit 7 MB yes" in [" ".join(line.split()) for line in run().splitlines()]
    assert run("remove", "owner/tiny") == "Removed owner/tiny: 7 MB freed.\n"
    assert store.kept("owner/tiny") is None


def test_unknown_models_exit_with_2_and_name_the_known_ones(served):
    assert "Did you mean 'minilm'?" in run("get", "minlm", code=2)
    assert "The model 'minilm' is not in the cache" in run("remove", "minilm", code=2)
    assert "no public model 'owner/none'" in run("get", "owner/none", code=2)
    assert "There is no model '../x'" in run("remove", "../x", code=2)


def test_the_help_shows_examples():
    for command in ([], ["get"], ["remove"]):
        shown = run(*command, "--help")
        assert "Examples:" in shown and "  regard models" in shown
        assert all(len(line) <= 80 for line in shown.splitlines())
