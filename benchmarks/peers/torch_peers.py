"""PyTorch: its fused attention, attention written out, and its layer that returns weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cases import Case, inputs, sampled_rows
from multihead import layer_input, layer_weights
from peers import Call, Calls
from truth import Results, sampled_flow

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def tensors(case: Case) -> list[Any]:
    given = inputs(case)
    kind = TYPES[case.storage]
    return [torch.from_numpy(x)[None].to(kind) for x in (given.queries, given.keys, given.values)]


def sampled(case: Case, output: Any) -> Results:
    return {"output": output.detach()[0][:, sampled_rows(case)].float().numpy()}


def fused(case: Case) -> Calls:
    if case.shortest:
        return _packed(case)
    attend = torch.nn.functional.scaled_dot_product_attention
    queries, keys, values = tensors(case)
    if case.kind == "backward":
        return {"run": with_gradients(case, lambda q, k, v: attend(q, k, v, is_causal=case.causal))}
    return {"run": Call(lambda: attend(queries, keys, values, is_causal=case.causal), lambda out: sampled(case, out))}


def _packed(case: Case) -> Calls:
    """Sequences of different lengths: one call for each, and one call with a mask of n × n."""
    attend = torch.nn.functional.scaled_dot_product_attention
    sequence = torch.repeat_interleave(torch.arange(len(case.lengths)), torch.tensor(case.lengths))

    def one_by_one(queries: Any, keys: Any, values: Any) -> Any:
        parts = zip(*(array.split(case.lengths, dim=2) for array in (queries, keys, values)), strict=True)
        return torch.cat([attend(*part, is_causal=case.causal) for part in parts], dim=2)

    def masked(queries: Any, keys: Any, values: Any) -> Any:
        seen = sequence[:, None] == sequence
        return attend(queries, keys, values, attn_mask=seen.tril() if case.causal else seen)

    if case.kind == "backward":
        return {"run": with_gradients(case, one_by_one), "masked": with_gradients(case, masked)}
    given = tensors(case)
    return {
        "run": Call(lambda: one_by_one(*given), lambda out: sampled(case, out)),
        "masked": Call(lambda: masked(*given), lambda out: sampled(case, out)),
    }


def flex(case: Case) -> Calls:
    """FlexAttention, compiled for the shape before it is timed; a causal mask is a block mask, made once."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def earlier(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return query >= key

    mask = create_block_mask(earlier, None, None, case.queries, case.keys, device="cpu") if case.causal else None
    torch.compiler.reset()  # after eight shapes it would compile no more and build the matrix instead
    compiled = torch.compile(flex_attention, dynamic=False)
    queries, keys, values = tensors(case)

    def run() -> Any:
        with torch.no_grad():
            return compiled(queries, keys, values, block_mask=mask)

    run()  # compiles
    return {"run": Call(run, lambda out: sampled(case, out))}


def reading(case: Case) -> Calls:
    """The keys and values read once from memory, by all threads: what decoding cannot do without."""
    _, keys, values = (x.view(torch.int32 if x.dtype == torch.float32 else torch.int16) for x in tensors(case))
    return {"run": Call(lambda: (keys.amax(), values.amax()), lambda _: {})}


def with_gradients(case: Case, attend: Any) -> Call:
    """Forward and backward, to the gradients of queries, keys and values."""
    given = inputs(case)
    queries, keys, values = (x.requires_grad_() for x in tensors(case))
    whole, part = (torch.from_numpy(flow)[None] for flow in (given.flow, sampled_flow(case, given)))

    def run(flow: Any) -> Any:
        queries.grad = keys.grad = values.grad = None
        attend(queries, keys, values).backward(flow)
        return queries.grad, keys.grad, values.grad

    def results(gradients: Any) -> Results:
        of_queries, of_keys, of_values = (gradient[0].numpy() for gradient in gradients)
        return {"queries": of_queries[:, sampled_rows(case)], "keys": of_keys, "values": of_values}

    return Call(lambda: run(whole), results, verify=lambda: run(part))


def eager(case: Case) -> Calls:
    queries, keys, values = tensors(case)
    later = torch.ones(case.queries, case.keys, dtype=torch.bool).triu(1) if case.causal else None

    def run() -> Any:
        scores = queries @ keys.transpose(-1, -2)
        scores *= case.size**-0.5
        if later is not None:
            scores.masked_fill_(later, -torch.inf)
        return scores.softmax(-1) @ values

    return {"run": Call(run, lambda out: sampled(case, out))}


def module(case: Case) -> Calls:
    """The layer: three projections, attention with weights (their mean over heads), and the projection after it."""
    weights = {name: torch.from_numpy(array) for name, array in layer_weights(case).items()}
    layer = torch.nn.MultiheadAttention(case.heads * case.size, case.heads, batch_first=True).eval()
    with torch.no_grad():
        layer.in_proj_weight.copy_(weights["in"])
        layer.in_proj_bias.copy_(weights["in_bias"])
        layer.out_proj.weight.copy_(weights["out"])
        layer.out_proj.bias.copy_(weights["out_bias"])
    x = torch.from_numpy(layer_input(case))[None]

    def run() -> Any:
        with torch.no_grad():
            return layer(x, x, x, need_weights=True)

    def results(found: Any) -> Results:
        rows = sampled_rows(case)
        output, mean_weight = (np.asarray(part[0][rows]) for part in found)
        return {"output": output, "mean_weight": mean_weight}

    return {"run": Call(run, results)}
