"""Attention that a model computes by PyTorch's own functions: `scaled_dot_product_attention` and what leads to it.

A `TorchFunctionMode` sees every call of this thread between the beginning and the end of the model's forward, and only
there. While it is active PyTorch leaves the fast path of nn.MultiheadAttention and nn.TransformerEncoderLayer, which
would compute attention inside one fused call.
"""

from __future__ import annotations

import threading
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from regard.watch import interface
from regard.watch.call import Call, TensorMask
from regard.watch.lazy_mask import MaskCall, bidirectional_mask_function, causal_mask_function
from regard.watch.recorder import Recorder, observed


class CallsOfTorch(threading.local):
    """The mode of each thread, entered with the outermost forward of the model."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.depth = 0
        self.mode: Mode | None = None

    def begin(self) -> None:
        """A forward of the model begins."""
        self.depth += 1
        if self.depth == 1:
            self.mode = Mode(self.recorder)
            self.mode.__enter__()

    def end(self) -> None:
        """It has ended."""
        self.depth -= 1
        if self.depth == 0 and self.mode is not None:
            self.mode.__exit__(None, None, None)
            self.mode = None


class Mode(TorchFunctionMode):  # type: ignore[misc]
    """Records calls of PyTorch's attention functions."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass everything on, and record attention."""
        kwargs = kwargs or {}
        if getattr(interface.INSIDE, "own", False):
            return function(*args, **kwargs)
        if function is functional.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        if function is functional.multi_head_attention_forward:
            return self._multi_head(args, kwargs)
        return function(*args, **kwargs)

    def _multi_head(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """nn.MultiheadAttention: its own function, with the fused attention inside it replaced by the recording one.

        A mode is not active inside the functions that it handles, so this runs a copy of the function in which only
        that name is bound anew. A call that returns weights does not use fused attention: a second one is recorded.
        """
        function = functional.multi_head_attention_forward
        names = {"has_torch_function": lambda _: False, "scaled_dot_product_attention": self._attention}
        copy = FunctionType(
            function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        if not kwargs.get("need_weights", True):
            return copy(*args, **kwargs)
        copy(*args, **{**kwargs, "need_weights": False, "training": False})
        return function(*args, **kwargs)

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        def own() -> Tensor:
            with interface.computing():
                return functional.scaled_dot_product_attention(
                    query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
                )

        module = self.recorder.state.innermost
        if module is None or query.is_nested or query.ndim < 2:
            return own()
        found = [(one, one.layer_for(module)) for one in interface.recorders_of(module)]
        watching = [(one, layer) for one, layer in found if one.watches(layer)]
        if not watching:
            return own()
        leading = torch.broadcast_shapes(*(_lifted(one).shape[:-3] for one in (query, key, value)))
        call = _call(query, key, value, attn_mask, leading, is_causal, scale, cross=found[0][1].cross)
        batch, heads, count, _ = call.queries.shape
        four = (batch, heads, count, value.shape[-1])
        output, _ = observed(
            watching, call, lambda: (own().reshape(four).transpose(1, 2), None), dropout=dropout_p, costly=False
        )
        output = output.transpose(1, 2).reshape(*leading, *four[1:])
        return output[0, 0] if query.ndim == 2 else output[:, 0] if query.ndim == 3 else output


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    leading: tuple[int, ...],
    is_causal: bool,
    scale: float | None,
    *,
    cross: bool,
) -> Call:
    """A call of scaled_dot_product_attention, the axes before the heads joined into the batch."""
    queries, keys, values = (_joined(_lifted(one), leading) for one in (query, key, value))
    count, length = query.shape[-2], key.shape[-2]
    rule: MaskCall | TensorMask
    if mask is not None:
        mask = _lifted(mask[(None,) * (query.ndim - mask.ndim)])
        same = all(size == 1 for size in mask.shape[:-3])
        rule = TensorMask(_joined(mask, (1,) * len(leading) if same else leading))
    elif is_causal:
        rule = MaskCall(count, length, 0, 0, causal_mask_function)
    elif count == 1 < length and not cross:  # the next token of a text, perhaps
        rule = MaskCall(1, length, length - 1, 0, causal_mask_function)
    else:
        rule = MaskCall(count, length, 0, 0, bidirectional_mask_function)
    return Call(queries, keys, values, rule, scale, cross=cross, guessed=True)


def _lifted(tensor: Tensor) -> Tensor:
    """With an axis for heads, and one for the batch."""
    return tensor[None, None] if tensor.ndim == 2 else tensor[:, None] if tensor.ndim == 3 else tensor


def _joined(tensor: Tensor, leading: tuple[int, ...]) -> Tensor:
    """(batch, head, token, size): all axes before the heads are one, after broadcasting."""
    return tensor.expand(*leading, *tensor.shape[-3:]).reshape(-1, *tensor.shape[-3:])
