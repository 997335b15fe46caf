"""Tables and figures as the content of files, in every format that commands write."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from regard.errors import missing_package
from regard.output import html, latex, table_formats, text
from regard.output.svg import Svg
from regard.tables import Table


class Format(StrEnum):
    """What results can be written as."""

    TABLE = "table"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"
    HTML = "html"
    SVG = "svg"
    PNG = "png"
    PDF = "pdf"
    PARQUET = "parquet"
    XLSX = "xlsx"


ENDINGS = {
    ".txt": Format.TABLE, ".md": Format.MARKDOWN, ".tex": Format.LATEX, ".csv": Format.CSV, ".json": Format.JSON,
    ".html": Format.HTML, ".htm": Format.HTML, ".svg": Format.SVG, ".png": Format.PNG, ".pdf": Format.PDF,
    ".parquet": Format.PARQUET, ".xlsx": Format.XLSX,
}  # fmt: skip
FIGURES = frozenset({Format.SVG, Format.PNG, Format.PDF})
BINARY = frozenset({Format.PNG, Format.PDF, Format.PARQUET, Format.XLSX})
USUAL = tuple(kind for kind in Format if kind not in (Format.PARQUET, Format.XLSX))  # what most commands write


def file_of(
    tables: Sequence[Table], draw: Callable[[], Svg], kind: Format, title: str = "", full: bool = False
) -> str | bytes:
    """Tables, or the figure of the same numbers, as the content of a file; a page holds both."""
    if kind in FIGURES:
        return figure_file(draw(), kind)
    if kind is Format.HTML:
        drawn = draw()
        return html.page(tables, drawn, title=title or drawn.title)
    return tables_file(tables, kind, full)


def tables_file(tables: Sequence[Table], kind: Format, full: bool = False) -> str | bytes:
    """Tables as the content of a text, Markdown, LaTeX, CSV or JSON file; Parquet holds the first one."""
    if kind is Format.LATEX:
        return latex.document(tables)
    if kind is Format.MARKDOWN:
        return "\n".join(map(table_formats.to_markdown, tables))
    if kind is Format.CSV:
        return table_formats.to_csv(tables)
    if kind is Format.JSON:
        return table_formats.to_json(tables)
    if kind is Format.PARQUET:
        return to_parquet(tables[0])
    return "\n\n".join(map(str, text.render_all(tables, full=full))) + "\n"


def figure_file(drawn: Svg, kind: Format) -> str | bytes:
    """A figure as the content of an SVG, PNG or PDF file."""
    return drawn.png() if kind is Format.PNG else drawn.pdf() if kind is Format.PDF else str(drawn)


def to_parquet(table: Table) -> bytes:
    """A table as the content of a Parquet file; numbers are float64, an empty cell is null."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as problem:
        raise missing_package("Writing Parquet", "pyarrow") from problem
    columns: dict[str, Any] = {}
    for index, column in enumerate(table.columns):
        cells = [row[index] for row in table.rows]
        if column.kind == "number":
            columns[column.name] = pyarrow.array(
                [None if cell is None else float(cell) for cell in cells], pyarrow.float64()
            )
        elif column.kind == "vector":
            vectors = [None if cell is None else [float(number) for number in cell] for cell in cells]
            columns[column.name] = pyarrow.array(vectors, pyarrow.list_(pyarrow.float64()))
        else:
            columns[column.name] = pyarrow.array([None if cell is None else str(cell) for cell in cells])
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream, compression="zstd")
    return stream.getvalue()
