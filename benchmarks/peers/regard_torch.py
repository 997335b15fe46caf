"""Regard on PyTorch tensors, with gradients where the case asks for them."""

from __future__ import annotations

from typing import Any

import regard
from cases import Case
from peers import Call, Calls
from peers.torch_peers import sampled, tensors, with_gradients
from regard.masks import documents


def prepare(case: Case) -> Calls:
    def attend(queries: Any, keys: Any, values: Any) -> Any:
        mask = regard.causal() if case.causal else None
        if case.shortest:
            packed = documents(lengths=case.lengths)
            mask = packed if mask is None else packed & mask
        return regard.Attention(queries, keys, mask=mask) @ values

    if case.kind == "backward":
        return {"run": with_gradients(case, attend)}
    queries, keys, values = tensors(case)
    return {"run": Call(lambda: attend(queries, keys, values), lambda out: sampled(case, out))}
