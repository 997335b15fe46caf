"""Watching a model: python benchmarks/watch.py [--quick] [--repeats N] [--output FILE].

A Llama-shaped model (8 layers, 16 heads of size 64, random) reads n tokens: plain, watched, with eager attention that
returns its weights, and with weights recovered from fused attention by identity values, as AttnRead does: one pass of
a layer for every head_dim keys. Times come from one process in which all take turns, peaks from one process each.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).parent
LAYERS, HEADS, HEAD_DIM = 8, 16, 64
WATCHES = {"summary": ["entropy", "top"], "whole summary": "summary", "all": "all", "received": ["received"]}
TARGETS = {("summary", 128): 1.2, ("all", 128): 1.2, ("summary", 8192): 1.05, ("all", 8192): 1.05}
MOST_MEMORY = 1.10  # of the peak of plain sdpa, at 8,192 tokens with the summary
LONGEST_EAGER = 4096  # 8 layers × 16 heads × n² floats are 8.6 GB
LONGEST_RECOVERY = 2048
TIMEOUT = 1800


def main() -> None:
    options = _options()
    if options.peak:
        print(json.dumps(_peak(options.peak[0], int(options.peak[1]))))
        return
    lengths = (128, 1024) if options.quick else (128, 8192)
    lines = [
        "# Watching a model",
        "",
        f"{machine.describe()['processor']}, {machine.cores()} cores; {LAYERS} layers, {HEADS} heads of {HEAD_DIM},",
        "random weights, one sequence, no KV cache. Time: median over turns, relative to plain sdpa in the same turn.",
        "Peak: resident memory of a process of its own. Written by `python benchmarks/watch.py`.",
        "",
        "| tokens | what | time | times sdpa | peak | times sdpa | kept |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for length in lengths:
        names = ["sdpa", *WATCHES]
        found = _times(names, length, options.repeats or (5 if length <= 1024 else 2))
        lines += _rows(names, length, found)
    length = 512 if options.quick else LONGEST_EAGER
    lines += _rows(["sdpa", "eager with attentions"], length, _times(["sdpa", "eager with attentions"], length, 1))
    length = 512 if options.quick else LONGEST_RECOVERY
    lines += _rows(["sdpa", "identity values"], length, _times(["sdpa", "identity values"], length, 1))
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output is not None or not options.quick:
        (options.output or HERE / "WATCH.md").write_text(text, encoding="utf-8")


def _rows(names: list[str], length: int, times: dict[str, list[float]]) -> list[str]:
    peaks = {name: _peak_of(name, length) for name in names}
    lines = []
    for name in names:
        ratio = statistics.median(one / own for one, own in zip(times[name], times["sdpa"], strict=True))
        note = ""
        target = TARGETS.get((name, length))
        if target is not None:
            note = f" (at most {target}×: {'reached' if ratio <= target else 'missed'})"
        memory = peaks[name]["peak"] / peaks["sdpa"]["peak"]
        if name == "summary" and length == 8192:
            reached = "reached" if memory <= MOST_MEMORY else "missed"
            memory_note = f" (at most {MOST_MEMORY}×: {reached})"
        else:
            memory_note = ""
        kept = peaks[name]["kept"]
        lines.append(
            f"| {length:,} | {name} | {1e3 * statistics.median(times[name]):,.0f} ms | {ratio:.2f}×{note} "
            f"| {peaks[name]['peak'] / 2**20:,.0f} MiB | {memory:.2f}×{memory_note} | {kept / 2**20:,.1f} MiB |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def _times(names: list[str], length: int, repeats: int) -> dict[str, list[float]]:
    calls = {name: _call(name, length) for name in names}
    for call in calls.values():
        call()
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        for name in names if turn % 2 == 0 else names[::-1]:
            start = time.perf_counter()
            call = calls[name]
            call()
            found[name].append(time.perf_counter() - start)
    return found


_models: dict[str, Any] = {}


def _model() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaModel

    if "llama" not in _models:
        torch.manual_seed(0)
        width = HEADS * HEAD_DIM
        config = LlamaConfig(
            vocab_size=1000, hidden_size=width, intermediate_size=2816, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=16384,
        )  # fmt: skip
        _models["llama"] = LlamaModel(config).eval()
    return _models["llama"]


def _call(name: str, length: int) -> Callable[[], int]:
    """Runs the model once and returns the bytes that were kept."""
    import torch

    import regard

    model = _model()
    ids = torch.randint(0, 1000, (1, length), generator=torch.Generator().manual_seed(1))

    def plain() -> int:
        with torch.inference_mode():
            model(ids, use_cache=False)
        return 0

    def watched() -> int:
        with regard.watch(model, keep=WATCHES[name]) as seen, torch.inference_mode():
            model(ids, use_cache=False)
        return seen.memory

    def eager() -> int:
        model.set_attn_implementation("eager")
        try:
            with torch.inference_mode():
                weights = model(ids, use_cache=False, output_attentions=True).attentions
            return sum(one.nbytes for one in weights)
        finally:
            model.set_attn_implementation("sdpa")

    def recovered() -> int:
        _register_recovery()
        model.set_attn_implementation("recovered")
        try:
            with torch.inference_mode():
                model(ids, use_cache=False)
            return 4 * HEADS * length**2  # of one layer at a time
        finally:
            model.set_attn_implementation("sdpa")

    return {"sdpa": plain, "eager with attentions": eager, "identity values": recovered}.get(name, watched)


def _register_recovery() -> None:
    """Fused attention whose weights are read off by values that are parts of the identity matrix."""
    import torch
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def recovered(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        count, size = key.shape[2], value.shape[3]
        weights = query.new_empty((*query.shape[:3], count))
        for start in range(0, count, size):
            width = min(size, count - start)
            identity = value.new_zeros(value.shape)
            identity[:, :, torch.arange(start, start + width), torch.arange(width)] = 1
            columns = sdpa_attention_forward(module, query, key, identity, mask, **options)[0]
            weights[..., start : start + width] = columns.transpose(1, 2)[..., :width]
        return sdpa_attention_forward(module, query, key, value, mask, **options)

    AttentionInterface.register("recovered", recovered)
    AttentionMaskInterface.register("recovered", sdpa_mask)


def _peak_of(name: str, length: int) -> dict[str, int]:
    command = [sys.executable, str(HERE / "watch.py"), "--peak", name, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def _peak(name: str, length: int) -> dict[str, int]:
    kept = _call(name, length)()
    return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "kept": kept}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter texts; nothing is written")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
