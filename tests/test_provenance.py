"""Every file says where its numbers come from."""

import csv
import io
import json

import numpy as np
import pytest

from regard.attention import Attention
from regard.output import html, latex, table_formats
from regard.reading import Reading

E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])


def reading():
    return Reading.of([Attention(E, E)] * 2, [E] * 2, words=["The", "cat", "sat"], model="small")


TABLES = {
    "looks": lambda: reading().looks("cat", layer=1, head=0),
    "pairs": lambda: reading().pairs(layer=1, head=0),
    "top": lambda: reading().top(layer=1, head=0),
    "steps": lambda: reading().explain("cat", layer=1).table(),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_a_reading_name_model_and_text_in_every_format(name):
    table = TABLES[name]()
    assert table.source.startswith("small") and table.source.endswith(": “The cat sat”")
    assert name == "steps" or table.source.startswith("small, layer 1, head 0")
    rows = list(csv.DictReader(io.StringIO(table_formats.to_csv(table), newline="")))
    assert {row["source"] for row in rows} == {table.source}
    assert json.loads(table_formats.to_json(table))["source"] == table.source
    for written in (table_formats.to_markdown(table), latex.render(table), html.fragment(table)):
        assert "The cat sat" in written and "small" in written


def test_a_trace_says_whether_its_numbers_were_typed_drawn_or_given():
    trace = Attention(E, E).explain(E, words=["The", "cat", "sat"])
    said = {
        None: "given vectors",
        "W_q = W_k = W_v = I: queries, keys and values are the embeddings.": "typed by hand",
        "Nothing was trained: embeddings and weights are random numbers from seed 3.": "random numbers from seed 3",
        "minilm, layer 3.": "minilm",
    }
    for note, source in said.items():
        assert trace.noted(note).table("cat").source == f"{source}: “The cat sat”"


def test_a_reading_from_a_file_is_an_unverified_source(tmp_path):
    reading().save(tmp_path / "a.safetensors")
    assert Reading.load(tmp_path / "a.safetensors").pairs().source == "small (unverified): “The cat sat”"
