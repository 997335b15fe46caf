"""Figures are valid and readable, and show the numbers they are drawn from."""

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.layers import MultiHead
from regard.masks import causal
from regard.output import figure, svg
from regard.output.colours import contrast, diverging, ink_on, sequential
from regard.output.lesson_figures import filter_terms
from regard.output.panel import scale_for
from regard.teaching.block import block_lesson
from regard.teaching.lookup import lookup
from regard.teaching.positions import position_lesson
from regard.teaching.scaled_scores import scaling_lesson

from .cases import FORTY, HARD, cat_sat, drawn
from .svg_boxes import SVG, boxes, outside, overlaps


def both(words):
    rng = np.random.default_rng(3)
    return rng.normal(size=(len(words), 5)), rng.normal(size=(2, 3, 5))


def layered(words, width, heads):
    x = np.random.default_rng(1).normal(size=(len(words), width))
    return MultiHead.seeded(width=width, heads=heads, seed=0, dtype=np.float64).explain(x, words=list(words))


FIGURES = {
    "heat map of 3": lambda: figure.heat_map(cat_sat()),
    "heat map of 1": lambda: figure.heat_map(drawn(["one"])),
    "heat map of 14, masked": lambda: figure.heat_map(drawn(FORTY[:14], masked=True), head=1),
    "heat map of 40": lambda: figure.heat_map(drawn(FORTY)),
    "heat map of 90": lambda: figure.heat_map(drawn((FORTY * 3)[:90])),
    "heat map of 1000": lambda: figure.heat_map(Attention(*np.random.default_rng(0).normal(size=(2, 1000, 5)))),
    "heat map of hard words": lambda: figure.heat_map(drawn(HARD)),
    "flow of 3": lambda: figure.flow(cat_sat(), "cat"),
    "flow of 40": lambda: figure.flow(drawn(FORTY, size=64, masked=True), "found", 1),
    "flow of hard words": lambda: figure.flow(drawn(HARD), 3),
    "bars of 4": lambda: figure.bars(cat_sat(), "cat", "sat"),
    "bars of 9": lambda: figure.bars(drawn(FORTY[:5], size=9), 2, 3),
    "bars of 64": lambda: figure.bars(drawn(FORTY[:5], size=64), 2, 3),
    "bars of 1024": lambda: figure.bars(drawn(FORTY[:2], size=1024), 0, 1),
    "heads and filters of 3": lambda: figure.heads_and_filters(cat_sat(), *both("abc")),
    "heads and filters of 11": lambda: figure.heads_and_filters(drawn(FORTY[:11], heads=8), *both(FORTY[:11])),
    "heads and filters of 40": lambda: figure.heads_and_filters(drawn(FORTY), *both(FORTY)),
    "fixed and computed": lambda: figure.fixed_and_computed(np.eye(12, 8), cat_sat(), drawn(FORTY[:7])),
    "fixed and computed of 40": lambda: figure.fixed_and_computed(np.eye(64), drawn(FORTY), drawn(FORTY[1:])),
    "heads of 3 words": lambda: figure.heads(layered(["The", "cat", "sat"], 8, 4)),
    "heads of 14 words": lambda: figure.heads(layered(FORTY[:14], 64, 8)),
    "heads, wide": lambda: figure.heads(layered(FORTY[:3], 96, 12)),
    "heads of 40 words": lambda: figure.heads(drawn(FORTY, heads=6, masked=True)),
    "heads of hard words": lambda: figure.heads(layered(HARD, 6, 3)),
    "40 heads": lambda: figure.heads(np.full((40, 2, 3), 1 / 3)),
    "one head": lambda: figure.heads(layered(["a"], 2, 1)),
    "sinusoidal positions": lambda: figure.positions(position_lesson("sinusoidal")),
    "sinusoidal positions, one": lambda: figure.positions(position_lesson("sinusoidal", length=1, width=1)),
    "learned positions, many": lambda: figure.positions(position_lesson("learned", length=300, width=300)),
    "rotary positions": lambda: figure.positions(position_lesson("rotary", width=8)),
    "rotary positions, one pair": lambda: figure.positions(position_lesson("rotary", length=1, width=2)),
    "rotary positions, many": lambda: figure.positions(position_lesson("rotary", length=200, width=128)),
    "encoder block": lambda: figure.block(block_lesson(["The", "cat", "sat"])),
    "decoder block": lambda: figure.block(block_lesson(HARD[4:9], FORTY[:7], width=64, heads=8, norm_first=True)),
    "look-up of texts": lambda: figure.lookup(lookup({"Date of birth": "May 5th", "Name": "Jane"}), "birth date"),
    "look-up of vectors": lambda: figure.lookup(lookup(np.eye(3), -11.5 * np.eye(3)), [0.5, 0, 1], 0),
    "look-up of hard words": lambda: figure.lookup(lookup({word * 9: word * 9 for word in (*HARD, *FORTY)}), HARD[6]),
    "scaling": lambda: figure.scaling(scaling_lesson(draws=1)),
    "scaling, one size": lambda: figure.scaling(scaling_lesson(["d_k"], sizes=[7], draws=1)),
    "scaling, sizes out of order": lambda: figure.scaling(scaling_lesson(sizes=[64, 4, 64, 5, 1000, 1024], draws=1)),
    "scaling by many": lambda: figure.scaling(
        scaling_lesson({word or "none": 1 + place / 7 for place, word in enumerate(HARD)}, sizes=[4, 16], draws=1)
    ),
    "scaling without gradients": lambda: figure.scaling(scaling_lesson(sizes=[3, 17], tokens=1, draws=1)),
}


@pytest.fixture(scope="module", params=FIGURES, ids=str)
def drawing(request):
    return FIGURES[request.param]()


def test_texts_neither_touch_nor_leave_the_figure(drawing):
    found = boxes(str(drawing))
    assert found
    assert not overlaps(found)
    assert not outside(found, str(drawing))


def test_a_figure_is_xml_with_a_description_for_screen_readers(drawing):
    root = ElementTree.fromstring(str(drawing))
    named = root.get("aria-labelledby", "").split()
    title, description = root.find(SVG + "title"), root.find(SVG + "desc")
    assert title is not None and description is not None
    assert [title.get("id"), description.get("id")] == named
    assert title.text and description.text and len(description.text) > 30
    assert root.get("role") == "img"
    assert "sans-serif" in root.attrib["font-family"]


def test_labels_are_large_enough_to_read(drawing):
    sizes = [float(text.attrib["font-size"]) for text in ElementTree.fromstring(str(drawing)).iter(SVG + "text")]
    assert min(sizes) >= 8


def test_png_is_a_picture_of_it(drawing, tmp_path):
    pytest.importorskip("typst", reason="PNG needs the `figures` extra")
    data = drawing.save(tmp_path / "figure.png", scale=1).read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    width, height = (int.from_bytes(data[place : place + 4]) for place in (16, 20))
    assert abs(width - drawing.width) <= 1 and abs(height - drawing.height) <= 1
    blank = figure.Svg(drawing.width, drawing.height, "", "", ()).png(1)
    assert len(data) > 3 * len(blank)


def test_all_heads_are_drawn_on_one_scale():
    """A weight has one colour, whichever head it is of."""
    weights = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.1, 0.9], [0.25, 0.75]]])
    drawing = str(figure.heads(weights, words=["a", "b"]))
    colour = re.compile(r'fill="(#\w+)"><title>(\w) attends to (\w): ([\d.]+)')
    found = [(float(number), fill) for fill, _, _, number in colour.findall(drawing)]
    assert [number for number, _ in found] == weights.ravel().tolist()
    assert len({fill for number, fill in found if number == 0.9}) == 1
    assert len({fill for _, fill in found}) == len(np.unique(weights))


def test_after_the_heads_come_concatenate_and_w_o():
    trace = layered(["The", "cat", "sat"], 4, 2)
    drawing = str(figure.heads(trace))
    for name in ("concatenated", "projected"):
        for row, word in enumerate(trace.query_words):
            for column in range(4):
                number = f"{trace[name][row, column]:.4f}".replace("-", "−").replace("−0.0000", "0.0000")
                assert f"{word}, component {column + 1}: {number}" in drawing
    made = trace.origin.parts["projected"].linear.weight
    assert f"W_O, row 3, column 2: {made[1, 2]:.4f}".replace("-", "−") in drawing


def test_an_index_is_set_below_the_line():
    element = ElementTree.fromstring(svg.text("√d_k = 2, ∂W_q, m_b", 0, 0, 10))
    assert ["".join(element.itertext()), element.text] == ["√dk = 2, ∂Wq, m_b", "√d"]
    assert [(part.text, part.get("dy"), part.get("font-size")) for part in element] == [
        ("k", "2.2", "7.4"), (" = 2, ∂W", "-2.2", None), ("q", "2.2", "7.4"), (", m_b", "-2.2", None),
    ]  # fmt: skip


def test_heat_map_shows_the_weights():
    texts = [box.text for box in boxes(str(figure.heat_map(cat_sat())))]
    assert [text for text in texts if text.startswith("0.") and len(text) == 4] == (
        ["0.42", "0.16", "0.42", "0.16", "0.42", "0.42", "0.21", "0.21", "0.58"]
    )
    assert "cat attends to sat: 0.4223" in str(figure.heat_map(cat_sat()))


def test_heat_map_takes_attention_arrays_and_tensors():
    torch = pytest.importorskip("torch")
    trace = drawn(FORTY[:5], masked=True)
    attention = Attention(trace["query"], trace["key"], mask=causal())
    words = FORTY[:5]
    expected = str(figure.heat_map(trace, head=1))
    assert str(figure.heat_map(attention, head=1, words=words)) == expected
    weights = np.array(trace["weight"])
    unmasked = str(figure.heat_map(weights, head=1, words=words))
    assert str(figure.heat_map(torch.tensor(weights, requires_grad=True), head=1, words=words)) == unmasked


def test_masked_keys_have_no_number():
    texts = [box.text for box in boxes(str(figure.heat_map(drawn(FORTY[:5], masked=True))))]
    assert sum(text.count(".") == 1 and text[0] in "01" and len(text) == 4 for text in texts) == 15


def test_long_inputs_are_pooled_with_a_note():
    attention = Attention(*np.zeros((2, 4000, 3)))
    drawing = str(figure.heat_map(attention))
    assert "4000 × 4000 weights, each cell the mean" in drawing
    assert len(drawing) < 2_000_000


def test_flow_shows_every_step_of_the_slides():
    texts = [box.text for box in boxes(str(figure.flow(cat_sat(), "cat")))]
    assert {"q · k", "÷ √dk = 2", "softmax = weight", "0.58 0.84 0.58 0.84", "0.16", "0.42", "0 1 0 1"} <= set(texts)


def test_flow_of_many_words_includes_every_weight():
    trace = drawn(FORTY)
    drawing = figure.flow(trace, 0)
    numbers = [
        part.rstrip(".").rsplit(" ", 1)[1]
        for part in drawing.description.split("weights ")[1].split(". The")[0].split(", ")
        if " " in part
    ]
    assert "29 other words" in str(drawing)
    assert sum(map(float, numbers)) == pytest.approx(1, abs=0.06)  # twelve numbers, each rounded to two digits


def test_line_widths_are_in_proportion_to_weights():
    curves = [
        path
        for path in ElementTree.fromstring(str(figure.flow(cat_sat(), "cat"))).iter(SVG + "path")
        if path.get("opacity")
    ]
    widths = [float(path.attrib["stroke-width"]) for path in curves][::2]
    assert np.allclose(np.array(widths) / sum(widths), cat_sat()["weight"][0, 1], atol=1e-3)


def test_bars_show_the_sum():
    drawing = str(figure.bars(cat_sat(), "cat", "sat"))
    assert "0 + 1 + 0 + 1 = 2" in drawing
    assert "2 ÷ √4 = 1" in drawing


def test_filter_terms_sum_to_a_convolution():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    signal, filters = rng.normal(size=(7, 3)), rng.normal(size=(2, 5, 3))
    expected = torch.nn.functional.conv1d(
        torch.tensor(signal.T)[None], torch.tensor(filters).swapaxes(1, 2).contiguous(), padding=2
    )[0]
    assert np.allclose(filter_terms(signal, filters).sum(axis=2), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: figure.heat_map(np.zeros((2, 2, 3, 3))), "expected (query, key)"),
        (lambda: figure.heat_map(np.zeros((3, 3)), words=["a"]), "1 words for 3 tokens"),
        (lambda: figure.heat_map(np.zeros((2, 3, 3)), head=2), "`head` is 2"),
        (lambda: figure.heat_map(Attention(*np.zeros((2, 2, 1, 3, 4)))), "select(batch=0)"),
        (lambda: figure.flow(cat_sat(), "dog"), "dog"),
        (lambda: figure.heads_and_filters(cat_sat(), np.zeros((3, 2)), np.zeros((1, 2, 2))), "odd number of taps"),
        (lambda: figure.heads_and_filters(cat_sat(), np.zeros((4, 2)), np.zeros((1, 3, 2))), "same sentence"),
        (lambda: figure.fixed_and_computed(np.zeros(3), cat_sat(), cat_sat()), "(input, output)"),
        (lambda: figure.heat_map(cat_sat()).save("figure.gif"), ".svg, .png or .pdf"),
        (lambda: figure.heat_map(cat_sat()).png(0), "scale"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(draw, says):
    with pytest.raises(errors.RegardError) as caught:
        draw()
    assert says in str(caught.value)


def test_png_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(errors.Unsupported, match="typst"):
        figure.heat_map(cat_sat()).png()


def test_numbers_stand_out_from_every_colour():
    shares = np.linspace(0, 1, 256)
    for colour in [*map(sequential, shares), *map(diverging, 2 * shares - 1)]:
        assert contrast(ink_on(colour), colour) >= 4.5


def test_colours_get_darker_in_even_steps():
    """Lightness alone orders weights, so every kind of colour blindness keeps the order."""
    luminance = np.array([contrast("#000000", sequential(share)) for share in np.linspace(0, 1, 33)])
    assert (np.diff(luminance) < 0).all()


@pytest.mark.parametrize(("largest", "top"), [(0.42, 0.5), (0.58, 0.6), (1, 1), (0.0031, 0.004), (0, 1), (17, 20)])
def test_scales_end_in_numbers_that_read_well(largest, top):
    assert scale_for(np.array([[largest]])).top == pytest.approx(top)


def test_masked_keys_are_named_as_masked_in_figures():
    trace = drawn(FORTY[:3], masked=True)
    shown = str(figure.heat_map(trace)), str(figure.flow(trace, 0))
    assert f"{FORTY[0]} attends to {FORTY[2]}: masked" in shown[0] and f"{FORTY[2]} masked" in shown[1]
    assert not any(f"{FORTY[2]} 0.00" in one or f"{FORTY[0]} attends to {FORTY[2]}: 0.0000" in one for one in shown)


ON_SLIDES = (
    "heat map of 3", "heat map of 14, masked", "heat map of 40", "flow of 3", "bars of 4", "bars of 64",
    "heads of 3 words", "heads of 14 words", "sinusoidal positions", "encoder block", "look-up of texts",
)  # fmt: skip


@pytest.mark.parametrize("name", ON_SLIDES)
@pytest.mark.parametrize("caption", [True, False])
def test_type_on_a_slide_has_18_pt(name, caption):
    with svg.usual_layout({"aspect": "16:9", "font_size": 18, "caption": caption}):
        drawing = FIGURES[name]()
    found = boxes(str(drawing))
    assert drawing.width / drawing.height == pytest.approx(16 / 9)
    assert drawing.smallest_type * 540 / drawing.height >= 18
    assert not overlaps(found) and not outside(found, str(drawing))


def test_a_figure_without_caption_has_neither_title_nor_notes():
    texts = [box.text for box in boxes(str(figure.heat_map(cat_sat(), caption=False)))]
    assert "Attention weights" not in texts and "Each row sums to 1." not in texts and "0.42" in texts


def test_font_size_alone_enlarges_a_figure():
    drawing = figure.heat_map(cat_sat(), font_size=24)
    assert drawing.smallest_type * drawing.scale * 0.75 == pytest.approx(24)


@pytest.mark.parametrize("layout", [{"aspect": "16x9"}, {"aspect": "16:9", "font_size": 90}, {"font_size": 0}])
def test_a_layout_that_cannot_be_is_refused(layout):
    with pytest.raises(errors.RegardError):
        figure.heat_map(drawn(FORTY), **layout)
