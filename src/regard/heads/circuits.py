"""The QK and OV circuits of a head: how many directions its weight matrices use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from regard.layers import MultiHead, Transformer

Numbers = NDArray[np.float64]


class Ranks(NamedTuple):
    """Effective ranks of every head, (layer, head)."""

    qk: Numbers  # of W_Q W_Kᵀ, with W as in x · W; rotary positions and norms of queries and keys are left out
    ov: Numbers  # of W_V W_O

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        return {"W_QK": self.qk.tolist(), "W_OV": self.ov.tolist()}


def ranks(model: Transformer) -> Ranks:
    """The effective ranks of all heads."""
    return Ranks(*map(np.array, zip(*(of_layer(block.attention) for block in model.encoders), strict=True)))


class HeadMatrices(NamedTuple):
    """The weights of every head of a layer; heads that share keys and values have equal ones."""

    queries: Numbers  # (head, head_dim, width)
    keys: Numbers
    values: Numbers
    outputs: Numbers  # (head, value_dim, width): its rows of W_O; the identity without W_O


def matrices(layer: MultiHead) -> HeadMatrices:
    """The projections of a layer, cut into heads."""
    shared = layer.heads // layer.groups  # query heads per key head
    queries, keys, values = (
        np.asarray(part.weight, np.float64).reshape(heads, -1, part.inputs)
        for part, heads in ((layer.w_q, layer.heads), (layer.w_k, layer.groups), (layer.w_v, layer.groups))
    )
    size = values.shape[1]
    outputs: Any = np.broadcast_to(np.eye(size), (layer.heads, size, size))
    if layer.w_o is not None:
        outputs = output_matrices(np.asarray(layer.w_o.weight, np.float64), layer.heads)
    return HeadMatrices(queries, np.repeat(keys, shared, 0), np.repeat(values, shared, 0), outputs)


def output_matrices(w_o: NDArray[Any], heads: int) -> NDArray[Any]:
    """The rows of W_O that belong to each head, (head, value_dim, width), of a weight (width, head · value_dim)."""
    return w_o.reshape(len(w_o), heads, -1).transpose(1, 2, 0)


def of_layer(layer: MultiHead) -> Ranks:
    """The effective ranks of the heads of one layer, (head,)."""
    heads = matrices(layer)
    qk = [effective_rank(query, key) for query, key in zip(heads.queries, heads.keys, strict=True)]
    ov = [effective_rank(output, value) for output, value in zip(heads.outputs, heads.values, strict=True)]
    return Ranks(np.array(qk), np.array(ov))


def effective_rank(left: Numbers, right: Numbers) -> float:
    """exp of the entropy of the normalised singular values of leftᵀ · right (Roy and Vetterli, 2007).

    Both are (head_dim, width); with leftᵀ = Q R, the singular values of the width × width product are those of the
    small R_left · R_rightᵀ.

    >>> effective_rank(np.eye(3, 7), np.eye(3, 7))
    3.0
    """
    of_left, of_right = (np.asarray(np.linalg.qr(matrix.T, mode="r")) for matrix in (left, right))
    small = of_left @ of_right.T
    singular = np.linalg.svd(small, compute_uv=False)
    shares = singular / max(float(singular.sum()), np.finfo(float).tiny)
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0
