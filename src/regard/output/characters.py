"""Arbitrary text as it is printed: control characters made visible, its width, its spelling in ASCII."""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import replace
from functools import cache
from typing import Any

from regard.tables import Table

# Joiners and variation selectors hold emoji and some scripts together; every other format character can reverse
# or hide the text around it.
_KEPT = {"\u200c", "\u200d"}
_PICTURES = {"\n": "↵", "\r": "↵", "\t": "⇥"}


def printable(word: object) -> str:
    r"""The text on one line: control characters become visible symbols, direction overrides are removed.

    >>> printable("new\nline"), printable("\x1b[31m"), printable("café")
    ('new↵line', '␛[31m', 'café')
    """
    return "".join(_shown(character) for character in str(word))


def _shown(character: str) -> str:
    if character in _PICTURES:
        return _PICTURES[character]
    kind = unicodedata.category(character)
    if kind == "Cc":
        code = ord(character)
        return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"
    if kind == "Cs" or ord(character) & 0xFFFE == 0xFFFE:  # lone surrogates and noncharacters
        return "�"
    if kind in ("Zl", "Zp"):
        return "↵"
    return "" if kind == "Cf" and character not in _KEPT else character


def printable_lines(written: str) -> str:
    """A text made safe to print, character by character, with its line breaks."""
    return "\n".join(
        "".join(printable(letter) or "�" for letter in line) for line in written.replace("\r", "\n").split("\n")
    )


# Width: an upper estimate, since the reader's fonts are unknown. These are the widths of DejaVu Sans, which is wider
# than Helvetica, Arial and the usual sans-serif fonts.

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


# ASCII spellings of the characters that an output's encoding lacks: an old terminal, a pipe on Windows

# A middle dot is a product here: as a full stop, 0·1 would read as a tenth.
ASCII = {
    "−": "-", "–": "-", "—": "--", "×": "x", "·": "*", "⋅": "*", "÷": "/", "±": "+/-", "√": "sqrt ", "∞": "inf",
    "Σ": "sum ", "σ": "sigma", "∂": "d", "∈": "in", "‖": "||", "ᵀ": "^T", "′": "'", "½": "1/2",
    "≈": "~", "≤": "<=", "≥": ">=", "≠": "!=", "→": "->", "←": "<-", "…": "...", "•": "*",
    "‘": "'", "’": "'", "“": '"', "”": '"', "«": '"', "»": '"',
    "█": "@", "▓": "#", "▒": "+", "░": ":", "▁": "_", "━": "-", "╸": "-", "╺": "-", "↵": "\\n", "⇥": "\\t", "␡": "^?",
    "⏎": "\\n", "␣": "_",
    "Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o", "ß": "ss", "Ł": "L", "ł": "l", "ı": "i",
}  # fmt: skip
FALLBACK = "regard-ascii"  # the name of the codec error handler


def spelled(character: str) -> str:
    """A character in ASCII: its spelling, its letter without accents, or a question mark."""
    if character in ASCII:
        return ASCII[character]
    code = ord(character)
    if 0x2400 <= code < 0x2420:  # the picture of a control character
        return f"^{chr(code - 0x2400 + 0x40)}"
    if unicodedata.combining(character) or unicodedata.category(character) == "Cf":
        return ""
    form = unicodedata.normalize("NFKD", character)
    letters = form.encode("ascii", "ignore").decode("ascii")
    if letters and unicodedata.category(character) == "No":  # exponents: 10² is not 102
        return f"^{letters}"
    return letters or "?"


def _fall_back(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return "".join(map(spelled, problem.object[problem.start : problem.end])), problem.end


codecs.register_error(FALLBACK, _fall_back)


def is_complete(encoding: str) -> bool:
    """Whether an encoding has all characters that tables and figures in a terminal use."""
    try:
        "".join(ASCII).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def encodable(text: str, encoding: str) -> str:
    """The text with every character that the encoding lacks spelled in ASCII.

    >>> encodable("−0.5 → √d_k", "ascii"), encodable("−0.5 × ±2", "latin-1")
    ('-0.5 -> sqrt d_k', '-0.5 × ±2')
    """
    return text.encode(encoding, FALLBACK).decode(encoding)


def encodable_table(table: Table, encoding: str) -> Table:
    """The same for all texts in a table, before it is laid out: a spelling may be wider than its character."""

    def spell(value: Any) -> Any:
        return encodable(value, encoding) if isinstance(value, str) else value

    return replace(
        table,
        title=spell(table.title),
        columns=tuple(replace(column, name=spell(column.name)) for column in table.columns),
        rows=tuple(tuple(map(spell, row)) for row in table.rows),
        notes=tuple(map(spell, table.notes)),
    )


def encodable_lines(text: str, encoding: str) -> str:
    r"""The same for lines with columns: a wider spelling takes its room from the blanks after it.

    >>> encodable_lines("Ph…    0.10\nthis   0.20", "ascii")
    'Ph...  0.10\nthis   0.20'
    """
    return "\n".join(_encodable_line(line, encoding) for line in text.split("\n"))


# A dot that is a cell of a map, not a product: at the start of a line, or beside a gap, a shade or another such dot.
_CELL = re.compile(r"^·|(?<= {2})·(?!\S)|(?<=[█▓▒░])·|(?<!\S)·(?= {2}| ·|$)|(?<=· )·(?!\S)")


def _encodable_line(line: str, encoding: str) -> str:
    line = _CELL.sub(".", line)
    pieces, owed = [], 0  # owed: columns that the line is too wide so far
    for piece in re.findall(r" {2,}|(?:(?! {2}).)+", line):
        if piece.isspace():
            taken = min(owed, len(piece) - 1)
            pieces.append(piece[taken:])
            owed -= taken
        else:
            spelling = encodable(piece, encoding)
            owed += len(spelling) - len(piece)
            pieces.append(spelling)
    return "".join(pieces)
