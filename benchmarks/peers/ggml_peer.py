"""llama.cpp's flash attention on the CPU: one `ggml_flash_attn_ext` node, called in the libraries of llama-cpp-python.

`GGML_LIBRARIES` may name a folder with libggml-base.so and libggml-cpu.so built from its source distribution instead.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from ctypes import POINTER, Structure, c_bool, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from cases import Case, inputs, sampled_rows
from machine import cores
from peers import Call, Calls

TYPES = {"float32": 0, "float16": 1, "bfloat16": 30}  # of ggml


class Memory(Structure):
    _fields_ = (("bytes", c_size_t), ("buffer", c_void_p), ("no_alloc", c_bool))


class Plan(Structure):
    _fields_ = (
        ("work_size", c_size_t),
        ("work_data", c_void_p),
        ("threads", c_int),
        ("threadpool", c_void_p),
        ("abort_callback", c_void_p),
        ("abort_data", c_void_p),
        ("use_reference", c_bool),
    )


def prepare(case: Case) -> Calls:
    if case.causal:
        raise ValueError("only decoding, where every key is visible")
    base, cpu = _libraries()
    cpu.ggml_cpu_init()
    given = inputs(case)
    stored = TYPES[case.storage]
    room = 2 * given.keys.nbytes + 4 * given.queries.nbytes + (64 << 20)
    context = base.ggml_init(Memory(room, None, False))
    queries = _tensor(base, context, 0, given.queries)
    keys, values = (_tensor(base, context, stored, x) for x in (given.keys, given.values))
    node = base.ggml_flash_attn_ext(context, queries, keys, values, None, case.size**-0.5, 0.0, 0.0)
    graph = base.ggml_new_graph(context)
    base.ggml_build_forward_expand(graph, node)
    plan = cpu.ggml_graph_plan(graph, cores(), None)
    work = np.empty(plan.work_size + 64, np.uint8)
    plan.work_data = work.ctypes.data

    def run() -> Any:
        cpu.ggml_graph_compute(graph, plan)
        return work  # keeps it alive

    def results(_: Any) -> dict[str, Any]:  # (token, head, size)
        shape = (case.queries, case.heads, case.size)
        output = np.ctypeslib.as_array(ctypes.cast(base.ggml_get_data(node), POINTER(c_float)), shape)
        return {"output": output.swapaxes(0, 1)[:, sampled_rows(case)].copy()}

    return {"run": Call(run, results)}


def _tensor(base: Any, context: Any, kind: int, x: Any) -> Any:
    """An array (head, token, size) as a tensor of ggml, whose axes are in reverse order."""
    tensor = base.ggml_new_tensor_4d(context, kind, x.shape[2], x.shape[1], x.shape[0], 1)
    if kind == TYPES["float16"]:
        x = x.astype(np.float16)
    elif kind == TYPES["bfloat16"]:  # whose numbers these are already: the upper half of a float32
        x = (np.ascontiguousarray(x).view(np.uint32) >> 16).astype(np.uint16)
    x = np.ascontiguousarray(x)
    ctypes.memmove(base.ggml_get_data(tensor), x.ctypes.data, x.nbytes)
    return tensor


def _libraries() -> tuple[Any, Any]:
    folder = os.environ.get("GGML_LIBRARIES")
    if folder is None:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("llama-cpp-python is not installed")
        folder = str(Path(spec.origin).parent / "lib")
    base, cpu = (
        ctypes.CDLL(str(Path(folder) / f"lib{name}.so"), ctypes.RTLD_GLOBAL) for name in ("ggml-base", "ggml-cpu")
    )
    base.ggml_init.argtypes, base.ggml_init.restype = [Memory], c_void_p
    base.ggml_new_tensor_4d.argtypes = [c_void_p, c_int, c_int64, c_int64, c_int64, c_int64]
    base.ggml_flash_attn_ext.argtypes = [c_void_p] * 5 + [c_float] * 3
    base.ggml_build_forward_expand.argtypes = [c_void_p, c_void_p]
    base.ggml_new_graph.argtypes = base.ggml_get_data.argtypes = [c_void_p]
    for function in ("ggml_new_tensor_4d", "ggml_flash_attn_ext", "ggml_new_graph", "ggml_get_data"):
        getattr(base, function).restype = c_void_p
    cpu.ggml_graph_plan.argtypes, cpu.ggml_graph_plan.restype = [c_void_p, c_int, c_void_p], Plan
    cpu.ggml_graph_compute.argtypes = [c_void_p, POINTER(Plan)]
    return base, cpu
