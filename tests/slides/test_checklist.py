"""Every topic of the lecture is there as slides, figures and a section of a lesson, by the documented commands."""

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from regard import slides
from regard.cli.app import app
from regard.output.svg import Svg
from regard.slides.deck import SlideGrid

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to" / "slides-and-papers.md"

# For each part: what its slides and the section of its lesson must show.
TOPICS = {
    "intuition": (["they", "kids"], ["they", "kids", "0.81"]),
    "matrices": (["X · W_Q = Q", "7 × 64", "64 × 64"], ["W_q", "W_k", "W_v"]),
    "purpose": (["looking for", "index", "content"], ["query", "key", "value", "Why W_q and W_k differ"]),
    "table": (["score", "÷ √d_k = 8", "softmax · v", "sum"], ["Score", "Scale", "Softmax", "Weighted sum"]),
    "matrix-form": (
        ["Q · Kᵀ", "A · V = Z", "softmax(Q · Kᵀ / √d_k)"],
        ["Z = softmax(Q Kᵀ / √d_k) V", "online softmax"],
    ),
    "heads": (["Z_0", "Z_7", "W_O", "Σ A_h · E_h · W_h"], ["W_O", "Σ A_h E_h W_h"]),
    "blocks": (
        ["An encoder block", "cross-attention", "residual", "causal"],
        ["cross-attention", "residual", "KV cache"],
    ),
    "look-up": (["SELECT", "Date of birth", "cosine", "dot product"], ["soft look-up", "cosine", "Bahdanau"]),
    "root": (["6 and 4", "3 and 2", "0.88 and 0.12", "gradient"], ["saturation", "vanishes"]),
    "fixed": (
        ["window of 3", "window of 5", "window of 7", "iPhone", "Keys"],
        ["windows of 3, 5 and 7", "feed-forward"],
    ),
    "roles": (
        ["possession", "spatial relationship", "subject and verb", "verb and object", "time", "wrong"],
        ["spatial relationship", "possession", "Sinks"],
    ),
    "probability": (["jane", "visits", "africa", "probability", "subject → verb"], ["probability", "0.37", "head 2.8"]),
    "positions": (["x = e + p", "from x = e + p"], ["--set positions=sinusoidal", "rotary"]),
    "learning": (["∂L/∂W_Q", "∂L/∂W_K", "before training", "after 800 steps"], ["d_scores", "d_W", "10-film"]),
}


def rows_of_the_checklist() -> dict[str, tuple[str, str]]:
    """For each part of the how-to's table the heading of a lesson and its file."""
    pattern = r"^\| .+ \| `([\w-]+)` \| \[(.+)\]\(\.\./lessons/(.+)\) \|$"
    return {
        part: (heading, name) for part, heading, name in re.findall(pattern, HOW_TO.read_text(encoding="utf-8"), re.M)
    }


def test_the_checklist_has_every_part():
    assert list(rows_of_the_checklist()) == list(TOPICS) == list(slides.PARTS)


@pytest.fixture(scope="module")
def deck():
    return slides.deck_of()


def said_on(slide) -> str:
    """All text of a slide, figures included."""
    parts = [slide.title]
    for element in slide.elements:
        if isinstance(element, Svg):
            texts = ElementTree.fromstring(str(element)).iter("{http://www.w3.org/2000/svg}text")
            parts += [*("".join(text.itertext()) for text in texts), element.description]
        elif isinstance(element, SlideGrid):
            parts += [*element.headings, *(cell for row in element.rows for cell in row)]
        else:
            parts += element.paragraphs
    return "\n".join(parts)


@pytest.mark.parametrize("part", TOPICS)
def test_the_slides_of_a_part_show_it(deck, part):
    shown = "\n".join(said_on(slide) for slide in deck.slides if slide.part == part)
    assert [words for words in TOPICS[part][0] if words not in shown] == []


@pytest.mark.parametrize("part", TOPICS)
def test_a_lesson_explains_it_under_the_heading_that_the_checklist_names(part):
    heading, name = rows_of_the_checklist()[part]
    lesson = (ROOT / "docs" / "lessons" / name).read_text(encoding="utf-8")
    assert re.search(rf"^#+ (\d+\. )?{re.escape(heading)}", lesson, re.M)
    assert [words for words in TOPICS[part][1] if words not in lesson] == []
    assert lesson.count("![") >= 3 and lesson.count("<details>") >= 3 and "## What you can now explain" in lesson


@pytest.mark.parametrize("part", TOPICS)
def test_a_part_is_a_figure_of_its_own(part, tmp_path):
    result = CliRunner().invoke(app, ["slides", "The cat sat", "--part", part, "--out", str(tmp_path / "figure.svg")])
    assert result.exit_code == 0, result.output
    files = sorted(tmp_path.glob("figure*.svg"))
    assert f": {len(files)} slide" in " ".join(result.output.split())
    for file in files:
        root = ElementTree.fromstring(file.read_text(encoding="utf-8"))
        assert root.get("viewBox") == "0 0 960 540"


def commands_of_the_how_to() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", HOW_TO.read_text(encoding="utf-8"), re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("command", commands_of_the_how_to())
def test_the_commands_of_the_how_to_make_their_files(command, tmp_path, monkeypatch):
    pytest.importorskip("typst")
    pytest.importorskip("pptx")
    pytest.importorskip("openpyxl")
    program, *arguments = shlex.split(command)
    if program == "python":  # tests/test_examples.py runs it
        assert (ROOT / arguments[0]).exists()
        return
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    for name in [arguments[at + 1] for at, argument in enumerate(arguments) if argument == "--out"]:
        assert (tmp_path / name).stat().st_size > 500
