"""Attention as a spreadsheet with live formulas: change an embedding or a weight, and every step follows."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import repeat
from typing import Any

from regard.errors import OptionError, missing_package
from regard.teaching.hand_check.inputs import PRODUCTS, Inputs
from regard.teaching.hand_check.notation import PROJECTIONS
from regard.teaching.traced_attention import written_formula

MOST_CELLS = 100_000
LONGEST_SUM = 256  # products in a formula
INPUT_COLOUR, HEADING_COLOUR = "FFF7D6", "EEF1F5"

Content = Callable[[int, int], Any]  # of a row and a column
Address = Callable[[int, int], str]
Vectors = dict[str, list[Address]]  # of query, key and value, for each head


def worked_sheet(inputs: Inputs) -> bytes:
    """The content of an .xlsx file: inputs in coloured cells, then q, k, v and all steps of each head as formulas."""
    queries, keys = len(inputs.words), len(inputs.key_words)
    widths = [matrix.shape[0] for matrix in inputs.matrices.values()] + [
        part.shape[-1] for part in inputs.parts.values()
    ]
    if inputs.heads * queries * keys * 8 > MOST_CELLS or max([queries, keys, *widths]) > LONGEST_SUM:
        raise OptionError(
            f"{queries} × {keys} words with {inputs.heads} heads are too many for a spreadsheet of formulas:\n"
            "choose fewer words, fewer heads or a smaller width."
        )
    buffer = io.BytesIO()
    _Page(inputs).book.save(buffer)
    return buffer.getvalue()


class _Page:
    """Blocks of cells below each other; each block is a function from row and column to the address of the cell."""

    def __init__(self, inputs: Inputs) -> None:
        try:
            openpyxl, styles = import_module("openpyxl"), import_module("openpyxl.styles")
        except ImportError as problem:
            raise missing_package("Writing .xlsx", "openpyxl", instead="Or choose another format.") from problem
        self.inputs, self.styles = inputs, styles
        self.book = openpyxl.Workbook()
        self.page = self.book.active
        self.page.title = "Attention"
        self.letter: Callable[[int], str] = import_module("openpyxl.utils").get_column_letter
        self.row = 1
        self.queries, self.keys = inputs.labels["query"], inputs.labels["key"]
        whole = inputs.parts["value"].shape[-1] if inputs.x is None else inputs.matrices["W_v"].shape[1] // inputs.heads
        self.value_dim = int(whole)
        self._write()

    def block(
        self, title: str, rows: Sequence[str], columns: Sequence[str] | int, content: Content, *,
        is_input: bool = False, decimals: int = 0,
    ) -> Address:  # fmt: skip
        names = columns if not isinstance(columns, int) else [str(at + 1) for at in range(columns)]
        self._text(self.row, 1, title).font = self.styles.Font(bold=True)
        for column, name in enumerate(names, 2):
            self._text(self.row + 1, column, name)
        first = self.row + 2
        for at, label in enumerate(rows):
            self._text(first + at, 1, label)
            for column in range(len(names)):
                cell = self.page.cell(first + at, column + 2, content(at, column))
                cell.number_format = "0." + "0" * decimals if decimals else "General"
                if is_input:
                    cell.fill = self.styles.PatternFill("solid", fgColor=INPUT_COLOUR)
        self.row = first + len(rows) + 1
        return lambda row, column: f"{self.letter(column + 2)}{first + row}"

    def _text(self, row: int, column: int, text: str) -> Any:
        cell = self.page.cell(row, column, text)
        cell.data_type = "s"  # a word such as =1+1 is text
        cell.fill = self.styles.PatternFill("solid", fgColor=HEADING_COLOUR)
        return cell

    def _write(self) -> None:
        inputs = self.inputs
        self._text(1, 1, "Yellow cells are given: change them, and all others follow.")
        self.row = 3
        vectors = self._projections() if inputs.x is not None else {}
        for step, part in inputs.parts.items() if inputs.x is None else ():  # q, k and v as given, a block per head
            names = [f"{step[0]}, head {head}" for head in range(len(part))]
            vectors[step] = [self._vectors(*of_head) for of_head in zip(names, repeat(self._words(step)), part)]
        visible = inputs.visible()
        mask = None
        if visible is not None:
            mask = self.block("mask", self.queries, self.keys, lambda q, k: int(visible[q, k]), is_input=True)
        size = (inputs.parts["key"] if inputs.x is None else inputs.matrices["W_k"]).shape[-1]
        size = size if inputs.x is None else size // inputs.heads
        divisor = self.block(
            "√d_k" if inputs.divisor is None else "divisor", ["divide by"], 1,
            lambda *_: f"=SQRT({size})" if inputs.divisor is None else inputs.divisor,
        )(0, 0).replace("B", "$B$", 1)  # fmt: skip
        outputs = [
            self._head(head, {step: of_heads[head] for step, of_heads in vectors.items()}, divisor, mask, size)
            for head in range(inputs.heads)
        ]
        if inputs.heads == 1 and "W_O" not in inputs.matrices:
            return
        share = self.value_dim
        joined = self.block(
            "concatenated: the sums of all heads", self.queries, inputs.heads * share,
            lambda q, c: f"={outputs[c // share](q, c % share)}", decimals=2,
        )  # fmt: skip
        if "W_O" in inputs.matrices:
            through = self._matrix("W_O")
            rows, columns = inputs.matrices["W_O"].shape
            title = written_formula("projected = concatenated · W_O", inputs)
            self.block(title, self.queries, columns, _product(joined, through, rows), decimals=2)

    def _words(self, step: str) -> Sequence[str]:
        return self.queries if step == "query" else self.keys

    def _matrix(self, name: str) -> Address:
        """A W as the convention writes it; the address is always of (in, out)."""
        written = self.inputs.in_convention(self.inputs.matrices[name])
        rows = [str(at + 1) for at in range(len(written))]
        address = self.block(
            f"{name}: {written.shape[0]} × {written.shape[1]}", rows, written.shape[1],
            lambda row, column: float(written[row, column]), is_input=True,
        )  # fmt: skip
        return address if self.inputs.product == PRODUCTS[0] else lambda row, column: address(column, row)

    def _vectors(self, name: str, words: Sequence[str], numbers: Any) -> Address:
        return self.block(name, words, numbers.shape[1], lambda r, c: float(numbers[r, c]), is_input=True)

    def _projections(self) -> Vectors:
        """q, k and v as formulas, all heads side by side."""
        inputs = self.inputs
        assert inputs.x is not None
        x = self._vectors("x" if inputs.position is None else "embedding", self.queries, inputs.x)
        if inputs.position is not None:
            embedding, position = x, self._vectors("positions", self.queries, inputs.position)
            x = self.block(
                "positioned = embedding + position", self.queries, inputs.x.shape[1],
                lambda r, c: f"={embedding(r, c)}+{position(r, c)}", decimals=2,
            )  # fmt: skip
        context = x if inputs.context is None else self._vectors("context", self.keys, inputs.context)
        matrices = {name: self._matrix(name) for name in PROJECTIONS.values()}
        vectors = {}
        for step, name in PROJECTIONS.items():
            rows, columns = inputs.matrices[name].shape
            source, matrix = x if step == "query" else context, matrices[name]
            origin = "x" if step == "query" or inputs.context is None else "context"
            address = self.block(
                written_formula(f"{step[0]} = {origin} · {name}", inputs), self._words(step), columns,
                _product(source, matrix, rows),
            )  # fmt: skip
            vectors[step] = [_shifted(address, head * columns // inputs.heads) for head in range(inputs.heads)]
        return vectors

    def _head(self, head: int, vectors: dict[str, Address], divisor: str, mask: Address | None, size: int) -> Address:
        queries, keys = self.queries, self.keys
        q, k, v = (vectors[step] for step in PROJECTIONS)
        suffix = f", head {head}" if self.inputs.heads > 1 else ""
        score = self.block(f"score = q · k{suffix}", queries, keys, _product(q, lambda at, c: k(c, at), size))
        scaled = self.block(
            f"score / √d_k{suffix}" if self.inputs.divisor is None else f"score / divisor{suffix}", queries, keys,
            lambda r, c: f"={score(r, c)}/{divisor}", decimals=2,
        )  # fmt: skip
        largest = self.block(
            f"largest in each row{suffix}", queries, 1,
            lambda r, _: "=MAX(" + ",".join(
                scaled(r, c) if mask is None else f"IF({mask(r, c)}=1,{scaled(r, c)},-1E+300)" for c in range(len(keys))
            ) + ")", decimals=2,
        )  # fmt: skip

        def power(row: int, column: int) -> str:
            text = f"EXP({scaled(row, column)}-{largest(row, 0)})"
            return f"={text}" if mask is None else f"=IF({mask(row, column)}=1,{text},0)"

        powers = self.block(f"e^(scaled − largest){suffix}", queries, keys, power, decimals=4)

        def weigh(row: int, column: int) -> str:
            total = f"SUM({powers(row, 0)}:{powers(row, len(keys) - 1)})"
            return f"=IF({total}=0,0,{powers(row, column)}/{total})"

        weight = self.block(f"softmax{suffix}", queries, keys, weigh, decimals=2)
        content = _product(weight, v, len(keys))
        return self.block(f"sum = softmax · v{suffix}", queries, self.value_dim, content, decimals=2)


def _shifted(address: Address, columns: int) -> Address:
    return lambda row, column: address(row, columns + column)


def _product(left: Address, right: Address, count: int) -> Content:
    """The cells of a matrix product."""
    return lambda row, column: "=" + "+".join(f"{left(row, at)}*{right(at, column)}" for at in range(count))
