"""Tables hold the same numbers in every format, whatever the words."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.attention import Attention
from regard.output import html, latex, table_formats, text
from regard.output.figure import heat_map
from regard.tables import Column, Table, unguarded_cell
from regard.teaching.scaled_scores import scaling_lesson

from .cases import FORTY, HARD, cat_sat, drawn, hard_table


def test_text_shows_the_slide():
    lines = [" ".join(line.split()) for line in str(text.render(cat_sat().table("cat"))).splitlines()]
    assert lines[1:] == [
        "Word q k v score score/√d_k softmax softmax × v",
        "The 1 0 1 0 1 0 1 0 0 0 0.16 0.16 0.00 0.16 0.00",
        "cat 0 1 0 1 0 1 0 1 0 1 0 1 2 1 0.42 0.00 0.42 0.00 0.42",
        "sat 1 1 1 1 1 1 1 1 2 1 0.42 0.42 0.42 0.42 0.42",
        "sum 1.00 0.58 0.84 0.58 0.84",
    ]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("size", [1, 4, 9, 64])
def test_text_fits_the_width(size, width, full):
    shown = str(text.render(drawn(FORTY[10:17], size=size, masked=True).table(5, 1), width, full))
    assert max(map(cell_len, shown.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_full_text_includes_every_number(width):
    table = drawn(FORTY[:5], size=64).table(2)
    short, full = str(text.render(table, width)), str(text.render(table, width, full=True))
    assert "…" in short and "--full" in short
    assert "…" not in full
    expected = [number for row in table.rows for cell in table.printed(row)[1:] for number in cell.split()]
    shown = re.findall(r"−?\d+\.\d+", full)
    assert all(shown.count(number) >= expected.count(number) for number in set(expected))


def test_text_is_coloured_by_weight_in_a_terminal_and_plain_elsewhere():
    def printed(terminal: bool) -> str:
        stream = io.StringIO()
        Console(file=stream, force_terminal=terminal, color_system="truecolor" if terminal else None, width=80).print(
            text.render(cat_sat().table("cat"))
        )
        return stream.getvalue()

    coloured, plain = printed(True), printed(False)
    assert "48;2;" in coloured and "0.42" in coloured
    assert "\x1b" not in plain


def test_words_cannot_send_control_sequences():
    shown = str(text.render(hard_table()))
    assert "\x1b" not in shown
    assert "␛[31m" in shown and "new↵line" in shown and "[x]" in shown


def test_markdown_keeps_its_columns_whatever_the_words():
    lines = table_formats.to_markdown(hard_table()).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(HARD)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert r"| a\|b |" in lines[9]


def test_markdown_marks_the_query_word_and_the_largest_weight():
    rows = table_formats.to_markdown(cat_sat().table("sat")).splitlines()
    assert rows[-1] == "*Source: given vectors: “The cat sat”*"
    assert rows[-3].startswith("| **sat** |")
    assert "**0.58**" in rows[-3] and "[0.79 0.79 0.79 0.79]" in rows[-3]


def test_csv_has_every_digit_and_a_column_for_every_number():
    table = drawn(FORTY[:5], size=7, masked=True).table(2)
    rows = list(csv.DictReader(io.StringIO(table_formats.to_csv(table), newline="")))
    assert [row["Word"] for row in rows] == FORTY[:5]
    assert [float(row["softmax"]) if row["softmax"] else None for row in rows] == list(table["softmax"])
    assert table["softmax"][3:] == (None, None)  # masked keys
    assert [float(rows[3][f"v_{part}"]) for part in range(1, 8)] == list(table["v"][3])
    assert [float(row["masked"]) for row in rows][3:] == [-math.inf, -math.inf]
    assert rows[0]["q_1"] == ""


@pytest.mark.parametrize("width", [80, 120])
def test_long_vectors_show_some_of_their_numbers(width):
    table = drawn(FORTY[:3], size=64).table(2)
    lines = str(text.render(table, width)).splitlines()
    shown = [line for line in lines if line.split()[:1] == [FORTY[0]]]
    assert max(map(len, lines)) <= width and any("…" in line for line in shown)
    counts = [len(vector.split()) for line in shown for vector in line.split("…")[:-1]]
    assert len(counts) == 3 and min(counts) >= 5  # of k, v and softmax × v: a word or the last number, then four more


def test_csv_of_several_tables_names_the_table_of_each_row():
    rows = list(csv.DictReader(io.StringIO(table_formats.to_csv(cat_sat().tables()), newline="")))
    assert len(rows) == 9
    assert rows[4]["table"].startswith("Query cat")


def test_csv_and_json_give_hard_words_back_as_they_are():
    rows = list(csv.reader(io.StringIO(table_formats.to_csv(hard_table()), newline="")))[1:]
    assert tuple(unguarded_cell(row[0]) for row in rows) == HARD
    assert tuple(row["Word"] for row in json.loads(table_formats.to_json(hard_table()))["rows"]) == HARD


FORMULAS = ("=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "'=1", "＝1")


def test_csv_text_that_a_spreadsheet_would_compute_is_text():
    columns = Column("Word", "word"), Column("=x", "number"), Column("q", "vector")
    table = Table("-T", columns, tuple((word, -0.5, [-1.5]) for word in FORMULAS))
    one, several = (
        list(csv.reader(io.StringIO(table_formats.to_csv(what), newline=""))) for what in (table, [table, table])
    )
    assert one[0] == ["Word", "'=x", "q_1"]
    assert [row[0] for row in one[1:]] == [f"'{word}" for word in FORMULAS]
    assert all(row[1:] == ["-0.5", "-1.5"] for row in one[1:]), "numbers stay numbers"
    assert several[1][:2] == ["'-T", "'=1+1"]
    assert [unguarded_cell(row[0]) for row in one[1:]] == list(FORMULAS)
    assert [unguarded_cell(text) for text in ("don't", "'tis", "'", "")] == ["don't", "'tis", "'", ""]


def test_json_is_strict():
    def refuse(name: str) -> None:
        raise AssertionError(name)

    content = json.loads(table_formats.to_json(hard_table()), parse_constant=refuse)
    assert [row["score/√d_k"] for row in content["rows"]][:3] == ["NaN", "-Infinity", "Infinity"]
    trace = drawn(FORTY[:3], masked=True)
    steps = json.loads(table_formats.trace_to_json(trace), parse_constant=refuse)["steps"]
    assert np.array_equal(next(step["array"] for step in steps if step["name"] == "weight"), trace["weight"])


class Reader(HTMLParser):
    """Collects tags and checks that every one is closed in its turn."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def test_a_page_needs_nothing_from_outside():
    page = html.page([hard_table(), *cat_sat().tables()], heat_map(cat_sat()), title="R&D <1>")
    tags = read(page).seen
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags}
    assert not re.findall(r"(?:src|href)=|url\(|@import", page)
    assert "prefers-color-scheme:dark" in page
    assert "<b>" not in page and "&lt;b&gt;" in page


def test_tables_of_a_page_name_their_rows_and_columns():
    tags = read(html.page(cat_sat().tables())).seen
    scopes = [attributes.get("scope") for tag, attributes in tags if tag == "th"]
    assert scopes.count("row") == 12 and scopes.count("col") == 24  # the sum is a row
    assert sum(tag == "caption" for tag, _ in tags) == 3
    assert ("html", {"lang": "en"}) in tags


def test_identifiers_of_a_page_are_unique():
    trace = drawn(FORTY[:5])
    tags = read(html.page((), [heat_map(trace, head=head) for head in range(2)])).seen
    names = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(names) == len(set(names)) == 4


def test_notebooks_get_tables_and_traces():
    assert "0.58 0.84 0.58 0.84" in cat_sat().table("cat")._repr_html_()
    shown = read(cat_sat()._repr_html_()).seen
    assert sum(tag == "table" for tag, _ in shown) == 3 and sum(tag == "svg" for tag, _ in shown) == 1
    assert cat_sat().table("cat")._repr_html_().count("<script") == 0


def test_latex_escapes_what_latex_reads():
    body = latex.render(hard_table())
    assert r"50\% of \textless{}R\&D\_1\textgreater{}" in body
    assert r"\$x\textasciicircum{}2\$" in body and r"na\"{\i{}}ve" not in body
    assert r"na\"{i}ve" in body
    assert r"$\sqrt{d_k}$" in body
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {3}
    assert "日本語" in body and r"\DeclareUnicodeCharacter{65E5}" in latex.document(hard_table())


def test_latex_sets_formulas_as_formulas():
    body = latex.document([cat_sat().table("cat"), *scaling_lesson(sizes=(4, 16), draws=1).tables()])
    assert r"$\sqrt{d_k}$" in body and r"$d_k$" in body and r"$\partial W_q$" in body
    assert r"\_" not in body
    assert latex.formula("W_q x_10 d_model some_name") == r"$W_q$ $x_{\mathrm{10}}$ $d_{\mathrm{model}}$ some\_name"


def test_latex_splits_what_is_wider_than_the_page():
    trace = drawn(FORTY[:5], size=64)
    whole, split = latex.render(cat_sat().table("cat")), latex.render(trace.table(2))
    assert whole.count(r"\begin{tabular}{") == 1
    blocks = re.findall(r"\\begin\{tabular\}\{[lr]+\}.*?\\bottomrule", split, re.DOTALL)
    assert len(blocks) > 1 and all(block.count("Word &") == 1 for block in blocks)
    numbers = re.findall(r"\d\.\d\d", "".join(re.sub(r"\\phantom\{[^$]*?\}\}?", "", block) for block in blocks))
    assert len(numbers) >= 64 * (1 + 5 + 5 + 5 + 1)  # q, k, v, softmax × v and their sum, all of them


def test_html_sets_indices_below_the_line_and_aligns_vectors():
    columns = Column("W_q", "vector", 0), Column("score/√d_k", "number")
    page = html.page(Table("q = x · W_q", columns, (([1, -2], 0.5), ([-10, 0], 1.0))))
    assert "<caption>q = x · W<sub>q</sub></caption>" in page and "score/<wbr/>√d<sub>k</sub></th>" in page
    assert "[\u2007\u20071 \u2007−2]" in page and "[−10 \u2007\u20070]" in page


ENGINES = ("pdflatex", "lualatex", "xelatex")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_latex_compiles_to_pages_that_hold_everything(engine, tmp_path):
    if not shutil.which(engine):
        pytest.skip(f"{engine} is not installed: `make latex` installs it")
    tables = [hard_table(), *cat_sat().tables(), drawn(FORTY[:5], size=64, masked=True).table(2)]
    tables += [drawn(FORTY[:3], size=size).table(2) for size in (3, 9, 300)]
    tables += [drawn((FORTY * 3)[:100], size=2).table(2), *scaling_lesson(sizes=(4, 16), draws=1).tables()]
    (tmp_path / "tables.tex").write_text(latex.document(tables), encoding="utf-8")
    for _ in range(2):  # a table of several pages knows its columns the second time
        finished = subprocess.run(
            [engine, "-interaction=nonstopmode", "-halt-on-error", "tables.tex"], cwd=tmp_path, capture_output=True,
            timeout=300,
        )  # fmt: skip
        said = finished.stdout.decode("utf-8", "replace")
        assert finished.returncode == 0, said[-2000:]
    assert "Overfull \\hbox" not in said
    assert "Overfull \\vbox" not in said
    if shutil.which("pdffonts"):
        fonts = subprocess.run(["pdffonts", "tables.pdf"], cwd=tmp_path, capture_output=True, timeout=60, check=True)
        assert "Type 3" not in fonts.stdout.decode()  # bitmaps


@pytest.mark.parametrize("name", ["regard", "regard.output.figure", "regard.output.html", "regard.output.latex"])
def test_rich_is_loaded_only_for_terminals(name):
    code = f"import sys, {name}; sys.exit('rich' in sys.modules or 'torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_text_of_a_thousand_words_has_a_line_for_each():
    q, k, v = np.random.default_rng(0).normal(size=(3, 1000, 64))
    words = [f"word{place}" for place in range(1000)]
    shown = str(text.render(Attention(q, k).explain(v, query=7, words=words).table()))
    assert len(shown.splitlines()) >= 1003
    assert all(word in shown for word in words)


# Layout of tables printed together


def four_numbers(digits):
    vectors = np.random.default_rng(2).normal(size=(3, 4)).round(digits)
    trace = Attention(vectors, vectors).explain(vectors, words=["The", "cat", "sat"])
    return [str(table) for table in text.render_all(trace.tables())]


@pytest.mark.parametrize("digits", [0, 1, 2])
def test_vectors_of_four_are_whole_in_80_columns(digits):
    for shown in four_numbers(digits):
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= 80


def test_tables_printed_together_have_one_heading():
    headings = [[line for line in shown.splitlines() if line.startswith("Word")] for shown in four_numbers(2)]
    assert headings[0] == headings[1] == headings[2]


def test_components_of_vectors_are_aligned():
    vectors = [[1, -10.0, 0], [-1, 2.0, 30]]
    shown = str(text.render(Table("", (Column("x", "vector", 0),), tuple((row,) for row in vectors))))
    assert shown.splitlines()[1:] == [" 1 −10  0", "−1   2 30"]
