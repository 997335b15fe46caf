"""The lesson on √d_k as line charts: at the right heights, distinguishable without colour."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.output import chart, figure
from regard.output.colours import contrast
from regard.teaching.scaled_scores import scaling_lesson

from .svg_boxes import SVG, boxes

SIZES = (2, 8, 32, 512)


@pytest.fixture(scope="module")
def lesson():
    return scaling_lesson(sizes=SIZES, draws=2)


@pytest.fixture(scope="module")
def polylines(lesson):
    """The points of each line, in the order of panels and divisors."""
    paths = ElementTree.fromstring(str(figure.scaling(lesson))).iter(SVG + "path")
    found = [(path, re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.attrib["d"])) for path in paths]
    return [
        (path, np.array(points, float))
        for path, points in found
        if len(points) == len(SIZES) and "z" not in path.attrib["d"]
    ]


def test_there_is_a_line_for_each_divisor_and_quantity(polylines):
    assert len(polylines) == 3 + 3 + 3 + 2 * 3


@pytest.mark.parametrize(("first", "quantity"), [(0, "entropy"), (3, "largest_weight")])
def test_heights_are_in_proportion_to_the_numbers(lesson, polylines, first, quantity):
    heights = np.array([points[:, 1] for _, points in polylines[first : first + 3]])
    numbers = getattr(lesson, quantity)
    slope, start = np.polyfit(numbers.ravel(), heights.ravel(), 1)
    assert slope < 0  # up is less
    assert np.allclose(slope * numbers + start, heights, atol=0.02)  # coordinates have two decimals


@pytest.mark.parametrize("places", [slice(6, 9), slice(9, 15)])
def test_gradients_and_sizes_stand_on_logarithmic_axes(lesson, polylines, places):
    heights = np.array([points[:, 1] for _, points in polylines[places]])
    both = np.concatenate([lesson.gradient_q, lesson.gradient_k])
    numbers = np.log(lesson.typical_query if places.start == 6 else both)
    slope, start = np.polyfit(numbers.ravel(), heights.ravel(), 1)
    assert slope < 0
    assert np.allclose(slope * numbers + start, heights, atol=0.02)
    across = polylines[0][1][:, 0]
    assert np.allclose((across - across[0]) / np.ptp(across), np.log2(np.array(SIZES) / 2) / 8, atol=1e-3)


def test_every_line_has_its_own_dashes_and_its_label(polylines, lesson):
    assert len({path.get("stroke-dasharray") for path, _ in polylines[:3]}) == 3
    texts = [box.text for box in boxes(str(figure.scaling(lesson)))]
    assert all(texts.count(f"÷ {name}".replace("_", "")) == 4 for name in lesson.divisors)


def test_the_gradient_that_vanishes_is_drawn_beside_the_one_that_grows():
    lesson = scaling_lesson(draws=4)
    drawing = figure.scaling(lesson)
    vanishes, grows = lesson.curve("typical_query", 1), lesson.curve("gradient_q", 1)
    assert vanishes[-1] < vanishes.max() / 100 and grows[-1] > 10 * grows[0]
    assert f"typical ‖∂q‖, ÷ 1, d_k = 1024: {vanishes[-1]:.4f}" in str(drawing)
    assert f"‖∂W_q‖, ÷ 1, d_k = 1024: {grows[-1]:.4f}" in str(drawing)
    words = "".join(ElementTree.fromstring(str(drawing)).itertext())
    assert "vanishes" in words and "vanishes" not in str(figure.scaling(scaling_lesson(["√d_k"], draws=1)))


def test_sixteen_lines_differ_without_their_labels():
    styles = {(style % 4, chart.DASHES[(style + style // 4) % 4]) for style in range(16)}
    assert len(styles) == 16
    assert len({chart._marker(style, 3.0) for style in range(4)}) == 4


def test_colours_of_labels_are_readable():
    assert min(contrast(colour, "#ffffff") for colour in chart.COLOURS) >= 4.5


def test_numbers_show_under_the_pointer_and_findings_in_words(lesson):
    drawing = figure.scaling(lesson)
    assert f"entropy, ÷ √d_k, d_k = 512: {lesson.curve('entropy')[-1]:.4f}" in str(drawing)
    assert lesson.findings("d_k")[0] in drawing.description


def test_numbers_off_the_axis_interrupt_the_line(lesson):
    entropy = lesson.entropy.copy()
    entropy[0, 1], entropy[1] = np.nan, np.inf
    drawing = str(figure.scaling(replace(lesson, entropy=entropy)))
    assert "nan" not in drawing and "inf" not in drawing.split("</desc>")[1]
    ElementTree.fromstring(drawing)


def test_a_lesson_shows_figure_and_tables_in_a_notebook(lesson):
    shown = lesson._repr_html_()
    assert shown.count("<svg") == 1 and shown.count("<table") == 4 and "<script" not in shown


def test_rounding_errors_are_drawn_as_zero():
    """One token gives itself all weight: entropy and gradients are 0 but for rounding."""
    drawing = str(figure.scaling(scaling_lesson(sizes=[3, 17], tokens=1, draws=1)))
    assert "e−1" not in drawing
    assert "not drawn" not in drawing


def test_a_note_says_that_gradients_of_zero_are_not_drawn(lesson):
    gradient = lesson.gradient_q.copy()
    gradient[0, -1] = 0.0
    assert "not drawn" not in str(figure.scaling(lesson))
    assert "not drawn" in str(figure.scaling(replace(lesson, gradient_q=gradient)))


def test_small_gradients_of_large_divisors_are_drawn():
    drawing = str(figure.scaling(scaling_lesson([1e15], sizes=[64, 128], draws=1)))
    assert "not drawn" not in drawing and "1e−14" in drawing
