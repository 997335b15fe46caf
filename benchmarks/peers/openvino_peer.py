"""OpenVINO's ScaledDotProductAttention on its CPU device, as a model of one node, in float32."""

from __future__ import annotations

import numpy as np
import openvino  # type: ignore[import-not-found,unused-ignore]
from openvino import opset13  # type: ignore[import-not-found,unused-ignore]

from cases import Case, inputs, sampled_rows
from machine import cores
from peers import Call, Calls


def prepare(case: Case) -> Calls:
    given = inputs(case)
    arrays = [np.ascontiguousarray(x[None]) for x in (given.queries, given.keys, given.values)]
    parameters = [opset13.parameter(x.shape, np.float32) for x in arrays]
    node = opset13.scaled_dot_product_attention(*parameters, causal=case.causal)
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": cores(), "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(openvino.Model([node], parameters), "CPU", settings)
    request = compiled.create_infer_request()
    for index, x in enumerate(arrays):
        request.set_input_tensor(index, openvino.Tensor(x, shared_memory=True))

    def run() -> object:
        request.infer()
        return arrays, compiled  # what the request refers to without keeping it

    return {"run": Call(run, lambda _: {"output": request.get_output_tensor(0).data[0][:, sampled_rows(case)]})}
