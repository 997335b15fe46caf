"""What the report selects from a reading, and its form in a terminal, a notebook and a figure."""

import io
import json
import re
from typing import Literal
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from regard.attention import Attention
from regard.masks import causal
from regard.output import see_report, text
from regard.output.characters import printable_lines
from regard.output.see_report import WordMap, sentence, weights_between_words
from regard.reading import Reading, Token
from regard.reading.sight import sight


def read(words, mask=None, heads=2, seed=3, layers=2):
    rng = np.random.default_rng(seed)
    names = words.split() if isinstance(words, str) else words
    made = [rng.normal(size=(3, heads, len(names), 4)).astype(np.float32) for _ in range(layers)]
    return Reading.of([Attention(2 * one[0], one[1], mask=mask) for one in made], [one[2] for one in made], words=names)


def shown_in(console_width, renderable, colour=True):
    stream = io.StringIO()
    system: Literal["truecolor"] | None = "truecolor" if colour else None
    Console(file=stream, width=console_width, color_system=system, force_terminal=colour, legacy_windows=False).print(
        renderable
    )
    return stream.getvalue()


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("the kids saw lions so they left", "they"),
        ("I think that she left", "she"),
        ("you saw them THEY left", "them"),
    ],
)
def test_the_query_is_a_pronoun_if_there_is_one(words, chosen):
    assert sight(read(words)).word == chosen


def test_the_report_opens_on_the_link_that_the_reading_opens_on():
    reading = read("cats , chase mice !")
    found, link = sight(reading), reading.opening()
    assert (found.query, found.partner, found.layer, found.head) == (link.query, link.key, link.layer, link.head)


def test_in_a_causal_reading_words_with_little_choice_do_not_win():
    reading = read("a b c d e f g h", causal())
    place = sight(reading).query
    rows = {reading.labels.index(row[0]): row[2] for row in reading.pairs() if row[2] is not None}
    assert place == max(rows, key=lambda one: rows[one] * one)


def test_the_head_that_is_drawn_attends_most_to_the_partner():
    reading = read("the kids saw lions so they left")
    found = sight(reading)
    assert found.looks["Word"][0] == reading.labels[found.partner]
    assert (found.layer, found.head) == reading.heads_for("they", found.partner).rows[0][:2]
    in_layer = sight(reading, "kids", layer=1)
    assert in_layer.layer == 1
    one = sight(reading, "kids", layer=0, head=1)
    assert (one.layer, one.head) == (0, 1)
    assert "at most" not in [column.name for column in one.looks.columns]


def test_each_ranked_word_names_its_strongest_head():
    reading = read("the kids saw lions so they left")
    for row in sight(reading).looks:
        assert row[-3:-1] == reading.heads_for("they", row[0]).rows[0][:2]
        assert row[-1] == reading.heads_for("they", row[0]).rows[0][3]


def test_a_single_word_attends_only_to_itself():
    found = sight(read("alone"))
    assert found.partner is None
    assert "1.00" in text.plain(text.render(found.looks))
    json.loads(see_report.data(found))


# The map


def cells(shown):
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]


def test_the_map_holds_the_weights_between_words():
    reading = read("the kids saw lions")
    found = cells(shown_in(80, WordMap(reading, 1, 0), colour=False))
    expected = reading.weights(layer=1, head=0)
    for line, word, row in zip(found[-5:-1], reading.labels, expected, strict=True):
        assert line.split()[0] == word
        for shown, weight in zip(line.split()[1:], row, strict=True):
            assert shown == "·" if weight < 0.005 else abs(float(shown) - weight) <= 0.0051


def test_words_label_both_sides_with_vertical_headings():
    found = cells(shown_in(80, WordMap(read("the kids saw lions"), 0, 0), colour=False))
    columns = [line.ljust(80) for line in found[1:6]]
    letters = ["".join(column).strip() for column in zip(*columns, strict=True)]
    assert [word for word in letters if word] == ["the", "kids", "saw", "lions"]


@pytest.mark.parametrize("count", [1, 12, 17, 30, 45, 200])
@pytest.mark.parametrize("width", [24, 40, 80])
@pytest.mark.parametrize("colour", [True, False])
def test_maps_fit_whatever_the_width(count, width, colour):
    shown = shown_in(width, WordMap(read([f"word{place}" for place in range(count)]), 0, 1), colour)
    assert max(map(len, cells(shown))) <= width
    assert ("48;2" in shown) is colour


def test_masked_words_are_blank_with_a_note():
    found = cells(shown_in(80, WordMap(read("the kids saw lions", causal()), 0, 0), colour=False))
    (first,) = [line for line in found if line.startswith("the ")]
    assert first.split() == ["the", "1.0"]
    assert "Blank" in found[-1]


def test_many_words_share_cells_and_keep_their_sums():
    reading = read([f"word{place}" for place in range(50)])
    weights = weights_between_words(reading, 0, 0, most=7)
    assert weights.array.shape == (7, 7)
    assert weights.pooled
    np.testing.assert_allclose(weights.array.sum(axis=1), 1, atol=1e-5)
    edges = [0, 7, 14, 21, 28, 35, 42, 50]
    expected = reading.weights(layer=0, head=0)[edges[2] : edges[3], edges[4] : edges[5]].sum(axis=1).mean()
    assert weights.array[2, 4] == pytest.approx(expected, abs=1e-6)


# Everything else


def reading_of(text, tokens=None, **options):
    E = np.eye(3)
    tokens = tokens or tuple(Token(text[place], place, place, place + 1) for place in range(3))
    return Reading(text, tokens, Reading.of(Attention(E, E), E).seen, **options)


def test_generated_tokens_are_distinguished_from_the_prompt():
    tokens = (Token("a", 0, 0, 1), Token("b", 1, 2, 3), Token("c", 2, 4, 5))
    shown = sentence(reading_of("a b c", tokens, given=1))
    assert [span.start for span in shown.spans if "italic" in str(span.style)] == [2]


def test_control_characters_of_a_text_stay_harmless_and_keep_its_length():
    assert sentence(reading_of("a\x1b[31mb\nc")).plain == "a␛[31mb\nc"
    assert len(printable_lines("a\u202eb\r\nc")) == 6


def test_a_long_text_is_shortened_in_the_middle():
    shown = sentence(reading_of("start " + "x" * 10_000 + " end")).plain
    assert len(shown) < 700
    assert shown.startswith("start") and shown.endswith("end") and "characters …" in shown


def test_notebooks_and_figures_show_it():
    reading = read("the <b>kids</b> saw lions so they left")
    assert "&lt;b&gt;kids" in reading._repr_html_()
    drawn = ElementTree.fromstring(str(see_report.figure(sight(reading))))
    assert drawn.tag.endswith("svg")


def test_punctuation_is_not_a_partner_if_there_is_a_word():
    reading = read("she . , left", seed=1)
    found = sight(reading, "she")
    assert reading.labels[found.partner] == "left"
    assert reading.labels[sight(read(["she", ".", "."]), "she").partner] in (".", ".:2")
