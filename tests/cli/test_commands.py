"""The command line: what it prints, where, and with which exit code."""

import ast
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

import regard
from regard import examples, input_file
from regard.cli.app import app
from regard.cli.commands import group

COMMANDS = (
    "see", "models", "heads", "steps", "lookup", "scaling", "positions", "block", "check", "examples", "engine",
    "studio",
)  # fmt: skip


def run(*arguments: str) -> str:
    """What a pipe gets from `regard`, run as a separate process."""
    finished = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "regard", *arguments],
        capture_output=True, text=True, encoding="utf-8", check=True, timeout=120,
    )  # fmt: skip
    assert not finished.stderr
    return finished.stdout


def said(*arguments: str, typed: str | None = None) -> str:
    """What a command that ends well prints."""
    finished = CliRunner().invoke(app, list(arguments), input=typed, catch_exceptions=False)
    assert finished.exit_code == 0, finished.output
    return finished.stdout


def refused(*arguments: str, typed: str | bytes | None = None) -> str:
    """The error of a command that exits with 2: on standard error, with nothing else."""
    finished = CliRunner().invoke(app, list(arguments), input=typed, catch_exceptions=False)
    assert finished.exit_code == 2, finished.output
    assert not finished.stdout
    assert "Traceback" not in finished.stderr
    return finished.stderr


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture(scope="module")
def cat_sat() -> str:
    return run("steps", "--example", "cat-sat")


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.json"
    path.write_text('{"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], "sat": [1, 1, 1, 1]}')
    return path


# Steps


def test_steps_prints_the_numbers_of_the_slides(cat_sat):
    found = lines(cat_sat)
    assert "Word q k v score score/√d_k softmax softmax × v" in found
    assert "The 1 0 1 0 1 0 1 0 1 0 1 0 2 1 0.42 0.42 0.00 0.42 0.00" in found
    assert "cat 0 1 0 1 0 1 0 1 0 0 0.16 0.00 0.16 0.00 0.16" in found
    assert [line for line in found if line.startswith("sum")] == [
        "sum 1.00 0.84 0.58 0.84 0.58",
        "sum 1.00 0.58 0.84 0.58 0.84",
        "sum 1.00 0.79 0.79 0.79 0.79",
    ]


def test_steps_fits_80_columns_and_is_plain_when_piped(cat_sat):
    assert max(len(line) for line in cat_sat.splitlines()) <= 80
    assert "\x1b" not in cat_sat
    assert "…" not in cat_sat


def test_embeddings_from_a_file_give_what_the_example_gives(vectors, cat_sat):
    assert said("steps", "The cat sat", "--example", str(vectors)) == cat_sat
    assert said("steps", "the CAT sat", "--example", "-", typed=vectors.read_text()).count("sum") == 3


def test_matrices_beside_embeddings_are_used():
    notes = {"embeddings": {"a": [1, 0], "b": [0, 1]}, "W_q": [[2, 0], [0, 2]]}
    assert "a 2 0 1 0 1 0 2" in "\n".join(lines(said("steps", "--example", "-", typed=json.dumps(notes))))


@pytest.mark.parametrize("seed", [0, 7])
def test_random_weights_are_labelled_with_their_seed(seed):
    for more in (
        [],
        ["--show", "markdown"],
        ["--show", "html"],
        ["--show", "svg"],
        ["--show", "json"],
        ["--heads", "2"],
    ):
        output = " ".join(said("steps", "The cat sat", "--set", f"seed={seed}", *more).split())
        assert "random numbers" in output
        assert f"seed {seed}" in output


def test_csv_names_the_source_in_every_row_and_the_whole_note_goes_to_standard_error():
    finished = CliRunner().invoke(app, ["steps", "The cat sat", "--show", "csv"])
    assert "seed 0" in finished.stderr
    rows = [line for line in finished.stdout.splitlines() if ": d_k = 4" in line]
    assert all(row.endswith("random numbers from seed 0: “The cat sat”") for row in rows)
    assert "Nothing was trained" not in finished.stdout
    assert sum(": d_k = 4" in line for line in finished.stdout.splitlines()) == 3 * 3


def test_the_seed_decides():
    assert said("steps", "The cat sat", "--set", "seed=1") == said("steps", "The cat sat", "--set", "seed=1")
    assert said("steps", "The cat sat", "--set", "seed=1") != said("steps", "The cat sat", "--set", "seed=2")


def test_one_query_of_two_heads_ends_with_both_together():
    output = said("steps", "The cat sat", "--heads", "2", "--query", "cat")
    assert output.count("Query cat") == 2
    assert "concatenated" in output
    assert "through W_O" in output
    assert "Query The" not in output
    assert said("steps", "The cat sat", "--heads", "2", "--query", "1", "--head", "1").count("Query ") == 1


def test_eight_heads_of_512_divide_by_8():
    assert "√d_k = 8" in said(
        "steps", "The cat sat", "--heads", "8", "--set", "width=512", "--query", "cat", "--head", "0"
    )


def test_causal_hides_later_words():
    assert "−∞" in said("steps", "The cat sat", "--mask", "causal", "--query", "The")


def test_queries_by_occurrence_and_position():
    text = "the cat saw the dog"
    asked = ["steps", text, "--mask", "causal", "--show", "json", "--query"]
    second = said(*asked, "the:2")
    assert json.loads(second)["query_words"] == ["the"]
    assert second == said(*asked, "3")
    assert second != said(*asked, "the")


@pytest.mark.parametrize("ending", ["txt", "md", "tex", "csv", "json", "html", "svg"])
def test_out_writes_what_its_ending_says(tmp_path, ending):
    path = tmp_path / f"cat.{ending}"
    assert "Wrote" in said("steps", "--example", "cat-sat", "--out", str(path))
    content = path.read_text(encoding="utf-8")
    assert "cat" in content
    if ending == "svg":
        ElementTree.fromstring(content)
    if ending == "json":
        assert [step["name"] for step in json.loads(content)["steps"]][:2] == ["embedding", "query"]
    if ending == "tex":
        assert "\\toprule" in content and content.endswith("\\end{document}\n")


def test_png_is_a_picture(tmp_path):
    pytest.importorskip("typst")
    path = tmp_path / "cat.png"
    said("steps", "--example", "cat-sat", "--query", "cat/sat", "--out", str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_figures_show_all_words_one_query_or_a_query_and_a_key():
    chosen: tuple[list[str], ...] = [], ["--query", "cat"], ["--query", "cat/sat"]
    drawn = [said("steps", "--example", "cat-sat", *words, "--show", "svg") for words in chosen]
    assert all(ElementTree.fromstring(figure).tag.endswith("svg") for figure in drawn)
    assert len(set(drawn)) == 3


# Texts of all kinds


def test_unicode_words_are_words():
    output = said("steps", "Ünïcödé 日本 हिन्दी 👩‍👩‍👧 שלום", "--query", "日")
    for word in ("Ünïcödé", "本", "हिन्दी", "👩‍👩‍👧", "שלום"):
        assert word in output


def test_one_word_attends_to_itself():
    assert "1.00" in said("steps", "Word")


def test_a_thousand_words_are_shortened_with_a_note():
    text = " ".join(f"word{place % 89}" for place in range(1000))
    output = said("steps", "-", typed=text)
    assert len(output.splitlines()) < 150
    assert "more" in output and "--query" in output and "--full" in output
    assert max(map(len, output.splitlines())) <= 80
    assert "1,000 words" in refused("steps", "-", "--show", "csv", typed=text)
    one = said("steps", "-", "--query", "500", "--full", typed=text)
    assert len([line for line in one.splitlines() if line.startswith("word")]) >= 1000


@pytest.mark.parametrize("text", ["", "   ", "\u200b"])
def test_a_text_without_words_is_refused(text):
    assert "no word" in refused("steps", text)


# What files can be


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"The": [1, 0]', "not JSON"),
        ("", "empty"),
        ("3", "no embeddings"),
        ('{"The": [1, 0], "cat": [1, 0, 1], "sat": [1, 1]}', "unequal length"),
        ('{"The": [1, NaN], "cat": [0, 1], "sat": [1, 1]}', "not a finite"),
        ('{"The": [1, "a"], "cat": [0, 1], "sat": [1, 1]}', "is not a number"),
        ('{"The": 1, "cat": [0, 1], "sat": [1, 1]}', "expected a list"),
        ('{"The": [1, 0], "sat": [1, 1]}', "no vector for 'cat'"),
        ("[[1, 0], [0, 1]]", "2 vectors for 3 words"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_invalid_embeddings_are_refused(tmp_path, content, complaint):
    path = tmp_path / "vectors.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    message = refused("steps", "The cat sat", "--example", str(path))
    assert complaint in message
    assert len(message.splitlines()) == 1


def test_missing_files_and_folders_are_refused(tmp_path):
    missing = str(tmp_path / "nofile.json")
    for command in (["steps", "a", "--example", missing], ["lookup", missing, "a"], ["check", missing]):
        assert "There is no file" in refused(*command)
    assert "folder" in refused("lookup", str(tmp_path), "a")
    assert "cannot be written" in refused("steps", "a b", "--out", str(tmp_path / "no" / "cat.svg"))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_endless_input_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(input_file, "LARGEST", 1 << 20)
    endless = tmp_path / "endless.json"
    endless.symlink_to("/dev/zero")
    for command in (["steps", "a", "--example"], ["lookup"], ["check"]):
        rest = ["a"] if command == ["lookup"] else []
        assert "more than 1 MiB" in refused(*command, str(endless), *rest)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["steps"], "Give a text"),
        (["steps", "--example", "dog-ran"], "cat-sat"),
        (["steps", "--example", "car"], "dictionary"),
        (["steps", "a", "--example", "cat-sat"], "its own text"),
        (["steps", "The cat sat", "--query", "dog"], "`--query` is 'dog', which is not among the words"),
        (["steps", "The cat sat", "--query", "9"], "3 words"),
        (["steps", "The cat sat", "--head", "1"], "no head 1"),
        (["steps", "--example", "cat-sat", "--heads", "3"], "evenly"),
        (["steps", "The cat sat", "--heads", "0"], "--heads"),
        (["steps", "The cat sat", "--show", "poem"], "--show"),
        (["steps", "The cat sat", "--out", "cat.foo"], "--show"),
        (["steps", "The cat sat", "--query", "cat/dog"], "`--query` is 'dog'"),
        (["steps", "The cat sat", "--set", "seed=-1"], "`seed` is -1"),
        (["steps", "The cat sat", "--set", "width=0"], "`width` is 0"),
        (["steps", "The cat sat", "--set", "key=sat"], "seed, width, positions, product"),
        (["examples", "nothing"], "cat-sat"),
        (["scaling", "--divisor", "0"], "positive"),
        (["scaling", "--divisor", "poem"], "expected a positive number"),
        (["stpes"], "steps"),
        (["see", "The", "cat", "sat"], "Unexpected arguments: cat sat. Put a text into quotes, as in "),
        (["heads", "text", "The", "cat", "sat"], 'heads text "The cat sat".'),
        (["engine", "native"], "Unexpected arguments: native.\n"),
    ],
)
def test_invalid_options_are_refused(arguments, complaint):
    assert complaint in refused(*arguments)


# The other commands


def test_examples_lists_all_and_prints_each():
    listed = said("examples")
    assert max(map(len, listed.splitlines())) <= 80
    for name, example in examples.EXAMPLES.items():
        assert name in listed
        printed = said("examples", name)
        assert printed.strip() == str(example).strip()
        if example.kind not in ("sentence", "passage"):
            json.loads(printed)


def test_commands_of_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.json").write_text(str(examples.named("cat-sat-notes")), encoding="utf-8")
    for example in examples.EXAMPLES.values():
        for command in example.commands:
            arguments = shlex.split(command.rpartition("| ")[2].partition(" > ")[0])[1:]
            finished = CliRunner().invoke(app, arguments, input=str(example), catch_exceptions=False)
            assert finished.exit_code == (1 if arguments[0] == "check" else 0), finished.output


def test_lookup_finds_equal_keys_and_similar_ones():
    jane = str(examples.named("jane"))
    assert "May 5th 2000" in said("lookup", "-", "Date of birth", typed=jane).partition("≈")[0]
    hard, _, soft = said("lookup", "-", "birth date", typed=jane).partition("≈")
    assert "No key equals" in hard
    assert "May 5th 2000" in soft


def test_lookup_of_vectors_sums_when_hard_and_averages_when_soft():
    four = str(examples.named("four-words"))
    hard, _, soft = said("lookup", "-", "[0.3, 1.2, 4]", "--similarity", "negative-distance", "--temperature", "0.01",
                         typed=four).partition("≈")  # fmt: skip
    assert "[−4.40 8.20 5.00]" in hard
    assert "[−2.20 4.10 2.50]" in soft


@pytest.mark.parametrize(
    ("content", "query", "complaint"),
    [
        ("{", "a", "not JSON"),
        ("{}", "a", "no keys"),
        ("[1]", "a", "no dictionary"),
        ('{"keys": [[1, 0], [1]], "values": [1, 2]}', "[1, 0]", "unequal length"),
        ('{"keys": [[1, NaN]], "values": [1]}', "[1, 0]", "finite"),
        ('{"keys": [[1, 0]], "values": [1]}', "cat", "expected numbers"),
    ],
)
def test_lookups_that_cannot_be_made(content, query, complaint):
    assert complaint in refused("lookup", "-", query, typed=content)


def test_scaling_shows_the_slides_softmax_and_each_divisor():
    output = said("scaling", "--divisor", "1", "--divisor", "sqrt", "--size", "4", "--size", "64")
    assert "0.88 0.12" in output and "0.73 0.27" in output
    assert "divided by √d_k" in output
    assert max(map(len, output.splitlines())) <= 80


def test_check_exits_with_1_if_a_number_is_wrong_and_0_otherwise(tmp_path):
    notes = tmp_path / "notes.json"
    notes.write_text(str(examples.named("cat-sat-notes")), encoding="utf-8")
    finished = CliRunner().invoke(app, ["check", str(notes)])
    assert finished.exit_code == 1
    assert "cut" in finished.stdout and "carried on" in finished.stdout and "3 × 3" in finished.stdout
    assert max(map(len, finished.stdout.splitlines())) <= 80
    right = {"embeddings": {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1]}, "scores": {"cat": [0, 2]}}
    notes.write_text(json.dumps(right))
    assert "2 right" in said("check", str(notes))
    notes.write_text(json.dumps(right | {"weights": {"cat": [None, 0.67]}}))
    finished = CliRunner().invoke(app, ["check", str(notes)])
    assert finished.exit_code == 1 and "1 missing" in finished.stdout
    assert "Left blank: 1 in weights" in finished.stdout
    notes.write_text("{")
    assert "not JSON" in refused("check", str(notes))


def test_check_names_each_number_in_full_at_80_columns(tmp_path):
    lines = said("steps", "Action gets results", "--show", "markdown").replace("0.12", "0.13")
    (tmp_path / "notes.md").write_text(lines, encoding="utf-8")
    table = CliRunner().invoke(app, ["check", str(tmp_path / "notes.md")]).stdout
    assert "weighted value Action → Action [0]" in table and "→…" not in table
    assert max(map(len, table.splitlines())) <= 80


def test_engine_says_what_the_library_says():
    assert run("engine").split() == str(regard.engines.engine()).split()


def test_version():
    assert run("--version").split()[0] == "regard"


def test_no_arguments_gives_help():
    output = CliRunner().invoke(app, []).output
    assert all(command in output for command in COMMANDS)
    assert "..." not in output.partition("Commands:")[2]  # no description is cut


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command):
    output = CliRunner(env={"COLUMNS": "80"}).invoke(app, [command, "--help"]).stdout
    assert max(map(len, output.splitlines())) <= 80
    if command != "engine":
        assert f"  regard {command} " in output


FEW_SIZES = ("--size", "4", "--size", "64")


def test_scaling_is_drawn_as_its_file_ends(tmp_path):
    svg, png, table = (tmp_path / name for name in ("lesson.svg", "lesson.PNG", "lesson.txt"))
    assert "Wrote" in said("scaling", *FEW_SIZES, "--out", str(svg))
    assert "÷ √dk" in "".join(ElementTree.fromstring(svg.read_text(encoding="utf-8")).itertext())
    said("scaling", *FEW_SIZES, "--out", str(table))
    assert "divided by √d_k" in table.read_text(encoding="utf-8")
    pytest.importorskip("typst", reason="PNG needs the `figures` extra")
    said("scaling", *FEW_SIZES, "--out", str(png))
    assert png.read_bytes().startswith(b"\x89PNG")


def test_scaling_is_drawn_into_a_pipe():
    assert said("scaling", *FEW_SIZES, "--show", "svg").startswith("<svg")
    assert said("scaling", *FEW_SIZES, "--show", "table") == said("scaling", *FEW_SIZES)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out", "lesson"], "--show"),
        (["--show", "svg", "--out", "no/such/folder/lesson.svg"], "cannot be written"),
    ],
)
def test_scaling_that_cannot_be_drawn(arguments, complaint):
    assert complaint in refused("scaling", *FEW_SIZES, *arguments)


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent a Ctrl-C of its own there")
@pytest.mark.parametrize("module", ["regard.cli.app", "numpy", "rich.console", "regard.cli.see"])
def test_ctrl_c_while_modules_are_imported_ends_quietly(module):
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["regard", "engine"]
from regard.cli import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent a Ctrl-C of its own there")
def test_ctrl_c_while_the_commands_are_put_together_ends_quietly():
    program = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import typer.main
put_together = typer.main.get_command
def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    return put_together(*arguments)
typer.main.get_command = interrupted
sys.argv = ["regard", "engine"]
from regard.cli import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


LONG = "x" * 9000


LONG_ARGUMENTS = [
    ["check", LONG], ["examples", LONG], ["see", "--file", LONG], [LONG], ["compare", "copy", "--set", LONG],
    ["heads", "page", LONG],
]  # fmt: skip


@pytest.mark.parametrize("arguments", LONG_ARGUMENTS)
def test_a_long_argument_does_not_make_a_long_message(arguments):
    finished = CliRunner().invoke(app, arguments)
    assert finished.exit_code == 2 and len(finished.stderr) < 1500
    assert "xxx" in finished.stderr and ("…" in finished.stderr or "..." in finished.stderr)


@pytest.mark.parametrize("name", ["vocabulary", "pairs", "length", "batch"])
def test_numbers_too_large_to_train_with_are_refused_in_a_sentence(tmp_path, name):
    message = refused("train", "lookup", "--set", f"{name}={'9' * 26}", "--out", str(tmp_path / "out"))
    assert f"`{name}` is 99999" in message and "expected an integer from " in message


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("batch", "expected NAME=VALUE with length, pairs, vocabulary, batch, rate"),
        ("batches=3", "Did you mean 'batch'"),
        ("batch=many", "--set batch=many: expected a number"),
        ("batch=2,batch=3", "sets batch twice"),
    ],
)
def test_settings_that_a_task_does_not_have_are_refused(tmp_path, setting, complaint):
    message = refused("train", "copy", "--set", setting, "--out", str(tmp_path / "out"))
    assert complaint in message and f"Did you mean {setting!r}" not in message


def test_a_model_too_large_to_train_is_refused_in_a_sentence(tmp_path):
    for width in ("1000000000000", "400000"):
        message = refused("train", "copy", "--width", width, "--out", str(tmp_path / "out"))
        assert "parameters" in message and "Choose a smaller width" in message


# Exercises


def test_exercises_are_written_graded_and_reported(tmp_path):
    (tmp_path / "list.csv").write_text("name\nAda\nGrace Hopper\n", encoding="utf-8")
    sheets, feedback = tmp_path / "sheets", tmp_path / "feedback"
    printed = said("exercise", "heads", "--students", str(tmp_path / "list.csv"), "--out", str(sheets), "--as", "md")
    assert "2 sheets (Two heads and W_O)" in printed
    assert sorted(path.name for path in sheets.iterdir()) == ["ada.md", "grace-hopper.md", "key.json", "solutions"]
    answers = [str(sheets / "solutions" / "ada.md"), str(sheets / "grace-hopper.md")]
    printed = said("check", "--task", str(sheets / "key.json"), *answers, "--out", str(feedback))
    assert "6 of 6" in printed and "0 of 6" in printed and "No answer" not in printed
    without = said("check", "--task", str(sheets / "key.json"), answers[0], "--out", str(tmp_path / "without"))
    assert "Grace Hopper 0 of 6 No answer was handed in" in lines(without)
    assert sorted(path.name for path in feedback.iterdir()) == [
        "ada.md",
        "grace-hopper.md",
        "grades.csv",
        "grades.json",
    ]


def test_exercises_need_students_and_known_names(tmp_path):
    out = ("--out", str(tmp_path / "sheets"))
    assert "--students list.csv or --count 30" in refused("exercise", "table", *out)
    assert "Did you mean 'table'" in refused("exercise", "tabel", "--count", "1", *out)
    assert "'md', 'xlsx' or 'pdf'" in refused("exercise", "table", "--count", "1", "--as", "docx", *out)
    assert "x W^T" in refused("exercise", "table", "--count", "1", "--product", "W x", *out)
    assert not (tmp_path / "sheets").exists()
    (tmp_path / "key.json").write_text("{}")
    assert "not a task file" in refused("check", "--task", str(tmp_path / "key.json"), "a.md")
    assert "--task" in refused("check", "a.md", "b.md")


def test_steps_write_a_spreadsheet_with_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    said("steps", "The cat sat", "--out", str(tmp_path / "steps.xlsx"))
    cells = [cell for row in openpyxl.load_workbook(tmp_path / "steps.xlsx").active.iter_rows() for cell in row]
    assert any(cell.data_type == "f" for cell in cells)
    assert "does not write xlsx" in refused("scaling", "--out", str(tmp_path / "scaling.xlsx"))


# Options


COMMAND_FILES = sorted((Path(regard.__file__).parent / "cli").rglob("*.py"))
FIGURE_OPTIONS = {"aspect", "font_size", "no_caption"}  # of every command that draws


def test_commands_have_at_most_ten_options():
    def check(group: TyperGroup) -> None:
        for name, command in group.commands.items():
            options = [parameter.name for parameter in command.params if parameter.param_type_name == "option"]
            assert len({*options} - FIGURE_OPTIONS) <= 10, name
            if isinstance(command, TyperGroup):
                check(command)

    check(cast(TyperGroup, get_command(app)))


def last_line(statement: ast.stmt) -> int:
    assert statement.end_lineno is not None
    return statement.end_lineno


def test_commands_are_short_functions_in_short_files():
    """What is longer holds something that belongs into the library; the docstring is the help."""
    lengths = {
        f"{path.name}: {node.name}": last_line(node) - last_line(node.body[0])
        for path in COMMAND_FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert len(lengths) > 50
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in COMMAND_FILES}
    assert {name: count for name, count in lines.items() if count > 150} == {}
    assert {name: count for name, count in lengths.items() if count > 35} == {}


def test_every_option_has_help():
    """The docstring of a command names its options; `add` refuses names that the command does not have."""

    def check(command, name):
        for option in command.params:
            assert option.name == "help" or option.help, f"{name} {option.name}"
        for under, sub in getattr(command, "commands", {}).items():
            check(sub, f"{name} {under}")

    check(get_command(app), "regard")

    def wrong(word: str) -> None:
        """Say hello.

        wrod  The person to greet.
        """

    with pytest.raises(TypeError, match="wrong describes wrod"):
        group("Greetings.", commands=[wrong])
