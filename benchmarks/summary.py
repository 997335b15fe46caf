"""The part of the README between its two marks: a table, what else was measured, and the plot."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plot
from cases import Case
from driver import Measured
from targets import Outcome, geometric_mean, judge

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
LENGTHS = (512, 2048, 8192)
KINDS = ("float32", "bfloat16")
HEADINGS = ("PyTorch fused", "ONNX Runtime MHA", "ONNX Runtime Attention", "PyTorch eager", "with gradients: PyTorch")
COLUMNS = ("torch_fused", "ort_multihead", "ort_attention", "torch_eager")


def write(outcome: Outcome, facts: dict[str, Any]) -> None:
    """Put the numbers of this run between the marks."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{START}\n{part(outcome, facts)}{END}{after}", encoding="utf-8")


def part(outcome: Outcome, facts: dict[str, Any]) -> str:
    """As Markdown."""
    where = f"{facts['processor']}, {facts['cores']} cores, {facts['instructions']}, {facts['date']}"
    lines = [
        f"How many times as long as Regard each peer takes, float32, 8 heads ({where}; above 1, Regard is faster):",
        "",
        f"| tokens, head_dim | {' | '.join(HEADINGS)} |",
        f"|---|{'---:|' * len(HEADINGS)}",
        *_table(outcome),
        "",
        f"![Share of the machine's limit over the number of tokens](benchmarks/{plot.NAME})",
        "",
        *(f"- {sentence}" for sentence in _sentences(outcome)),
        "",
        "[All numbers](benchmarks/RESULTS.md), the targets that are missed among them, [what each one means]"
        "(benchmarks/README.md#what-each-number-says), and [whole models](benchmarks/MODELS.md).",
    ]
    return "\n".join(lines) + "\n"


def _table(outcome: Outcome) -> Iterable[str]:
    for one in outcome.of("forward", lambda case: case.queries in LENGTHS):
        gradients = [
            other.ratio("torch_fused", "regard_torch")
            for other in outcome.of("backward", lambda case, same=one.case: _shape(case) == _shape(same))
        ]
        cells = [_times(one.ratio(name)) for name in COLUMNS] + [_times(gradients[0] if gradients else None)]
        causal = ", causal" if one.case.causal else ""
        yield f"| {one.case.queries:,}, {one.case.size}{causal} | {' | '.join(cells)} |"


def _shape(case: Case) -> tuple[int, int, int, bool]:
    return case.heads, case.queries, case.size, case.causal


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}×"


def _sentences(outcome: Outcome) -> Iterable[str]:
    for causal, kind in ((False, "all keys visible"), (True, "causal")):
        found = _ratios(outcome.of("forward", lambda case, causal=causal: case.causal == causal), "torch_fused")
        if found:
            yield (
                f"Prefill, {kind}, 128 to 32,768 tokens: {geometric_mean(found):.2f}× PyTorch's speed in the geometric "
                f"mean, {min(found):.2f}× at worst."
            )
    single, brain = (outcome.of("decode", lambda case, kind=kind: case.storage == kind) for kind in KINDS)
    if single:
        ratios = (_range(_ratios(cases, "torch_fused")) for cases in (single, brain))
        yield f"Decoding, one query against 8,192 keys: {' in float32, '.join(ratios)} in bfloat16."
    small = outcome.of("small")
    if small:
        arrays, tensors = _ratios(small, "torch_fused"), _ratios(small, "torch_fused", "regard_torch")
        yield f"Small calls, 3 to 64 tokens: {_range(arrays)} on NumPy arrays, {_range(tensors)} on tensors."
    packed = outcome.of("packed")
    if packed:
        loop, masked = (_range(_ratios(packed, peer)) for peer in ("torch_fused", "torch_fused: masked"))
        yield (
            f"Packed sequences of different lengths, `documents(lengths=…)`: {loop} the speed of one PyTorch call for "
            f"each sequence, {masked} that of one call with a mask of n × n."
        )
    for entry in outcome.memory:
        if "mib" in entry and entry["call"] == "forward" and entry["case"].queries == 131072:
            yield f"Memory beyond inputs and outputs at 131,072 tokens: {entry['mib']:.0f} MiB."
    judged = [target.reached for target in judge(outcome) if target.reached is not None]
    if judged:
        yield f"{sum(judged)} of {len(judged)} targets are reached."


def _ratios(cases: Iterable[Measured], peer: str, to: str = "regard") -> list[float]:
    return [ratio for one in cases if (ratio := one.ratio(peer, to)) is not None]


def _range(ratios: list[float]) -> str:
    return f"{min(ratios):.1f} to {max(ratios):.1f}×" if ratios else "–"
