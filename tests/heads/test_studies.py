"""The studies as functions: they give what the commands print."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import regard
from regard.cli.app import app
from regard.errors import OptionError
from regard.heads.treebank import Treebank

FOLDER = Path(__file__).parent
DEV, TEST = FOLDER / "small-dev.conllu", FOLDER / "small-test.conllu"
TEXT = "the cat sat on the table so they left"


@pytest.fixture(scope="module")
def model(tiny):
    return regard.model(str(tiny.folder))


def printed(*arguments):
    finished = CliRunner().invoke(app, ["heads", *map(str, arguments), "--show", "json"], catch_exceptions=False)
    assert finished.exit_code == 0, finished.output
    return json.loads(finished.stdout)


def as_json(data):
    return json.loads(json.dumps(data))


def test_relations_are_what_the_command_prints(model):
    found = regard.heads.relations(model, choose=DEV, score=TEST, silence="1.0", untrained=False)
    command = ("treebank", DEV, "--score", TEST, "--silence", "1.0", "--no-untrained", "--model", model.name)
    assert as_json(found.data()) == printed(*command)
    assert found.scores and found.changes and found.model == f"{model.name} without 1.0"


def test_a_profile_is_what_the_command_prints(model):
    assert as_json(regard.heads.profile_texts(model, [TEXT]).data()) == printed("text", TEXT, "--model", model.name)


def test_ablation_of_every_head_has_layers_and_a_curve(model):
    found = regard.heads.ablation(model, [TEXT])
    layers, heads = len(model.blocks), model.heads
    assert [effect.heads for effect in found.effects] == [
        ((layer, head),) for layer in range(layers) for head in range(heads)
    ]
    assert len(found.layers) == layers
    assert found.curve[0][0] == 0 and found.curve[-1] == (layers * heads, found.curve[-1][1])
    assert found.curve[-1][1].hidden == 0  # all heads kept
    alone = regard.heads.ablation(model, [TEXT], silence="1")
    assert alone.effects[0].hidden == pytest.approx(found.layers[1].hidden) and not alone.curve
    assert len(alone.tables()) == 1 and len(found.tables()) == 3


def test_shards_of_an_atlas_merge_to_the_whole(model, tmp_path):
    pytest.importorskip("pyarrow")
    corpus = tmp_path / "a.txt"
    corpus.write_text("\n\n".join([TEXT] * 3), encoding="utf-8")
    whole = regard.heads.atlas(model, [str(corpus)], tmp_path / "whole")
    for shard in (1, 2):
        regard.heads.atlas_shard(model, [str(corpus)], tmp_path / str(shard), (shard, 2))
    joined, missing = regard.heads.merge([tmp_path / "1", tmp_path / "2"], tmp_path / "all")
    assert missing == 0 and np.array_equal(joined.sums.integers, whole.sums.integers)


def test_an_empty_treebank_is_refused(model):
    with pytest.raises(OptionError, match="no sentence that can be read"):
        regard.heads.relations(model, Treebank("empty", (), ()))


def test_the_package_lists_its_names():
    assert {"relations", "ablation", "atlas", "known"} <= set(dir(regard.heads))
    assert all(callable(getattr(regard.heads, name)) for name in dir(regard.heads))
