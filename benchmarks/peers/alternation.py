"""Calls right after a product of PyTorch's or NumPy's, in one process: do thread pools get in each other's way?"""

from __future__ import annotations

import numpy as np
import torch

import regard
from cases import Case
from peers import Call, Calls
from peers.regard_numpy import arrays
from peers.torch_peers import sampled, tensors

ROWS, WIDTH = 300, 512


def prepare(case: Case) -> Calls:
    queries, keys, values = arrays(case)
    tensor_queries, tensor_keys, tensor_values = tensors(case)
    random = np.random.default_rng(3)
    x = random.standard_normal((ROWS, WIDTH), dtype=np.float32)
    weight = random.standard_normal((WIDTH, WIDTH), dtype=np.float32)
    tensor_x, tensor_weight = torch.from_numpy(x), torch.from_numpy(weight)

    befores = {
        "alone": None,
        "after linear": lambda: torch.nn.functional.linear(tensor_x, tensor_weight),
        "after matmul": lambda: x @ weight,
    }

    def ours() -> object:
        return regard.Attention(queries, keys) @ values

    def theirs() -> object:
        return torch.nn.functional.scaled_dot_product_attention(tensor_queries, tensor_keys, tensor_values)

    calls = {}
    for name, before in befores.items():
        calls[name] = Call(ours, lambda out: sampled(case, torch.from_numpy(out)), before=before)
        calls[f"PyTorch {name}"] = Call(theirs, lambda out: sampled(case, out), before=before)
    return calls
