"""Slides of a lecture: every part exists, type has 18 pt, and the numbers are those of the steps."""

import io
import re
import shlex
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from regard import errors, slides
from regard.arrays import numpy_of
from regard.cli.app import app
from regard.output.svg import Svg
from regard.slides.deck import BOTTOM, INNER, LEFT, TITLE, Deck, Slide, SlideGrid, SlideText, fit, place
from regard.slides.svg import slide_svg
from regard.teaching.traced_attention import traced
from regard.teaching.words import words_of
from regard.trace.labels import numbered

SENTENCES = (
    "The kids were scared of the lions, so they left right away.",
    "jane visits africa",
    "Keys on the table belong to Sarah, who had left them there before internationalisation kept her away.",
)
WITHOUT_MODEL = ["matrices", "table", "matrix-form", "heads", "look-up", "root", "positions", "blocks", "learning"]


def smallest_type(slide: Slide) -> float:
    """The smallest font size on a slide, in points, figures included."""
    sizes = [TITLE]
    for placed in place(slide):
        element = placed.element
        sizes.append(element.smallest_type * placed.width / element.width if isinstance(element, Svg) else placed.size)
    return min(sizes)


@pytest.fixture(scope="module", params=SENTENCES, ids=lambda text: text[:12])
def deck(request) -> Deck:
    return slides.deck_of(request.param)


def test_every_part_has_slides_whose_notes_name_a_command(deck):
    assert list(dict.fromkeys(slide.part for slide in deck.slides)) == list(slides.PARTS)
    assert all("regard slides" in slide.notes[-1] for slide in deck.slides)


@pytest.mark.slow
def test_the_commands_in_the_notes_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notes = {note.partition(": ")[2] for slide in slides.deck_of().slides for note in slide.notes}
    commands = [note for note in notes if note.startswith("regard") and " | " not in note]
    too_long = ("regard slides", "regard train", "regard heads")
    commands = [command for command in commands if not command.startswith(too_long)]
    assert len(commands) > 15
    failed = {}
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        if result.exit_code:
            failed[command] = result.output
    assert failed == {}


def test_nothing_is_below_18_pt_or_off_the_slide(deck):
    for slide in deck.slides:
        assert smallest_type(slide) >= 17.95, slide.title
        for placed in place(slide):
            assert placed.x >= LEFT - 0.01 and placed.x + placed.width <= LEFT + INNER + 0.01, slide.title
            assert placed.y + placed.height <= BOTTOM + 0.01, slide.title


def test_the_table_holds_the_numbers_of_the_steps():
    words = ["jane", "visits", "africa"]
    weights = numpy_of(traced(words, width=64).whole()["weight"])[0, 0]
    deck = slides.deck_of(" ".join(words), ["table"])
    table = next(e for s in deck.slides for e in s.elements if isinstance(e, SlideGrid) and "softmax" in e.headings)
    column = table.headings.index("softmax")
    assert np.allclose([float(row[column]) for row in table.rows], weights, atol=0.0051)


def test_symbols_replace_numbers():
    deck = slides.deck_of("The cat sat", ["table"], symbols=True)
    cells = {
        cell for s in deck.slides for e in s.elements if isinstance(e, SlideGrid) for row in e.rows for cell in row
    }
    assert {"q₁·k₁", "q₁·k₂/8", "a₁₃·v₃", "z₁"} <= cells


def test_the_other_convention_is_written_everywhere_and_gives_the_same_numbers():
    parts = ["matrices", "purpose", "table", "matrix-form", "heads", "learning"]
    usual, other = (slides.deck_of("The cat sat", parts, product=product) for product in ("x W", "x W^T"))

    def texts(deck):
        for slide in deck.slides:
            for element in slide.elements:
                if isinstance(element, SlideGrid):
                    yield from (cell for row in (element.headings, *element.rows) for cell in row)
                elif isinstance(element, Svg):
                    yield element.title
                else:
                    yield from element.paragraphs
            yield slide.title

    assert not any(re.search(r"· W_[QKVO]ᵀ", text) for text in texts(usual))
    assert not any(re.search(r"· W_[QKVO](?!ᵀ)", text) for text in texts(other))
    numbers = [[text for text in texts(deck) if re.fullmatch(r"[−\d. …]+", text)] for deck in (usual, other)]
    assert sorted(numbers[0]) == sorted(numbers[1])  # those of W and its gradient are in another order
    assert all("x W^T" in note for slide in other.slides for note in slide.notes if note.startswith("This slide"))
    drawn = ["".join(re.findall(r"<text.*</text>", str(slide_svg(slide)))) for slide in other.slides]
    assert not [text for text in drawn if re.search(r"[WXx]_|ᵀ", text)]  # indices and ᵀ are set, not spelt


def test_the_gradient_by_hand_agrees_with_finite_differences():
    deck = slides.deck_of("The cat sat", ["learning"])
    (changed,) = [slide for slide in deck.slides if slide.title.startswith("Learning, 4")]
    table = next(e for e in changed.elements if isinstance(e, SlideGrid))
    shown = [[float(part.replace("−", "-")) for part in cell.split()] for cell in table.rows[0][1:]]
    x, target = np.array([[1.0, 0.0], [0.0, 2.0]]), 2.0

    def loss(w_q):
        scores = x @ (x[0] @ w_q) / np.sqrt(2)
        weights = np.exp(scores) / np.exp(scores).sum()
        return 0.5 * (weights @ [1.0, 3.0] - target) ** 2

    steps = 1e-6 * np.eye(4).reshape(4, 2, 2)
    expected = [(loss(np.eye(2) + step) - loss(np.eye(2) - step)) / 2e-6 for step in steps]
    assert np.allclose(np.ravel(shown), expected, atol=0.0051)


def test_a_table_that_does_not_fit_is_split():
    table = SlideGrid(tuple("abcdefgh"), tuple((f"row {row}", *["12345.678901"] * 7) for row in range(40)))
    parts = fit([Slide("Wide and long", (table,))])
    assert len(parts) > 2
    assert all(smallest_type(slide) >= 18 for slide in parts)
    grids = [element for slide in parts for element in slide.elements[:1] if isinstance(element, SlideGrid)]
    assert len(grids) == len(parts)
    assert sum(len(grid.rows) * (len(grid.headings) - 1) for grid in grids) == 40 * 7


def test_very_long_words_and_texts_stay_on_their_slides():
    pytest.importorskip("pptx")
    word = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenverordnungsentwurf"
    deck = slides.deck_of(f"{word} schläft " * 100, ["purpose", "table", "positions"])
    assert slides.content(deck, ".pptx")
    for slide in deck.slides:
        right = max(placed.x + placed.width for placed in place(slide))
        assert right <= LEFT + INNER + 0.01 and smallest_type(slide) >= 17.95, slide.title


def test_html_is_one_file_with_a_section_per_slide():
    deck = slides.deck_of("<b>The</b> cat & sat", ["table", "matrix-form"])
    page = slides.content(deck, ".html")
    assert isinstance(page, str) and page.count("<section") == len(deck.slides)
    assert "<b>" not in page and "http://" not in page.replace("http://www.w3.org", "")


def test_pdf_has_a_page_per_slide():
    pytest.importorskip("typst")
    deck = slides.deck_of('The "#cat" $sat$ [x]', WITHOUT_MODEL)
    content = slides.content(deck, ".pdf")
    assert isinstance(content, bytes) and content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == len(deck.slides)


def test_powerpoint_has_editable_tables_of_18_pt_and_notes():
    package = pytest.importorskip("pptx")
    pytest.importorskip("typst")
    deck = slides.deck_of("The cat sat", ["table", "matrix-form"])
    content = slides.content(deck, ".pptx")
    assert isinstance(content, bytes)
    shown = package.Presentation(io.BytesIO(content)).slides
    assert len(shown) == len(deck.slides)
    tables = [shape.table for slide in shown for shape in slide.shapes if shape.has_table]
    assert len(tables) == sum(isinstance(e, SlideGrid) for slide in deck.slides for e in slide.elements)
    frames = [shape.text_frame for slide in shown for shape in slide.shapes if shape.has_text_frame]
    frames += [cell.text_frame for table in tables for cell in table.iter_cells()]
    sizes = [run.font.size.pt for frame in frames for paragraph in frame.paragraphs for run in paragraph.runs]
    assert min(sizes) >= 18
    assert all("regard slides" in slide.notes_slide.notes_text_frame.text for slide in shown)


def test_without_its_package_a_deck_says_what_to_install(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(errors.Unsupported) as problem:
        slides.content(slides.deck_of("The cat sat", ["table"]), ".pptx")
    assert f"{sys.executable} -m pip install python-pptx typst" in str(problem.value)


def test_the_command_writes_a_deck(tmp_path):
    out = tmp_path / "deck.html"
    result = CliRunner().invoke(app, ["slides", "The cat sat", "--part", "table,matrix-form", "--out", str(out)])
    assert result.exit_code == 0 and "slides" in result.output
    assert all(words in out.read_text(encoding="utf-8") for words in ("Query “The”", "All scores at once"))


@pytest.mark.parametrize(
    "arguments", [["x", "--out", "deck.doc"], ["x", "--part", "y", "--out", "d.pdf"], [" ", "--out", "d.pdf"]]
)
def test_what_cannot_be_made_is_refused(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["slides", *arguments]).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_the_two_matrices_of_the_slide_on_computed_weights_differ():
    figure = slides.deck_of("jane visits africa", ["fixed"]).slides[1].elements[0]
    assert isinstance(figure, Svg) and "kids" in str(figure)


def test_only_a_word_before_a_pronoun_answers_what_it_refers_to():
    titles = [
        slides.deck_of(text, ["intuition"]).slides[0].title
        for text in ("The kids were scared of the lions, so they left.", "She finally published its long report")
    ]
    assert titles == ["What does “they” refer to?", "“She” in its context"]  # She → report, or the like


def test_a_passage_with_a_pronoun_is_the_one_whose_reach_is_shown():
    text = "The keys on the kitchen table belong to Sarah, who came home late last night and must have left them there."
    said = [paragraph for slide in slides.deck_of(text, ["fixed"]).slides for element in slide.elements
            if isinstance(element, SlideText) for paragraph in element.paragraphs]  # fmt: skip
    assert any(paragraph.startswith("them, 3 words each way: the window does not see") for paragraph in said)
    assert any(re.search(r"layer 3, head 1: them → \w+ 0\.\d\d", paragraph) for paragraph in said)


def test_a_folder_that_is_missing_is_named_before_any_slide_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(slides, "deck_of", lambda *_, **__: pytest.fail("slides were made"))
    result = CliRunner().invoke(app, ["slides", "The cat sat", "--out", str(tmp_path / "decks" / "deck.html")])
    assert result.exit_code == 2 and "there is no folder" in " ".join(result.output.split())


def test_a_part_that_is_misspelt_is_suggested():
    with pytest.raises(errors.OptionError, match="Did you mean 'table'"):
        slides.deck_of("The cat sat", ["tabel"])


def test_figures_of_slides_are_figures():
    assert any(isinstance(e, Svg) for slide in slides.deck_of("The cat sat", ["heads"]).slides for e in slide.elements)


def test_the_commands_in_the_notes_compute_the_numbers_of_their_slides():
    deck = slides.deck_of("The dog and the cat saw the dog before the cat saw the other dog.", ["purpose", "table"])
    compared = 0
    for slide in deck.slides:
        command = shlex.split(next(note for note in slide.notes if "regard steps" in note).partition(": ")[2])
        if "--query" not in command:
            continue
        words = words_of(command[2])
        trace = traced(words, width=int(command[command.index("--set") + 1].removeprefix("width="))).whole()
        query = numbered(words).index(command[command.index("--query") + 1])
        for grid in (e for e in slide.elements if isinstance(e, SlideGrid) and "softmax" in e.headings):
            column = grid.headings.index("softmax")
            shown = [float(row[column]) for row in grid.rows[: len(words)]]
            assert np.allclose(shown, numpy_of(trace["weight"])[0, query], atol=0.0051), slide.title
            compared += 1
    assert compared > 5
