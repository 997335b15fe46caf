"""Tables as Parquet, with every digit."""

from __future__ import annotations

import io
from typing import Any

from regard.errors import missing_package
from regard.tables import Table


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
