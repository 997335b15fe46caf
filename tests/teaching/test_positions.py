"""Positional encodings: the formulas of the papers, and their properties."""

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from regard import errors
from regard.cli.app import app
from regard.layers import Learned, Rotary
from regard.output import figure
from regard.teaching.positions import KINDS, position_lesson

from ..models.conftest import cache, minilm_path  # noqa: F401 - fixtures


def test_sinusoidal_numbers_follow_the_formula():
    lesson = position_lesson("sinusoidal", length=7, width=6, base=100)
    for position in range(7):
        for pair in range(3):
            angle = position / 100 ** (2 * pair / 6)
            assert lesson.encoding[position, 2 * pair] == pytest.approx(math.sin(angle), abs=1e-12)
            assert lesson.encoding[position, 2 * pair + 1] == pytest.approx(math.cos(angle), abs=1e-12)


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_the_similarity_of_two_positions_depends_on_their_distance_alone(kind):
    similarity = position_lesson(kind, length=13, width=8).similarity
    for distance in range(13):
        diagonal = np.diagonal(similarity, distance)
        assert np.allclose(diagonal, diagonal[0], atol=1e-12)
    assert np.allclose(np.diagonal(similarity), 1)


def test_rotary_angles_are_those_the_layer_turns_by():
    lesson = position_lesson("rotary", length=5, width=6)
    cosines, sines = Rotary(6).cosines_and_sines(0, 5, np.zeros((5, 6)))
    assert np.allclose(np.cos(lesson.encoding), cosines[0])
    assert np.allclose(np.sin(lesson.encoding), sines[0])


def test_learned_positions_are_those_that_are_given():
    weights = Learned.seeded(9, 5, seed=3, dtype=np.float64).weight
    assert np.array_equal(position_lesson("learned", length=4, width=5, weights=weights).encoding, weights[:4])
    assert "random numbers from seed 3" in position_lesson("learned", seed=3).notes[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_lesson_has_a_notebook_representation(kind):
    lesson = position_lesson(kind, length=3, width=4)
    assert repr(lesson) == f"PositionLesson({kind}, 3 positions × {2 if kind == 'rotary' else 4})"
    assert lesson.title in str(lesson)
    assert "<svg" in lesson._repr_html_() and "<table" in lesson._repr_html_()
    ElementTree.fromstring(str(figure.positions(lesson)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "rotating"}, "'rotary'"),
        ({"kind": "rotary", "width": 3}, "even"),
        ({"length": 0}, "length"),
        ({"base": 0.0}, "base"),
    ],
)
def test_invalid_arguments_are_refused(options, says):
    with pytest.raises(errors.OptionError, match=says):
        position_lesson(**options)


def run(*arguments):
    return CliRunner().invoke(app, ["positions", *arguments])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["txt", "md", "tex", "csv", "json", "html", "svg", "pdf"])
def test_the_command_writes_every_format(tmp_path, kind, ending):
    path = tmp_path / f"pe.{ending}"
    finished = run(kind, "--length", "5", "--width", "4", "--out", str(path))
    assert finished.exit_code == 0, finished.output
    if ending == "json":
        rows = json.loads(path.read_text(encoding="utf-8"))[0]["rows"]
        assert len(rows) == 5
    assert path.stat().st_size > 100


def test_the_positions_of_a_model_are_drawn(tmp_path, minilm_path):  # noqa: F811
    path = tmp_path / "bert.csv"
    finished = run(str(minilm_path), "--length", "2", "--width", "384", "--out", str(path))
    assert finished.exit_code == 0, finished.output
    assert len(path.read_text().splitlines()) == 3


def test_a_misspelt_kind_gets_a_hint():
    finished = run("sinusodial")
    assert finished.exit_code == 2 and "Did you mean 'sinusoidal'" in finished.stderr
