"""Attention in a module's own code: queries · keys → scale, mask, bias → softmax → dropout → · values, recognised.

Every tensor that a product of two activations leads to is followed until a softmax reads it, and the softmax's weights
until they are multiplied with values: this is what counts as an attention that ran, recorded or not. Scaling, added
tensors and masks on the way are remembered, so that the call can be written as queries, keys, scale and mask; otherwise
the logits themselves stand for it. Nothing is recorded unless the recorded call reproduces weights and outputs:
`TOLERANCE`.

Functions are told by their names, which torch, Tensor, torch.nn.functional and torch.ops.aten share.
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import errors
from regard.watch import interface
from regard.watch.call import HIDDEN, Call, TensorMask
from regard.watch.call_edits import EDITED, edits_of_call
from regard.watch.call_frames import THREAD, running_modules
from regard.watch.certificate import TOLERANCE, deviation
from regard.watch.lazy_mask import MaskCall
from regard.watch.recorder import BEFORE_DROPOUT, Recorder
from regard.watch.support import may_attend

RECOGNISED = "Recognised in the module's own code (queries · keys, softmax, · values), which builds n² weights."
NOT_MULTIPLIED = "its weights are not multiplied with values by a product that is known"
ALTERED = "its weights are changed between softmax and values"
NOT_REPRODUCED = "softmax times values does not reproduce the output"
TWICE = "The weights of this layer are multiplied with a second tensor as well, which is not in its values."

SOFTMAX = {"softmax", "special_softmax", "safe_softmax", "softmin", "gumbel_softmax"}
MATMUL = {"matmul", "linalg_matmul", "bmm", "mm", "rmatmul"}
PRODUCTS = {*MATMUL, "einsum", "baddbmm", "inner", "tensordot"}
PROJECTING = {"linear", "addmm", "conv1d", "conv2d"}
FUSED = re.compile("scaled_dot_product|flash_attention|efficient_attention|flex_attention|native_multi_head_attention")
DROPOUT = {"dropout", "feature_dropout"}
RESHAPING = {
    "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "contiguous", "to", "float", "half", "bfloat16",
    "double", "type", "type_as", "clone", "view_as", "reshape_as", "detach", "cpu", "cuda",
}  # fmt: skip
MOVING = {"transpose", "permute", "swapaxes", "movedim", "get"}  # the last is that of x.mT
REDUCING = {"max", "amax", "min", "amin", "sum", "mean", "logsumexp", "argmax", "argmin", "norm", "std", "var"}
MAKING = {"zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_full", "new_empty"}
JOINING = {"cat", "concat", "concatenate", "stack", "scatter", "index_put", "index_copy", "masked_scatter"}
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead")


@dataclass(frozen=True, eq=False)
class ScoreTag:
    """A tensor that a product of queries and keys led to."""

    queries: Tensor | None = None  # (…, query, head_dim); None where the scores are not simply made from a product
    keys: Tensor | None = None  # (…, key, head_dim)
    scale: float = 1.0
    added: tuple[tuple[Tensor, float, torch.Size], ...] = ()  # tensor, factor, and the shape that it was added to
    hidden: tuple[tuple[Tensor, torch.Size], ...] = ()  # True for hidden keys, and the shape that was masked
    four_axes: torch.Size | None = None  # a shape (batch, head, query, key) on the way

    def times(self, factor: float) -> ScoreTag:
        """All of it multiplied by a number."""
        added = tuple((tensor, before * factor, shape) for tensor, before, shape in self.added)
        return replace(self, scale=self.scale * factor, added=added)


@dataclass(eq=False)
class SoftmaxCall:
    """One softmax in a watched module."""

    module: Any
    recorders: list[Recorder]
    logits: Tensor
    axis: int
    result: Callable[[], Any]  # a weak reference to the weights, which must be free to go; None if they are gone
    dtype: torch.dtype
    scores: ScoreTag | None
    is_recorded: bool = False
    is_counted: bool = False

    def weights(self) -> Tensor:
        """The weights, computed again where the model has dropped them."""
        weights = self.result()
        return functional.softmax(self.logits, self.axis, dtype=self.dtype) if weights is None else weights

    def count(self) -> None:
        """An attention that ran, as soon as its weights are multiplied with values."""
        if not self.is_counted:
            self.is_counted = True
            for recorder in self.recorders:
                recorder.count_of(self.module).ran += 1


@dataclass(frozen=True, eq=False)
class WeightTag:
    """A tensor that the weights of a softmax led to."""

    softmax: SoftmaxCall
    is_dropped: bool = False
    is_moved: bool = False  # its axes may have another order
    is_altered: bool = False  # it may hold other numbers
    four_axes: torch.Size | None = None


@dataclass(eq=False)
class Recogniser:
    """Follows the scores and weights of one thread."""

    tags: dict[int, tuple[weakref.ref[Any], ScoreTag | WeightTag]] = field(default_factory=dict)  # by id of a tensor
    projected: Any = None  # the last output of a linear layer, or what has the same last axis, as a weak reference

    def __call__(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        """The result of a function of PyTorch; attention that it completes is recorded."""
        if name in SOFTMAX:
            return self._softmax(function, name, args, kwargs)
        if name in PRODUCTS:
            return self._product(function, name, args, kwargs)
        if name == "embedding":  # a text is read
            running = running_modules()
            for recorder in {each for module, _ in running for each in interface.recorders_of(module)}:
                recorder.see_tokens(running)
        elif name == "fused":
            interface.count_unseen(attending_module(), f"it is computed by {function.__name__}")
        output = function(*args, **kwargs)
        if args and isinstance(output, Tensor):
            if name in PROJECTING and isinstance(args[0], Tensor):
                THREAD.inputs.append(weakref.ref(args[0]))
                self.projected = weakref.ref(output)
            elif self.projected is not None and (before := self.projected()) is not None and args[0] is before:
                self.projected = weakref.ref(output) if output.shape[-1:] == before.shape[-1:] else self.projected
        if self.tags:
            self._follow(name, args, kwargs, output)
        return output

    def _follow(self, name: str, args: Any, kwargs: Any, output: Any) -> None:
        """Pass what is known of an argument on to the results."""
        tag, source = self._tag_in(args, kwargs)
        if tag is None or name in MAKING:
            return
        if name == "setitem":
            if source is not args[0]:  # copied into a larger tensor
                self._tag(args[0], ScoreTag() if isinstance(tag, ScoreTag) else replace(tag, is_altered=True))
            return
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value is not source]
        values = [value for value in tensors if value.is_floating_point() and not _is_parameter(value)]
        for part in output if isinstance(output, (tuple, list)) else (output,):
            if not isinstance(part, Tensor) or not part.is_floating_point() or part.ndim < 2:
                continue
            if name in PROJECTING and not values and (part.shape != source.shape or part.ndim < 4):
                continue  # a hidden state; layers that mix heads keep the shape of scores and weights
            if isinstance(tag, ScoreTag):
                self._tag(part, self._follow_scores(tag, source, name, args, kwargs, part))
            elif values and part.shape != source.shape and name not in JOINING:
                if tag.softmax.scores is not None:
                    tag.softmax.count()
            else:
                self._tag(part, _follow_weights(tag, source, name, kwargs, args, part))

    def _follow_scores(
        self, known: ScoreTag, source: Tensor, name: str, args: Any, kwargs: Any, output: Tensor
    ) -> ScoreTag | WeightTag | None:
        module = attending_module() if name == "exp" else None
        if module is None:
            return _follow_scores(known, source, name, args, kwargs, output)
        # A softmax that is written out: whether the exponentials are divided by their sum is compared later.
        softmax = SoftmaxCall(module, interface.recorders_of(module), source, -1, lambda: None, output.dtype, known)
        return WeightTag(softmax, is_altered=True, four_axes=_four_axes(output, known))

    # Tags

    def _tag(self, tensor: Tensor, known: ScoreTag | WeightTag | None) -> None:
        if known is None:
            return
        key, tags = id(tensor), self.tags

        def forget(reference: Any) -> None:
            if key in tags and tags[key][0] is reference:
                del tags[key]

        tags[key] = weakref.ref(tensor, forget), known

    def _of(self, tensor: Any) -> ScoreTag | WeightTag | None:
        entry = self.tags.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def _tag_in(self, args: Any, kwargs: Any) -> tuple[ScoreTag | WeightTag | None, Any]:
        """What is known of the first weights among the arguments, or else of the first scores, and that tensor."""
        scores: tuple[ScoreTag | None, Any] = None, None
        for value in (*args, *kwargs.values()) if kwargs else args:
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                tag = self._of(tensor) if isinstance(tensor, Tensor) else None
                if isinstance(tag, WeightTag):
                    return tag, tensor
                if tag is not None and scores[0] is None:
                    scores = tag, tensor
        return scores

    @staticmethod
    def _edit(recorder: Recorder, layer: Any, call: Call, used: Tensor, output: Tensor) -> None:
        """Change the output of the product in place: `used` has its numbers as (batch, head, query, value_dim)."""
        if not recorder.edits.of_layer(layer):
            return
        if used.untyped_storage().data_ptr() != output.untyped_storage().data_ptr():
            raise errors.unsupported(
                f"Editing {layer.name}, which computes attention in its own code,", "Edit another layer."
            )
        edits = edits_of_call([(recorder, layer)], call)
        assert edits is not None
        used.copy_(edits.apply(used.clone()))
        layer.notes[EDITED] = None
        layer.is_edited = True

    # Operations

    def _softmax(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        output = function(*args, **kwargs)
        logits = args[0] if args else kwargs.get("input", kwargs.get("logits"))
        module = attending_module()
        recorders = [] if module is None else interface.recorders_of(module)
        if not isinstance(logits, Tensor) or not isinstance(output, Tensor) or logits.ndim < 2 or not recorders:
            return output
        scores = self._of(logits)
        scores = scores if isinstance(scores, ScoreTag) else None
        if scores is None and self.projected is not None and self.projected() is logits:
            return output  # a linear layer made the scores of a router
        argument = 1 if name != "gumbel_softmax" else 4
        axis = kwargs.get("dim", args[argument] if len(args) > argument else -1 if argument == 4 else None)
        if axis is None:  # as functional.softmax chooses
            axis = 0 if logits.ndim == 3 else 1
        with torch.no_grad():
            if name == "softmin":
                logits, scores = -logits, None if scores is None else scores.times(-1)
            elif name == "gumbel_softmax":
                logits, scores = output.log(), None if scores is None else ScoreTag(four_axes=scores.four_axes)
        softmax = SoftmaxCall(module, recorders, logits, axis, weakref.ref(output), output.dtype, scores)
        is_last = axis in (-1, logits.ndim - 1)
        self._tag(output, WeightTag(softmax, is_moved=not is_last, four_axes=_four_axes(output, scores)))
        return output

    def _product(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        output = function(*args, **kwargs)
        tensors = [item for item in (*args, *kwargs.values()) if isinstance(item, Tensor)]
        if not tensors and args and isinstance(args[-1], (list, tuple)):  # operands of einsum in a list
            tensors = list(args[-1])
        if not isinstance(output, Tensor) or len(tensors) < 2 or not output.is_floating_point():
            return output
        tags = [self._of(item) for item in tensors]
        weights = next((item for item in tags if isinstance(item, WeightTag)), None)
        if weights is not None:
            self._multiplied(weights, name, args, kwargs, tensors, tags.index(weights), output)
        elif len(tensors) == 2 or name == "baddbmm":
            self._tag(output, _scores_of(name, args, kwargs, tensors, output))
        return output

    def _multiplied(
        self,
        weights: WeightTag,
        name: str,
        args: Any,
        kwargs: Any,
        tensors: list[Tensor],
        position: int,
        output: Tensor,
    ) -> None:
        """A product of the weights of a softmax with something."""
        softmax = weights.softmax
        others = [tensor for index, tensor in enumerate(tensors) if index != position]
        if softmax.scores is None and (softmax.logits.ndim < 3 or any(map(_is_parameter, others))):
            return  # a mixture of learned vectors
        if softmax.is_recorded:
            for recorder in softmax.recorders:
                for layer in recorder.layers.values():
                    if layer.module == recorder.names.get(id(softmax.module)) and layer.runs:
                        layer.notes[TWICE] = None
            return
        try:
            if interface.is_traced():
                raise ValueError
            with torch.no_grad():
                call, used, problem = _call_of(weights, name, args, kwargs, tensors, position, output)
        except (RuntimeError, ValueError, TypeError, IndexError) as reason:  # never an error inside the model
            call, used, problem = None, None, f"it is not understood ({type(reason).__name__})"
        if call is None and softmax.scores is None:
            return  # nothing says that it is an attention
        softmax.count()
        for recorder in softmax.recorders:
            count = recorder.count_of(softmax.module)
            if call is None or used is None:
                count.reasons[problem or NOT_REPRODUCED] = None
                continue
            layer = recorder.layer_for(softmax.module, crosses=call.cross or None, is_counted=True)
            self._edit(recorder, layer, replace(call, cross=layer.cross), used, output)
            if not recorder.watches(layer):
                continue
            layer.notes[RECOGNISED] = None
            layer.is_recognised = True
            if weights.is_dropped:
                layer.notes[BEFORE_DROPOUT] = None
                layer.has_dropout = True
            with torch.no_grad():
                run = recorder.record(layer, replace(call, cross=layer.cross), used.transpose(1, 2), None)
                if not weights.is_dropped and not layer.is_edited:
                    errors = [error for error in (run.deviation, deviation(call, used)[1]) if error is not None]
                    run.deviation = max(errors, default=None)
        softmax.is_recorded = True


@lru_cache(maxsize=4096)
def name_of(function: Any) -> str:
    """What a function of PyTorch does, by its name; "fused" for other attention than scaled_dot_product_attention."""
    name = str(getattr(function, "__name__", "")).partition(".")[0]
    name = name.removeprefix("__i").strip("_")  # += is +
    return "fused" if FUSED.search(name) and name != "scaled_dot_product_attention" else name


def attending_module() -> Any:
    """The innermost watched module that runs and is not a layer of PyTorch; None outside of all."""
    for module, _ in running_modules():
        if interface.RECORDERS.get(id(module)) and may_attend(module):
            return module
    return next((module for module, _ in running_modules() if interface.RECORDERS.get(id(module))), None)


def _is_parameter(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter)


def _four_axes(tensor: Tensor, before: ScoreTag | WeightTag | None) -> torch.Size | None:
    if tensor.ndim == 4:
        return tensor.shape
    return None if before is None else before.four_axes


# From the product of queries and keys to the softmax


def _scores_of(name: str, args: Any, kwargs: Any, tensors: list[Tensor], output: Tensor) -> ScoreTag | None:
    """What is known of the product of two activations; None if one of them is a parameter."""
    added: tuple[tuple[Tensor, float, torch.Size], ...] = ()
    scale = 1.0
    if name == "baddbmm":
        extra, *tensors = tensors
        scale, beta = float(kwargs.get("alpha", 1)), float(kwargs.get("beta", 1))
        added = ((extra, beta, output.shape),) if beta else ()
    left, right = tensors if name != "rmatmul" else tensors[::-1]
    if _is_parameter(left) or _is_parameter(right) or min(left.ndim, right.ndim) < 2 or output.shape[-1] < 2:
        return None
    if left.ndim != right.ndim and 2 in (left.ndim, right.ndim):  # times one matrix for the whole batch
        return None
    if name in MATMUL and left.shape[-1] == 1:  # angles of rotary positions, which all of a model would lead to
        return None
    if name not in ("einsum", "baddbmm", *MATMUL):
        return ScoreTag()
    if name == "einsum":
        axes = _einsum_axes(args, tensors)
        if axes is None:
            return ScoreTag()
        (first, other), whole = axes
        query, key = whole[-2:]
        if query not in first:
            first, other, left, right = other, first, right, left
        inner = [letter for letter in first if letter not in whole]
        if query not in first or key not in other or query in other or key in first or len(inner) != 1:
            return ScoreTag()
        shared = whole[:-2]
        queries, keys = (
            _arranged(left, first, [*shared, query, inner[0]]),
            _arranged(right, other, [*shared, key, inner[0]]),
        )
    else:
        queries, keys = left, right.mT
    return ScoreTag(queries, keys, scale, added, four_axes=output.shape if output.ndim == 4 else None)


def _follow_scores(tag: ScoreTag, source: Tensor, name: str, args: Any, kwargs: Any, output: Tensor) -> ScoreTag | None:
    """What is known of the result of an operation on scores; None if it is not a tensor of scores."""
    if (name in REDUCING and output.shape[-1] != source.shape[-1]) or output.shape[-1] < 2:
        return None
    axes = _four_axes(output, tag)
    lost = ScoreTag(four_axes=axes)
    if tag.queries is None or output.numel() != source.numel():
        return lost
    tag = replace(tag, four_axes=axes)
    if name in RESHAPING:
        return tag
    others = [arg for arg in args if arg is not source]
    if name in ("mul", "multiply", "div", "truediv", "true_divide", "divide") and len(others) == 1 and not kwargs:
        factor = _number(others[0])
        is_divided = name not in ("mul", "multiply")
        if factor is None or (is_divided and (args[0] is not source or factor == 0)):
            return lost
        return tag.times(1 / factor if is_divided else factor)
    if name in ("add", "sub", "subtract") and len(others) == 1 and not kwargs:
        if not isinstance(others[0], Tensor) or (name != "add" and args[0] is not source):
            return lost
        return replace(tag, added=(*tag.added, (others[0], 1.0 if name == "add" else -1.0, output.shape)))
    if name == "masked_fill" and len(others) == 2 and args[0] is source:
        hidden, value = others[0], _number(others[1])
    elif name == "where" and len(args) == 3 and args[1] is source:
        hidden, value = ~args[0], _number(args[2])
    else:
        return lost
    if value is None or value > HIDDEN:
        return lost
    return replace(tag, hidden=(*tag.hidden, (hidden, output.shape)))


def _number(value: Any) -> float | None:
    """A number, or the only element of a tensor; None for anything else."""
    if isinstance(value, Tensor):
        try:
            return float(value.detach()) if value.numel() == 1 else None
        except RuntimeError:  # a tensor without numbers, as in transforms of torch.func
            return None
    return float(value) if isinstance(value, (int, float)) else None


# From the softmax to the product with values


def _follow_weights(
    tag: WeightTag, source: Tensor, name: str, kwargs: Any, args: Any, output: Tensor
) -> WeightTag | None:
    """What is known of the result of an operation on weights."""
    if output is source and name in DROPOUT:
        return tag
    axes = _four_axes(output, tag)
    if name in RESHAPING and output.numel() == source.numel():
        return replace(tag, four_axes=axes)
    if name in MOVING:
        return replace(tag, is_moved=True)
    if name in DROPOUT:
        by_position = dict(zip(("p", "training"), args[1:], strict=False))
        options = {"p": 0.5, "training": True, **by_position, **kwargs}
        return replace(tag, is_dropped=tag.is_dropped or bool(options["p"] and options["training"]))
    if name in REDUCING and output.shape[-1] != source.shape[-1]:  # over keys
        return None
    return replace(tag, is_altered=True)


def _call_of(
    tag: WeightTag, name: str, args: Any, kwargs: Any, tensors: list[Tensor], position: int, output: Tensor
) -> tuple[Call | None, Tensor | None, str | None]:
    """The call that a product with values completes, and its output (batch, head, query, value_dim); or the problem."""
    softmax = tag.softmax
    weights, logits = softmax.weights(), softmax.logits
    parts = _weights_values_output(name, args, kwargs, tensors, position, output)
    if parts is None:
        return None, None, NOT_MULTIPLIED
    used, values, output = parts
    (*leading, count, keys), many = weights.shape, math.prod(weights.shape[:-2])
    groups = math.prod(used.shape[:-2])
    if used.numel() != weights.numel() or used.shape[-1] != keys or many % max(groups, 1):
        return None, None, ALTERED
    if tag.is_altered or tag.is_moved or name == "rmatmul" or position:
        same = used.reshape(weights.shape).to(weights.dtype)
        weights = torch.where(weights.isnan() & (same == 0), same, weights)  # rows that see no key, set to 0 afterwards
        if tag.is_dropped or not torch.allclose(
            same, weights, rtol=0, atol=TOLERANCE[used.dtype] * 0.01, equal_nan=True
        ):
            return None, None, ALTERED
    repeat = many // groups
    values = values.reshape(groups, keys, values.shape[-1])
    values = values if repeat == 1 else values.repeat_interleave(repeat, 0)
    batch, heads = _batch_and_heads(softmax.module, tag, leading)
    values = values.reshape(batch, heads, keys, -1)
    output = output.reshape(batch, heads, count, -1)
    weights, logits = (tensor.reshape(batch, heads, count, keys) for tensor in (weights, logits))
    simple = _simple_call(softmax.scores, batch, heads, values, logits)
    for call in (simple, _call_of_logits(logits, values)):
        if call is None:
            continue
        tolerance = TOLERANCE[logits.dtype if call is not simple else output.dtype]
        errors = [error or 0.0 for error in deviation(call, output, weights)]
        scale = max(1.0, float(values.abs().amax())) if values.numel() else 1.0
        if errors[0] <= tolerance and (tag.is_dropped or errors[1] <= max(tolerance, TOLERANCE[output.dtype]) * scale):
            return call, output, None
    return None, None, NOT_REPRODUCED


def _batch_and_heads(module: Any, known: WeightTag, leading: list[int]) -> tuple[int, int]:
    """How the axes before the queries are batch and heads."""
    if len(leading) >= 2:
        return math.prod(leading[:-1]), leading[-1]
    many = math.prod(leading)
    if known.four_axes is not None and math.prod(known.four_axes[:2]) == many:
        return known.four_axes[0], known.four_axes[1]
    heads = next(
        (size for size in (getattr(module, name, None) for name in HEADS) if isinstance(size, int) and size > 0), 1
    )
    return (many // heads, heads) if many % heads == 0 else (many, 1)


def _simple_call(scores: ScoreTag | None, batch: int, heads: int, values: Tensor, logits: Tensor) -> Call | None:
    """Queries, keys, scale and mask; None if the logits are not made so."""
    count, length = logits.shape[-2:]
    if scores is None or scores.queries is None or scores.keys is None:
        return None
    queries, keys = scores.queries, scores.keys
    shape = torch.broadcast_shapes(queries.shape[:-2], keys.shape[:-2])
    if queries.shape[-2] != count or keys.shape[-2] != length or math.prod(shape) != batch * heads:
        return None
    if any(tuple(whole[-2:]) != (count, length) for *_, whole in (*scores.added, *scores.hidden)):
        return None  # added by rows and columns of an image
    queries, keys = (
        part.expand(*shape, *part.shape[-2:]).reshape(batch, heads, *part.shape[-2:]) for part in (queries, keys)
    )
    added: Any = None
    for tensor, factor, whole in scores.added:
        part = _in_four_axes(tensor, whole, batch, heads) * factor
        added = part if added is None else added + part
    hidden: Any = None
    for tensor, whole in scores.hidden:
        part = _in_four_axes(tensor, whole, batch, heads).bool()
        hidden = part if hidden is None else hidden | part
    rule: MaskCall | TensorMask
    if added is None and hidden is None:
        rule = MaskCall.everything(count, length)
        if count == 1 < length:  # the next token of a text, perhaps
            rule = MaskCall.causal(1, length, length - 1)
    else:
        if added is not None and hidden is not None:
            added = torch.where(hidden, added.new_full((), -torch.inf), added)
        rule = TensorMask(~hidden if added is None else added.to(queries.dtype))
        if not bool(rule.visible.any(-1).all()):  # a row that sees no key gets weights from the model's softmax
            return None
    crosses = count > 1 and count != length and added is None and hidden is None
    return Call(queries, keys, values.to(queries.dtype), rule, scores.scale, cross=crosses, guessed=True)


def _in_four_axes(tensor: Tensor, whole: torch.Size, batch: int, heads: int) -> Tensor:
    """A tensor that was broadcast to a shape, as (batch or 1, head or 1, query or 1, key or 1)."""
    tensor = tensor[(None,) * (len(whole) - tensor.ndim)]
    last = tensor.shape[-2:]
    if all(size == 1 for size in tensor.shape[:-2]):
        return tensor.reshape(1, 1, *last)
    if tuple(whole[:-2]) == (batch, heads):
        return tensor
    return tensor.expand(*whole[:-2], *last).reshape(batch, heads, *last)


def _call_of_logits(logits: Tensor, values: Tensor) -> Call:
    """Logits as a bias on scores of 0: exact whatever made them."""
    batch, heads, count, length = logits.shape
    queries, keys = logits.new_zeros(batch, heads, count, 1), logits.new_zeros(batch, heads, length, 1)
    hidden = logits == -torch.inf
    rule: MaskCall | TensorMask = MaskCall.everything(count, length)
    if bool(hidden.any()):
        rule, logits = TensorMask(~hidden), logits.masked_fill(hidden, 0)
    return Call(queries, keys, values.to(queries.dtype), rule, 1.0, bias=logits, position=0)


def _weights_values_output(
    name: str, args: Any, kwargs: Any, tensors: list[Tensor], position: int, output: Tensor
) -> tuple[Tensor, Tensor, Tensor] | None:
    """WeightTag (…, query, key), values (…, key, value_dim) and output (…, query, value_dim) of a product."""
    if name == "baddbmm":
        if position == 0 or float(kwargs.get("beta", 1)) or float(kwargs.get("alpha", 1)) != 1:
            return None
        tensors, position = tensors[1:], position - 1
    if len(tensors) != 2 or name not in ("einsum", "baddbmm", *MATMUL):
        return None
    if name == "einsum":
        return _einsum_parts(args, tensors, position, output)
    weights, values = tensors[position], tensors[1 - position]
    if min(weights.ndim, values.ndim) < 2:
        return None
    is_right = (position == 1) != (name == "rmatmul")
    if is_right:  # valuesᵀ · weightsᵀ
        weights, values, output = weights.mT, values.mT, output.mT
    if output.shape[:-2] != weights.shape[:-2]:
        return None
    return weights, values.expand(*weights.shape[:-2], *values.shape[-2:]), output


def _einsum_parts(
    args: Any, tensors: list[Tensor], position: int, output: Tensor
) -> tuple[Tensor, Tensor, Tensor] | None:
    axes = _einsum_axes(args, tensors)
    if axes is None:
        return None
    operands, whole = axes
    of_weights, of_values = operands[position], operands[1 - position]
    *shared, query, key = of_weights
    inner = [letter for letter in of_values if letter in whole and letter not in of_weights]
    if key not in of_values or key in whole or query not in whole or query in of_values or len(inner) != 1:
        return None
    if set(whole) != {*shared, query, inner[0]}:
        return None
    weights, values = tensors[position], _arranged(tensors[1 - position], of_values, [*shared, key, inner[0]])
    return (
        weights,
        values.expand(*weights.shape[:-2], *values.shape[-2:]),
        _arranged(output, whole, [*shared, query, inner[0]]),
    )


def _einsum_axes(args: Any, tensors: list[Tensor]) -> tuple[list[list[str]], list[str]] | None:
    """The letters of two operands and of the result; None for an equation of another form."""
    if not isinstance(args[0], str) or len(tensors) != 2 or "->" not in args[0]:
        return None
    left, whole = args[0].replace(" ", "").split("->")
    operands = left.split(",")
    if len(operands) != 2:
        return None
    rest = [tensor.ndim - len(letters.replace("...", "")) for letters, tensor in zip(operands, tensors, strict=True)]
    names = [f"{index}…" for index in range(max(rest))]

    def spelled(letters: str, count: int) -> list[str]:
        before, dots, after = letters.partition("...")
        return [*before, *(names[len(names) - count :] if dots else ()), *after]

    spelt = [spelled(letters, count) for letters, count in zip(operands, rest, strict=True)]
    result = spelled(whole, max(rest))
    return None if any(len(set(term)) != len(term) for term in (*spelt, result)) or len(result) < 2 else (spelt, result)


def _arranged(tensor: Tensor, letters: list[str], order: list[str]) -> Tensor:
    """The axes of a tensor in an order; those that it lacks have size 1."""
    present = [letter for letter in order if letter in letters]
    tensor = tensor.permute([letters.index(letter) for letter in present])
    for index, letter in enumerate(order):
        if letter not in letters:
            tensor = tensor.unsqueeze(index)
    return tensor
