"""Gradient × activation: what silencing each head would do, to first order, from one backward pass per prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard import errors
from regard.edits.metrics import token_id
from regard.heads.gates import gated_states, gates_of
from regard.reading.reader import Reader

Numbers = NDArray[np.float64]


def first_order(
    reader: Reader, texts: Sequence[str], answers: Sequence[str], others: Sequence[str] | None = None
) -> Numbers:
    """The change of a logit, or of a difference of two, without each head, (text, layer, head), to first order.

    −Σ over tokens of gradient · output of the head: exact where the rest of the model is linear in that output. The
    gradient is by one gate per head that multiplies its output (Michel et al., 2019).

    answers   one token for each text
    others    tokens whose logits are subtracted, one for each text
    """
    if reader.transformer is None:
        raise errors.unsupported(
            f"Gradient × activation of {reader.name}, which transformers runs and whose gradients were not recorded,",
            "regard.model(path) opens the BERT, GPT-2 and Llama kinds with gradients.",
        )
    tensors = reader.transformer.to_torch()
    if tensors.head is None:
        raise errors.unsupported(f"The gradient of a logit of {reader.name}, which has no unembedding,", "Use smollm2.")
    estimates = []
    for index, text in enumerate(texts):
        ids = tensors.embedding.weight.new_tensor(reader.tokeniser.encode(text).ids).long()
        gates = gates_of(tensors)
        logits = tensors.head(gated_states(tensors, ids, gates)[-1:])[0]
        target = logits[token_id(reader, answers[index])]
        if others is not None:
            target = target - logits[token_id(reader, others[index])]
        target.backward()
        estimates.append(np.stack([-gate.grad.numpy().astype(np.float64) for gate in gates]))
    return np.stack(estimates)


def agreement(one: Numbers, other: Numbers) -> tuple[float, float]:
    """The correlations of two sets of numbers: of the numbers (Pearson), and of their ranks (Spearman).

    >>> agreement(np.array([1.0, 2, 3]), np.array([1.0, 4, 9]))
    (0.989..., 1.0)
    """
    if min(np.ptp(one), np.ptp(other)) == 0:  # constant numbers have no correlation
        return float("nan"), float("nan")
    pairs = [(one.ravel(), other.ravel()), (_ranks(one), _ranks(other))]
    pearson, spearman = (float(np.corrcoef(left, right)[0, 1]) for left, right in pairs)
    return pearson, spearman


def _ranks(numbers: Numbers) -> Numbers:
    ranks = np.empty(numbers.size)
    ranks[np.argsort(numbers, axis=None, kind="stable")] = np.arange(numbers.size)
    return ranks
