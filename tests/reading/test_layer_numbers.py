"""A reading of some layers and heads keeps the model's own numbers, wherever a number is printed or taken."""

import json

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.masks import causal
from regard.output import see_report
from regard.reading import Reading
from regard.reading.sight import sight
from regard.viewer import frames, page
from regard.viewer.describe import describe
from regard.viewer.queries import Answers

WORDS = ["the", "kids", "saw", "lions", "so", "they", "left"]


def reading_of(layers=(3, 7), heads=(1, 5), words=WORDS):
    """Two layers of two heads, of which the last row of the last head looks at one word."""
    random = np.random.default_rng(7)
    attentions, values = [], []
    for _ in layers:
        queries, keys, value = random.normal(size=(3, len(heads), len(words), 5))
        attentions.append(Attention(queries, keys, mask=causal()))
        values.append(value)
    made = Reading.of(attentions, values, words=words)
    return Reading(
        made.text, made.tokens, made.seen, model="watched", layer_numbers=tuple(layers), head_numbers=tuple(heads)
    )


def plain(reading):
    """The same arrays, numbered from 0."""
    return Reading(reading.text, reading.tokens, reading.seen, model="watched")


def named(cells):
    """(layer, head) numbered from 0 as the model numbers them."""
    return [((3, 7)[layer], (1, 5)[head]) for layer, head in cells]


def test_layers_and_heads_count_from_0_by_default():
    reading = plain(reading_of())
    assert (reading.layer_numbers, reading.head_numbers) == ((0, 1), (0, 1))


def test_tables_name_layers_and_heads_by_the_models_numbers():
    reading = reading_of()
    for table in (lambda one: one.heads_for("they", "kids"), lambda one: one.top(5)):
        found, expected = table(reading), table(plain(reading))
        assert [row[:2] for row in found] == named(row[:2] for row in expected)
        assert [row[2:] for row in found] == [row[2:] for row in expected]
    assert reading.strongest("they", layer=7, head=5).title.endswith("layer 7, head 5")
    assert reading.pairs(layer=3).title.endswith("layer 3, all heads")
    assert "layer 7, head 5" in reading.table("they", layer=7, head=5).title
    assert "layer 7" in reading.explain("they", layer=7).note
    first, expected = reading.opening(), plain(reading).opening()
    assert named([(expected.layer, expected.head)]) == [(first.layer, first.head)]


def test_arguments_are_the_models_numbers():
    reading, counted = reading_of(), plain(reading_of())
    assert reading.attention(7) is reading.seen[1].attention and reading.attention(-1) is reading.seen[1].attention
    for number, place in ((3, 0), (7, 1)):
        np.testing.assert_array_equal(reading.weights(layer=number, head=5), counted.weights(layer=place, head=1))
        np.testing.assert_array_equal(
            reading.weights(layer=number, head=1, by="token"), counted.weights(layer=place, head=0, by="token")
        )
        assert reading.norms("they", layer=number, head=5).rows == counted.norms("they", layer=place, head=1).rows
        assert reading.strongest("they", layer=number).rows == counted.strongest("they", layer=place).rows


def test_a_layer_that_was_not_recorded_is_named_with_those_that_were():
    reading = reading_of()
    with pytest.raises(errors.OutOfRange, match=r"`layer` is 0, which was not recorded; recorded: 3, 7\."):
        reading.attention(0)
    with pytest.raises(errors.OutOfRange, match=r"`head` is 0, which was not recorded; recorded: 1, 5\."):
        reading.strongest("they", head=0)
    with pytest.raises(errors.OutOfRange, match="recorded: 3, 7"):
        reading.explain("they", layer=1)
    with pytest.raises(errors.OutOfRange, match="recorded: 3, 7"):
        sight(reading, layer=1)
    with pytest.raises(errors.OutOfRange, match="recorded: 3, 7"):
        page.page(reading, layers=[1])


def test_numbers_that_do_not_fit_are_refused():
    reading = reading_of()
    for numbers in ((3,), (3, 3), (-1, 2), ("3", 7)):
        with pytest.raises(errors.RegardError, match="layer_numbers"):
            Reading(reading.text, reading.tokens, reading.seen, layer_numbers=numbers)  # type: ignore[arg-type]


def test_a_saved_reading_keeps_them(tmp_path):
    reading = reading_of()
    reading.save(tmp_path / "some.safetensors")
    loaded = Reading.load(tmp_path / "some.safetensors")
    assert (loaded.layer_numbers, loaded.head_numbers) == ((3, 7), (1, 5))
    assert loaded.heads_for("they", "kids").rows == reading.heads_for("they", "kids").rows
    assert "layers 3, 7 × heads 1, 5" in repr(loaded)


def test_the_report_and_its_figures_name_them():
    reading = reading_of()
    shown = sight(reading, "they")
    counted = sight(plain(reading), "they")
    assert [(shown.layer, shown.head)] == named([(counted.layer, counted.head)])
    assert f"Layer {shown.layer}, head {shown.head}" in str(see_report.figure(shown))
    figure = str(see_report.heads_figure(shown))
    assert "head 1" in figure and "head 5" in figure and "head 0" not in figure
    found = json.loads(see_report.data(shown))
    assert (found["layer_numbers"], found["head_numbers"]) == ([3, 7], [1, 5])
    assert (found["map"]["layer"], found["map"]["head"]) == (shown.layer, shown.head)
    assert {(row["layer"], row["head"]) for row in found["heads_for"]} <= {(a, b) for a in (3, 7) for b in (1, 5)}
    best = json.loads(see_report.data(sight(plain(reading), "they")))
    expected = named((row["layer"], row["head"]) for row in best["looks"])
    assert [(row["layer"], row["head"]) for row in found["looks"]] == expected


def test_a_page_carries_them_and_keeps_layers_by_them():
    reading = reading_of()
    description = describe(reading)
    assert (description["layer_numbers"], description["head_numbers"]) == ((3, 7), (1, 5))
    header, _ = frames.unpack(Answers(reading).answer("describe"))
    assert (header["layer_numbers"], header["head_numbers"]) == ([3, 7], [1, 5])
    found = page.page(reading, layers=[7], start={"layer": 7, "head": 5, "query": 5})
    assert 'id="regard-layer-1"' in found and 'id="regard-layer-0"' not in found  # by position, as the page asks
