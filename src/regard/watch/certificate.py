"""What a recording holds of all attentions that ran, and how well it reproduces the outputs that the model used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard import errors
from regard.engines import generic, score_parts

if TYPE_CHECKING:
    from regard.watch.call import Call
    from regard.watch.recorder import Recorder

ROWS = 8  # queries of each head that are computed again, evenly spaced from the first to the last
# Largest error of a weight, and of an output in units of the largest value, at which a recognised attention counts as
# reproduced: rounding of scores, which grows with their size.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def deviation(call: Call, output: Tensor, weights: Tensor | None = None) -> tuple[float | None, float | None]:
    """The largest errors of weights and of outputs (batch, head, query, value_dim) among some rows, in float64.

    Numbers that are not finite in the model itself, and rows that see no key, do not count; None if nothing counts.
    """
    with torch.no_grad():
        rows = np.unique(np.linspace(0, output.shape[2] - 1, ROWS).round().astype(np.int64))
        scores = score_parts.lattice(call.attention().scores, rows, score_parts.EVERYTHING)
        double = {
            name: getattr(scores, name).detach().double()
            for name in ("queries", "keys", "bias", "sinks")
            if getattr(scores, name) is not None
        }
        expected = generic.softmax(replace(scores, **double)).weights  # (batch, head, row, key)
        sees = expected.sum(-1, keepdim=True) > 0
        groups = expected.shape[1] // call.values.shape[1]
        values = call.values.detach().double().repeat_interleave(groups, 1)
        is_finite = torch.isfinite(values)
        products = expected @ torch.where(is_finite, values, 0.0)  # a hidden key's NaN has no part in a sum
        products[expected @ (~is_finite).double() > 0] = torch.nan
        of_outputs = _largest(output[:, :, rows].detach().double(), products, sees)
        return None if weights is None else _largest(weights[:, :, rows].double(), expected, sees), of_outputs


def _largest(came: Tensor, expected: Tensor, rows: Tensor) -> float | None:
    counted = rows & torch.isfinite(came)
    differences = (came - expected).abs()[counted].nan_to_num(nan=torch.inf)
    return float(differences.amax()) if differences.numel() else None


@dataclass(frozen=True)
class RecordingCertificate:
    """How complete and how exact a recording is.

    Attentions are counted where PyTorch computes them, by calls of fused attention and by softmax operations on
    products of activations, whatever recorded them.

    >>> print(RecordingCertificate(3, 2, 0, {"pool": 1}, {"pool": "altered"}, 0, 1e-7))
    2 of 3 attentions recorded; not seen: pool (altered); weights × values within 1e-07 of the outputs used
    """

    ran: int  # attentions that ran inside the block
    recorded: int
    unchosen: int  # of layers that were not to be recorded
    unseen: Mapping[str, int]  # attentions that were not recorded, by module name
    reasons: Mapping[str, str]  # why, by module name
    recognised: int  # layers whose attention was recognised in the module's own code, at n² memory
    output: float | None  # largest difference between weights × values and the output that the model used, in samples
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every attention of the chosen layers was recorded."""
        return not self.unseen and not self.notes

    def __str__(self) -> str:
        parts = [f"{self.recorded:,} of {errors.count(self.ran, 'attention')} recorded"]
        if self.unchosen:
            parts.append(f"{self.unchosen:,} in layers that were not chosen")
        if self.unseen:
            parts.append(f"not seen: {self.unseen_modules()}")
        if self.recognised:
            layers = errors.count(self.recognised, "layer")
            parts.append(f"{layers} recognised in the modules' own code, at n² memory")
        if self.output is not None:
            parts.append(f"weights × values within {self.output:.0e} of the outputs used")
        return "; ".join([*parts, *self.notes])

    def unseen_modules(self, most: int = 4) -> str:
        """The names of the modules whose attention was not seen, with the reasons."""
        names = [
            name + (f" ({self.reasons[name]})" if name in self.reasons else "") for name in list(self.unseen)[:most]
        ]
        more = len(self.unseen) - most
        return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def certificate_of(recorder: Recorder) -> RecordingCertificate:
    """The certificate of a recording; outputs are compared where they were kept."""
    counts = recorder.counts
    unseen = {name: count.unseen for name, count in counts.items() if count.unseen > 0}
    default = "its weights were not multiplied with values in a way that is known"
    return RecordingCertificate(
        sum(count.ran for count in counts.values()),
        sum(count.recorded for count in counts.values()),
        sum(count.unchosen for count in counts.values()),
        unseen,
        {name: next(iter(counts[name].reasons), default) for name in unseen},
        sum(layer.is_recognised for layer in recorder.watched()),
        _output_error(recorder),
        tuple(recorder.notes),
    )


def _output_error(recorder: Recorder) -> float | None:
    """The largest error of outputs among the sampled rows of every kept run; None if none can be compared."""
    differences: list[float] = []
    for layer in recorder.watched():
        run: Any
        for run in layer.runs:
            if (
                run.deviation is None
                and run.outputs
                and run.problem is None
                and not (layer.has_dropout or layer.is_edited)
            ):
                run.deviation = _of_run(run)
            if run.deviation is not None:
                differences.append(run.deviation)
    return max(differences) if differences else None


MOST_NUMBERS = 1 << 22  # of keys and values that are computed again for one layer


def _of_run(run: Any) -> float | None:
    """Of one sequence and some heads, so that it takes little time at any length."""
    call = run.joined()
    output = run.gather(run.outputs, None, axis=1).transpose(1, 2)
    group = call.queries.shape[1] // call.keys.shape[1]
    size = call.keys.shape[2] * (call.keys.shape[3] + call.values.shape[3]) * group
    heads = list(range(min(call.queries.shape[1], max(1, MOST_NUMBERS // max(size, 1)))))
    sequences = slice(0, max(1, MOST_NUMBERS // max(size * len(heads), 1)))
    rows = torch.arange(call.batch, device=call.queries.device)[sequences]
    return deviation(call.of_heads(heads).of_sequences(rows), output[rows][:, heads])[1]
