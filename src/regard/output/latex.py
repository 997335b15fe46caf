"""Tables in LaTeX with booktabs, for papers and slides."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from regard.output.cells import parts_of, printed, strongest
from regard.output.printable import printable
from regard.tables import Column, Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\char34{}", "'": r"\textquotesingle{}", "`": r"\textasciigrave{}", "-": "{-}",
    "[": "{[}", "]": "{]}", "*": "{*}",  # brackets and stars after a line break would be read as its options
    "−": "$-$", "×": r"$\times$", "·": r"$\cdot$", "√": r"$\surd$", "∞": r"$\infty$", "Σ": r"$\Sigma$",
    "→": r"$\rightarrow$", "←": r"$\leftarrow$", "≈": r"$\approx$", "≤": r"$\leq$", "≥": r"$\geq$", "÷": r"$\div$",
    "…": r"\dots{}", "–": "--", "—": "---", "‘": "`{}", "’": "'{}", "“": "``", "”": "''", "\xa0": "~",
    "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "ø": r"\o{}", "Ø": r"\O{}", "œ": r"\oe{}", "Œ": r"\OE{}",
    "ł": r"\l{}", "Ł": r"\L{}", "å": r"\aa{}", "Å": r"\AA{}", "ı": r"\i{}", "¿": r"?`", "¡": r"!`",
    "↵": r"$\hookleftarrow$", "ᵀ": r"$^{\mathsf T}$", "′": r"$'$", "±": r"$\pm$", "∈": r"$\in$",
}  # fmt: skip
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c", "\u0328": "k",
}  # fmt: skip

_PREAMBLE = r"""\documentclass{article}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage{textcomp}
\usepackage{iftex}
\ifPDFTeX
  \usepackage[T1]{fontenc}
  \usepackage[utf8]{inputenc}
"""
_WIDE = r"""\newsavebox{\regardtable}
\newcommand{\fitted}{\ifdim\wd\regardtable>\linewidth\resizebox{\linewidth}{!}{\usebox{\regardtable}}%
  \else\usebox{\regardtable}\fi}
\begin{document}
\pagestyle{empty}
"""


def render(table: Table) -> str:
    r"""A `tabular` with the rules of booktabs, its title above and its notes below, for a document that loads booktabs.

    >>> table = Table("", (Column("Word", "word"), Column("v", "vector", 0)), (("R&D", [1, -1]),))
    >>> print(render(table), end="")
    \begin{tabular}{ll}
    \toprule
    Word & v \\
    \midrule
    R\&D & $[\,1\;\,{-}1\,]$ \\
    \bottomrule
    \end{tabular}
    """
    parts = [f"\\textbf{{{escaped(table.title)}}}\\par\\smallskip"] if table.title else []
    parts += [tabular(table)]
    parts += [f"\\par\\smallskip{{\\footnotesize {escaped(note)}\\par}}" for note in table.notes]
    return "\n".join(parts) + "\n"


def tabular(table: Table) -> str:
    """Only the table itself."""
    shape = "".join("r" if column.kind == "number" else "l" for column in table.columns)
    largest = [strongest(table, place) for place in range(len(table.columns))]
    lines = [f"\\begin{{tabular}}{{{shape}}}", "\\toprule"]
    lines += [_line(_heading(column) for column in table.columns), "\\midrule"]
    for place, row in enumerate(table.rows):
        cells = zip(row, table.columns, largest, strict=True)
        lines.append(_line(_cell(cell, column, place == table.highlight, most) for cell, column, most in cells))
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def document(tables: Table | Iterable[Table]) -> str:
    """A whole document that compiles with pdflatex, lualatex or xelatex; tables wider than the page are scaled to it.

    Letters that pdflatex has no font for are set as their code points; lualatex and xelatex take them from DejaVu or
    Noto where these are installed.
    """
    tables = [tables] if isinstance(tables, Table) else list(tables)
    parts = []
    for table in tables:
        fitted = f"\\sbox{{\\regardtable}}{{%\n{tabular(table)}%\n}}\\noindent\\fitted"
        parts.append(render(table).replace(tabular(table), fitted))
    body = "\n\\par\\bigskip\n".join(parts)
    foreign = sorted({character for character in body if ord(character) > 0x7F})
    lines = [f"  \\DeclareUnicodeCharacter{{{ord(c):04X}}}{{\\texttt{{[{ord(c):X}]}}}}" for c in foreign]
    lines += ["\\else", "  \\usepackage{fontspec}"]
    if foreign:
        lines.append("  \\IfFontExistsTF{Noto Sans}{\\setmainfont{Noto Sans}}{%")
        lines.append("    \\IfFontExistsTF{DejaVu Sans}{\\setmainfont{DejaVu Sans}}{}}")
    return _PREAMBLE + "\n".join([*lines, "\\fi"]) + "\n" + _WIDE + body + "\\end{document}\n"


def escaped(text: str) -> str:
    r"""Text that LaTeX sets as it is.

    >>> escaped("50% of R&D_1"), escaped("café"), escaped("score/√d_k")
    ('50\\% of R\\&D\\_1', "caf\\'{e}", 'score/$\\surd$d\\_k')
    """
    return "".join(map(_character, unicodedata.normalize("NFC", printable(text))))


def _character(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    if ord(character) < 0x80:
        return character
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[1] in _ACCENTS and parts[0].isascii() and parts[0].isalpha():
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return character


def _heading(column: Column) -> str:
    """The names of columns are formulas: √d_k is set as one."""
    return escaped(column.name).replace(r"$\surd$d\_k", r"$\sqrt{d_k}$").replace(r"d\_k", "$d_k$")


def _cell(cell: Any, column: Column, highlighted: bool, largest: float | None) -> str:
    if cell is None:
        return ""
    if column.kind == "vector":
        return "$[\\," + "\\;\\,".join(map(_number, parts_of(cell, column.digits))) + "\\,]$"
    if column.kind == "number":
        number = _number(printed(cell, column))
        return f"$\\mathbf{{{number}}}$" if largest is not None and cell == largest else f"${number}$"
    text = escaped(str(cell))
    return f"\\textbf{{{text}}}" if highlighted and column.kind == "word" and text else text


def _number(text: str) -> str:
    """A printed number for formulas."""
    return text.replace("−", "{-}").replace("∞", r"\infty").replace("NaN", r"\mathrm{NaN}")


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + " \\\\"
