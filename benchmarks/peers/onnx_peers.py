"""ONNX Runtime: its MultiHeadAttention and GroupQueryAttention, and ONNX's Attention (opset 23), a node each."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped,unused-ignore]
from onnx import TensorProto, helper

from cases import Case, Floats, inputs, sampled_rows
from machine import cores
from peers import Call, Calls


def multi_head_attention(case: Case) -> Calls:
    """Tokens before heads: (batch, token, head · size) is how this operator takes and gives its arrays."""
    given = inputs(case)
    width = case.heads * case.size
    feed = {name: _tokens_first(x) for name, x in _named(given.queries, given.keys, given.values)}
    node = helper.make_node(
        "MultiHeadAttention",
        [*feed],
        ["output"],
        domain="com.microsoft",
        num_heads=case.heads,
        unidirectional=int(case.causal),
    )
    session = _session(node, feed, {"output": [1, case.queries, width]})
    return {"run": Call(lambda: session.run(None, feed), lambda outputs: _sampled_heads(case, outputs[0]))}


def group_query_attention(case: Case) -> Calls:
    """Causal, with a KV cache: empty for a prompt; in decoding the last key and value are new, the others cached."""
    if not case.causal and case.queries > 1:
        raise ValueError("causal only")
    given = inputs(case)
    width, cached = case.heads * case.size, case.keys - case.queries
    new = (given.keys[:, cached:], given.values[:, cached:])
    feed = {name: _tokens_first(x) for name, x in _named(given.queries, *new)}
    feed |= {"past_key": given.keys[None, :, :cached], "past_value": given.values[None, :, :cached]}
    feed |= {"last": np.array([case.keys - 1], np.int32), "total": np.array(case.keys, np.int32)}
    outputs = {"output": [1, case.queries, width]}
    outputs |= {name: [1, case.heads, case.keys, case.size] for name in ("present_key", "present_value")}
    settings = {"domain": "com.microsoft", "num_heads": case.heads, "kv_num_heads": case.heads}
    session = _session(helper.make_node("GroupQueryAttention", [*feed], [*outputs], **settings), feed, outputs)
    if not cached:
        return {"run": Call(lambda: session.run(["output"], feed), lambda found: _sampled_heads(case, found[0]))}
    # One buffer for past and present, as a decoding loop has it: otherwise every call copies the cache.
    binding = session.io_binding()
    for name, x in feed.items():
        if not name.startswith("past_"):
            binding.bind_cpu_input(name, np.ascontiguousarray(x))
    for name, x in (("key", given.keys), ("value", given.values)):
        buffer = onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(x[None]))
        binding.bind_ortvalue_input(f"past_{name}", buffer)
        binding.bind_ortvalue_output(f"present_{name}", buffer)
    binding.bind_output("output")

    def run() -> Any:
        session.run_with_iobinding(binding)
        return binding

    return {"run": Call(run, lambda bound: _sampled_heads(case, bound.get_outputs()[-1].numpy()))}


def attention(case: Case) -> Calls:
    given = inputs(case)
    feed = {name: x[None] for name, x in _named(given.queries, given.keys, given.values)}
    node = helper.make_node("Attention", [*feed], ["output"], is_causal=int(case.causal))
    session = _session(node, feed, {"output": [1, case.heads, case.queries, case.size]})
    return {
        "run": Call(lambda: session.run(None, feed), lambda outputs: {"output": outputs[0][0][:, sampled_rows(case)]})
    }


def _named(*arrays: Floats) -> list[tuple[str, Floats]]:
    return list(zip(("queries", "keys", "values"), arrays, strict=True))


def _tokens_first(x: Floats) -> Floats:
    """(head, token, size) → (1, token, head · size)."""
    return x.swapaxes(0, 1).reshape(1, x.shape[1], -1)


def _sampled_heads(case: Case, output: Floats) -> dict[str, Floats]:
    heads = output[0].reshape(-1, case.heads, case.size).swapaxes(0, 1)
    return {"output": heads[:, sampled_rows(case)]}


def _session(node: Any, feed: dict[str, Any], outputs: dict[str, list[int]]) -> Any:
    arrays = [
        helper.make_tensor_value_info(
            name,
            TensorProto.INT32 if x.dtype == np.int32 else TensorProto.FLOAT,
            [*x.shape[:2], "cached", *x.shape[3:]] if name.startswith("past_") else x.shape,
        )
        for name, x in feed.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    model = helper.make_model(
        helper.make_graph([node], "attention", arrays, results),
        opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)],
        ir_version=11,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
