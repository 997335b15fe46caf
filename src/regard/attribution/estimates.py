"""Gradient × activation: what silencing each head would do, to first order, from one backward pass per prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import errors
from regard.arrays import Array
from regard.edits.metrics import token_id
from regard.layers import Heads, MultiHead
from regard.layers.encoder import Attend, attend_all, result_of
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
        gates = [
            tensors.embedding.weight.new_ones(block.attention.heads).requires_grad_() for block in tensors.encoders
        ]
        x = tensors.embed(ids)
        for block, gate in zip(tensors.encoders, gates, strict=True):
            x = result_of(block.observe(x, attend=_attend_gated(gate)))
        last = x[-1:] if tensors.norm is None else tensors.norm(x[-1:])
        logits = tensors.head(last)[0]
        target = logits[token_id(reader, answers[index])]
        if others is not None:
            target = target - logits[token_id(reader, others[index])]
        target.backward()
        estimates.append(np.stack([-gate.grad.numpy().astype(np.float64) for gate in gates]))
    return np.stack(estimates)


def _attend_gated(gate: Any) -> Attend:
    """Attention with every head's output multiplied by its gate, (head,)."""
    plain = attend_all()

    def attend(layer: MultiHead, x: Array) -> Heads:
        heads = plain(layer, x)
        rows = heads.outputs.reshape(*heads.outputs.shape[:-1], layer.heads, -1)
        return heads._replace(outputs=(rows * gate[:, None]).reshape(heads.outputs.shape))

    return attend


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
