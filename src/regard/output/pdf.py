"""Figures as PDF: converts the few SVG elements that our figures use, with selectable text in embedded fonts.

It needs no package: converters of SVG are either 30 MB wheels or need system libraries, and our figures are rectangles,
paths and lines of text. Fonts come from the system as TrueType, reduced to the glyphs in use. Characters map to glyphs
one by one, so scripts that need shaping (Arabic, Devanagari, …) are refused: SVG and PNG draw those.
"""

from __future__ import annotations

import math
import os
import re
import struct
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from xml.etree import ElementTree

from regard import errors

POINTS = 0.75  # per unit of the figure: 96 units are an inch, as in browsers
CIRCLE = 0.5522847498  # of the radius: where the control points of a quarter circle are

# Files of regular, bold and italic fonts, without blanks and hyphens in their names, best first.
FAMILIES = (
    ("arial", "arialbold", "arialitalic"), ("arial", "arialbd", "ariali"),
    ("liberationsansregular", "liberationsansbold", "liberationsansitalic"),
    ("notosansregular", "notosansbold", "notosansitalic"), ("dejavusans", "dejavusansbold", "dejavusansoblique"),
    ("freesans", "freesansbold", "freesansoblique"), ("robotoregular", "robotobold", "robotoitalic"),
    ("ubunturegular", "ubuntubold", "ubuntuitalic"),
)  # fmt: skip


def rendered(svg: str, title: str = "", description: str = "") -> bytes:
    """The PDF file of one of our SVG figures, on a page of its size."""
    root = ElementTree.fromstring(svg)
    width, height = (float(root.get(name, "0")) for name in ("width", "height"))
    page = _Page(width, height)
    for child in root:
        page.draw(child)
    return page.file(title, description)


@dataclass(eq=False)
class _Page:
    """The content of the page, with the fonts and opacities that it uses."""

    width: float
    height: float
    content: list[str] = field(default_factory=list)
    fonts: dict[Path, _Embedded] = field(default_factory=dict)
    opacities: dict[float, str] = field(default_factory=dict)

    def draw(self, element: ElementTree.Element) -> None:
        """Draw an element and its children."""
        name = element.tag.rpartition("}")[2]
        if name == "g":
            self._group(element)
        elif name == "rect":
            self._shape(element, self._rectangle(element))
        elif name == "path":
            self._shape(element, _path(element.get("d", "")))
        elif name == "text":
            self._text(element)

    def _group(self, element: ElementTree.Element) -> None:
        self.content.append(f"q {_matrix(element.get('transform', ''))}")
        for child in element:
            self.draw(child)
        self.content.append("Q")

    def _shape(self, element: ElementTree.Element, outline: str) -> None:
        fill, stroke = (element.get(name, "none") for name in ("fill", "stroke"))
        operator = {(True, True): "B", (True, False): "f", (False, True): "S"}.get(
            (fill not in ("none", "transparent"), stroke != "none")
        )
        if operator is None:
            return
        parts = ["q"]
        if operator in "Bf":
            parts.append(f"{_colour(fill)} rg")
        if operator in "BS":
            parts.append(f"{_colour(stroke)} RG {element.get('stroke-width', '1')} w")
        if "stroke-dasharray" in element.keys():  # noqa: SIM118 - an Element has no `in`
            parts.append(f"[{element.get('stroke-dasharray')}] 0 d")
        if "opacity" in element.keys():  # noqa: SIM118
            opacity = float(element.get("opacity", "1"))
            parts.append(f"/{self.opacities.setdefault(opacity, f'O{len(self.opacities)}')} gs")
        self.content.append("\n".join([*parts, outline, operator, "Q"]))

    def _rectangle(self, element: ElementTree.Element) -> str:
        x, y = (float(element.get(name, "0")) for name in ("x", "y"))
        wide, tall = (
            whole if element.get(name) == "100%" else float(element.get(name, "0"))
            for name, whole in (("width", self.width), ("height", self.height))
        )
        r = min(float(element.get("rx", "0")), wide / 2, tall / 2)
        if not r:
            return f"{_number(x)} {_number(y)} {_number(wide)} {_number(tall)} re"
        k, right, bottom = r * (1 - CIRCLE), x + wide, y + tall
        return _drawn(
            [("M", [x + r, y]), ("L", [right - r, y]), ("C", [right - k, y, right, y + k, right, y + r]),
             ("L", [right, bottom - r]), ("C", [right, bottom - k, right - k, bottom, right - r, bottom]),
             ("L", [x + r, bottom]), ("C", [x + k, bottom, x, bottom - k, x, bottom - r]),
             ("L", [x, y + r]), ("C", [x, y + k, x + k, y, x + r, y]), ("Z", [])]
        )  # fmt: skip

    def _text(self, element: ElementTree.Element) -> None:
        style = 1 if element.get("font-weight") == "bold" else 2 if element.get("font-style") == "italic" else 0
        size = float(element.get("font-size", "16"))
        x, y = (float(element.get(name, "0")) for name in ("x", "y"))
        pieces = [(element.text or "", size, 0.0)]  # text, font size, step down
        pieces += [
            (part.text or "", float(part.get("font-size", size)), float(part.get("dy", "0"))) for part in element
        ]
        runs, rise, width = [], 0.0, 0.0
        for content, large, down in pieces:
            rise -= down
            for font, run in _runs(unicodedata.normalize("NFC", content), style):
                embedded = self._embedded(font)
                runs.append(f"{_number(rise)} Ts {embedded.name} {_number(large)} Tf {embedded.coded(run)} Tj")
                width += font.width(run) * large
        x -= {"middle": width / 2, "end": width}.get(element.get("text-anchor", "start"), 0.0)
        turned = _matrix(element.get("transform", ""))
        self.content.append(
            f"q {turned}\nBT {_colour(element.get('fill', '#000000'))} rg 1 0 0 -1 {_number(x)} {_number(y)} Tm\n"
            + "\n".join(runs)
            + "\nET Q"
        )

    def _embedded(self, font: TrueType) -> _Embedded:
        return self.fonts.setdefault(font.path, _Embedded(f"/F{len(self.fonts)}", font))

    def file(self, title: str, description: str) -> bytes:
        """Objects, their table and the trailer; the same figure gives the same bytes."""
        flip = f"{POINTS} 0 0 -{POINTS} 0 {_number(self.height * POINTS)} cm"  # y grows downwards, as in SVG
        objects: list[bytes] = []

        def add(content: str | bytes) -> int:
            objects.append(content.encode() if isinstance(content, str) else content)
            return len(objects)

        catalog, pages, page = (add(b"") for _ in range(3))
        stream = add(_stream("\n".join([flip, *self.content]).encode()))
        fonts = " ".join(f"{font.name} {font.written(add)} 0 R" for font in self.fonts.values())
        states = " ".join(f"/{name} <</ca {_number(one)}/CA {_number(one)}>>" for one, name in self.opacities.items())
        about = add(f"<</Title {_string(title)}/Subject {_string(description)}/Producer (Regard)>>")
        box = f"[0 0 {_number(self.width * POINTS)} {_number(self.height * POINTS)}]"
        objects[catalog - 1] = f"<</Type/Catalog/Pages {pages} 0 R/Lang(en)>>".encode()
        objects[pages - 1] = f"<</Type/Pages/Kids[{page} 0 R]/Count 1>>".encode()
        objects[page - 1] = (
            f"<</Type/Page/Parent {pages} 0 R/MediaBox{box}/Contents {stream} 0 R"
            f"/Resources<</Font<<{fonts}>>/ExtGState<<{states}>>>>>>"
        ).encode()
        return _assembled(objects, catalog, about)


@dataclass(eq=False)
class _Embedded:
    """A font on the page, and the characters of its used glyphs."""

    name: str
    file: TrueType
    used: dict[int, str] = field(default_factory=dict)

    def coded(self, text: str) -> str:
        """The glyphs of a text, as the string that Tj shows."""
        glyphs = [self.file.glyph(character) for character in text]
        self.used |= dict(zip(glyphs, text, strict=True))
        return "<" + "".join(f"{glyph:04X}" for glyph in glyphs) + ">"

    def written(self, add: Callable[[str | bytes], int]) -> int:
        """Write the font's objects: subset file, metrics, and the map from glyphs to characters."""
        font = self.file
        name = "AAAAAA+" + re.sub(r"[^A-Za-z0-9]", "", font.path.stem)
        program = font.subset(self.used)
        held = add(_stream(program, f"/Length1 {len(program)}"))
        box = " ".join(str(round(edge * 1000)) for edge in font.box)
        described = add(
            f"<</Type/FontDescriptor/FontName/{name}/Flags 4/FontBBox[{box}]/ItalicAngle 0"
            f"/Ascent {round(font.ascent * 1000)}/Descent {round(font.descent * 1000)}"
            f"/CapHeight {round(font.ascent * 1000)}/StemV 80/FontFile2 {held} 0 R>>"
        )
        widths = " ".join(f"{glyph} [{_number(font.advance(glyph) * 1000)}]" for glyph in sorted(self.used))
        inner = add(
            f"<</Type/Font/Subtype/CIDFontType2/BaseFont/{name}/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"
            f"/Supplement 0>>/FontDescriptor {described} 0 R/W[{widths}]/CIDToGIDMap/Identity>>"
        )
        back = add(_stream(_to_unicode(self.used)))
        return add(
            f"<</Type/Font/Subtype/Type0/BaseFont/{name}/Encoding/Identity-H/DescendantFonts[{inner} 0 R]"
            f"/ToUnicode {back} 0 R>>"
        )


# Fonts


def _runs(text: str, style: int) -> Iterator[tuple[TrueType, str]]:
    """The text in runs of one font each."""
    run, current = "", None
    for character in text:
        if character in "\u200c\u200d\ufe0e\ufe0f":  # joiners and variation selectors
            continue
        _check_shaping(character, text)
        font = current if current and current.glyph(character) else _font_for(character, style)
        if font is None:
            raise errors.Unsupported(
                f"PDF needs a TrueType font that has {character!r} (of {text!r}), and none is installed.\n"
                "Install one, as in apt-get install fonts-dejavu-core, or save the figure as .svg or .png."
            )
        if run and font is not current:
            assert current is not None
            yield current, run
            run = ""
        current, run = font, run + character
    if run and current is not None:
        yield current, run


def _check_shaping(character: str, text: str) -> None:
    code = ord(character)
    if unicodedata.bidirectional(character) in ("R", "AL", "AN") or 0x900 <= code < 0xE00 or 0x1000 <= code < 0x10A0:
        raise errors.Unsupported(
            f"PDF cannot set {text!r}: its script needs shaping or runs from right to left.\n"
            "Save the figure as .svg or .png, which can."
        )


@cache
def _font_for(character: str, style: int) -> TrueType | None:
    """The first font with this character: of the preferred families, then of any installed one."""
    files = _font_files()
    for family in FAMILIES:
        for name in (family[style], family[0]):
            font = _opened(files[name]) if name in files else None
            if font is not None and font.glyph(character):
                return font
    for _, path in sorted(files.items()):
        font = _opened(path)
        if font is not None and font.glyph(character):
            return font
    return None


@cache
def _opened(path: Path) -> TrueType | None:
    try:
        return TrueType(path)
    except (OSError, NotUsable, struct.error, IndexError, KeyError):
        return None


@cache
def _font_files() -> dict[str, Path]:
    """Installed TrueType fonts by file name."""
    home = Path.home()
    if sys.platform == "win32":
        folders = [Path(os.environ.get("WINDIR", "C:\\Windows")) / "Fonts"]
        folders.append(home / "AppData" / "Local" / "Microsoft" / "Windows" / "Fonts")
    elif sys.platform == "darwin":
        folders = [home / "Library" / "Fonts", Path("/Library/Fonts"), Path("/System/Library/Fonts")]
    else:
        folders = [home / ".local" / "share" / "fonts", home / ".fonts", Path("/usr/local/share/fonts")]
        folders.append(Path("/usr/share/fonts"))
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.[tT][tT][fF]")):
            found.setdefault(re.sub(r"[\s_-]", "", path.stem).lower(), path)
    return found


# Paths and transformations


def _path(d: str) -> str:
    """An SVG path as PDF operators."""
    return _drawn(_absolute(d))


def _absolute(d: str) -> Iterator[tuple[str, list[float]]]:
    """M, L, C and Z with absolute coordinates; arcs become curves."""
    at, start = (0.0, 0.0), (0.0, 0.0)
    for letter, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", d):
        numbers = [float(number) for number in re.findall(r"-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", rest)]
        kind, relative = letter.upper(), letter.islower()
        if kind == "Z":
            yield "Z", []
            at = start
            continue
        count = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "A": 7}[kind]
        for first in range(0, len(numbers), count):
            part = numbers[first : first + count]
            x, y = at if relative else (0.0, 0.0)
            if kind == "H":
                at = (part[0] + x, at[1])
            elif kind == "V":
                at = (at[0], part[0] + y)
            elif kind == "A":
                end = (part[5] + x, part[6] + y)
                yield from _arc(at, end, part[0], bool(part[3]), bool(part[4]))
                at = end
                continue
            elif kind == "C":
                moved = [number + (y if place % 2 else x) for place, number in enumerate(part)]
                yield "C", moved
                at = (moved[4], moved[5])
                continue
            else:
                at = (part[0] + x, part[1] + y)
            start = at if kind == "M" and first == 0 else start
            yield ("M" if kind == "M" and first == 0 else "L"), [*at]


def _arc(
    start: tuple[float, float], end: tuple[float, float], radius: float, large: bool, sweep: bool
) -> Iterator[tuple[str, list[float]]]:
    """A circular arc as Bézier curves of at most 90° each."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    chord = math.hypot(dx, dy)
    if not chord or not radius:
        return
    radius = max(radius, chord / 2)
    height = math.sqrt(max(0.0, radius**2 - (chord / 2) ** 2)) * (1 if large != sweep else -1)
    centre = (start[0] + dx / 2 - height * dy / chord, start[1] + dy / 2 + height * dx / chord)
    first = math.atan2(start[1] - centre[1], start[0] - centre[0])
    turn = (math.atan2(end[1] - centre[1], end[0] - centre[0]) - first) % (2 * math.pi)
    turn = turn if sweep else turn - 2 * math.pi
    pieces = max(1, math.ceil(abs(turn) / (math.pi / 2) - 1e-9))
    step = turn / pieces
    reach = 4 / 3 * math.tan(step / 4) * radius
    for piece in range(pieces):
        a, b = first + step * piece, first + step * (piece + 1)
        (ax, ay), (bx, by) = (
            (centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)) for angle in (a, b)
        )
        yield "C", [
            ax - reach * math.sin(a), ay + reach * math.cos(a), bx + reach * math.sin(b), by - reach * math.cos(b),
            bx, by,
        ]  # fmt: skip


def _drawn(steps: Iterator[tuple[str, list[float]]] | Sequence[tuple[str, list[float]]]) -> str:
    operators = {"M": "m", "L": "l", "C": "c", "Z": "h"}
    return "\n".join(" ".join([*map(_number, numbers), operators[kind]]) for kind, numbers in steps)


def _matrix(transform: str) -> str:
    """`translate(x y)` or `rotate(degrees x y)` as an operator of PDF."""
    found = re.fullmatch(r"(translate|rotate)\(([^)]*)\)", transform)
    if not found:
        return ""
    numbers = [float(number) for number in found[2].replace(",", " ").split()]
    if found[1] == "translate":
        return f"1 0 0 1 {_number(numbers[0])} {_number(numbers[1])} cm"
    angle, x, y = math.radians(numbers[0]), numbers[1], numbers[2]
    cos, sin = math.cos(angle), math.sin(angle)
    return " ".join(map(_number, (cos, sin, -sin, cos, x - cos * x + sin * y, y - sin * x - cos * y))) + " cm"


# PDF syntax


def _colour(name: str) -> str:
    """#rrggbb as three numbers from 0 to 1."""
    return " ".join(_number(int(name[place : place + 2], 16) / 255) for place in (1, 3, 5))


def _number(number: float) -> str:
    shown = f"{number:.4f}".rstrip("0").rstrip(".")
    return "0" if shown in ("-0", "") else shown


def _string(text: str) -> str:
    return "<feff" + text.encode("utf-16-be", "replace").hex() + ">"


def _stream(content: bytes, extra: str = "") -> bytes:
    packed = zlib.compress(content, 9)
    return f"<</Length {len(packed)}/Filter/FlateDecode{extra}>>\nstream\n".encode() + packed + b"\nendstream"


def _to_unicode(used: dict[int, str]) -> bytes:
    """From glyphs back to characters, so that text can be searched and copied."""
    lines = [f"<{glyph:04X}> <{used[glyph].encode('utf-16-be').hex()}>" for glyph in sorted(used)]
    blocks = [lines[start : start + 100] for start in range(0, len(lines), 100)]  # no more are allowed in one
    body = "\n".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar" for block in blocks)
    return (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
        "/CIDSystemInfo <</Registry (Adobe) /Ordering (UCS) /Supplement 0>> def\n"
        "/CMapName /Adobe-Identity-UCS def /CMapType 2 def\n"
        "1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        f"{body}\nendcmap CMapName currentdict /CMap defineresource pop end end"
    ).encode()


def _assembled(objects: Sequence[bytes], catalog: int, about: int) -> bytes:
    file = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(file))
        file += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = len(file)
    file += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    file += b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    file += f"trailer\n<</Size {len(objects) + 1}/Root {catalog} 0 R/Info {about} 0 R>>\n".encode()
    return bytes(file + f"startxref\n{table}\n%%EOF\n".encode())


# TrueType fonts: glyphs of characters, their widths, and subsets with only some glyphs

KEPT_TABLES = ("cvt ", "fpgm", "glyf", "head", "hhea", "hmtx", "loca", "maxp", "prep")  # what a PDF reader needs
RESTRICTED = 0x0002  # in OS/2: the font may not be embedded
COMPONENT_WORDS, MORE_COMPONENTS = 0x0001, 0x0020  # flags of a composite glyph
SCALES = ((0x0008, 2), (0x0040, 4), (0x0080, 8))  # flags of a component, and the bytes of its scale


class NotUsable(Exception):
    """A file that is not a TrueType font, or one that may not be embedded."""


class TrueType:
    """The parts of a TrueType font file (with a `glyf` table) that a PDF needs; lengths are in em."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = path.read_bytes()
        if self._data[:4] not in (b"\0\1\0\0", b"true"):
            raise NotUsable(path)
        count = struct.unpack_from(">H", self._data, 4)[0]
        entries = [struct.unpack_from(">4sIII", self._data, 12 + 16 * place) for place in range(count)]
        self._tables = {tag.decode("latin-1"): (start, length) for tag, _, start, length in entries}
        if not {"cmap", "glyf", "head", "hhea", "hmtx", "loca", "maxp"} <= self._tables.keys():
            raise NotUsable(path)
        if "OS/2" in self._tables and self._unpacked("OS/2", ">H", 8)[0] & 0x000F == RESTRICTED:
            raise NotUsable(path)
        self._unit = self._unpacked("head", ">H", 18)[0]
        self.box = tuple(edge / self._unit for edge in self._unpacked("head", ">4h", 36))
        self.ascent, self.descent = (edge / self._unit for edge in self._unpacked("hhea", ">2h", 4))
        self._metrics = self._unpacked("hhea", ">H", 34)[0]
        self._glyphs = self._unpacked("maxp", ">H", 4)[0]

    def glyph(self, character: str) -> int:
        """The glyph of a character, 0 if the font has none."""
        return self._characters.get(ord(character), 0)

    def advance(self, glyph: int) -> float:
        """The advance width of a glyph."""
        return float(self._unpacked("hmtx", ">H", 4 * min(glyph, self._metrics - 1))[0]) / self._unit

    def width(self, text: str) -> float:
        """The width of a line of text, without kerning."""
        return sum(self.advance(self.glyph(character)) for character in text)

    def subset(self, glyphs: Iterable[int]) -> bytes:
        """A font file with these glyphs and their components, under the same ids."""
        wanted = {0, *glyphs}
        for glyph in tuple(wanted):
            self._add_components(glyph, wanted)
        outlines, places = bytearray(), []
        for glyph in range(self._glyphs):
            places.append(len(outlines))
            if glyph in wanted:
                outlines += self._outline(glyph)
                outlines += b"\0" * (-len(outlines) % 4)
        places.append(len(outlines))
        head = bytearray(self._table("head"))
        struct.pack_into(">h", head, 50, 1)  # 32-bit offsets in `loca`
        tables = {tag: self._table(tag) for tag in KEPT_TABLES if tag in self._tables}
        tables |= {"glyf": bytes(outlines), "loca": struct.pack(f">{len(places)}I", *places), "head": bytes(head)}
        return _font_file(tables)

    @cached_property
    def _characters(self) -> dict[int, int]:
        """Glyph ids by code point, from the largest Unicode subtable of `cmap`."""
        start = self._tables["cmap"][0]
        found: dict[int, int] = {}
        for place in range(struct.unpack_from(">H", self._data, start + 2)[0]):
            platform, encoding, offset = struct.unpack_from(">HHI", self._data, start + 4 + 8 * place)
            if platform != 0 and (platform, encoding) not in ((3, 1), (3, 10)):
                continue
            kind = struct.unpack_from(">H", self._data, start + offset)[0]
            mapped = {4: self._ranges_of_16, 12: self._ranges_of_32}.get(kind, lambda _: {})(start + offset)
            found = mapped if len(mapped) > len(found) else found
        return found

    def _ranges_of_16(self, start: int) -> dict[int, int]:
        """A `cmap` subtable of format 4."""
        count = struct.unpack_from(">H", self._data, start + 6)[0] // 2
        ends = struct.unpack_from(f">{count}H", self._data, start + 14)
        starts = struct.unpack_from(f">{count}H", self._data, start + 16 + 2 * count)
        deltas = struct.unpack_from(f">{count}H", self._data, start + 16 + 4 * count)
        ranges = start + 16 + 6 * count
        offsets = struct.unpack_from(f">{count}H", self._data, ranges)
        found: dict[int, int] = {}
        for place, (first, last, delta, offset) in enumerate(zip(starts, ends, deltas, offsets, strict=True)):
            for code in range(first, min(last, 0xFFFE) + 1):
                glyph = code
                if offset:
                    where = ranges + 2 * place + offset + 2 * (code - first)
                    glyph = struct.unpack_from(">H", self._data, where)[0]
                if glyph or not offset:
                    found[code] = (glyph + delta) & 0xFFFF
        return found

    def _ranges_of_32(self, start: int) -> dict[int, int]:
        """A `cmap` subtable of format 12."""
        count = struct.unpack_from(">I", self._data, start + 12)[0]
        found: dict[int, int] = {}
        for place in range(count):
            first, last, glyph = struct.unpack_from(">3I", self._data, start + 16 + 12 * place)
            found |= {code: glyph + code - first for code in range(first, min(last, 0x10FFFF) + 1)}
        return found

    def _outline(self, glyph: int) -> bytes:
        wide = self._unpacked("head", ">h", 50)[0]
        if wide:
            first, last = self._unpacked("loca", ">2I", 4 * glyph)
        else:
            first, last = (2 * place for place in self._unpacked("loca", ">2H", 2 * glyph))
        start = self._tables["glyf"][0]
        return self._data[start + first : start + last]

    def _add_components(self, glyph: int, wanted: set[int]) -> None:
        """Add the components of a composite glyph."""
        outline = self._outline(glyph)
        if len(outline) < 10 or struct.unpack_from(">h", outline)[0] >= 0:
            return
        place, flags = 10, MORE_COMPONENTS
        while flags & MORE_COMPONENTS:
            flags, part = struct.unpack_from(">2H", outline, place)
            place += 8 if flags & COMPONENT_WORDS else 6
            place += next((size for flag, size in SCALES if flags & flag), 0)
            if part not in wanted:
                wanted.add(part)
                self._add_components(part, wanted)

    def _table(self, tag: str) -> bytes:
        start, length = self._tables[tag]
        return self._data[start : start + length]

    def _unpacked(self, tag: str, form: str, offset: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self._data, self._tables[tag][0] + offset)


def _font_file(tables: dict[str, bytes]) -> bytes:
    """A font file of these tables."""
    count = len(tables)
    power = count.bit_length() - 1
    header = struct.pack(">IHHHH", 0x00010000, count, 16 << power, power, 16 * count - (16 << power))
    place, entries, body = 12 + 16 * count, b"", b""
    for tag, content in sorted(tables.items()):
        padded = content + b"\0" * (-len(content) % 4)
        checksum = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        entries += struct.pack(">4sIII", tag.encode("latin-1"), checksum, place + len(body), len(content))
        body += padded
    return header + entries + body
