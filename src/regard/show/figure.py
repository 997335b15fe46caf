"""Figures for slides and papers, as SVG: `heat_map(trace).save("cat.svg")`, or .png with the `figures` extra."""

from regard.show.bars import bars
from regard.show.filters import heads_and_filters
from regard.show.fixed import fixed_and_computed
from regard.show.flow import flow
from regard.show.heat_map import heat_map
from regard.show.lines import scaling
from regard.show.svg import Svg

__all__ = ["Svg", "bars", "fixed_and_computed", "flow", "heads_and_filters", "heat_map", "scaling"]
