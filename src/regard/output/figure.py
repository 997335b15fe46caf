"""Figures for slides and papers: `heat_map(trace).save("cat.svg")`, or .pdf, or .png with the `figures` extra."""

from regard.output.bars import bars
from regard.output.block_figure import block
from regard.output.fixed_and_computed import fixed_and_computed
from regard.output.flow import flow
from regard.output.head_grid import heads
from regard.output.heads_and_filters import heads_and_filters
from regard.output.heat_map import heat_map
from regard.output.lookup_chart import lookup
from regard.output.position_figure import positions
from regard.output.scaling_chart import scaling
from regard.output.svg import Svg

__all__ = [
    "Svg", "bars", "block", "fixed_and_computed", "flow", "heads", "heads_and_filters", "heat_map", "lookup",
    "positions", "scaling",
]  # fmt: skip
