"""The report of `regard steps`: its figure, its page and its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard import validate
from regard.errors import OptionError
from regard.output import html, table_formats
from regard.output.files import FIGURES, Format, figure_file, tables_file
from regard.output.svg import Svg
from regard.output.trace_figures import bars, flow
from regard.output.weight_figures import heads, heat_map
from regard.output.worked_sheet import worked_sheet
from regard.teaching.traced_attention import Traced, step_tables
from regard.trace import Trace

MOST_HEADS = 8  # whose flow a page shows
MOST_WEIGHTS = 250_000  # in a CSV or JSON file without `full`: some 60 MB


@dataclass(frozen=True, eq=False, slots=True)
class StepsReport:
    """The steps of an attention, and what to show of them."""

    steps: Traced
    query: Any = None  # a word or its position; None for all of them
    key: Any = None  # of a figure of one query and one key
    head: int | None = None  # None for all of them
    full: bool = False

    def file(self, kind: Format) -> str | bytes:
        words = len(self.steps.words)
        count = self.steps.heads * words**2  # files of numbers are never shortened; very large ones need `full`
        if kind in (Format.CSV, Format.JSON) and self.query is None and not self.full and count > MOST_WEIGHTS:
            raise OptionError(
                f"All steps of {words:,} words as {kind} would hold {count:,} weights: "
                "choose one word with --query WORD, or --full for all of them."
            )
        if kind is Format.JSON:
            return table_formats.trace_to_json(self._trace())
        if kind is Format.XLSX:
            return worked_sheet(self.steps.inputs)
        if kind is Format.HTML:
            return self._page()
        if kind in FIGURES:
            return figure_file(self.drawing(), kind)
        with_inputs = kind in (Format.CSV, Format.MARKDOWN)  # what `regard check` reads
        tables = step_tables(
            self.steps, self.query, self.head, full=self.full, every_query=kind is Format.CSV, with_inputs=with_inputs
        )
        return tables_file(tables, kind, self.full)

    def drawing(self) -> Svg:
        """The heat map of one head or of all, the flow of one query, or the bars of a query and a key."""
        if self.query is None and self.head is None and self.steps.heads > 1:
            return heads(self._trace())
        if self.query is None:
            return heat_map(self._trace(), head=self.head or 0)
        trace = self.steps.explain(self.query)
        return flow(trace, head=self.head or 0) if self.key is None else bars(trace, key=self.key, head=self.head or 0)

    def _trace(self) -> Trace:
        return self.steps.whole() if self.query is None else self.steps.explain(self.query)

    def _page(self) -> str:
        tables = step_tables(self.steps, self.query, self.head, full=self.full)
        notes, tables[-1] = tables[-1].notes, replace(tables[-1], notes=())
        trace = self._trace()
        bare = trace.noted(None)  # the page shows it once
        if self.query is None and self.head is None and trace.heads > 1:
            figures = [heads(bare)]
        else:
            shown: Sequence[int] = range(min(trace.heads, MOST_HEADS))
            if self.head is not None:
                shown = [validate.index("head", self.head, trace.heads)]
            draw = heat_map if self.query is None else flow
            figures = [draw(bare, head=head) for head in shown]
        words = self.steps.words
        title = " ".join(words[:16]) + (" …" if len(words) > 16 else "")
        return html.page(tables, figures, title=f"{title}: attention, step by step", notes=notes)
