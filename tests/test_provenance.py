"""Every file says where its numbers come from."""

import csv
import io
import json

import numpy as np
import pytest

from regard.attention import Attention
from regard.layers import MultiHead
from regard.output import figure, html, latex, table_formats
from regard.reading import Reading
from regard.teaching.block import block_lesson
from regard.teaching.positions import position_lesson
from regard.teaching.scaled_scores import scaling_lesson
from regard.teaching.traced_attention import traced
from regard.viewer.describe import describe

E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])


def reading():
    return Reading.of([Attention(E, E)] * 2, [E] * 2, words=["The", "cat", "sat"], model="small")


TABLES = {
    "looks": lambda: reading().strongest("cat", layer=1, head=0),
    "pairs": lambda: reading().pairs(layer=1, head=0),
    "top": lambda: reading().top(layer=1, head=0),
    "steps": lambda: reading().explain("cat", layer=1).table(),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_a_reading_name_model_and_text_in_every_format(name):
    table = TABLES[name]()
    assert table.source == "small, layer 1, head 0: “The cat sat”"
    rows = list(csv.DictReader(io.StringIO(table_formats.to_csv(table), newline="")))
    assert {row["source"] for row in rows} == {table.source}
    assert json.loads(table_formats.to_json(table))["source"] == table.source
    for written in (table_formats.to_markdown(table), latex.render(table), html.fragment(table)):
        assert "The cat sat" in written and "small" in written


TYPED = {"words": ["The", "cat", "sat"], "embeddings": E.tolist()}
TRACES = {
    "given vectors": lambda: Attention(E, E).explain(E, words=["The", "cat", "sat"]),
    "typed by hand": lambda: traced(None, TYPED | {"W_q": np.eye(4)[::-1].tolist()}).explain(None),
    "random numbers from seed 3": lambda: traced(["The", "cat", "sat"], seed=3).explain(None),
    "typed by hand, W random numbers from seed 3": lambda: traced(None, TYPED, seed=3).explain(None),
    "small, layer 1, head 0": lambda: reading().explain(layer=1),
}


@pytest.mark.parametrize("source", TRACES)
def test_every_format_of_a_trace_says_whether_its_numbers_were_typed_drawn_or_given(source):
    trace = TRACES[source]()
    assert trace.table("cat").source == f"{source}: “The cat sat”"
    assert json.loads(table_formats.trace_to_json(trace))["source"].startswith(source.removesuffix(", head 0"))
    described = describe(Reading.of(trace))
    assert described["source"] == source.removesuffix(", head 0") and described["text"] == "The cat sat"
    if source.startswith("typed"):
        assert "typed by hand" in str(figure.heat_map(trace)).casefold()


def test_a_note_is_no_source():
    trace = MultiHead.seeded(4, heads=2).explain(E, words=["The", "cat", "sat"], note="Of some model, layer 3.")
    assert trace.table("cat", head=1).source == "given vectors, head 1: “The cat sat”"


@pytest.mark.parametrize("lesson", [
    lambda: block_lesson(["The", "cat"], seed=3),
    lambda: scaling_lesson(sizes=[1, 4], seed=3),
    lambda: position_lesson("learned", seed=3),
])  # fmt: skip
def test_files_of_lessons_name_the_seed(lesson):
    made = lesson()
    tables = made.tables()[-2:] if hasattr(made, "tables") else [made.table()]
    for table in tables:
        rows = list(csv.DictReader(io.StringIO(table_formats.to_csv(table), newline="")))
        assert rows and all("seed 3" in row["source"] for row in rows)


def test_a_reading_from_a_file_is_an_unverified_source(tmp_path):
    reading().save(tmp_path / "a.safetensors")
    loaded = Reading.load(tmp_path / "a.safetensors")
    assert loaded.pairs().source == "small (unverified): “The cat sat”"
    expected = "small (unverified), layer 1, head 0: “The cat sat”"
    assert loaded.table("cat", layer=1, head=0).source == loaded.explain(layer=1).table("cat").source == expected
    note = loaded.explain(layer=1).note
    assert note is not None and "unverified" in note
