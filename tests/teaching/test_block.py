"""A transformer block stage by stage: the layers' own numbers, with the residuals where they are added."""

from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from regard import errors
from regard.cli.app import app
from regard.layers import Decoder, Encoder
from regard.layers.layer import Seed
from regard.output import figure
from regard.teaching.block import block_lesson

WORDS, CONTEXT = ["le", "chat", "noir"], ["The", "black", "cat", "sat"]


def normed(x):
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(("context", "kind"), [([], "encoder"), ([], "decoder"), (CONTEXT, "decoder")])
def test_every_residual_is_added_where_it_says(norm_first, context, kind):
    lesson = block_lesson(WORDS, context, kind=kind, norm_first=norm_first, heads=2, width=6)
    for place, stage in enumerate(lesson.stages):
        if stage.adds is not None:
            total = lesson.stages[stage.adds].vectors + lesson.stages[place - 1].vectors
            assert np.allclose(stage.vectors, total if norm_first else normed(total))


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_result_is_that_of_the_layer(norm_first):
    options = {"norm_first": norm_first, "dtype": np.float64, "bias": False}
    encoded = block_lesson(CONTEXT, heads=3, width=6, norm_first=norm_first, seed=5)
    encoder = Encoder.seeded(6, 3, seed=Seed(5).part("block"), **options)
    assert np.allclose(encoded.stages[-1].vectors, encoder(encoded.stages[0].vectors))
    decoded = block_lesson(WORDS, CONTEXT, heads=3, width=6, norm_first=norm_first, seed=5)
    decoder = Decoder.seeded(6, 3, seed=Seed(5).part("block"), **options)
    assert np.allclose(decoded.stages[-1].vectors, decoder(decoded.stages[0].vectors, decoded.memory))
    assert decoded.memory is not None and decoded.memory.shape == (4, 6)


def test_a_decoder_never_attends_to_later_words():
    lesson = block_lesson(WORDS, kind="decoder")
    assert np.array_equal(np.triu(np.asarray(lesson.traces[0]["weight"][0]), 1), np.zeros((3, 3)))
    assert [stage.name for stage in lesson.stages][1] == "masked self-attention"


def test_tables_and_figures_show_all_stages():
    lesson = block_lesson(WORDS, CONTEXT)
    assert repr(lesson) == "BlockLesson(decoder, 3 words of width 8, 2 heads)"
    assert len(lesson.table("chat")) == 7 and lesson.table("chat").title.startswith("chat: through a decoder")
    drawn = "".join(ElementTree.fromstring(str(figure.block(lesson))).itertext())
    assert all(name in drawn for name in ("cross-attention", "context, encoded", "+ residual", "black"))
    assert "<svg" in lesson._repr_html_()


@pytest.mark.parametrize(
    ("options", "says"),
    [({"words": []}, "word"), ({"words": ["a"], "context": ["b"], "kind": "encoder"}, "context"),
     ({"words": ["a"], "kind": "coder"}, "'decoder'")],
)  # fmt: skip
def test_invalid_arguments_are_refused(options, says):
    with pytest.raises(errors.OptionError, match=says):
        block_lesson(**options)


@pytest.mark.parametrize("ending", ["txt", "md", "tex", "csv", "json", "html", "svg", "pdf"])
@pytest.mark.parametrize("more", [[], ["--context", "The cat sat", "--kind", "pre-norm-decoder"], ["--query", "chat"]])
def test_the_command_writes_every_format(tmp_path, ending, more):
    path = tmp_path / f"block.{ending}"
    finished = CliRunner().invoke(app, ["block", "le chat", *more, "--out", str(path)])
    assert finished.exit_code == 0, finished.output
    assert path.stat().st_size > 300


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([" "], "no word"),
        (["a", "--heads", "3"], "a multiple of `heads`, 3"),
        (["a", "--query", "b"], "b"),
        (["a " * 99], "64"),
    ],
)
def test_the_command_gives_a_one_line_error(arguments, says):
    finished = CliRunner().invoke(app, ["block", *arguments])
    assert finished.exit_code == 2 and says in finished.stderr
