"""TrueType fonts: glyphs of characters, their widths, and subsets with only some glyphs."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

KEPT = ("cvt ", "fpgm", "glyf", "head", "hhea", "hmtx", "loca", "maxp", "prep")  # what a PDF reader needs
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
        tables = {tag: self._table(tag) for tag in KEPT if tag in self._tables}
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
