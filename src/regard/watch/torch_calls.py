"""Attention that a model computes by PyTorch's own functions: `scaled_dot_product_attention` and what leads to it.

A `TorchFunctionMode` sees every call of this thread between the beginning and the end of the model's forward, and only
there. While it is active PyTorch leaves the fast path of nn.MultiheadAttention and nn.TransformerEncoderLayer, which
would compute attention inside one fused call.
"""

from __future__ import annotations

import threading
from types import FunctionType
from typing import Any

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
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )

        recorder = self.recorder
        module = recorder.state.innermost
        if module is None or query.is_nested or query.ndim < 2:
            return own()
        found = [(one, one.layer_for(module)) for one in interface.recorders_of(module)]
        watching = [(one, layer) for one, layer in found if one.watches(layer)]
        if not watching:
            return own()
        four = [_four_axes(one) for one in (query, key, value)]
        queries, keys = four[0].shape[2], four[1].shape[2]
        rule: MaskCall | TensorMask
        if attn_mask is not None:
            rule = TensorMask(_four_axes(attn_mask))
        elif is_causal:
            rule = MaskCall(queries, keys, 0, 0, causal_mask_function)
        else:
            rule = MaskCall(queries, keys, 0, 0, bidirectional_mask_function)
        call = Call(four[0], four[1], four[2], rule, scale, cross=found[0][1].cross)
        output, _ = observed(
            watching,
            module,
            call,
            lambda: (_four_axes(own()).transpose(1, 2), None),
            dropout=dropout_p,
            costly=False,
        )
        return output.transpose(1, 2).reshape(*query.shape[:-1], value.shape[-1])


def _four_axes(tensor: Tensor) -> Tensor:
    """With axes in front up to four; further ones are joined into the batch."""
    if tensor.ndim > 4:
        return tensor.reshape(-1, *tensor.shape[-3:])
    return tensor[(None,) * (4 - tensor.ndim)]
