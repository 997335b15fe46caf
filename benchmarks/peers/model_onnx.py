"""ONNX Runtime: BERT as a graph of its own fused operators, with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped,unused-ignore]
from onnx import TensorProto, helper, numpy_helper

from machine import cores
from model_cases import ModelCase
from peers import Call, Calls
from peers.model_regard import prepared_texts
from regard.models.model import model as open_model

OURS = "com.microsoft"  # the domain of ONNX Runtime's fused operators
BATCH = 32


def prepare(case: ModelCase) -> Calls:
    model = open_model(case.model)
    numbers = [model.tokeniser.encode(text).ids for text in prepared_texts(case, model.tokeniser, model.longest)]
    session = _session(model)
    del model
    if case.kind == "embed":
        return {"embed": Call(lambda: _embedded(session, numbers), lambda vectors: {"vectors": vectors})}
    feed = _feed(numbers)
    return {"run": Call(lambda: session.run(None, feed)[0], lambda states: {"vectors": _means(states, feed["mask"])})}


def _session(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    return onnxruntime.InferenceSession(onnx_of(model), options, providers=["CPUExecutionProvider"])


def onnx_of(model: Any) -> bytes:
    """A BERT as an ONNX file: ids, positions and mask, (text, token), to the states after the last layer."""
    graph = _Graph()
    transformer = model.transformer
    graph.node("Gather", ["ids"], transformer.embedding.weight, first=True, output="words")
    graph.node("Gather", ["positions"], transformer.positions.weight, first=True, output="places")
    graph.node("Add", ["words", "places"], output="embedded")
    graph.norm("embedded", transformer.embedding_norm, "x")
    for block in transformer.encoders:
        attention, fed = block.attention, block.feed_forward
        parts = (attention.w_q, attention.w_k, attention.w_v)
        weight = np.concatenate([part.weight for part in parts]).T
        bias = np.concatenate([part.bias for part in parts])
        attended = graph.node("Attention", ["x"], weight, bias, "mask", domain=OURS, num_heads=attention.heads)
        projected = graph.node("MatMul", [attended], attention.w_o.weight.T)
        middle = graph.skip_norm(projected, "x", block.norm_1, attention.w_o.bias)
        hidden = graph.node("BiasGelu", [graph.node("MatMul", [middle], fed.up.weight.T)], fed.up.bias, domain=OURS)
        down = graph.node("MatMul", [hidden], fed.down.weight.T)
        graph.rename("x", graph.skip_norm(down, middle, block.norm_2, fed.down.bias))
    return graph.model()


class _Graph:
    """Nodes and weights, one after the other."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.names: dict[str, str] = {}  # what "x" stands for now

    def node(
        self, kind: str, inputs: list[str], *more: Any, first: bool = False, output: str = "", **options: Any
    ) -> str:
        added = [part if isinstance(part, str) else self._weight(part) for part in more]
        given = [self.names.get(name, name) for name in inputs]
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [*added, *given] if first else [*given, *added], [output], **options))
        return output

    def norm(self, x: str, norm: Any, output: str) -> None:
        self.node("LayerNormalization", [x], norm.weight, norm.bias, output=output, epsilon=norm.epsilon)

    def skip_norm(self, x: str, skip: str, norm: Any, bias: Any) -> str:
        options = {"domain": OURS, "epsilon": norm.epsilon}
        return self.node("SkipLayerNormalization", [x, skip], norm.weight, norm.bias, bias, **options)

    def rename(self, name: str, now: str) -> None:
        self.names[name] = now

    def model(self) -> bytes:
        kinds = {"ids": TensorProto.INT64, "positions": TensorProto.INT64, "mask": TensorProto.INT32}
        inputs = [helper.make_tensor_value_info(name, kind, ["text", "token"]) for name, kind in kinds.items()]
        last = self.names["x"]
        output = helper.make_tensor_value_info(last, TensorProto.FLOAT, ["text", "token", "width"])
        graph = helper.make_graph(self.nodes, "bert", inputs, [output], self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(OURS, 1)]
        made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        return made

    def _weight(self, array: Any) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def _feed(numbers: list[list[int]]) -> dict[str, Any]:
    longest = max(map(len, numbers))
    ids = np.array([one + [0] * (longest - len(one)) for one in numbers], np.int64)
    mask = np.array([[1] * len(one) + [0] * (longest - len(one)) for one in numbers], np.int32)
    return {"ids": ids, "positions": np.broadcast_to(np.arange(longest), ids.shape).copy(), "mask": mask}


def _embedded(session: Any, numbers: list[list[int]]) -> Any:
    order = sorted(range(len(numbers)), key=lambda text: len(numbers[text]))
    vectors = []
    for start in range(0, len(order), BATCH):
        feed = _feed([numbers[text] for text in order[start : start + BATCH]])
        vectors.append(_means(session.run(None, feed)[0], feed["mask"]))
    found = np.concatenate(vectors)[np.argsort(order)]
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def _means(states: Any, mask: Any) -> Any:
    return (states * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
