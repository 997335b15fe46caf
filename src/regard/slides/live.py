"""What an HTML deck computes its numbers from when an embedding is changed on a slide."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np

from regard.output import colours
from regard.slides.lecture import Lecture

COLOURS = 65  # steps of a colour map


def live_numbers(lecture: Lecture) -> dict[str, Any]:
    """Embeddings, positions and weight matrices of the sentence, and the colours of weights and signed numbers."""
    inputs, positions = lecture.steps.inputs, lecture.positioned.inputs.position
    shares = np.linspace(0, 1, COLOURS)
    return {
        "x": np.asarray(inputs.x).tolist(),
        "positions": np.asarray(positions).tolist(),
        **{name: inputs.matrices[name].tolist() for name in ("W_q", "W_k", "W_v")},
        "sequential": [colours.sequential(share) for share in shares],
        "positive": [colours.diverging(share) for share in shares],
        "negative": [colours.diverging(-share) for share in shares],
    }


def live_script() -> str:
    """The JavaScript that computes them."""
    return files(__package__).joinpath("live.js").read_text(encoding="utf-8")
