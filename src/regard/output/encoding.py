"""ASCII spellings of the signs that an output's encoding lacks: an old terminal, a pipe on Windows.

>>> encodable("−0.5 → √d_k", "ascii")
'-0.5 -> sqrt d_k'
>>> encodable("−0.5 × ±2", "latin-1")
'-0.5 × ±2'
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import replace
from typing import Any

from regard.tables import Table

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
    """Whether an encoding has all signs that tables and figures in a terminal use."""
    try:
        "".join(ASCII).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def encodable(text: str, encoding: str) -> str:
    """The text with every sign that the encoding lacks spelled in ASCII."""
    return text.encode(encoding, FALLBACK).decode(encoding)


def encodable_table(table: Table, encoding: str) -> Table:
    """The same of all texts in a table, before it is laid out: a spelling may be wider than its sign."""

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
    r"""The same of lines with columns: a wider spelling takes its room from the blanks around it.

    >>> encodable_lines("Ph…    0.10\nthis   0.20", "ascii")
    'Ph...  0.10\nthis   0.20'
    """
    return "\n".join(_line(line, encoding) for line in text.split("\n"))


# A dot that is a cell of a map, not a product: at the start of a line, or beside a gap, a shade or another such dot.
_CELL = re.compile(r"^·|(?<= {2})·(?!\S)|(?<=[█▓▒░])·|(?<!\S)·(?= {2}| ·|$)|(?<=· )·(?!\S)")


def _line(line: str, encoding: str) -> str:
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
