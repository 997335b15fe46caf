"""PDF figures: text that can be copied, a page of the figure's size, and the same picture as the SVG."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from regard import errors
from regard.output import figure
from regard.output.svg import Svg, path, text

from ..patterns import search
from .cases import cat_sat

pytest.importorskip("typst", reason="PDF needs the `figures` extra")
poppler = pytest.mark.skipif(not shutil.which("pdftotext"), reason="needs poppler-utils")


def by_poppler(tool, *arguments):
    return subprocess.run([tool, *arguments], capture_output=True, check=True, timeout=60).stdout


@poppler
@pytest.mark.parametrize("word", ["Cafés", "–", "π√2", "μ"])
def test_words_can_be_copied(tmp_path, word):
    saved = Svg(200, 50, "t", "d", (text(word, 10, 20, 12),)).save(tmp_path / "word.pdf")
    assert by_poppler("pdftotext", saved, "-").decode().split() == [word]


@pytest.mark.parametrize("word", ["שלום", "مرحبا", "हिन्दी", "日本", "\U000f0000", "😀"])
def test_every_script_is_drawn(word):
    assert figure.heat_map(np.eye(2), words=["a", word]).pdf().startswith(b"%PDF")


@poppler
def test_words_and_numbers_of_a_flow_can_be_copied(tmp_path):
    written = by_poppler("pdftotext", figure.flow(cat_sat(), "cat").save(tmp_path / "flow.pdf"), "-").decode()
    assert "softmax = weight" in written
    assert "0.42" in written


def test_the_page_has_the_size_of_the_figure_in_points():
    drawing = figure.heat_map(cat_sat())
    box = search(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", drawing.pdf())
    assert [float(side) for side in box.groups()] == pytest.approx(
        [drawing.width * 0.75, drawing.height * 0.75], abs=0.01
    )


def test_the_same_figure_gives_the_same_bytes():
    assert figure.flow(cat_sat(), "cat").pdf() == figure.flow(cat_sat(), "cat").pdf()


def test_the_file_is_small_because_fonts_are_reduced():
    assert len(figure.heat_map(cat_sat()).pdf()) < 100_000


def test_titles_cannot_be_read_as_typst():
    hostile = Svg(100, 50, '"] #panic("no") //', '#read("/etc/passwd") $', (text("#panic()", 10, 20, 12),))
    assert hostile.pdf().startswith(b"%PDF")
    assert hostile.png().startswith(b"\x89PNG")


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(errors.Unsupported, match=r"PDF needs the package typst.*\n.*pip install typst"):
        figure.heat_map(cat_sat()).pdf()


def pixels_of(portable: bytes) -> np.ndarray:
    kind, size, _, data = portable.split(b"\n", 3)
    assert kind == b"P6"
    width, height = map(int, size.split())
    return np.frombuffer(data, np.uint8).reshape(height, width, 3).astype(float)


@poppler
def test_shapes_land_where_svg_puts_them(tmp_path):
    parts = (
        '<g transform="translate(10 20)"><rect x="0" y="0" width="30" height="10" fill="#ff0000"/></g>',
        path("M60 20h20v20h-20z", fill="#0000ff", opacity=0.5),
        text("■", 120, 60, 40, anchor="middle", fill="#00aa00", turn=90),
    )
    saved = Svg(200, 100, "t", "d", parts).save(tmp_path / "shapes.pdf")
    image = pixels_of(by_poppler("pdftoppm", "-r", "96", saved))
    assert image.shape == (100, 200, 3)
    assert image[25, 25].tolist() == [255, 0, 0]
    assert image[35, 25].tolist() == [255, 255, 255]
    assert np.allclose(image[30, 70], [127.5, 127.5, 255], atol=2)
    assert image[60, 120, 1] > image[60, 120, 0]
