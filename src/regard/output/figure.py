"""Figures for slides and papers: `heat_map(trace).save("cat.svg")`, or .pdf, or .png with the `figures` extra."""

from regard.output.attribution_figures import effect_map, logit_lens, projection, recipe, weight_scores
from regard.output.chart import comparison, pruning, scaling, training
from regard.output.lesson_figures import block, fixed_and_computed, heads_and_filters, lookup, positions
from regard.output.matrix_figures import Factor, product, sentence
from regard.output.svg import Layout, Svg
from regard.output.trace_figures import bars, flow
from regard.output.weight_figures import heads, heat_map

__all__ = [
    "Factor", "Layout", "Svg", "bars", "block", "comparison", "effect_map", "fixed_and_computed", "flow", "heads",
    "heads_and_filters", "heat_map", "logit_lens", "lookup", "positions", "product", "projection", "pruning",
    "recipe", "scaling", "sentence", "training", "weight_scores",
]  # fmt: skip
