"""What we promise, each promise with the number that was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from cases import LONG, Case
from driver import Measured


@dataclass(frozen=True)
class Target:
    text: str
    wanted: str
    measured: str
    reached: bool | None  # None: not measured
    doubtful: bool = False  # others used the machine meanwhile

    @property
    def mark(self) -> str:
        mark = {True: "✓", False: "✗", None: "–"}[self.reached]
        return f"{mark} ?" if self.doubtful else mark


@dataclass
class Outcome:
    """All that a run found."""

    measured: list[Measured] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)  # {"call", "case", "mib", "seconds"} or with "problem"
    importing: dict[str, Any] = field(default_factory=dict)

    def of(self, section: str, which: Callable[[Case], bool] = lambda case: True) -> list[Measured]:
        return [one for one in self.measured if one.section == section and which(one.case)]

    def replaced_by(self, newer: Outcome, order: list[tuple[str, Case]]) -> Outcome:
        """The newer run, with the cases of this one that it does not have, in this order."""
        latest = {(one.section, one.case): one for one in [*self.measured, *newer.measured]}
        measured = [latest[key] for key in order if key in latest]
        return Outcome(measured, newer.memory or self.memory, newer.importing or self.importing)

    def with_one_limit(self) -> Outcome:
        """With the median of all measurements of the machine's limit in every case that was compared with it."""
        timed = [one for one in self.measured if "limit" in one.timings]
        if timed:
            rate = statistics.median(one.case.forward_flops / one.timings["limit"].seconds for one in timed)
            for one in timed:
                one.timings["limit"] = replace(one.timings["limit"], seconds=one.case.forward_flops / rate)
        return self


BUSY = 0.1  # a share of the machine in others' hands from which a number is doubtful


@dataclass
class Ratios:
    numbers: list[float | None]  # None where Regard failed
    doubtful: bool = False


def _ratios(found: Iterable[Measured], participant: str, to: str, ours: str = "regard") -> Ratios:
    """Ratios where both were timed; a case that Regard could not do counts, one that the peer could not do doesn't."""
    ratios = Ratios([])
    for one in found:
        failed = any(key.partition(":")[0] == ours for key in one.reasons)
        ratio = one.ratio(participant, to)
        if failed or ratio is not None:
            ratios.numbers.append(None if failed else ratio)
            ratios.doubtful |= one.busy > BUSY
    return ratios


def _judged(
    text: str, bound: float, ratios: Ratios, summary: Callable[[list[float]], float], least: bool, unit: str = "×"
) -> Target:
    wanted = f"{'≥' if least else '≤'} {_written(bound, unit)}"
    if not ratios.numbers:
        return Target(text, wanted, "not measured", None)
    numbers = [number for number in ratios.numbers if number is not None]
    if len(numbers) < len(ratios.numbers):
        missing = len(ratios.numbers) - len(numbers)
        return Target(text, wanted, f"fails on {missing} of {len(ratios.numbers)} cases", False)
    value = summary(numbers)
    reached = value >= bound if least else value <= bound
    return Target(text, wanted, _written(value, unit), reached, ratios.doubtful)


def _written(value: float, unit: str) -> str:
    return f"{100 * value:.0f}%" if unit == "%" else f"{value:.1f} {unit}" if len(unit) > 1 else f"{value:.2f}{unit}"


def geometric_mean(numbers: list[float]) -> float:
    return math.exp(sum(math.log(number) for number in numbers) / len(numbers))


def judge(outcome: Outcome) -> list[Target]:
    return [*_forward(outcome), *_backward(outcome), *_extras(outcome), *_calls(outcome), *_rest(outcome)]


LEAST = 1.05  # of any one shape: PyTorch's or ONNX Runtime's time, in Regard's
LEADERS = {
    "torch_fused": "PyTorch",
    "ort_multihead": "ONNX Runtime MultiHeadAttention",
    "ort_attention": "ONNX Runtime Attention",
    "ort_group_query": "ONNX Runtime GroupQueryAttention",
    "torch_flex": "FlexAttention",
    "openvino": "OpenVINO",
}
SHARES = {(64, 512): 0.76, (128, 512): 0.76, (64, 2048): 0.84, (128, 2048): 0.88}  # of the limit, by size and least n


def _forward(outcome: Outcome) -> list[Target]:
    found = []
    for causal, mean in ((False, 1.25), (True, 1.6)):
        kind = "causal" if causal else "not causal"
        shapes = outcome.of("forward", lambda case, causal=causal: case.causal == causal)  # type: ignore[misc]
        ratios = _ratios(shapes, "torch_fused", "regard")
        found.append(_judged(f"forward, {kind}: PyTorch's time, geometric mean", mean, ratios, geometric_mean, True))
    for peer, label in LEADERS.items():
        ratios = _ratios(outcome.of("forward"), peer, "regard")
        found.append(_judged(f"forward: {label}'s time, worst shape", LEAST, ratios, min, True))
    for (size, n), share in SHARES.items():
        for causal in (False, True):
            shapes = outcome.of(
                "forward",
                lambda case, size=size, n=n, causal=causal: (  # type: ignore[misc]
                    (case.queries >= n if n > 512 else case.queries == n) and (case.size, case.causal) == (size, causal)
                ),
            )
            length = "n ≥ 2,048, worst" if n > 512 else "n = 512, 8 heads"
            text = f"forward, size {size}{', causal' if causal else ''}: share of the machine's limit, {length}"
            found.append(_judged(text, share, _ratios(shapes, "limit", "regard"), min, True, "%"))
    for storage, bound in (("float16", 2.5), ("bfloat16", 1.5)):
        cases = outcome.of("half", lambda case, storage=storage: case.storage == storage)  # type: ignore[misc]
        halves = _ratios(cases, "torch_fused", "regard")
        found.append(_judged(f"{storage}, n = 2,048: PyTorch's time, worst", bound, halves, min, True))
    return found


def _backward(outcome: Outcome) -> list[Target]:
    ratios = _ratios(outcome.of("backward"), "torch_fused", "regard_torch", "regard_torch")
    return [
        _judged("forward with backward: PyTorch's time, geometric mean", 1.35, ratios, geometric_mean, True),
        _judged("forward with backward: PyTorch's time, worst shape", LEAST, ratios, min, True),
    ]


def _extras(outcome: Outcome) -> list[Target]:
    plain, top = "regard: plain", "regard: entropy and top 8"
    entropy = _ratios(outcome.of("statistics"), "regard: entropy", plain)
    found = [_judged("outputs with entropy: of the plain forward, worst", 1.05, entropy, max, False)]
    for scores, factor in (("random", 1), ("rising", 2)):
        for causal, bound in ((False, 1.2), (True, 1.35)):
            shapes = outcome.of(
                "statistics",
                lambda case, scores=scores, causal=causal: (  # type: ignore[misc]
                    case.queries >= 2048 and case.scores == scores and case.causal == causal
                ),
            )
            text = f"with entropy and top 8, {scores} scores{', causal' if causal else ''}: of the plain forward, worst"
            found.append(_judged(text, factor * bound, _ratios(shapes, top, plain), max, False))
    for call, method in (("received", "column_sums"), ("map", "pooled")):
        added = _ratios(outcome.of("columns"), f"regard: {call}", plain)
        more = Ratios([None if ratio is None else ratio - 1 for ratio in added.numbers], added.doubtful)
        found.append(_judged(f"{method}() after a forward: of the forward, worst", 0.6, more, max, False))
    return found


def _calls(outcome: Outcome) -> list[Target]:
    found = []
    for ours, label in (("regard", "NumPy"), ("regard_torch", "tensors")):
        ratios = _ratios(outcome.of("small"), "torch_fused", ours, ours)
        found.append(_judged(f"8 heads, n ≤ 64, {label}: PyTorch's time, worst", 1.1, ratios, min, True))
    for storage, bound in (("float32", 1.3), ("bfloat16", 3.0)):
        cases = outcome.of("decode", lambda case, storage=storage: case.storage == storage)  # type: ignore[misc]
        ratios = _ratios(cases, "torch_fused", "regard")
        found.append(_judged(f"decoding, {storage}: PyTorch's time, worst", bound, ratios, min, True))
    long = outcome.of("decode", lambda case: case.keys == LONG and case.storage == "float32")
    text = f"decoding, float32: share of the memory's bandwidth, {LONG:,} keys, worst"
    found.append(_judged(text, 0.9, _ratios(long, "reading", "regard"), min, True, "%"))
    for after, label in (("linear", "F.linear"), ("matmul", "a NumPy product")):
        key, alone = f"alternation: after {after}", "alternation: alone"
        ratios = _ratios(outcome.of("alternation"), key, alone, "alternation")
        found.append(_judged(f"a call right after {label}: of its time alone, worst", 1.3, ratios, max, False))
    return found


def _rest(outcome: Outcome) -> list[Target]:
    peaks = Ratios([entry.get("mib") for entry in outcome.memory])
    longest = [entry for entry in outcome.memory if entry["case"].queries >= 131072 and entry["call"] == "forward"]
    runs = None if not longest else "problem" not in longest[0]
    measured = "not measured" if not longest else longest[0].get("problem") or f"in {longest[0]['seconds']:.0f} s"
    torch = outcome.importing.get("torch")
    imports = Ratios([1e3 * outcome.importing["seconds"]] if "seconds" in outcome.importing else [])
    imports.doubtful = outcome.importing.get("busy", 0) > BUSY
    return [
        _judged("memory beyond inputs and outputs, worst", 64, peaks, max, False, "MiB"),
        Target("n = 131,072 with one head, size 64", "runs", measured, runs),
        _judged("import regard, beyond import numpy", 30, imports, max, False, "ms"),
        Target(
            "import regard leaves PyTorch alone",
            "yes",
            "not measured" if torch is None else "no" if torch else "yes",
            None if torch is None else not torch,
        ),
    ]
