"""What the blocks of a model of transformers write to the residual stream, recorded with forward hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard import errors
from regard.layers import LayerNorm, Linear, RMSNorm
from regard.reading import Reading
from regard.reading.residual_stream import BlockWrites, ResidualStream
from regard.watch.outcomes import hooked
from regard.watch.reading import in_numpy

CLOSE = 1e-4  # of the largest number: sums of float32 in another order
INSTEAD = "regard.model(path) opens the BERT, GPT-2 and Llama kinds with their residual stream."


class StateMap(NamedTuple):
    """The input and output of a module that maps hidden states, (token, width)."""

    name: str
    rows: Tensor
    result: Tensor


def stream_of(
    model: Any, name: str, projections: Mapping[str, Linear | None], read: Callable[[], Reading]
) -> ResidualStream:
    """Read a text, recording the residual stream; refused where the blocks are not x + attention + feed-forward.

    projections   W_O of each layer, by the name of its attention module
    """
    head = model.get_output_embeddings()
    if model.config.is_encoder_decoder or not isinstance(head, nn.Linear):
        raise _unsupported(name, "not a decoder with an unembedding")
    calls: list[StateMap] = []
    final: list[Tensor] = []  # what the unembedding reads
    modules = {name: module for name, module in model.named_modules() if name}
    names = list(modules)

    def keep(number: int) -> Any:
        return partial(_keep, calls, names[number])

    def keep_input(_number: int) -> Any:
        return lambda _module, args, _output: final.append(args[0][0].detach())

    with hooked(list(modules.values()), keep, with_kwargs=True), hooked([head], keep_input):
        reading = read()
    by_name = {call.name: call for call in calls}
    norm_call, norm = _final_norm(model, calls, final[0])
    blocks = [by_name.get(_block_name(attention)) for attention in projections]
    writes, states = [], []
    for (attention, w_o), block, outputs in zip(projections.items(), blocks, reading.outputs, strict=True):
        if w_o is None or block is None or norm is None or norm_call is None:
            raise _unsupported(name, "its blocks or its last norm are not recognised")
        fed_forward = _fed_forward(block, calls, attention, w_o, outputs)
        if fed_forward is None:
            raise _unsupported(name, "its blocks are not x + attention + feed-forward, each added as it is written")
        writes.append(BlockWrites(w_o, fed_forward))
        states.append(in_numpy(block.rows))
    assert norm_call is not None
    states.append(in_numpy(norm_call.rows))
    return ResidualStream(replace(reading, states=tuple(states)), tuple(writes), norm, _linear(head))


def _fed_forward(block: StateMap, calls: list[StateMap], attention: str, w_o: Linear, outputs: Any) -> Any:
    """The output of the block's part that, with the heads, makes up all that the block adds; None if none does."""
    rows = outputs.swapaxes(0, 1).reshape(outputs.shape[1], -1)  # (token, head · value_dim)
    rest = in_numpy(block.result) - in_numpy(block.rows) - w_o(rows)
    for call in calls:
        if call.name.startswith(f"{block.name}.") and not call.name.startswith(attention):
            result = in_numpy(call.result)
            if result.shape == rest.shape and _are_close(result, rest, in_numpy(block.result)):
                return result
    return None


def _are_close(one: Any, other: Any, scale: Any) -> bool:
    return bool(np.abs(one - other).max() <= CLOSE * np.abs(scale).max())


def _final_norm(
    model: nn.Module, calls: list[StateMap], final: Tensor
) -> tuple[StateMap | None, LayerNorm | RMSNorm | None]:
    """The last module with a gain whose result is what the unembedding reads, as one of Regard's norms."""
    for call in reversed(calls):
        module = model.get_submodule(call.name)
        gain = getattr(module, "weight", None)
        if isinstance(gain, Tensor) and gain.ndim == 1 and torch.equal(call.result, final):
            norm = norm_of(module, call.rows)
            result = in_numpy(call.result)
            return call, norm if _are_close(norm(in_numpy(call.rows)), result, result) else None
    return None, None


def norm_of(module: Any, rows: Tensor) -> LayerNorm | RMSNorm:
    """A norm of transformers as one of Regard's: its gain, bias and kind from what it does to constant rows."""
    epsilons = [getattr(module, name, None) for name in ("eps", "variance_epsilon", "epsilon")]
    epsilon = next((float(number) for number in epsilons if number is not None), 1e-5)
    with torch.inference_mode():
        zeros, ones = (module(torch.full_like(rows[:1], number)) for number in (0.0, 1e4))
        if torch.allclose(ones, zeros, atol=1e-3):  # constant rows are centred to 0
            bias = getattr(module, "bias", None)
            gain = module.weight.detach()
            return LayerNorm(in_numpy(gain), None if bias is None else in_numpy(bias.detach()), epsilon)
        return RMSNorm(in_numpy(ones[0]), epsilon)  # 1 + weight in some models


def _linear(module: nn.Module) -> Linear:
    bias = module.bias
    return Linear(in_numpy(module.weight.detach().float()), None if bias is None else in_numpy(bias.detach().float()))


def _block_name(attention: str) -> str:
    """The name of the block around an attention module: up to the last number."""
    parts = attention.split(".")
    last = max((index for index, part in enumerate(parts) if part.isdigit()), default=-1)
    return ".".join(parts[: last + 1])


def _keep(calls: list[StateMap], name: str, _module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
    """Keep a call that maps hidden states of one text to hidden states of one text; OPT's have two axes."""
    rows = args[0] if args else kwargs.get("hidden_states")
    result = output[0] if isinstance(output, tuple) else output
    if isinstance(rows, Tensor) and isinstance(result, Tensor) and rows.ndim == result.ndim in (2, 3):
        calls.append(StateMap(name, *(part.detach().reshape(-1, part.shape[-1]) for part in (rows, result))))


def _unsupported(name: str, why: str) -> errors.Unsupported:
    return errors.unsupported(f"The residual stream of {name} ({why})", INSTEAD)
