"""Writes src/regard/web/models/tokenizers/unicode_table.js from the `tokenizers` library:

    python tests/web/tokenizers/unicode_table.py

Its parts use the Unicode tables of four Rust and C libraries, from version 8 to 17, and a browser has another version
again. So the classes of all code points are measured with the library's own components.
"""

import unicodedata
from itertools import groupby
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

FILE = Path(__file__).parents[3] / "src" / "regard" / "web" / "models" / "tokenizers" / "unicode_table.js"
CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#%&()*+,-./:;<=>?@[]^_{|}~"
WIDTH = 116


def matches(pattern):
    """The code points that a regular expression of Oniguruma matches."""
    cut = pre_tokenizers.Split(Regex(f"(?:{pattern})+"), "removed", invert=True)
    text = "".join(map(chr, CODES))
    return {CODES[index] for _, (start, stop) in cut.pre_tokenize_str(text) for index in range(start, stop)}


def isolated(cut, beside):
    """The code points that a pre-tokeniser separates from the letter `beside` them."""
    text = beside.join(map(chr, CODES))
    return {
        CODES[start // 2] for _, (start, stop) in cut.pre_tokenize_str(text) if stop - start == 1 and start % 2 == 0
    }


def removed(cut):
    """The code points that a pre-tokeniser removes."""
    text = "a".join(map(chr, CODES))
    kept = bytearray(len(text))
    for _, (start, stop) in cut.pre_tokenize_str(text):
        kept[start:stop] = b"1" * (stop - start)
    return {CODES[index // 2] for index in range(0, len(text), 2) if not kept[index]}


def classes():
    """One set of code points per class, in the order of the bits in characters.js."""
    bert = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    cleaned, stripped, decomposed = (
        results(normalizer)
        for normalizer in (
            normalizers.BertNormalizer(**{**bert, "clean_text": True}),
            normalizers.BertNormalizer(**{**bert, "strip_accents": True}),
            normalizers.NFD(),
        )
    )
    return [
        matches(r"\p{L}"),
        matches(r"\p{N}"),
        removed(pre_tokenizers.WhitespaceSplit()),
        isolated(pre_tokenizers.Punctuation(), "a"),
        {code for code in CODES if not cleaned[code]},
        {code for code in CODES if not stripped[code] and decomposed[code] == chr(code)},
        isolated(pre_tokenizers.Whitespace(), "!") - {ord("!")},
        isolated(pre_tokenizers.Digits(individual_digits=True), "a"),
    ]


def results(normalizer):
    """What each code point becomes, between letters that no normalizer here changes."""
    beside = "\u0138"
    changed = normalizer.normalize_str(beside.join(chr(code) for code in CODES if chr(code) != beside)).split(beside)
    return dict(zip((code for code in CODES if chr(code) != beside), changed, strict=True)) | {ord(beside): beside}


def combining_classes():
    """Canonical combining classes that the library's NFD sorts by; Unicode never changes one."""
    order = normalizers.NFD().normalize_str
    return {
        code: unicodedata.combining(letter)
        for code, letter in zip(CODES, map(chr, CODES), strict=True)
        if unicodedata.combining(letter)
        and order(letter) == letter
        and (order(f"a{letter}\u0334")[1] == "\u0334" or order(f"a\u0345{letter}")[1] == letter)
    }


def runs(values):
    """A list of the distinct values, and runs: the length, unless it is 1, and a letter for the value."""
    distinct = sorted(set(values))
    lengths = ((value, len(list(group))) for value, group in groupby(values))
    lines = [""]
    for value, length in lengths:
        run = f"{length if length > 1 else ''}{LETTERS[distinct.index(value)]}"
        if len(lines[-1]) + len(run) > WIDTH:
            lines.append("")
        lines[-1] += run
    return distinct, "\n".join(lines)


def table():
    bits, order = [0] * 0x110000, [0] * 0x110000
    for bit, codes in enumerate(classes()):
        for code in codes:
            bits[code] |= 1 << bit
    for code, value in combining_classes().items():
        order[code] = value
    parts = ["// Written by tests/web/tokenizers/unicode_table.py from the `tokenizers` library: see characters.js."]
    parts.append("// Runs of code points: a length, unless it is 1, and a letter for the value.")
    parts.append(f'export const LETTERS = "{LETTERS}";')
    for name, values in (("CLASS", bits), ("ORDER", order)):
        distinct, text = runs(values)
        parts.append(f"export const {name}_VALUES = {distinct};")
        parts.append(f"export const {name}_RUNS = `\n{text}\n`;")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
