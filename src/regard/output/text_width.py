"""An upper estimate of the width of text, since the reader's fonts are unknown.

The widths are those of DejaVu Sans, which is wider than Helvetica, Arial and the usual sans-serif fonts.
"""

from __future__ import annotations

import unicodedata
from functools import cache

_WIDTHS = {
    28: "'ijl",
    32: "IJ ,.·",
    34: "/:;\\|",
    37: "f-",
    42: "()[]t!r",
    50: '"*_`',
    55: "szc?",
    62: "LFkvxyPTYaeo",
    64: "$0123456789ESbdghnpqu{}√Σ",
    70: "KABVXZCR",
    79: "UNH&DGOQ",
    84: "w#+<=>^~×−→",
    100: "Mm%W@…",
}
_WIDTH_OF = {character: width / 100 for width, characters in _WIDTHS.items() for character in characters}
BOLD = 1.13  # width of bold letters relative to regular ones


@cache
def _character_width(character: str) -> float:
    """In units of the font size."""
    if character in _WIDTH_OF:
        return _WIDTH_OF[character]
    kind = unicodedata.category(character)
    if kind in ("Mn", "Me") or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.3 if kind == "So" else 1.0  # emoji are wider than an em in some fonts
    base = unicodedata.normalize("NFD", character)[0]
    if base != character and base in _WIDTH_OF:
        return _WIDTH_OF[base]
    return 0.7 if kind == "Ll" and ord(character) < 0x400 else 1.0


def text_width(text: str, size: float, bold: bool = False) -> float:
    """The width of a line of text at this font size; the true width is rarely larger.

    >>> round(text_width("cat", 10), 1), round(text_width("cat", 10, bold=True), 1)
    (15.9, 18.0)
    """
    return sum(map(_character_width, text)) * size * (BOLD if bold else 1.0)


def fitted(text: str, width: float, size: float, bold: bool = False) -> str:
    """The text, shortened with … to this width.

    >>> fitted("misunderstanding", 60, 10), fitted("cat", 60, 10)
    ('misunder…', 'cat')
    """
    if text_width(text, size, bold) <= width:
        return text
    kept = text
    while kept and text_width(kept + "…", size, bold) > width:
        kept = kept[:-1]
    while kept and unicodedata.category(kept[-1]) in ("Zs", "Mn", "Me"):  # no combining mark without its letter
        kept = kept[:-1]
    return kept + "…"


def wrapped(text: str, width: float, size: float, bold: bool = False) -> list[str]:
    """The text wrapped to this width; a word that is too wide is shortened.

    >>> wrapped("attention weights of head 3", 80, 10)
    ['attention', 'weights of', 'head 3']
    """
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else ""
        if lines and text_width(longer, size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(fitted(word, width, size, bold))
    return lines
