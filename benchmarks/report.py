"""The table: for the terminal, as Markdown, and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from cases import Case
from driver import Measured
from peers import PEERS
from sections import SECTIONS, Section
from targets import BUSY, Outcome, Target, judge

Lines = list[list[str]]
METHOD = (
    "Written by `make bench`; in pieces of a minute or two: `python benchmarks/run.py --only forward --cases 'n 512' "
    "--merge`. [README.md](README.md) says how it is measured, [results.json](results.json) has the timings of every "
    "participant and how busy the machine was before each case."
)


def as_text(outcome: Outcome, facts: dict[str, Any]) -> str:
    parts = [*_facts(outcome, facts), ""]
    for title, note, heading, lines, reasons in _tables(outcome):
        parts += [title, "─" * len(title), *_aligned([heading, *lines]), *reasons, ""]
        if note:
            parts.insert(-1, f"({note})")
    return "\n".join(parts)


def as_markdown(outcome: Outcome, facts: dict[str, Any]) -> str:
    parts = ["# Results", "", METHOD, "", *(f"- {fact}" for fact in _facts(outcome, facts)), ""]
    tables = _tables(outcome)
    faster = _faster_peers(outcome)
    if faster:
        parts += ["## Where a peer is faster", "", *(f"- {line}" for line in faster), ""]
    for title, note, heading, lines, reasons in [tables[-1], *tables[:-1]]:  # targets first
        parts += [f"## {title}", "", *([note, ""] if note else []), *_markdown([heading, *lines])]
        parts += ["", *(f"- {reason}" for reason in reasons), *([""] if reasons else [])]
    return "\n".join(parts).rstrip() + "\n"


def as_json(outcome: Outcome, facts: dict[str, Any]) -> str:
    measured = [one.as_dict() for one in outcome.measured]
    memory = [{**entry, "case": entry["case"].as_dict()} for entry in outcome.memory]
    targets = [{**vars(target)} for target in judge(outcome)]
    everything = {**facts, "targets": targets, "measured": measured, "memory": memory, "import": outcome.importing}
    return json.dumps(everything, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Outcome:
    found = json.loads(text)
    memory = [{**entry, "case": Case(**entry["case"])} for entry in found["memory"]]
    return Outcome([Measured.from_dict(one) for one in found["measured"]], memory, found["import"])


def _facts(outcome: Outcome, facts: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    lines = [
        f"{facts['date']}, {facts['processor']}, {facts['cores']} cores, {facts['instructions']}, "
        f"{facts['memory_gib']} GiB, {facts['system']}",
        f"Python {facts['python']}, {versions}",
        f"Regard's engine: {facts['engine']}",
        "By turns, each peer in its own process; every number comes from the lower quartile of the repeats",
    ]
    timed = (one for one in outcome.measured if "limit" in one.timings)
    limits = [one.case.forward_flops / one.timings["limit"].seconds / 1e9 for one in timed]
    if limits:
        lines.append(f"Limit of the machine: {statistics.median(limits):.0f} GFLOP/s in float32")
    busy = [one.busy for one in outcome.measured]
    if busy and max(busy) > BUSY:
        lines.append(
            f"Others used the machine meanwhile: {100 * statistics.median(busy):.0f}% of it in the median, "
            f"{100 * max(busy):.0f}% at most. Take the numbers with care."
        )
    return lines


# What is different about a peer that may win; not always the cause.
DIFFERENCES = {
    "torch_fused": "",
    "ort_multihead": "",
    "ort_attention": "it builds the matrix, which the caches hold at this length",
    "ort_group_query": "",
    "openvino": "compiled for this very shape",
    "torch_flex": "compiled for this very shape",
    "ggml": "",
}


def _faster_peers(outcome: Outcome) -> list[str]:
    """Forward and decoding cases in which a peer needs less time than Regard."""
    lines = []
    for one in [*outcome.of("forward"), *outcome.of("decode")]:
        for name, difference in DIFFERENCES.items():
            ratio = one.ratio(name)
            if ratio is not None and ratio < 1:
                line = f"{PEERS[name].label}, {one.case.name}, {one.case.storage}: {ratio:.2f}× of Regard's time"
                lines.append(f"{line}; {difference}" if difference else line)
    return lines


def _tables(outcome: Outcome) -> list[tuple[str, str, list[str], Lines, list[str]]]:
    tables = [_section_table(section, found) for section in SECTIONS if (found := outcome.of(section.name))]
    if outcome.memory:
        tables.append(_memory_table(outcome.memory))
    if outcome.importing:
        tables.append(_import_table(outcome.importing))
    tables.append(_target_table(judge(outcome)))
    return tables


def _section_table(section: Section, found: list[Measured]) -> tuple[str, str, list[str], Lines, list[str]]:
    columns = [
        column for column in section.columns if column[0] == "case" or any(column[1](one) != "–" for one in found)
    ]
    lines = [[text(one) for _, text in columns] for one in found]
    return section.title, section.note, [heading for heading, _ in columns], lines, _reasons(found)


def _reasons(found: list[Measured]) -> list[str]:
    """Why some could not be timed; a reason that many cases share is said once."""
    sharing: dict[tuple[str, str], list[str]] = {}
    for one in found:
        for key, reason in one.reasons.items():
            if not reason.startswith("needs"):
                sharing.setdefault((key, reason), []).append(one.case.name)
    lines = []
    for (key, reason), names in sharing.items():
        peer, _, call = key.partition(": ")
        label = f"{PEERS[peer].label} ({call})" if call else PEERS[peer].label
        lines.append(f"{label}, {names[0] if len(names) == 1 else f'{len(names)} cases'}: {reason}")
    return lines


def _memory_table(memory: list[dict[str, Any]]) -> tuple[str, str, list[str], Lines, list[str]]:
    lines = [
        [
            entry["call"],
            entry["case"].name,
            *((f"{entry['mib']:.1f}", f"{entry['seconds']:.1f}") if "mib" in entry else ("see note", "–")),
        ]
        for entry in memory
    ]
    reasons = [f"{entry['call']}, {entry['case'].name}: {entry['problem']}" for entry in memory if "problem" in entry]
    note = "Peak of resident memory during the call, beyond inputs and outputs, in a process of its own."
    return "Memory", note, ["call", "case", "MiB", "seconds"], lines, reasons


def _import_table(importing: dict[str, Any]) -> tuple[str, str, list[str], Lines, list[str]]:
    text = f"{1e3 * importing['seconds']:.1f}" if "seconds" in importing else importing["problem"]
    torch = {True: "yes", False: "no"}.get(importing.get("torch", ""), "–")
    return "Import", "", ["import regard, beyond numpy, ms", "loads PyTorch"], [[text, torch]], []


def _target_table(targets: Sequence[Target]) -> tuple[str, str, list[str], Lines, list[str]]:
    lines = [
        [target.text, target.wanted, target.measured, target.mark] for target in targets if target.reached is not None
    ]
    left_out = len(targets) - len(lines)
    note = f"{left_out} more were not measured in this run." if left_out else ""
    if any(target.doubtful for target in targets):
        note = f"A question mark: others used the machine meanwhile. {note}".strip()
    return "Targets", note, ["target", "wanted", "measured", ""], lines, []


def _aligned(lines: Lines) -> list[str]:
    """Columns as wide as their widest cell; words to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    text = []
    for line in lines:
        cells = [
            cell.ljust(width) if at == 0 or not lines[0][at] else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip())
    return text


def _markdown(lines: Lines) -> list[str]:
    heading, *rest = lines
    rule = ["---", *["---:"] * (len(heading) - 1)]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in (heading, rule, *rest)]
