"""Regard on PyTorch tensors, with gradients where the case asks for them."""

from __future__ import annotations

from typing import Any

import regard
from cases import Case
from peers import Call, Calls
from peers.torch_peers import sampled, tensors, with_gradients


def prepare(case: Case) -> Calls:
    def attend(queries: Any, keys: Any, values: Any) -> Any:
        return regard.Attention(queries, keys, mask=regard.causal() if case.causal else None) @ values

    if case.kind == "backward":
        return {"run": with_gradients(case, attend)}
    queries, keys, values = tensors(case)
    return {"run": Call(lambda: attend(queries, keys, values), lambda out: sampled(case, out))}
