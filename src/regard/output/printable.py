"""Arbitrary text made safe to print on one line."""

from __future__ import annotations

import unicodedata

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
