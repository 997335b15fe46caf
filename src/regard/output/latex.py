"""Tables in LaTeX with booktabs, with formulas in math mode, and never wider than the page.

A table that is too wide is set in a smaller size; then its vectors are broken into lines; then its columns are split
into several tables, each with the first column.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.output.characters import printable, text_width
from regard.output.table_formats import parts_of, printed, shortened, strongest, sum_below
from regard.tables import Column, Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\char34{}", "'": r"\textquotesingle{}", "`": r"\textasciigrave{}", "-": "{-}",
    "[": "{[}", "]": "{]}", "*": "{*}",  # after a line break, brackets and stars would be read as its options
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

LINEWIDTH = 480.0  # points: A4 and letter with margins of 2 cm
SIZES = {"": 10.0, "small": 9.0, "footnotesize": 8.0}
NARROWER = 0.86  # width of Latin Modern relative to DejaVu, which `text_width` measures
BETWEEN = 12.0  # two columns, in points
PER_LINE = 8  # numbers of a vector that has to be broken
MANY_LINES = 40  # from here on, a table may take more than a page
LONGEST = 64  # numbers of a vector that is shown whole
SHORTENED = "… stands for omitted numbers: vectors have up to {} numbers."

# Formulas in headings, titles and notes: W_q, d_model, √d_k, √4, ‖∂W_q‖.
_FORMULA = re.compile(
    r"√(?P<under>[A-Za-z]_\w+|[A-Za-z]\b|\d+)|(?<![\w\\])(?P<name>∂?[dhkqvxzEKNQVW])_(?P<below>[A-Za-z]{1,5}|\d{1,3})(?![\w])"
    r"|‖|∂(?P<part>[A-Za-z](?:_\w+)?)?"
)
_LETTERS = {"q", "k", "v", "z", "x"}  # names of vectors: set as formulas where they are a whole heading

_PREAMBLE = (Path(__file__).parent / "preamble.tex").read_text(encoding="utf-8")


def render(table: Table, width: float = LINEWIDTH) -> str:
    r"""A `tabular` with the rules of booktabs, its title above and its notes below, for a document that loads booktabs.

    A table wider than `width` points is split into several.

    >>> table = Table("", (Column("Word", "word"), Column("v", "vector", 0)), (("R&D", [1, -1]),))
    >>> print(render(table), end="")
    \begin{tabular}{ll}
    \toprule
    Word & $v$ \\
    \midrule
    R\&D & $[\,\phantom{{-}}1\;\,{-}1\,]$ \\
    \bottomrule
    \end{tabular}
    """
    return _set(table, width, may_break=False)


def document(tables: Table | Iterable[Table]) -> str:
    """A whole document that compiles with pdflatex, lualatex or xelatex; long tables go on on the next page.

    Letters that pdflatex has no font for are set as their code points; lualatex and xelatex take them from DejaVu or
    Noto if these are installed.
    """
    tables = [tables] if isinstance(tables, Table) else list(tables)
    body = "\n\\par\\bigskip\n".join(_set(table, LINEWIDTH, may_break=True) for table in tables)
    foreign = sorted({character for character in body if ord(character) > 0x7F})
    lines = [f"  \\DeclareUnicodeCharacter{{{ord(c):04X}}}{{\\texttt{{[{ord(c):X}]}}}}" for c in foreign]
    lines += ["\\else", "  \\usepackage{fontspec}"]
    if foreign:
        lines.append("  \\IfFontExistsTF{Noto Sans}{\\setmainfont{Noto Sans}}{%")
        lines.append("    \\IfFontExistsTF{DejaVu Sans}{\\setmainfont{DejaVu Sans}}{}}")
    start = "\\begin{document}\n\\pagestyle{empty}\\raggedright\n"
    return _PREAMBLE + "\n".join([*lines, "\\fi"]) + "\n" + start + body + "\\end{document}\n"


def formula(text: str) -> str:
    r"""Text whose W_q, √d_k and ∂ are set as formulas, and all else as it is.

    >>> formula("score/√d_k"), formula("W_q = I & d_model = 4"), formula("‖∂W_q‖"), formula("√4 = 2")
    ('score/$\\sqrt{d_k}$', '$W_q$ = I \\& $d_{\\mathrm{model}}$ = 4', '$\\|$$\\partial W_q$$\\|$', '$\\sqrt{4}$ = 2')
    """
    line, start = "", 0
    for match in _FORMULA.finditer(text):
        line += escaped(text[start : match.start()]) + f"${_formula(match)}$"
        start = match.end()
    return line + escaped(text[start:])


def escaped(text: str) -> str:
    r"""Text with LaTeX's special characters escaped.

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


def _set(table: Table, width: float, *, may_break: bool) -> str:
    longest = max((len(cell) for row in table.rows for cell in row if _is_vector(cell)), default=0)
    notes = [*table.all_notes, *([SHORTENED.format(longest)] if longest > LONGEST else [])]
    parts = [f"\\textbf{{{formula(table.title)}}}\\par\\nobreak\\smallskip"] if table.title else []
    parts += ["\n\\par\\medskip\n".join(_pieces(table, width, may_break))]
    parts += [f"\\par\\smallskip{{\\footnotesize {formula(note)}\\par}}" for note in notes]
    return "\n".join(parts) + "\n"


def _is_vector(cell: Any) -> bool:
    return cell is not None and not isinstance(cell, str) and hasattr(cell, "__len__")


def _pieces(table: Table, width: float, may_break: bool) -> list[str]:
    """The table in pieces that fit the width: whole if possible, with vectors in lines, split into columns."""
    below, has_sum = sum_below(table)
    everything = range(len(below.columns))
    for size, points in SIZES.items():
        for part, foot in ((table, False), (below, has_sum)):
            if sum(_column_widths(part, points, None)) <= width:
                return [_tabular(part, range(len(part.columns)), size, None, foot, may_break)]
    for per_line in (PER_LINE, PER_LINE // 2):
        if sum(_column_widths(below, points, per_line)) <= width:
            return [_tabular(below, everything, size, per_line, has_sum, may_break)]
    wide = _column_widths(below, points, PER_LINE)
    groups: list[list[int]] = [[0]]  # the first column is in each
    for index in everything[1:]:
        if len(groups[-1]) > 1 and sum(wide[member] for member in [*groups[-1], index]) > width:
            groups.append([0])
        groups[-1].append(index)
    return [_tabular(below, group, size, PER_LINE, has_sum, may_break) for group in groups]


def _column_widths(table: Table, points: float, per_line: int | None) -> list[float]:
    """Of each column with the space beside it."""

    def width(cell: Any, column: Column) -> float:
        if column.kind != "vector":
            return text_width(printed(cell, column), points)
        parts = _parts(cell, column.digits)
        count = min(len(parts), per_line or len(parts))
        return count * (max(map(len, parts), default=0) * 0.58 + 0.44) * points + points  # digits: 0.58 em

    return [
        max([text_width(column.name, points), *(width(row[at], column) for row in table.rows if row[at] is not None)])
        * NARROWER
        + BETWEEN
        for at, column in enumerate(table.columns)
    ]


def _tabular(
    table: Table, columns: Sequence[int], size: str, per_line: int | None, has_sum: bool, may_break: bool
) -> str:
    """Some columns as a `tabular`, or, if it has many lines and may break, as a `longtable` that continues on the next
    page; rows that hold nothing but their name are left out of a part.
    """
    chosen = [table.columns[index] for index in columns]
    summands = replace(table, rows=table.rows[: len(table.rows) - has_sum])
    largest = [strongest(summands, index) for index in columns]
    widest = []  # what the numbers of vectors are aligned by: the longest sign and digits before the point
    for index, column in zip(columns, chosen, strict=True):
        vectors = [row[index] for row in table.rows if row[index] is not None and column.kind == "vector"]
        parts = (part.partition(".")[0] for vector in vectors for part in _parts(vector, column.digits))
        widest.append(max(parts, key=len, default=""))
    rows, is_part = [], len(columns) < len(table.columns)
    for line, row in enumerate(table.rows):
        cells = [row[index] for index in columns]
        if is_part and all(cell is None for cell in cells[1:]):
            continue
        most = [None] * len(cells) if has_sum and line == len(table.rows) - 1 else largest
        each = zip(cells, chosen, most, widest, strict=True)
        rows.append([_cell(*cell, line == table.highlight, per_line) for cell in each])
    lines = sum(max(cell.count("\\\\") for cell in row) + 1 for row in rows)
    environment = "longtable" if may_break and lines > MANY_LINES else "tabular"
    headings = (f"${column.name}$" if column.name in _LETTERS else formula(column.name) for column in chosen)
    written = [*map(_line, rows)]
    if has_sum and (not is_part or table.rows[-1][columns[-1]] is not None):
        written.insert(len(written) - 1, "\\midrule")
    if environment == "longtable":
        written = ["\\endhead", "\\bottomrule", "\\endlastfoot", *written]
    else:
        written.append("\\bottomrule")
    shape = "".join("r" if column.kind == "number" else "l" for column in chosen)
    head = [f"\\begin{{{environment}}}{{{shape}}}", "\\toprule", _line(headings), "\\midrule"]
    lines_written = [*head, *written, f"\\end{{{environment}}}"]
    return "\n".join(["{\\" + size, *lines_written, "}"] if size else lines_written)


def _parts(vector: Any, digits: int) -> list[str]:
    return shortened(parts_of(vector, digits), PER_LINE) if len(vector) > LONGEST else parts_of(vector, digits)


def _cell(
    cell: Any, column: Column, largest: float | None, widest: str, highlighted: bool, per_line: int | None
) -> str:
    if cell is None:
        return ""
    if column.kind == "vector":
        return _vector(_parts(cell, column.digits), widest, per_line)
    if column.kind == "number":
        number = _number(printed(cell, column))
        return f"$\\mathbf{{{number}}}$" if largest is not None and cell == largest else f"${number}$"
    text = escaped(str(cell)) if column.kind == "word" and column.name != "Step" else formula(str(cell))
    return f"\\textbf{{{text}}}" if highlighted and column.kind == "word" and text else text


def _vector(parts: list[str], widest: str, per_line: int | None) -> str:
    """[ a b c ], in lines of so many numbers."""
    count = per_line or len(parts)
    lines = [parts[start : start + count] for start in range(0, len(parts), count)]
    joined = ["\\;\\,".join(_aligned(part, widest) for part in line) for line in lines]
    if len(joined) == 1:
        return f"$[\\,{joined[0]}\\,]$"
    first, *middle, last = joined
    shown = [f"$[\\,{first}$", *(f"$\\phantom{{[}}\\,{line}$" for line in middle), f"$\\phantom{{[}}\\,{last}\\,]$"]
    return "\\begin{tabular}[t]{@{}l@{}}" + " \\\\ ".join(shown) + "\\end{tabular}"


def _aligned(part: str, widest: str) -> str:
    """A number with as much room before it as the widest has."""
    missing = len(widest) - len(part.partition(".")[0])
    if missing <= 0 or part == "…" or not widest:
        return _number(part)
    return f"\\phantom{{{_number(widest[:missing])}}}{_number(part)}"


def _formula(match: re.Match[str]) -> str:
    if match["under"]:
        return f"\\sqrt{{{_indexed(match['under'])}}}"
    if match["name"]:
        return _indexed(f"{match['name']}_{match['below']}")
    if match[0] == "‖":
        return "\\|"
    return f"\\partial {_indexed(match['part'])}" if match["part"] else "\\partial"


def _indexed(name: str) -> str:
    """d_k, W_q, d_model as formulas."""
    base, _, below = name.partition("_")
    base = base.replace("∂", "\\partial ")
    if not below:
        return base
    return f"{base}_{below}" if len(below) == 1 else f"{base}_{{\\mathrm{{{below}}}}}"


def _number(text: str) -> str:
    """A printed number for formulas."""
    text = text.replace("−", "{-}").replace("∞", r"\infty").replace("NaN", r"\mathrm{NaN}")
    return text.replace("…", r"\dots")


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + " \\\\"
