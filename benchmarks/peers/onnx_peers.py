"""ONNX Runtime: its own MultiHeadAttention, and ONNX's Attention (opset 23), each as a model of one node."""

from __future__ import annotations

from typing import Any

import onnxruntime  # type: ignore[import-untyped,unused-ignore]
from onnx import TensorProto, helper

from cases import Case, Floats, inputs, sampled_rows
from machine import cores
from peers import Call, Calls


def multi_head_attention(case: Case) -> Calls:
    """Tokens before heads: (batch, token, head · size) is how this operator takes and gives its arrays."""
    given = inputs(case)
    width = case.heads * case.size

    def tokens_first(x: Floats) -> Floats:  # (head, token, size) → (1, token, head · size)
        return x.swapaxes(0, 1).reshape(1, -1, width)

    feed = {name: tokens_first(x) for name, x in _named(given.queries, given.keys, given.values)}
    node = helper.make_node(
        "MultiHeadAttention",
        [*feed],
        ["output"],
        domain="com.microsoft",
        num_heads=case.heads,
        unidirectional=int(case.causal),
    )
    session = _session(node, feed, [1, case.queries, width])

    def results(outputs: list[Floats]) -> dict[str, Floats]:
        heads = outputs[0][0].reshape(-1, case.heads, case.size).swapaxes(0, 1)
        return {"output": heads[:, sampled_rows(case)]}

    return {"run": Call(lambda: session.run(None, feed), results)}


def attention(case: Case) -> Calls:
    given = inputs(case)
    feed = {name: x[None] for name, x in _named(given.queries, given.keys, given.values)}
    node = helper.make_node("Attention", [*feed], ["output"], is_causal=int(case.causal))
    session = _session(node, feed, [1, case.heads, case.queries, case.size])
    return {
        "run": Call(lambda: session.run(None, feed), lambda outputs: {"output": outputs[0][0][:, sampled_rows(case)]})
    }


def _named(*arrays: Floats) -> list[tuple[str, Floats]]:
    return list(zip(("queries", "keys", "values"), arrays, strict=True))


def _session(node: Any, feed: dict[str, Floats], shape: list[int]) -> Any:
    arrays = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in feed.items()]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)
    model = helper.make_model(
        helper.make_graph([node], "attention", arrays, [output]),
        opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)],
        ir_version=11,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
