"""Three custom operators with known shapes, used only while `torch.compile` traces.

An operator costs 50 µs where `torch_autograd` costs 10, but a graph holds it as one node, forwards and backwards, for
any lengths. When the graph runs, the engine for the tensors computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.engines import generic, score_parts
from regard.engines.generic import names
from regard.engines.interface import ROW_STATE, RowState, Scores
from regard.engines.select import engine_for
from regard.engines.torch_arrays import any_gradient, exact_type, tensors_of, wide
from regard.masks import Visible
from regard.masks.visible import ENDS, Dense

# `Scores` flattened into tensors and numbers, which PyTorch's transforms and compiler can handle

Tensors = tuple[Tensor | None, ...]  # in the order of NAMES
NAMES = ("queries", "keys", "values", "bias", "relative", "sinks", "mask", *ENDS, "offsets")
ALWAYS = ("queries", "keys", "values")  # always have gradients
OPTIONAL = ("bias", "relative", "sinks")  # have them if wanted


@dataclass(frozen=True, eq=False, slots=True)
class Fixed:
    """The parts without gradients, opaque to PyTorch; only here a mask stays lazy."""

    scale: float
    softcap: float
    relative_zero: int
    offset: Tensor | int
    visible: Visible | None = None


def take_apart(scores: Scores, values: Tensor | None, whole: bool = False) -> tuple[Fixed, Tensors]:
    """The fixed parts and all tensors; with `whole`, masks are tensors too, O(n²) if they are not intervals."""
    offset, offsets = (0, scores.offset) if whole and isinstance(scores.offset, Tensor) else (scores.offset, None)
    mask: Tensor | None = None
    ends: list[Any] = [None] * 4
    visible = scores.visible
    if visible is not None and whole:
        rest = visible.rest
        if rest is None or rest.dense is not None:
            mask = None if rest is None else score_parts.like(rest.dense, scores.queries)
            ends = [getattr(visible, end) for end in ENDS]
            ends = [None if end is None else score_parts.like(end, scores.queries) for end in ends]
        else:
            mask = score_parts.like(visible.tile(score_parts.EVERYTHING, score_parts.EVERYTHING), scores.queries)
    fixed = Fixed(scores.scale, scores.softcap, scores.relative_zero, offset, None if whole else visible)
    arrays = (scores.queries, scores.keys, values, scores.bias, scores.relative, scores.sinks)
    return fixed, (*arrays, mask, *ends, offsets)


def put_together(fixed: Fixed, tensors: Tensors) -> tuple[Scores, Any]:
    """The scores and the values, if there are any."""
    queries, keys, values, bias, relative, sinks, mask, first, last, second_first, second_last, offsets = tensors
    assert queries is not None
    assert keys is not None
    visible = fixed.visible
    if mask is not None or first is not None:
        counts = queries.shape[2], keys.shape[2]
        visible = Visible(
            first,
            last,
            second_first,
            second_last,
            None if mask is None else Dense(mask, *counts, torch),
            queries=counts[0],
            keys=counts[1],
            xp=torch,
            device=queries.device,
        )
    scores = Scores(
        queries,
        keys,
        fixed.scale,
        fixed.softcap,
        bias,
        relative,
        fixed.relative_zero,
        sinks,
        visible,
        fixed.offset if offsets is None else offsets,
    )
    return scores, values


# The operators

_OPTIONS = ", ".join(f"Tensor? {name}" for name in NAMES[3:])
_NUMBERS = "float scale, float softcap, SymInt relative_zero, SymInt offset"
_GIVEN = f"Tensor queries, Tensor keys, Tensor values, {_OPTIONS}, {_NUMBERS}"
_GIVEN_OR_NOT = _GIVEN.replace("Tensor values", "Tensor? values")
_TENSORS = len(NAMES)


def forward(
    scores: Scores, values: Tensor | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """An engine's `forward` as nodes of a graph."""
    if any_gradient(values, *tensors_of(scores)):
        output = None if values is None else _attend(*_arguments(scores, values), True)[0]
        return output, generic.forward(scores, None, statistics, top)[1]
    if not statistics and not top and values is not None:
        return _attend(*_arguments(scores, values), False)[0], {}
    output, *statistics_out = _statistics(*_arguments(scores, values), ",".join(statistics), top)
    return None if values is None else output, dict(zip(names(statistics, top), statistics_out, strict=True))


def _arguments(scores: Scores, values: Tensor | None) -> tuple[Any, ...]:
    fixed, tensors = take_apart(scores, values, whole=True)
    return (*tensors, fixed.scale, fixed.softcap, fixed.relative_zero, fixed.offset)


def _put_together(arguments: tuple[Any, ...]) -> tuple[Scores, Any]:
    return put_together(Fixed(*arguments[_TENSORS : _TENSORS + 4]), arguments[:_TENSORS])


# Outputs


def _outputs(*arguments: Any) -> tuple[Tensor, ...]:
    """Outputs and, if kept for the gradients, the row state."""
    scores, values = _put_together(arguments)
    keep = arguments[-1]
    output, row_state = engine_for(values).forward(scores, values, ROW_STATE if keep else ())
    assert output is not None
    state = (row_state[name] if keep else wide(values).new_empty(0) for name in ROW_STATE)
    return tuple(array.contiguous() for array in (output, *state))


def _outputs_promised(*arguments: Any) -> tuple[Tensor, ...]:
    queries, values = arguments[0], arguments[2]
    kept = queries.shape[:3] if arguments[-1] else (0,)
    return (
        values.new_empty((*queries.shape[:3], values.shape[3])),
        *(queries.new_empty(kept, dtype=wide(queries).dtype) for _ in ROW_STATE),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    ctx.numbers = inputs[_TENSORS:-1]


def _flow_back(ctx: Any, flow: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    *tensors, output, row_max, row_sum = ctx.saved_tensors
    optional = [bool(ctx.needs_input_grad[NAMES.index(name)]) for name in OPTIONAL]
    gradients = _gradients(*tensors, *ctx.numbers, output, row_max, row_sum, flow, *optional)
    gradient_of = dict(zip((*ALWAYS, *OPTIONAL), gradients, strict=True))
    needed = ctx.needs_input_grad
    return tuple(gradient_of.get(name) if needed[number] else None for number, name in enumerate(NAMES)) + (None,) * 5


_attend = torch.library.custom_op(
    "regard::attend", _outputs, mutates_args=(), schema=f"({_GIVEN}, bool keep) -> (Tensor, Tensor, Tensor)"
)
_attend.register_fake(_outputs_promised)
_attend.register_autograd(_flow_back, setup_context=_keep)


# Gradients


def _all_gradients(*arguments: Any) -> tuple[Tensor, ...]:
    """Gradients of queries, keys, values, and of the optional ones: empty unless wanted."""
    scores, values = _put_together(arguments)
    output, row_max, row_sum, flow = arguments[_TENSORS + 4 : _TENSORS + 8]
    optional_names = tuple(name for name, want in zip(OPTIONAL, arguments[-3:], strict=True) if want)
    gradients = engine_for(values).backward(scores, values, output, RowState(row_max, row_sum), flow, optional_names)
    optional = (getattr(gradients, name) if name in optional_names else values.new_empty(0) for name in OPTIONAL)
    return tuple(gradient.contiguous() for gradient in (*gradients.named(ALWAYS), *optional))


def _gradients_promised(*arguments: Any) -> tuple[Tensor, ...]:
    tensors = dict(zip(NAMES, arguments, strict=False))
    optional = dict(zip(OPTIONAL, arguments[-3:], strict=True))
    return tuple(
        tensors[name].new_empty(tensors[name].shape) if optional.get(name, True) else tensors["values"].new_empty(0)
        for name in (*ALWAYS, *OPTIONAL)
    )


_FLOWS = "Tensor output, Tensor row_max, Tensor row_sum, Tensor flow, bool of_bias, bool of_relative, bool of_sinks"
_gradients = torch.library.custom_op(
    "regard::gradients",
    _all_gradients,
    mutates_args=(),
    schema=f"({_GIVEN}, {_FLOWS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
_gradients.register_fake(_gradients_promised)


# Statistics, without gradients


def _row_statistics(*arguments: Any) -> list[Tensor]:
    """Outputs, or an empty tensor without values; then statistics in the order asked for."""
    scores, values = _put_together(arguments)
    statistics, top = _statistics_and_top(arguments)
    output, results = engine_for(scores.queries).forward(scores, values, statistics, top)
    output = scores.queries.new_empty(0) if output is None else output
    return [array.contiguous() for array in (output, *(results[name] for name in names(statistics, top)))]


def _row_statistics_promised(*arguments: Any) -> list[Tensor]:
    queries, values = arguments[0], arguments[2]
    statistics, top = _statistics_and_top(arguments)
    kinds = {name: wide(queries).dtype for name in names(statistics, top)}
    kinds.update(logsumexp=exact_type(queries.device), top_index=torch.int64)
    rows = tuple(queries.shape[:3])
    promised = [
        queries.new_empty((*rows, top) if "top" in name else rows, dtype=kinds[name]) for name in names(statistics, top)
    ]
    return [queries.new_empty(0) if values is None else values.new_empty((*rows, values.shape[3])), *promised]


def _statistics_and_top(arguments: tuple[Any, ...]) -> tuple[tuple[str, ...], int]:
    return tuple(arguments[-2].split(",")) if arguments[-2] else (), arguments[-1]


_statistics = torch.library.custom_op(
    "regard::statistics",
    _row_statistics,
    mutates_args=(),
    schema=f"({_GIVEN_OR_NOT}, str statistics, int top) -> Tensor[]",
)
_statistics.register_fake(_row_statistics_promised)
