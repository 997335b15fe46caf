"""Figures for slides and papers: `heat_map(trace).save("cat.svg")`, or .pdf, or .png with the `figures` extra."""

from regard.output.ablation_figure import pruning
from regard.output.course_figures import curves, products, shaded_sentence
from regard.output.lesson_figures import block, fixed_and_computed, heads_and_filters, lookup, positions
from regard.output.scaling_figure import scaling
from regard.output.svg import Svg
from regard.output.trace_figures import bars, flow
from regard.output.training_figures import comparison, training
from regard.output.weight_figures import heads, heat_map

__all__ = [
    "Svg", "bars", "block", "comparison", "curves", "fixed_and_computed", "flow", "heads", "heads_and_filters",
    "heat_map", "lookup", "positions", "products", "pruning", "scaling", "shaded_sentence", "training",
]  # fmt: skip
