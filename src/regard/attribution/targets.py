"""What contributions are measured toward: the logit of a token, a difference of two, or a direction of the states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import errors
from regard.arrays import is_array
from regard.edits.metrics import token_id
from regard.reading.reader import Reader
from regard.reading.residual_stream import ResidualStream

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearTarget:
    """A linear function of the states after the last norm."""

    name: str
    direction: Numbers  # (width,)
    constant: float = 0.0


def target_of(reader: Reader, stream: ResidualStream, toward: Any, position: int | None) -> LinearTarget:
    """The target that a token, two tokens or a direction name; None is the most likely token after a position."""
    width = stream.reading.states[-1].shape[-1]
    if is_array(toward):
        direction = np.asarray(toward, np.float64)
        if direction.shape != (width,):
            raise errors.ShapeError(f"`toward` has shape {direction.shape}; expected ({width},), the model's width.")
        return LinearTarget("the state along a direction", direction)
    texts: list[str | None] = [toward] if toward is None or isinstance(toward, str) else list(toward)
    if len(texts) not in (1, 2):
        raise errors.option("toward", toward, "one token, two tokens, or a direction (width,)")
    check_unembedding(reader, stream, "A logit", " In Python, `toward` may be a direction (width,) of its states.")
    assert stream.head is not None
    ids = [_most_likely(stream, position) if text is None else token_id(reader, text) for text in texts]
    rows = np.asarray(stream.head.weight[ids], np.float64)
    shifts = np.zeros(len(ids)) if stream.head.bias is None else np.asarray(stream.head.bias[ids], np.float64)
    signs = np.array([1.0, -1.0][: len(ids)])
    names = [quoted_token(text or reader.tokeniser.piece(token)[0]) for text, token in zip(texts, ids, strict=True)]
    name = f"the logit of {names[0]}" if len(names) == 1 else f"logit {names[0]} − logit {names[1]}"
    return LinearTarget(name, signs @ rows, float(signs @ shifts))


def _most_likely(stream: ResidualStream, position: int | None) -> int:
    if position is None:
        raise errors.option("toward", None, "a token: after the mean over all positions, none is the next")
    return int(stream.logits(stream.reading.states[-1][position : position + 1]).argmax())


def quoted_token(text: str) -> str:
    """A token in quotation marks, its spaces kept."""
    return f"“{text}”"


def check_unembedding(reader: Reader, stream: ResidualStream, what: str, more: str = "") -> None:
    """Refuse a model without logits."""
    if stream.head is None:
        raise errors.unsupported(
            f"{what} of {reader.name}, which has no unembedding and so predicts no token,",
            f"Use a causal model such as smollm2.{more}",
        )
