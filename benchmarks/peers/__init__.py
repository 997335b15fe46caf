"""Who takes part. Each peer is a function `prepare(case) -> {name of call: Call}` in a module of its own.

A worker process imports one module and no other, so that no library shares a process (and its threads) with another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cases import Case
from truth import Results


@dataclass(frozen=True, eq=False)
class Call:
    """Something to time, and how to read its results for comparison with what is right."""

    run: Callable[[], Any]
    results: Callable[[Any], Results]
    verify: Callable[[], Any] | None = None  # run instead of `run` to get results that can be checked
    before: Callable[[], Any] | None = None  # run before each repeat, not timed
    seconds: Callable[[Any], float] | None = None  # reads the time out of the result, where the clock is not ours


Calls = dict[str, Call]
GIB = 2**30


@dataclass(frozen=True)
class Peer:
    label: str
    module: str
    function: str
    leading: bool = True  # timed in every round; the others serve as context, and get one repeat where they are slow
    matrices: Callable[[Case], float] = lambda case: 0  # of queries × keys × 4 bytes, held at once

    def memory(self, case: Case) -> int:
        return int(self.matrices(case) * case.queries * case.keys * 4)


PEERS = {
    "regard": Peer("Regard", "peers.regard_numpy", "prepare"),
    "regard_torch": Peer("Regard on tensors", "peers.regard_torch", "prepare"),
    "torch_fused": Peer("PyTorch fused", "peers.torch_peers", "fused"),
    "ort_multihead": Peer(
        "ORT MHA", "peers.onnx_peers", "multi_head_attention", matrices=lambda case: (case.heads + 1) * case.causal
    ),
    "ort_attention": Peer(
        "ORT Attention", "peers.onnx_peers", "attention", matrices=lambda case: case.heads + case.causal + 0.1
    ),
    "ort_group_query": Peer("ORT GQA", "peers.onnx_peers", "group_query_attention"),
    "openvino": Peer("OpenVINO", "peers.openvino_peer", "prepare"),
    "torch_flex": Peer("FlexAttention", "peers.torch_peers", "flex"),
    "ggml": Peer("llama.cpp", "peers.ggml_peer", "prepare"),
    "reading": Peer("memory alone", "peers.torch_peers", "reading"),
    "torch_eager": Peer("PyTorch eager", "peers.torch_peers", "eager", False, lambda case: 2 * case.heads),
    "torch_module": Peer("nn.MultiheadAttention", "peers.torch_peers", "module", matrices=lambda case: 2 * case.heads),
    "numpy": Peer("NumPy", "peers.numpy_peer", "prepare", False, lambda case: case.heads),
    "limit": Peer("limit", "peers.limit", "prepare"),
    "regard_avx2": Peer("Regard with AVX2", "peers.avx2", "prepare"),
    "limit_avx2": Peer("limit of AVX2", "peers.avx2", "limit"),
    "alternation": Peer("alternation", "peers.alternation", "prepare"),
    "model_regard": Peer("Regard", "peers.model_regard", "prepare"),
    "model_transformers": Peer("transformers", "peers.model_transformers", "prepare"),
    "model_onnx": Peer("ONNX Runtime", "peers.model_onnx", "prepare"),
}


def prepare(peer: str, case: Case) -> Calls:
    found = PEERS[peer]
    calls: Calls = getattr(importlib.import_module(found.module), found.function)(case)
    return calls
