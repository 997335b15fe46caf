"""`regard see`: what it prints and writes, where, and with which exit code."""

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from regard.cli.app import app

from ..models.conftest import cache, minilm_path, smollm2_path  # noqa: F401 - fixtures

KIDS = "The kids were scared of the lions, so they left right away."
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def call(*arguments: str, typed: str | bytes | None = None, width: int = 80, command: str = "see") -> Result:
    runner = CliRunner(env={"COLUMNS": str(width)})
    return runner.invoke(app, [command, *arguments], input=typed, catch_exceptions=False)


def said(*arguments: str, **options) -> str:
    finished = call(*arguments, **options)
    assert finished.exit_code == 0, finished.output
    return finished.stdout


def refused(*arguments: str, **options) -> str:
    finished = call(*arguments, **options)
    assert finished.exit_code == 2, finished.output
    assert "Traceback" not in finished.output
    return finished.stderr


def explained(*arguments: str) -> str:
    return said(KIDS, *arguments, command="explain")


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture(scope="module")
def kids(minilm_path):  # noqa: F811
    return said(KIDS)


# What it prints


def test_the_report_shows_the_sentence_pairs_one_word_heads_a_map_and_the_certificate(kids):
    found = lines(kids)
    assert found[:2] == [KIDS, ""]
    titles = [
        "Strongest attention per word, all heads",
        "they attends to, all heads they → kids",
        "Layer 3, head 1: rows attend to columns",
    ]
    places = [found.index(title) for title in titles]
    assert places == sorted(places)
    assert "query key probability query key probability" in found
    assert found[places[1] + 1].startswith("Word weight of the rest layer head at most layer head weight")
    assert any(line.startswith("minilm: 6 layers × 12 heads, 16 tokens. Loaded and read in") for line in found)
    assert any(line.startswith("Certificate: 1,152 rows: sums within") for line in found)
    assert "not why the model gives its answer" in " ".join(kids.split())


def test_the_report_shows_the_weights_of_the_model(kids):
    found = lines(kids)
    assert "[CLS] and [SEP] take 0.37 of the weight." in found
    assert any(line.startswith("kids 0.08 0.14 3 1 0.81 3 1 0.81") for line in found)
    assert any(line.startswith("lions 0.07 0.12 5 5 0.57") for line in found)
    (row,) = [line for line in found if line.startswith("they .")]
    assert row.split()[:4] == ["they", ".02", ".08", ".81"]


def test_a_pipe_gets_plain_text_of_80_columns(kids):
    assert "\x1b" not in kids
    assert max(map(len, kids.splitlines())) <= 80
    assert not any(line != line.rstrip() for line in kids.splitlines())


@pytest.mark.parametrize("width", [40, 60, 80, 132])
def test_it_fits_any_terminal(minilm_path, width):  # noqa: F811
    assert max(map(len, said(KIDS, width=width).splitlines())) <= width


def test_a_terminal_gets_colour_and_nothing_wider(minilm_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    shown = said(KIDS)
    assert "\x1b[38;2;255;255;255;48;2;" in shown
    assert max(len(ESCAPE.sub("", line)) for line in shown.splitlines()) <= 80


def test_a_word_can_be_chosen_and_a_layer_and_a_head(minilm_path):  # noqa: F811
    shown = said(KIDS, "--query", "the", "--layer", "2", "--head", "5")
    assert "the attends to, layer 2, head 5" in shown
    assert "Layer 2, head 5: rows" in shown
    shown = said(KIDS, "--query", "lions", "--layer", "4")
    assert "lions attends to, layer 4, all heads" in shown
    assert "Layer 4, head" in shown


def test_without_a_pronoun_the_strongest_link_between_content_words_is_shown(minilm_path):  # noqa: F811
    shown = said("Keys on the table belong to Sarah")
    assert "belong → Sarah" in shown
    assert "Layer 2, head 8: rows" in shown


def test_steps_print_the_table_of_the_slides_on_the_models_vectors(minilm_path):  # noqa: F811
    shown = explained("--query", "they", "--layer", "3", "--head", "1")
    found = lines(shown)
    assert "Query they, layer 3, head 1: d_k = 32, √d_k = 5.66" in found
    rows = " ".join(line for line in found if line.startswith("kids "))  # of several tables: one is too wide
    assert "35.86" in rows
    assert "0.81" in rows
    assert max(map(len, shown.splitlines())) <= 80
    assert "Certificate" not in shown
    assert len(explained("--query", "they", "--layer", "3", "--head", "1", "--full")) > 3 * len(shown)
    assert "Query they, layer 3, head 1" in explained()  # chosen as by `regard see`


@pytest.mark.parametrize(
    "text",
    ["Hi", ".", "Ünbelievable 日本語 👩‍👩‍👧 שלום", "tab\tand\x1b[31m red", "the the the the", "It", "a\n\nb"],
)
def test_texts_of_all_kinds(minilm_path, text):  # noqa: F811
    shown = said(text)
    assert "Certificate" in shown
    assert "\x1b" not in shown


def test_a_long_text_is_shortened_and_pooled_with_a_note(minilm_path):  # noqa: F811
    text = " ".join(f"Sentence number {place} is about lions." for place in range(60))
    shown = said(text, "--query", "lions:40")
    assert max(map(len, shown.splitlines())) <= 80
    assert len(shown.splitlines()) < 110
    assert "characters …" in shown
    assert "24 of 422 words: those around lions:40." in shown
    assert "422 words, pooled" in " ".join(shown.split())


# Where texts come from and where results go


def test_a_file_and_standard_input_give_the_same_output_as_an_argument(minilm_path, tmp_path, kids):  # noqa: F811
    path = tmp_path / "kids.txt"
    path.write_text(KIDS + "\n", encoding="utf-8")

    def without_time(text):
        return re.sub(r"read in \S+ s", "read", text)

    assert without_time(said("--file", str(path))) == without_time(kids)
    assert without_time(said("-", typed=KIDS)) == without_time(kids)


def test_json_is_all_that_a_program_gets(minilm_path):  # noqa: F811
    found = json.loads(said(KIDS, "--show", "json"))
    assert found["text"] == KIDS
    assert found["query"] == {"word": "they", "place": 10}
    assert (found["layers"], found["heads"], found["sinks"]) == (6, 12, [0, 15])
    assert found["map"]["weights"][10][2] == pytest.approx(0.81, abs=0.005)
    assert found["heads_for"][0]["layer"] == 3 and found["heads_for"][0]["head"] == 1
    assert [len(found[name]) for name in ("tokens", "words", "pairs")] == [16, 16, 14]
    assert found["certificate"]["output"] < 1e-5
    assert found["seconds"] > 0


def test_files_are_written_as_asked(minilm_path, tmp_path):  # noqa: F811
    paths = {name: tmp_path / f"kids.{name}" for name in ("html", "svg", "json", "md", "txt", "tex", "csv")}
    shown = said(KIDS, *[part for path in paths.values() for part in ("--out", str(path))])
    assert shown.count("Wrote") == 7
    assert "Certificate" not in shown
    assert "attention between words" in "".join(
        ElementTree.fromstring(paths["svg"].read_text(encoding="utf-8")).itertext()
    )
    page = paths["html"].read_text(encoding="utf-8")
    assert "<!DOCTYPE html>" in page and "Certificate" in page and "src=" not in page
    assert json.loads(paths["json"].read_text(encoding="utf-8"))["model"] == "minilm"
    assert "| kids | 0.08 |" in paths["md"].read_text(encoding="utf-8")
    assert "Certificate" in paths["txt"].read_text(encoding="utf-8")
    assert said(KIDS, "--show", "svg").startswith("<svg")


def test_steps_are_written_as_asked(minilm_path, tmp_path):  # noqa: F811
    table, figure = tmp_path / "they.tex", tmp_path / "they.svg"
    explained("--query", "they", "--out", str(table), "--out", str(figure))
    assert "Query they, layer 3, head 1" in table.read_text(encoding="utf-8")
    assert "0.81" in "".join(ElementTree.fromstring(figure.read_text(encoding="utf-8")).itertext())


def test_png_is_a_picture(minilm_path, tmp_path):  # noqa: F811
    pytest.importorskip("typst", reason="PNG needs the `figures` extra")
    said(KIDS, "--out", str(tmp_path / "kids.png"))
    assert (tmp_path / "kids.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_continues_a_text_and_attends_to_what_it_generated(smollm2_path):  # noqa: F811
    shown = said("Once upon a time", "--tokens", "8", command="generate")
    assert shown.startswith("Once upon a time, ")
    assert "The first word, Once, takes" in shown
    assert "smollm2: 30 layers × 9 heads" in shown
    assert "may not be seen" in shown


# What cannot be done


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Give a text"),
        ([""], "no word"),
        (["  \n "], "no word"),
        (["a", "--file", "b"], "not both"),
        (["--file", "no/such/file.txt"], "There is no file"),
        (["--file", "."], "folder"),
        (["The cat", "--model", "minilmm"], "minilm"),
        (["The cat", "--model", "no/such/path/model.gguf"], "There is no model"),
        (["The cat", "--out", "-", "--out", "-"], "twice"),
        (["The cat", "--out", "cat.svg", "--show", "json"], "--show says json"),
        (["The cat", "--out", "cat.docx"], "known format"),
        (["The cat", "--out", "no/such/folder/cat.svg"], "no folder"),
        (["The cat", "--keep", "3"], "--keep"),
        (["The cat", "--with-model"], "--with-model"),
        (["The cat", "--with-model", "--out", "cat.svg"], "--with-model"),
        (["The cat", "--keep", "1;2", "--out", "a.html"], "expected layers"),
        (["The cat", "--keep", "/", "--out", "a.html"], "expected layers"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_printed(arguments, complaint):
    message = refused(*arguments)
    assert complaint in message
    assert not call(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["The cat sat", "--query", "dog"], "`--query` is 'dog', which is not among the words"),
        (["The cat sat", "--query", "9"], "5 words"),
        (["The cat sat", "--layer", "99"], "there are 6 layers"),
        (["The cat sat", "--head", "12"], "there are 12 heads"),
        (["lions " * 600], "512"),
    ],
)
def test_what_the_model_cannot_do_is_refused_before_anything_is_printed(minilm_path, arguments, complaint):  # noqa: F811
    assert complaint in refused(*arguments)
    assert not call(*arguments).stdout


def test_a_model_that_cannot_write_is_refused_with_one_that_can(minilm_path):  # noqa: F811
    assert "smollm2" in refused("The cat sat", "--tokens", "3", "--model", "minilm", command="generate")


def test_invalid_text_is_refused(tmp_path):
    (tmp_path / "picture").write_bytes(b"\xff\xfe\x00\x01")
    assert "UTF-8" in refused("--file", str(tmp_path / "picture"))


def test_a_missing_extra_names_what_to_install(minilm_path, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert f"{sys.executable} -m pip install tokenizers" in refused(KIDS)


def test_no_torch_is_needed(minilm_path):  # noqa: F811
    program = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['regard', 'see', 'The cat sat', '--show', 'json']\n"
        "from regard.cli import main; main()"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(finished.stdout)["model"] == "minilm"


def test_help_shows_examples_in_80_columns():
    shown = said("--help")
    assert "  regard see " in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_head_is_chosen_by_what_it_is_known_for_and_its_score_is_printed(minilm_path):  # noqa: F811
    printed = said("Sarah lost her keys", "--head", "whose")
    assert "Layer 1, head 7" in printed
    known = "her → keys 0.15 here. In general, on UD English EWT: possessor → possession 0.70 of 387 (best fixed"
    assert known in " ".join(printed.split())
    found = json.loads(said("Sarah lost her keys", "--head", "whose", "--show", "json"))
    assert found["map"]["known"].startswith("layer 1, head 7: possessor → possession 0.70")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--head", "when"], "Not in this sentence: try “The train left yesterday”."),
        (["--head", "whose", "--query", "lost"], "--head whose: not with the query lost; try her."),
        (["--head", "colour"], "Ask for who does what, whose, where"),
        (["--head", "whose", "--layer", "1"], "chooses the layer as well"),
    ],
)
def test_a_relation_without_a_head_is_explained(minilm_path, arguments, why):  # noqa: F811
    assert why in " ".join(refused("Sarah lost her keys", *arguments).split())


def test_a_caption_under_a_head_says_what_it_links_here_apart_from_what_it_does_in_general(kids):
    printed = " ".join(kids.split())
    here = "Layer 3, head 1: they → kids 0.81 here."
    assert f"{here} In general, measured on UD English EWT: verb → object 0.55" in printed


# Another text beside the first


def test_a_word_in_two_texts_moves_layer_by_layer(minilm_path, tmp_path):  # noqa: F811
    import regard

    phone, pie = regard.model("minilm").read(["Love Apple phones", "Love apple pie"])
    rows = phone.moved("Apple", pie, "apple").rows
    given = ["Love Apple phones", "--query", "Apple", "--beside", "Love apple pie"]
    found = lines(said(*given))
    assert f"after layer 5 {rows[-1][1]:.2f} {rows[-1][2]:.2f} {rows[-1][3]:.2f}" in found
    data = json.loads(said(*given, "--show", "json"))
    assert data["more"]["Apple: distance of its vectors in two texts"][-1] == pytest.approx(
        dict(zip(("State", "cosine", "distance", "distance / length"), rows[-1], strict=True))
    )
    said(*given, "--out", str(tmp_path / "apple.html"))
    page = (tmp_path / "apple.html").read_text(encoding="utf-8")
    assert 'id="regard-2-describe"' in page and 'id="regard-2-states"' in page


def test_a_word_that_the_other_text_lacks_is_refused(minilm_path):  # noqa: F811
    assert "has no word 'phones'" in refused("Love Apple phones", "--query", "phones", "--beside", "Love apple pie")
