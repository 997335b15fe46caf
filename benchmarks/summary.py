"""The part of the README between its two marks: three numbers and the plot."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plot
from driver import Measured
from targets import Outcome, geometric_mean

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
KINDS = ("float32", "bfloat16")


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
        f"Measured by turns, each library in a process of its own ({where}):",
        "",
        *(f"- {sentence}" for sentence in _sentences(outcome)),
        "",
        f"![Share of the machine's limit over the number of tokens](benchmarks/{plot.NAME})",
        "",
        "[All numbers and all peers](benchmarks/RESULTS.md), where Regard is slower among them; [how they are measured]"
        "(benchmarks/README.md#what-each-number-says); [whole models](benchmarks/MODELS.md). "
        "`make bench` measures again.",
    ]
    return "\n".join(lines) + "\n"


def _sentences(outcome: Outcome) -> Iterable[str]:
    prefill = _ratios(outcome.of("forward", lambda case: case.causal), "torch_fused")
    if prefill:
        yield (
            f"**{geometric_mean(prefill):.2f}×** the speed of PyTorch's fused attention over causal prompts of 128 to "
            f"32,768 tokens, in the geometric mean; {min(prefill):.2f}× at worst."
        )
    single, brain = (
        _ratios(outcome.of("decode", lambda case, kind=kind: case.storage == kind), "torch_fused") for kind in KINDS
    )
    if single and brain:
        keys = " to ".join(f"{count:,}" for count in sorted({one.case.keys for one in outcome.of("decode")}))
        yield (
            f"**{min(single):.1f} to {max(single):.1f}×** when one token is decoded against {keys} keys in float32, "
            f"{min(brain):.1f} to {max(brain):.1f}× in bfloat16."
        )
    for entry in outcome.memory:
        if "mib" in entry and entry["call"] == "forward" and entry["case"].queries == 131072:
            yield (
                f"**{entry['mib']:.0f} MiB** of memory beyond inputs and outputs at 131,072 tokens: the matrix would "
                f"take {4 * 131072**2 / 2**30:.0f} GiB per head."
            )


def _ratios(cases: Iterable[Measured], peer: str) -> list[float]:
    return [ratio for one in cases if (ratio := one.ratio(peer, "regard")) is not None]
