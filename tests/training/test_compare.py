"""Comparisons: networks of the same size, causal, with the reach that they claim; tables, figure and JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from regard import errors

torch = pytest.importorskip("torch")

from regard.cli.app import app  # noqa: E402
from regard.output import figure  # noqa: E402
from regard.training import Recipe, task  # noqa: E402
from regard.training.compare import NETWORKS, build, by_distance, compare, match_parameters, parameter_count  # noqa: E402


def test_all_networks_have_the_same_number_of_parameters_within_five_percent():
    one = task("lookup", pairs=8)
    count = parameter_count(build("eight heads", one, 64))
    for name in NETWORKS:
        assert parameter_count(match_parameters(name, one, count)) == pytest.approx(count, rel=0.05), name


def influences(name: str, length: int = 32) -> list[int]:
    """The positions whose token changes the logits of the last but four."""
    one = task("copy", length=length)
    torch.manual_seed(0)
    network = build(name, one, 16)
    tokens = torch.ones(1, length, dtype=torch.long)
    where = torch.zeros(1, length, dtype=torch.bool)
    where[0, length - 5] = True
    with torch.no_grad():
        before = network(tokens, where)
        changed = []
        for place in range(length):
            other = tokens.clone()
            other[0, place] = 7
            if not torch.allclose(network(other, where), before, atol=1e-6):  # an FFT rounds
                changed.append(place)
    return changed


@pytest.mark.parametrize(
    ("name", "reach"),
    [("convolution", 7), ("dilated", 16), ("feed-forward", 28), ("gated convolution", 28), ("eight heads", 28)],
)
def test_a_network_sees_the_tokens_within_its_reach_and_no_later_ones(name, reach):
    assert influences(name) == list(range(28 - reach, 28))


def test_accuracy_by_distance_counts_each_query_in_its_bin():
    batch = task("copy", length=8).batch(2)  # every right key is 4 tokens back
    right = np.array([True, False, True, True, True, True, True, True])
    assert by_distance(batch, right) == {4: 7 / 8}


def test_a_comparison_has_tables_a_figure_and_the_spread_of_its_seeds():
    found = compare(
        task("lookup", pairs=2, vocabulary=16), Recipe(steps=2, batch=2), networks=["convolution", "one head"],
        seeds=[0, 1], width=16,
    )  # fmt: skip
    assert [len(found.of(name)) for name in found.networks] == [2, 2]
    overall, distances, pairs = found.tables()
    assert overall["network"] == ("convolution", "one head")
    for low, mean, high in zip(overall["lowest"], overall["mean"], overall["highest"], strict=True):
        assert low <= mean <= high
    assert [column.name for column in pairs.columns] == ["network", "1", "2"]
    assert len(distances) == 2
    drawn = str(figure.comparison(found))
    assert "Accuracy by distance" in drawn and "Accuracy by number of pairs" in drawn


def test_unknown_networks_are_refused_before_training():
    with pytest.raises(errors.OptionError, match=r"`network` is 'convolutoin'.* Did you mean 'convolution'"):
        compare(task("copy"), Recipe(steps=1), networks=["one head", "convolutoin"])


def test_the_command_writes_json(tmp_path):
    out = tmp_path / "found.json"
    arguments = ["compare", "copy", "--steps", "2", "--set", "length=8,batch=2,width=16", "--seeds", "1"]
    result = CliRunner().invoke(app, [*arguments, "--network", "one head", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "one head" in json.dumps(json.loads(out.read_text()))


def test_zoologys_setting_has_networks_of_one_width_without_feed_forward_parts(tmp_path):
    path = tmp_path / "found.json"
    options = ["--zoology", "--set", "length=32,batch=2", "--steps", "2", "--seeds", "1", "--out", str(path)]
    done = CliRunner().invoke(app, ["compare", "lookup", *options])
    assert done.exit_code == 0, done.output
    rows = json.loads(path.read_text())
    mixers = build("one head", task("lookup", pairs=2, length=32, vocabulary=8192), 64, hidden=0, tied=True)
    assert all(block.feed_forward is None for block in mixers.blocks)
    assert str(parameter_count(mixers)) in json.dumps(rows)
    refused = CliRunner().invoke(app, ["compare", "copy", "--zoology"])
    assert refused.exit_code == 2 and "of the task lookup" in refused.output
