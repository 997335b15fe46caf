"""Interventions: change what a model computes while it runs, and measure what that changes.

Edits are values. `model.read(text, edit=…)`, `model.generate(…, edit=…)` and `regard.watch(model, edit=…)` take the
same ones; `effect` measures them.

>>> from regard.edits import block, silence
>>> silence((5, 2), (3, 1)) & block(queries="it", keys="trophy", layers=range(4, 9))
silence((3, 1), (5, 2)) & block(queries='it', keys='trophy', layers=range(4, 9), after_softmax=False)
"""

from regard.edits.edit import block, patch, scale, silence
from regard.edits.effects import each_edge, each_head, effect
from regard.edits.metrics import (
    Metric,
    accuracy,
    logit,
    logit_difference,
    next_token_loss,
    probability,
    state_distance,
    vector_distance,
)
from regard.edits.sources import Means, mean_outputs
from regard.reading.edit import Edit, Edits, edits_of

__all__ = [
    "Edit", "Edits", "Means", "Metric", "accuracy", "block", "each_edge", "each_head", "edits_of", "effect", "logit",
    "logit_difference", "mean_outputs", "next_token_loss", "patch", "probability", "scale", "silence", "state_distance",
    "vector_distance",
]  # fmt: skip
