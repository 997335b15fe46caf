"""PDF figures: well-formed, with text that can be copied, and the same picture as the PNG."""

import re
import shutil
import struct
import subprocess
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

from regard import errors
from regard.output import figure, pdf
from regard.output.pdf import TrueType
from regard.output.svg import Svg, path, text

from .cases import cat_sat, drawn

SVG = "{http://www.w3.org/2000/svg}"
pytestmark = pytest.mark.skipif(pdf._font_for("a", 0) is None, reason="PDF needs a TrueType font on this machine")


def figures() -> dict[str, Svg]:
    trace = drawn(["Cafés", "–", "μ", "π√2", "x"], masked=True)
    return {
        "heat map": figure.heat_map(trace),
        "flow": figure.flow(trace, "x"),
        "bars": figure.bars(trace, "x", "μ"),
    }


def objects_of(file: bytes) -> dict[int, bytes]:
    """Objects by number, found through the table at the end."""
    table = int(re.search(rb"startxref\n(\d+)\n%%EOF\n$", file)[1])
    assert file[table:].startswith(b"xref\n0 ")
    places = [int(found[1]) for found in re.finditer(rb"(\d{10}) 00000 n \n", file[table:])]
    found = {}
    for number, place in enumerate(places, 1):
        start = f"{number} 0 obj\n".encode()
        assert file[place:].startswith(start)
        found[number] = file[place + len(start) : file.index(b"\nendobj\n", place)]
    return found


def stream_of(content: bytes) -> bytes:
    start = content.index(b"stream\n") + len(b"stream\n")
    length = int(re.search(rb"/Length (\d+)", content)[1])
    assert content[start + length :] == b"\nendstream"
    return zlib.decompress(content[start : start + length])


def words_of(file: bytes) -> list[str]:
    """The text that each BT … ET shows, by way of the fonts' maps to Unicode."""
    objects = objects_of(file)
    page = next(content for content in objects.values() if b"/Type/Page/" in content)
    maps = {}
    for name, number in re.findall(rb"(/F\d+) (\d+) 0 R", page):
        back = stream_of(objects[int(re.search(rb"/ToUnicode (\d+)", objects[int(number)])[1])])
        maps[name] = {
            glyph: bytes.fromhex(code.decode()).decode("utf-16-be")
            for glyph, code in re.findall(rb"<(\w{4})> <(\w+)>\n", back)
        }
    content = stream_of(objects[int(re.search(rb"/Contents (\d+)", page)[1])])
    shown = []
    for block in re.findall(rb"BT .*?ET", content, re.DOTALL):
        runs = re.findall(rb"(/F\d+) [\d.]+ Tf <(\w*)> Tj", block)
        shown.append("".join(maps[font][code[i : i + 4]] for font, code in runs for i in range(0, len(code), 4)))
    return shown


@pytest.mark.parametrize("name", figures())
def test_every_text_of_the_figure_can_be_copied(name):
    drawing = figures()[name]
    texts = ["".join(one.itertext()) for one in ElementTree.fromstring(str(drawing)).iter(SVG + "text")]
    assert words_of(drawing.pdf()) == texts


def test_the_page_has_the_size_of_the_figure_in_points():
    drawing = figure.heat_map(cat_sat())
    box = re.search(rb"/MediaBox\[0 0 ([\d.]+) ([\d.]+)\]", drawing.pdf())
    assert [float(side) for side in box.groups()] == pytest.approx(
        [drawing.width * 0.75, drawing.height * 0.75], abs=0.01
    )


def test_the_same_figure_gives_the_same_bytes():
    assert figure.flow(cat_sat(), "cat").pdf() == figure.flow(cat_sat(), "cat").pdf()


def test_the_file_is_small_because_fonts_are_reduced():
    assert len(figure.heat_map(cat_sat()).pdf()) < 100_000


def test_a_reduced_font_keeps_the_glyphs_it_was_asked_for():
    font = pdf._font_for("é", 0)
    glyphs = [font.glyph(letter) for letter in "aé√"]
    file = font.subset(glyphs)
    entries = struct.iter_unpack(">4sIII", file[12 : 12 + 16 * struct.unpack(">H", file[4:6])[0]])
    tables = {tag: file[start : start + length] for tag, _, start, length in entries}
    places = struct.unpack(f">{len(tables[b'loca']) // 4}I", tables[b"loca"])
    for glyph in glyphs:
        kept = tables[b"glyf"][places[glyph] : places[glyph + 1]]
        assert kept.rstrip(b"\0") == font._outline(glyph).rstrip(b"\0")
    filled = [glyph for glyph in range(len(places) - 1) if places[glyph] < places[glyph + 1]]
    assert set(glyphs) <= set(filled) and len(filled) < 10  # .notdef, and the parts that é is composed of


def test_arcs_end_where_they_should():
    steps = list(pdf._absolute("M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z"))
    ends = np.array([numbers[-2:] for kind, numbers in steps if kind == "C"])
    assert np.allclose(np.linalg.norm(ends, axis=1), 3)
    assert np.allclose(ends[-1], [-3, 0])
    assert sorted(map(tuple, ends.round(6) + 0.0)) == [(-3, 0), (0, -3), (0, 3), (3, 0)]


@pytest.mark.parametrize("word", ["שלום", "مرحبا", "हिन्दी", "\U000f0000"])
def test_scripts_that_need_shaping_are_refused_with_an_alternative(word):
    with pytest.raises(errors.Unsupported, match=r"\.svg"):
        figure.heat_map(np.eye(2), words=["a", word]).pdf()


def test_a_missing_font_is_reported(monkeypatch):
    monkeypatch.setattr(pdf, "_font_files", dict)
    pdf._font_for.cache_clear()
    try:
        with pytest.raises(errors.Unsupported, match="font"):
            figure.heat_map(cat_sat()).pdf()
    finally:
        monkeypatch.undo()
        pdf._font_for.cache_clear()


@pytest.mark.parametrize("content", [b"", b"\0\1\0\0", b"OTTO" + b"\0" * 100, b"\0\1\0\0\xff\xff" + b"\0" * 9000])
def test_broken_fonts_are_skipped(tmp_path, content):
    (tmp_path / "arial.ttf").write_bytes(content)
    assert pdf._opened(tmp_path / "arial.ttf") is None


def pixels_of(portable: bytes) -> np.ndarray:
    kind, size, _, data = portable.split(b"\n", 3)
    assert kind == b"P6"
    width, height = map(int, size.split())
    return np.frombuffer(data, np.uint8).reshape(height, width, 3).astype(float)


@pytest.mark.skipif(not shutil.which("pdftoppm"), reason="needs poppler-utils")
def test_shapes_land_where_svg_puts_them(tmp_path):
    parts = (
        '<g transform="translate(10 20)"><rect x="0" y="0" width="30" height="10" fill="#ff0000"/></g>',
        path("M60 20h20v20h-20z", fill="#0000ff", opacity=0.5),
        text("■", 120, 60, 40, anchor="middle", fill="#00aa00", turn=90),
    )
    saved = Svg(200, 100, "t", "d", parts).save(tmp_path / "shapes.pdf")
    shown = subprocess.run(["pdftoppm", "-r", "96", saved], capture_output=True, check=True, timeout=60).stdout
    image = pixels_of(shown)
    assert image.shape == (100, 200, 3)
    assert image[25, 25].tolist() == [255, 0, 0] and image[35, 25].tolist() == [255, 255, 255]
    assert np.allclose(image[30, 70], [127.5, 127.5, 255], atol=2)
    assert image[60, 120, 1] > image[60, 120, 0]


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="needs poppler-utils")
def test_poppler_reads_the_words(tmp_path):
    saved = figure.flow(cat_sat(), "cat").save(tmp_path / "flow.pdf")
    found = subprocess.run(["pdftotext", saved, "-"], capture_output=True, check=True, timeout=60).stdout.decode()
    assert "softmax = weight" in found and "0.42" in found


def test_true_type_measures_text():
    font = pdf._font_for("a", 0)
    assert isinstance(font, TrueType)
    assert font.width("ab") == font.width("a") + font.width("b") > font.width("i") > 0.1
