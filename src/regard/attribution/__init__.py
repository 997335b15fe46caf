"""Attribution: which heads and tokens an answer comes from, and what a head can do by its weights."""

from typing import TYPE_CHECKING

from regard.lazy_names import lazy_names

if TYPE_CHECKING:
    from regard.attribution.direct_paths import Contributions, contributions
    from regard.attribution.estimates import agreement, first_order
    from regard.attribution.induction import InductionCircuit, induction_circuit
    from regard.attribution.lens import LogitLens, logit_lens
    from regard.attribution.projection import ProjectedHead, project
    from regard.attribution.recipes import GridStudy, HeadStudy, answer_question, patching, sentence_vector, sinks
    from regard.attribution.token_circuits import TokenCircuits

__all__ = [
    "Contributions", "GridStudy", "HeadStudy", "InductionCircuit", "LogitLens", "ProjectedHead", "TokenCircuits",
    "agreement", "answer_question", "contributions", "first_order", "induction_circuit", "logit_lens", "patching",
    "project", "sentence_vector", "sinks",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "direct_paths": ("Contributions", "contributions"), "estimates": ("agreement", "first_order"),
            "induction": ("InductionCircuit", "induction_circuit"),
            "lens": ("LogitLens", "logit_lens"), "projection": ("ProjectedHead", "project"),
            "recipes": ("GridStudy", "HeadStudy", "answer_question", "patching", "sentence_vector", "sinks"),
            "token_circuits": ("TokenCircuits",),
        },
    )  # fmt: skip
